/* SPDX-License-Identifier: Apache-2.0 */
/* Packages of kernels for those who read them and run nothing. */
#include "core/opts.h"
#include "assets.h"
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static bool copy(const char *text, char **out)
{
	if (text && !(*out = strdup(text)))
		return false;
	return true;
}

static bool add_path(struct h2d_lab_packages *p, const struct lab_package *package)
{
	if (!copy(package->path, &p->paths[p->path_count]))
		return false;
	p->path_count++;
	return true;
}

static bool take(const struct lab_kernel *kernel, struct h2d_lab_packages *p)
{
	if (!copy(kernel->request, &p->request) || !copy(kernel->missing, &p->missing))
		return false;
	if (!kernel->image.path)
		return true;
	p->paths = calloc(kernel->module_count + 1, sizeof(*p->paths));
	if (!p->paths || !copy(kernel->image.name, &p->name) ||
	    !copy(kernel->image.version, &p->version) ||
	    !copy(kernel->image.architecture, &p->architecture) ||
	    !copy(lab_origin_name(kernel->origin), &p->origin) || !add_path(p, &kernel->image))
		return false;
	for (size_t i = 0; i < kernel->module_count; i++)
		if (!add_path(p, &kernel->modules[i]))
			return false;
	return true;
}

int h2d_lab_find_packages(const struct h2d_lab_options *options,
			  struct h2d_lab_packages **found, size_t *count)
{
	struct lab lab = {.packages_only = true, .tmp_lock = -1};
	struct lab_kernel *kernels = NULL;
	const char *kernel_dir;
	size_t n = 0;
	int err;

	*found = NULL;
	*count = 0;
	if (h2d_opts_read(&lab.options, sizeof(lab.options), options) != 0)
		return H2D_E_INVALID;
	lab.cancel = (struct lab_cancel){.asked = lab.options.cancelled,
					 .user = lab.options.cancel_user};
	lab.log = (struct h2d_log){.fn = lab.options.log, .user = lab.options.log_user};
	kernel_dir = lab.options.kernel_dir ? lab.options.kernel_dir : getenv("H2D_KERNEL_DIR");
	if (kernel_dir && *kernel_dir && !copy(kernel_dir, &lab.kernel_dir))
		err = h2d_fail(&lab.log, H2D_E_NOMEM, "out of memory");
	else
		err = lab_cache_find(&lab);
	if (!err)
		err = lab_kernels_find(&lab, &kernels, &n);
	*found = err ? NULL : calloc(n + 1, sizeof(**found));
	for (size_t i = 0; !err && i < n; i++) {
		if (!*found || !take(&kernels[i], &(*found)[i]))
			err = h2d_fail(&lab.log, H2D_E_NOMEM, "out of memory");
		*count = i + 1;
	}
	for (size_t i = 0; i < n; i++)
		lab_kernel_free(&kernels[i]);
	free(kernels);
	free(lab.cache);
	free(lab.kernel_dir);
	if (err) {
		h2d_lab_packages_free(*found, *found ? *count : 0);
		*found = NULL;
		*count = 0;
	}
	return err;
}

void h2d_lab_packages_free(struct h2d_lab_packages *found, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct h2d_lab_packages *p = &found[i];

		for (size_t k = 0; k < p->path_count; k++)
			free(p->paths[k]);
		free(p->paths);
		free(p->request);
		free(p->missing);
		free(p->name);
		free(p->version);
		free(p->architecture);
		free(p->origin);
	}
	free(found);
}

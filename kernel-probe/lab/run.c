/* SPDX-License-Identifier: Apache-2.0 */
/* The laboratory's entry: options, places, one kernel after the other. */
#include "assets.h"
#include "core/opts.h"
#include "guestrun.h"
#include "tmpdir.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_SIZE_BYTES (32u << 20)
#define SIZE_MAX_BYTES	   (4ull << 30)
#define TIMEOUT_MS_MAX	   10000u

static int check_options(struct lab *lab, const struct h2d_lab_options *options)
{
	struct h2d_lab_options *o = &lab->options;
	const char *rule = NULL;
	int given;

	if (h2d_opts_read(o, sizeof(*o), options) != 0)
		return H2D_E_INVALID;
	lab->cancel = (struct lab_cancel){.asked = o->cancelled, .user = o->cancel_user};
	lab->log = (struct h2d_log){.fn = o->log, .user = o->log_user};
	given = !!o->image + !!o->modules_dir + !!o->headers_dir;
	if (!o->size_bytes)
		o->size_bytes = DEFAULT_SIZE_BYTES;
	if (!o->policies)
		o->policies = ~0u;
	if (!o->filesystems)
		o->filesystems = ~0u;
	if (!o->permissions)
		o->permissions = ~0u;
	if (!o->states)
		o->states = ~0u;
	if (given != 0 && given != 3)
		rule = "image, modules and headers go together";
	else if (!given && !o->package_count && !o->release_count)
		rule = "no kernel was named";
	else if (o->size_bytes % 4096 || o->size_bytes > SIZE_MAX_BYTES)
		rule = "the size must be a multiple of 4096 and at most 4 GiB";
	else if (o->timeout_ms > TIMEOUT_MS_MAX)
		rule = "the timeout can be at most 10000 ms";
	return rule ? h2d_fail(&lab->log, H2D_E_INVALID, "%s", rule) : 0;
}

static int find_places(struct lab *lab)
{
	const char *kernel_dir = lab->options.kernel_dir;
	int err;

	if (!kernel_dir)
		kernel_dir = getenv("H2D_KERNEL_DIR");
	if (kernel_dir && *kernel_dir && !(lab->kernel_dir = strdup(kernel_dir)))
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	err = lab_assets_find(lab);
	return err ? err : lab_cache_find(lab);
}

/* Moves the kernels that were found into results. */
static int make_result(struct lab *lab, struct h2d_lab_result **out)
{
	struct h2d_lab_result *result = calloc(1, sizeof(*result));
	struct lab_kernel *kernels = NULL;
	size_t count = 0, given = lab->options.image ? 1 : 0;
	int err;

	if (!result)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	*out = result;
	result->options = lab->options;
	err = lab_kernels_find(lab, &kernels, &count);
	if (!err) {
		result->kernels = calloc(count + given, sizeof(*result->kernels));
		if (!result->kernels)
			err = h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	}
	for (size_t i = 0; i < count; i++) {
		if (err)
			lab_kernel_free(&kernels[i]);
		else
			result->kernels[i].kernel = kernels[i];
	}
	free(kernels);
	if (err)
		return err;
	result->count = count + given;
	if (given) {
		result->kernels[count].kernel.request = strdup(lab->options.image);
		if (!result->kernels[count].kernel.request)
			return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	}
	return 0;
}

static bool result_needs_guest(const struct h2d_lab_result *result)
{
	for (size_t i = 0; i < result->count; i++)
		if (!result->kernels[i].kernel.missing)
			return true;
	return false;
}

int h2d_lab_run(const struct h2d_lab_options *options, struct h2d_lab_result **out)
{
	struct h2d_lab_result *result = NULL;
	struct lab lab = {0};
	int err;

	*out = NULL;
	err = check_options(&lab, options);
	if (!err)
		err = find_places(&lab);
	if (!err)
		err = lab_tmp_make(&lab);
	if (!err)
		err = make_result(&lab, &result);
	if (!err && result_needs_guest(result))
		err = lab_guest_possible(&lab);
	for (size_t i = 0; !err && i < result->count; i++)
		err = lab_kernel_run(&lab, i, &result->kernels[i]);
	lab_tmp_leave(&lab);
	free(lab.assets);
	free(lab.cache);
	free(lab.kernel_dir);
	if (err) {
		h2d_lab_result_free(result);
		return err;
	}
	*out = result;
	return 0;
}

static void free_kernel(struct lab_kernel_result *r)
{
	for (size_t i = 0; i < r->cell_count; i++) {
		json_decref(r->cells[i].report);
		free(r->cells[i].problem);
	}
	free(r->cells);
	free(r->reproductions);
	lab_kernel_free(&r->kernel);
	lab_steps_free(&r->steps);
	lab_guest_outcome_free(&r->guest);
	free(r->release);
	free(r->prototype);
	free(r->permission_why);
	free(r->reasons);
	free(r->evidence);
}

void h2d_lab_result_free(struct h2d_lab_result *result)
{
	if (!result)
		return;
	for (size_t i = 0; i < result->count; i++)
		free_kernel(&result->kernels[i]);
	free(result->kernels);
	free(result);
}

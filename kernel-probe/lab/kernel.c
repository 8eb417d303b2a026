/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which packages make one kernel: image, modules, headers. */
#include "internal.h"
#include "package/control.h"

#include <stdlib.h>
#include <string.h>

enum role { ROLE_OTHER, ROLE_IMAGE, ROLE_MODULES, ROLE_HEADERS };

static bool begins(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static bool ends(const char *text, const char *end)
{
	size_t a = strlen(text), b = strlen(end);

	return a >= b && strcmp(text + a - b, end) == 0;
}

static enum role deb_role(const char *name)
{
	if (begins(name, "linux-image-") && !ends(name, "-dbg") && !ends(name, "-dbgsym"))
		return ROLE_IMAGE;
	/* Since 7.2 Debian packs the kernel (binary) and what is built into it (base) apart. */
	if (begins(name, "linux-modules-") || begins(name, "linux-binary-") ||
	    begins(name, "linux-base-"))
		return ROLE_MODULES;
	if (begins(name, "linux-kbuild-") ||
	    (begins(name, "linux-") && strstr(name, "headers-")))
		return ROLE_HEADERS;
	return ROLE_OTHER;
}

static enum role package_role(const struct lab_package *package)
{
	const char *name = package->name;

	switch (package->format) {
	case H2D_LAB_PACKAGE_DEB:
		return deb_role(name);
	case H2D_LAB_PACKAGE_RPM:
		if (strcmp(name, "kernel-core") == 0)
			return ROLE_IMAGE;
		if (begins(name, "kernel-modules"))
			return ROLE_MODULES;
		return begins(name, "kernel-devel") ? ROLE_HEADERS : ROLE_OTHER;
	case H2D_LAB_PACKAGE_PACMAN:
		if (!begins(name, "linux") || begins(name, "linux-firmware") ||
		    begins(name, "linux-api") || ends(name, "-docs"))
			return ROLE_OTHER;
		return ends(name, "-headers") ? ROLE_HEADERS : ROLE_IMAGE;
	}
	return ROLE_OTHER;
}

/* The release as the package's name tells it; malloc'ed, NULL where only its files do. */
static char *release_of(const struct lab_package *image)
{
	const char *rest;

	switch (image->format) {
	case H2D_LAB_PACKAGE_DEB: {
		char *release;

		rest = image->name + strlen("linux-image-");
		if (begins(rest, "unsigned-"))
			rest += strlen("unsigned-");
		release = strdup(rest);
		if (release && ends(release, "-unsigned"))
			release[strlen(release) - strlen("-unsigned")] = 0;
		return release;
	}
	case H2D_LAB_PACKAGE_RPM:
		return lab_format("%s.%s", image->version, image->architecture);
	case H2D_LAB_PACKAGE_PACMAN:
		break;
	}
	return NULL;
}

static bool our_machine(const struct lab_package *package)
{
	return strcmp(package->architecture, "amd64") == 0 ||
	       strcmp(package->architecture, "x86_64") == 0;
}

/* Where packages for one kernel are looked for, in order. */
struct finder {
	struct lab *lab;
	struct lab_pool *pool;
	struct lab_kernel *kernel;
};

/* From what is at hand, else from the archive. Returns 0 with *item NULL when it is nowhere. */
static int find(struct finder *f, const char *name, const char *version,
		const struct lab_dependency *accepts, const struct lab_pool_item **item,
		char **why)
{
	int err;

	*item = lab_pool_find(f->pool, name, version, accepts);
	if (*item)
		return 0;
	if (accepts && strcmp(accepts->relation, "=") == 0)
		version = accepts->version;
	err = lab_fetch(f->lab, f->pool, name, version, why);
	if (err == H2D_E_UNAVAILABLE)
		return 0;
	if (err)
		return err;
	*item = lab_pool_find(f->pool, name, version, accepts);
	if (!*item)
		*why = strdup("the archive has another version");
	return 0;
}

static int take_part(struct finder *f, const struct lab_package *package, bool header)
{
	struct lab_kernel *kernel = f->kernel;
	struct lab_package *parts = header ? kernel->headers : kernel->modules;
	size_t *count = header ? &kernel->header_count : &kernel->module_count;

	for (size_t i = 0; i < *count; i++)
		if (strcmp(parts[i].path, package->path) == 0)
			return 0;
	if (*count == LAB_KERNEL_PARTS)
		return h2d_fail(&f->lab->log, H2D_E_FORMAT,
				"%s: too many packages belong to it", kernel->image.path);
	if (lab_package_copy(package, &parts[*count]))
		return h2d_fail(&f->lab->log, H2D_E_NOMEM, "out of memory");
	++*count;
	return 0;
}

/* One header package and those that it needs. What is missing is noted, not fatal. */
static int take_headers(struct finder *f, const char *name,
			const struct lab_dependency *accepts, unsigned depth)
{
	const struct lab_pool_item *item;
	struct lab_dependency dependency;
	const char *list;
	char *why = NULL, *depends;
	int err = find(f, name, NULL, accepts, &item, &why);

	if (err || !item) {
		if (!err && !f->kernel->headers_missing)
			f->kernel->headers_missing =
				lab_format("%s: %s", name, why ? why : "not found");
		free(why);
		return err;
	}
	free(why);
	err = take_part(f, &item->package, true);
	if (err || !item->package.depends || depth > 3)
		return err;
	/* The pool moves when something is fetched. */
	depends = strdup(item->package.depends);
	if (!depends)
		return h2d_fail(&f->lab->log, H2D_E_NOMEM, "out of memory");
	list = depends;
	while (!err && lab_dependency_next(&list, &dependency))
		if (!dependency.alternative && deb_role(dependency.name) == ROLE_HEADERS)
			err = take_headers(f, dependency.name, &dependency, depth + 1);
	free(depends);
	return err;
}

/* Ubuntu's image package holds the kernel alone, Debian's since 7.2 holds nothing. */
static int take_split_modules(struct finder *f)
{
	struct lab_kernel *kernel = f->kernel;
	struct lab_dependency dependency;
	const char *list = kernel->image.depends;
	const struct lab_pool_item *item;
	char *name, *why = NULL;
	bool split = false;
	int err = 0;

	while (!err && list && lab_dependency_next(&list, &dependency)) {
		if (dependency.alternative || deb_role(dependency.name) != ROLE_MODULES)
			continue;
		split = true;
		err = find(f, dependency.name, NULL, &dependency, &item, &why);
		if (!err && !item)
			kernel->missing =
				lab_format("%s: %s", dependency.name, why ? why : "not found");
		if (!err && item)
			err = take_part(f, &item->package, false);
		free(why);
		why = NULL;
	}
	if (err || !split || kernel->missing)
		return err;
	kernel->measured = false;
	/* amdgpu is in the extra package on some releases; not every flavour has one. */
	name = lab_format("linux-modules-extra-%s", kernel->release);
	if (!name)
		return h2d_fail(&f->lab->log, H2D_E_NOMEM, "out of memory");
	err = find(f, name, kernel->image.version, NULL, &item, &why);
	if (!err && item)
		err = take_part(f, &item->package, false);
	free(name);
	free(why);
	return err;
}

/* The parts of RPM and pacman kernels: those at hand of the same version. */
static int take_siblings(struct finder *f)
{
	const struct lab_package *image = &f->kernel->image;
	char *headers = NULL;
	int err = 0;

	f->kernel->measured = false;
	if (image->format == H2D_LAB_PACKAGE_PACMAN) {
		headers = lab_format("%s-headers", image->name);
		if (!headers)
			return h2d_fail(&f->lab->log, H2D_E_NOMEM, "out of memory");
	}
	for (size_t i = 0; !err && i < f->pool->count; i++) {
		const struct lab_package *package = &f->pool->items[i].package;
		enum role role = package_role(package);

		if (package->format != image->format ||
		    strcmp(package->version, image->version) != 0 ||
		    strcmp(package->architecture, image->architecture) != 0 ||
		    (role != ROLE_MODULES && role != ROLE_HEADERS) ||
		    (headers && strcmp(package->name, headers) != 0))
			continue;
		err = take_part(f, package, role == ROLE_HEADERS);
	}
	if (!err && !f->kernel->header_count)
		f->kernel->headers_missing =
			lab_format("%s of version %s: not found",
				   headers ? headers : "kernel-devel", image->version);
	free(headers);
	return err;
}

static int complete(struct finder *f, const struct lab_pool_item *image)
{
	struct lab_kernel *kernel = f->kernel;
	struct lab_dependency same = {.relation = "="};
	char *headers;
	int err;

	if (!f->lab->packages_only && !our_machine(&image->package))
		return h2d_fail(&f->lab->log, H2D_E_FORMAT,
				"%s: a kernel for another machine (%s)", image->package.path,
				image->package.architecture);
	kernel->origin = image->origin;
	if (lab_package_copy(&image->package, &kernel->image))
		return h2d_fail(&f->lab->log, H2D_E_NOMEM, "out of memory");
	kernel->release = release_of(&kernel->image);
	if (kernel->image.format != H2D_LAB_PACKAGE_DEB)
		return take_siblings(f);
	if (!kernel->release)
		return h2d_fail(&f->lab->log, H2D_E_NOMEM, "out of memory");
	kernel->measured = true;
	err = take_split_modules(f);
	if (err || kernel->missing || f->lab->packages_only)
		return err;
	headers = lab_format("linux-headers-%s", kernel->release);
	if (!headers)
		return h2d_fail(&f->lab->log, H2D_E_NOMEM, "out of memory");
	strncpy(same.version, kernel->image.version, sizeof(same.version) - 1);
	err = take_headers(f, headers, &same, 0);
	free(headers);
	return err;
}

static struct lab_kernel *add_kernel(struct lab *lab, struct lab_kernel **kernels,
				     size_t *count, const char *request)
{
	struct lab_kernel *grown = realloc(*kernels, (*count + 1) * sizeof(**kernels)), *kernel;

	if (grown) {
		*kernels = grown;
		kernel = &grown[*count];
		memset(kernel, 0, sizeof(*kernel));
		kernel->request = strdup(request);
		if (kernel->request) {
			++*count;
			return kernel;
		}
	}
	h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	return NULL;
}

/* "NAME" or "NAME=VERSION". */
static int find_named(struct lab *lab, struct lab_pool *pool, const char *request,
		      struct lab_kernel **kernels, size_t *count)
{
	struct lab_kernel *kernel = add_kernel(lab, kernels, count, request);
	struct finder f = {.lab = lab, .pool = pool, .kernel = kernel};
	const struct lab_pool_item *item;
	char *name, *version, *why = NULL;
	int err;

	if (!kernel)
		return H2D_E_NOMEM;
	name = strdup(request);
	if (!name)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	version = strchr(name, '=');
	if (version)
		*version++ = 0;
	err = find(&f, name, version, NULL, &item, &why);
	if (!err && item && package_role(&item->package) != ROLE_IMAGE)
		err = h2d_fail(&lab->log, H2D_E_FORMAT, "%s: no kernel image package",
			       item->package.path);
	else if (!err && item)
		err = complete(&f, item);
	else if (!err)
		kernel->missing = lab_format("%s", why ? why : "not found");
	free(why);
	free(name);
	return err;
}

/* A release: the image package's name follows from it, or an RPM's version does. */
static int find_release(struct lab *lab, struct lab_pool *pool, const char *release,
			struct lab_kernel **kernels, size_t *count)
{
	char *name;
	int err;

	for (size_t i = 0; i < pool->count; i++) {
		const struct lab_pool_item *item = &pool->items[i];
		struct finder f = {.lab = lab, .pool = pool};
		bool same;
		char *its;

		if (package_role(&item->package) != ROLE_IMAGE)
			continue;
		its = release_of(&item->package);
		same = its && strcmp(its, release) == 0;
		free(its);
		/* Debian's go by name below, where the best of several is chosen. */
		if (!same || (item->package.format == H2D_LAB_PACKAGE_DEB &&
			      !strstr(item->package.name, "unsigned")))
			continue;
		f.kernel = add_kernel(lab, kernels, count, release);
		return f.kernel ? complete(&f, item) : H2D_E_NOMEM;
	}
	name = lab_format("linux-image-%s", release);
	if (!name)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	err = find_named(lab, pool, name, kernels, count);
	free(name);
	return err;
}

static size_t count_named_images(const struct lab_pool *pool)
{
	size_t images = 0;

	for (size_t i = 0; i < pool->count; i++)
		images += pool->items[i].origin == LAB_ORIGIN_FILE &&
			  package_role(&pool->items[i].package) == ROLE_IMAGE;
	return images;
}

/* Every image among the files that were named is one kernel. Where they are only read and none
 * is an image, each of them is: Ubuntu's modules come in packages of their own. */
static int find_files(struct lab *lab, struct lab_pool *pool, struct lab_kernel **kernels,
		      size_t *count)
{
	size_t named = 0, images = count_named_images(pool);
	bool any = lab->packages_only && !images;
	int err = 0;

	for (size_t i = 0; !err && i < pool->count; i++) {
		struct finder f = {.lab = lab, .pool = pool};
		struct lab_pool_item item = pool->items[i];

		if (item.origin != LAB_ORIGIN_FILE)
			continue;
		named++;
		if (!any && package_role(&item.package) != ROLE_IMAGE)
			continue;
		f.kernel = add_kernel(lab, kernels, count, item.package.path);
		if (!f.kernel)
			err = H2D_E_NOMEM;
		else if (!any)
			err = complete(&f, &item);
		else if (lab_package_copy(&item.package, &f.kernel->image))
			err = h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	}
	if (!err && named && !images && !any)
		err = h2d_fail(&lab->log, H2D_E_FORMAT,
			       "none of the named package files is a kernel image");
	return err;
}

static bool is_file_name(const char *package)
{
	return strchr(package, '/') || ends(package, ".deb") || ends(package, ".rpm") ||
	       strstr(package, ".pkg.tar");
}

static int fill_pool(struct lab *lab, struct lab_pool *pool)
{
	const struct h2d_lab_options *o = &lab->options;
	char *cache;
	int err = 0;

	for (size_t i = 0; !err && i < o->package_count; i++)
		if (is_file_name(o->packages[i]))
			err = lab_pool_add_file(lab, pool, o->packages[i], LAB_ORIGIN_FILE);
	if (!err && lab->kernel_dir)
		err = lab_pool_add_dir(lab, pool, lab->kernel_dir, LAB_ORIGIN_DIR);
	if (err || !lab->cache)
		return err;
	cache = lab_format("%s/kernels", lab->cache);
	if (!cache)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	err = lab_pool_add_dir(lab, pool, cache, LAB_ORIGIN_CACHE);
	free(cache);
	return err;
}

int lab_kernels_find(struct lab *lab, struct lab_kernel **kernels, size_t *count)
{
	const struct h2d_lab_options *o = &lab->options;
	struct lab_pool pool = {0};
	int err;

	*kernels = NULL;
	*count = 0;
	err = fill_pool(lab, &pool);
	if (!err)
		err = find_files(lab, &pool, kernels, count);
	for (size_t i = 0; !err && i < o->package_count; i++)
		if (!is_file_name(o->packages[i]))
			err = find_named(lab, &pool, o->packages[i], kernels, count);
	for (size_t i = 0; !err && i < o->release_count; i++)
		err = find_release(lab, &pool, o->releases[i], kernels, count);
	lab_pool_free(&pool);
	return err;
}

void lab_kernel_free(struct lab_kernel *kernel)
{
	free(kernel->request);
	free(kernel->release);
	free(kernel->missing);
	free(kernel->headers_missing);
	lab_package_free(&kernel->image);
	for (size_t i = 0; i < kernel->module_count; i++)
		lab_package_free(&kernel->modules[i]);
	for (size_t i = 0; i < kernel->header_count; i++)
		lab_package_free(&kernel->headers[i]);
	memset(kernel, 0, sizeof(*kernel));
}

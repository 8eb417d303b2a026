/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks one kernel into a root of its own and finds image, modules and headers in it. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAKEFILE_MAX_BYTES (1u << 20)

static int no_memory(struct lab *lab)
{
	return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
}

/* Distributions that merged /usr keep modules below usr/lib; kmod looks below lib. */
static int join_lib(struct lab *lab, const char *directory)
{
	char *lib = lab_format("%s/lib", directory),
	     *modules = lab_format("%s/lib/modules", directory);
	char *merged = lab_format("%s/usr/lib/modules", directory);
	int err = 0;

	if (!lib || !modules || !merged) {
		err = no_memory(lab);
	} else if (!lab_is_dir(modules) && lab_is_dir(merged)) {
		if (lab_make_dirs(lib) != 0 || symlink("../usr/lib/modules", modules) != 0)
			err = h2d_fail_errno(&lab->log, errno, "%s", modules);
	}
	free(lib);
	free(modules);
	free(merged);
	return err;
}

/* The one directory of lib/modules that holds modules. *release stays NULL if there is none. */
static int find_release(struct lab *lab, const char *directory, char **release)
{
	char *base = lab_format("%s/lib/modules", directory);
	struct dirent *entry;
	DIR *dir;
	int err = 0;

	if (!base)
		return no_memory(lab);
	dir = opendir(base);
	while (!err && dir && (entry = readdir(dir))) {
		char *kernel;

		if (entry->d_name[0] == '.')
			continue;
		kernel = lab_format("%s/%s/kernel", base, entry->d_name);
		if (!kernel)
			err = no_memory(lab);
		else if (lab_is_dir(kernel) && *release)
			err = h2d_fail(&lab->log, H2D_E_FORMAT,
				       "the packages hold more than one kernel: %s and %s",
				       *release, entry->d_name);
		else if (lab_is_dir(kernel) && !(*release = strdup(entry->d_name)))
			err = no_memory(lab);
		free(kernel);
	}
	if (dir)
		closedir(dir);
	free(base);
	return err;
}

static int find_image(struct lab *lab, const char *package, struct lab_root *root)
{
	int err = 0;

	for (size_t i = 0; !err && !root->image && i < 2; i++) {
		char *path =
			i ? lab_format("%s/lib/modules/%s/vmlinuz", root->directory,
				       root->release)
			  : lab_format("%s/boot/vmlinuz-%s", root->directory, root->release);

		if (!path)
			err = no_memory(lab);
		else if (lab_is_file(path))
			root->image = path;
		else
			free(path);
	}
	if (!err && !root->image)
		err = h2d_fail(&lab->log, H2D_E_FORMAT,
			       "%s: wrong package: it holds no vmlinuz of kernel %s", package,
			       root->release);
	return err;
}

int lab_root_unpack(struct lab *lab, const struct lab_kernel *kernel, const char *directory,
		    struct lab_root *root)
{
	int err;

	memset(root, 0, sizeof(*root));
	root->directory = strdup(directory);
	if (!root->directory)
		return no_memory(lab);
	err = lab_make_dirs(directory);
	if (err)
		return h2d_fail_errno(&lab->log, -err, "%s", directory);
	h2d_log_line(&lab->log, H2D_LOG_INFO, "unpacking %s", kernel->image.path);
	err = lab_package_unpack(&lab->log, &kernel->image, directory, NULL, &lab->cancel);
	for (size_t i = 0; !err && i < kernel->module_count; i++)
		err = lab_package_unpack(&lab->log, &kernel->modules[i], directory, NULL,
					 &lab->cancel);
	if (!err)
		err = join_lib(lab, directory);
	if (!err)
		err = find_release(lab, directory, &root->release);
	if (err)
		return err;
	if (!root->release)
		return h2d_fail(&lab->log, H2D_E_FORMAT,
				"%s: wrong package: it holds no kernel modules",
				kernel->image.path);
	if (kernel->release && strcmp(kernel->release, root->release) != 0)
		return h2d_fail(&lab->log, H2D_E_FORMAT,
				"%s: wrong package: it says kernel %s and holds %s",
				kernel->image.path, kernel->release, root->release);
	root->modules = lab_format("%s/lib/modules/%s", directory, root->release);
	if (!root->modules)
		return no_memory(lab);
	return find_image(lab, kernel->image.path, root);
}

/* The first of the usual places that has a Makefile. */
static int find_build(struct lab *lab, struct lab_root *root)
{
	const char *d = root->directory, *r = root->release;
	char *places[] = {
		lab_format("%s/usr/src/linux-headers-%s", d, r), /* Debian, Ubuntu */
		lab_format("%s/usr/src/kernels/%s", d, r),	 /* Fedora */
		lab_format("%s/lib/modules/%s/build", d, r),	 /* Arch */
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char *makefile = places[i] ? lab_format("%s/Makefile", places[i]) : NULL;

		if (!makefile)
			err = H2D_E_NOMEM;
		else if (!root->build && lab_is_file(makefile))
			root->build = strdup(places[i]);
		free(makefile);
		free(places[i]);
	}
	return err ? no_memory(lab) : 0;
}

/*
 * Debian's Makefile is one line, "include /usr/src/linux-headers-…-common/Makefile". It is made
 * to point into the unpacked copy; any other Makefile is left as it is.
 */
static int rewrite_makefile(struct lab *lab, const struct lab_root *root)
{
	static const char prefix[] = "include /usr/src/";
	char *path = lab_format("%s/Makefile", root->build), *text = NULL, *line, *fixed;
	size_t size;
	int err = 0;

	if (!path)
		return no_memory(lab);
	err = lab_read_file(path, MAKEFILE_MAX_BYTES, &text, &size);
	if (err) {
		err = h2d_fail_errno(&lab->log, -err, "%s", path);
		goto out;
	}
	line = strstr(text, prefix);
	if (!line || (line != text && line[-1] != '\n'))
		goto out;
	fixed = lab_format("%.*sinclude %s/usr/src/%s", (int)(line - text), text,
			   root->directory, line + strlen(prefix));
	if (!fixed) {
		err = no_memory(lab);
		goto out;
	}
	err = lab_write_file(path, fixed, strlen(fixed));
	if (err)
		err = h2d_fail_errno(&lab->log, -err, "%s", path);
	free(fixed);
out:
	free(text);
	free(path);
	return err;
}

int lab_root_headers(struct lab *lab, const struct lab_kernel *kernel, struct lab_root *root)
{
	int err = 0;

	h2d_log_line(&lab->log, H2D_LOG_INFO, "unpacking the headers of %s", root->release);
	for (size_t i = 0; !err && i < kernel->header_count; i++)
		err = lab_package_unpack(&lab->log, &kernel->headers[i], root->directory, NULL,
					 &lab->cancel);
	if (!err)
		err = find_build(lab, root);
	if (!err && root->build)
		err = rewrite_makefile(lab, root);
	return err;
}

/* Fills a private lib/modules/RELEASE with links, so that depmod writes beside, not into, DIR.
 */
static int link_modules(struct lab *lab, const char *from, const char *to)
{
	DIR *dir = opendir(from);
	struct dirent *entry;
	int err = 0;

	if (!dir)
		return h2d_fail_errno(&lab->log, errno, "%s", from);
	while (!err && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		bool index = strncmp(name, "modules.", 8) == 0;
		char *source, *target;

		if (name[0] == '.' || strcmp(name, "build") == 0 ||
		    strcmp(name, "source") == 0 ||
		    (index && strncmp(name, "modules.builtin", 15) != 0 &&
		     strcmp(name, "modules.order") != 0))
			continue;
		source = lab_format("%s/%s", from, name);
		target = lab_format("%s/%s", to, name);
		if (!source || !target)
			err = no_memory(lab);
		else if (symlink(source, target) != 0)
			err = h2d_fail_errno(&lab->log, errno, "%s", target);
		free(source);
		free(target);
	}
	closedir(dir);
	return err;
}

static char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strdup(slash ? slash + 1 : path);
}

static int given_folder(struct lab *lab, const char *path, char **absolute)
{
	if (!lab_is_dir(path))
		return h2d_fail(&lab->log, H2D_E_NOT_FOUND, "%s: no such folder", path);
	*absolute = realpath(path, NULL);
	return *absolute ? 0 : h2d_fail_errno(&lab->log, errno, "%s", path);
}

int lab_root_given(struct lab *lab, const char *directory, struct lab_root *root)
{
	const struct h2d_lab_options *o = &lab->options;
	char *from = NULL, *inner = NULL;
	int err = 0;

	memset(root, 0, sizeof(*root));
	if (!lab_is_file(o->image))
		return h2d_fail(&lab->log, H2D_E_NOT_FOUND, "%s: no such file", o->image);
	err = given_folder(lab, o->modules_dir, &from);
	if (!err)
		err = given_folder(lab, o->headers_dir, &root->build);
	if (err)
		goto out;
	/* Either lib/modules/RELEASE itself, or the root that holds it. */
	inner = lab_format("%s/lib/modules", from);
	if (inner && lab_is_dir(inner)) {
		err = find_release(lab, from, &root->release);
		if (!err && root->release) {
			free(inner);
			inner = lab_format("%s/lib/modules/%s", from, root->release);
			free(from);
			from = inner;
			inner = NULL;
		}
	} else {
		root->release = base_name(from);
	}
	if (!err && !root->release)
		err = h2d_fail(&lab->log, H2D_E_FORMAT, "%s: no kernel modules",
			       o->modules_dir);
	if (err)
		goto out;
	root->directory = strdup(directory);
	root->image = realpath(o->image, NULL);
	root->modules = lab_format("%s/lib/modules/%s", directory, root->release);
	if (!root->directory || !root->image || !root->modules || !from) {
		err = no_memory(lab);
		goto out;
	}
	err = lab_make_dirs(root->modules);
	err = err ? h2d_fail_errno(&lab->log, -err, "%s", root->modules)
		  : link_modules(lab, from, root->modules);
out:
	free(inner);
	free(from);
	return err;
}

void lab_root_free(struct lab_root *root)
{
	free(root->directory);
	free(root->release);
	free(root->image);
	free(root->modules);
	free(root->build);
	memset(root, 0, sizeof(*root));
}

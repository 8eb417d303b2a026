/* SPDX-License-Identifier: Apache-2.0 */
/* The packages at hand: those named, those of a folder, those in the cache. */
#include "internal.h"
#include "package/control.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *lab_origin_name(enum lab_origin origin)
{
	switch (origin) {
	case LAB_ORIGIN_FILE:
		return "file";
	case LAB_ORIGIN_DIR:
		return "kernel_dir";
	case LAB_ORIGIN_CACHE:
		return "cache";
	case LAB_ORIGIN_ARCHIVE:
		return "archive";
	}
	return "unknown";
}

static int add(struct lab *lab, struct lab_pool *pool, const char *path, enum lab_origin origin,
	       bool quiet)
{
	struct lab_package package;
	int err = lab_package_read(&lab->log, path, quiet, &package);

	if (err)
		goto fail;
	if (pool->count == pool->capacity) {
		size_t capacity = pool->capacity ? pool->capacity * 2 : 32;
		void *grown = realloc(pool->items, capacity * sizeof(*pool->items));

		if (!grown) {
			err = h2d_fail(&lab->log, H2D_E_NOMEM, "%s: out of memory", path);
			goto fail;
		}
		pool->items = grown;
		pool->capacity = capacity;
	}
	pool->items[pool->count++] = (struct lab_pool_item){package, origin};
	return 0;
fail:
	lab_package_free(&package);
	return err;
}

int lab_pool_add_file(struct lab *lab, struct lab_pool *pool, const char *path,
		      enum lab_origin origin)
{
	return add(lab, pool, path, origin, false);
}

int lab_pool_add_dir(struct lab *lab, struct lab_pool *pool, const char *path,
		     enum lab_origin origin)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int err = 0;

	if (!dir && origin == LAB_ORIGIN_CACHE)
		return 0;
	if (!dir)
		return h2d_fail_errno(&lab->log, errno, "kernel folder %s", path);
	while (!err && (entry = readdir(dir))) {
		char *name;

		if (entry->d_name[0] == '.')
			continue;
		if (lab_cancelled(lab)) {
			err = h2d_fail(&lab->log, H2D_E_CANCELLED, "cancelled");
			break;
		}
		name = lab_format("%s/%s", path, entry->d_name);
		if (!name) {
			err = h2d_fail(&lab->log, H2D_E_NOMEM, "%s: out of memory", path);
			break;
		}
		err = add(lab, pool, name, origin, true);
		if (err == H2D_E_FORMAT) {
			h2d_log_line(&lab->log, H2D_LOG_DEBUG, "%s: not a package, passed over",
				     name);
			err = 0;
		} else if (err == H2D_E_PERMISSION || err == H2D_E_NOT_FOUND) {
			err = 0;
		}
		free(name);
	}
	closedir(dir);
	return err;
}

static bool better(const struct lab_pool_item *a, const struct lab_pool_item *b)
{
	if (a->origin != b->origin)
		return a->origin < b->origin;
	return lab_version_compare(a->package.version, b->package.version) > 0;
}

const struct lab_pool_item *lab_pool_find(const struct lab_pool *pool, const char *name,
					  const char *version,
					  const struct lab_dependency *accepts)
{
	const struct lab_pool_item *best = NULL;

	for (size_t i = 0; i < pool->count; i++) {
		const struct lab_pool_item *item = &pool->items[i];

		if (strcmp(item->package.name, name) != 0 ||
		    (version && strcmp(item->package.version, version) != 0) ||
		    (accepts && !lab_dependency_accepts(accepts, item->package.version)))
			continue;
		if (!best || better(item, best))
			best = item;
	}
	return best;
}

void lab_pool_free(struct lab_pool *pool)
{
	for (size_t i = 0; i < pool->count; i++)
		lab_package_free(&pool->items[i].package);
	free(pool->items);
	memset(pool, 0, sizeof(*pool));
}

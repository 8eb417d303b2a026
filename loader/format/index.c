/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.safetensors.index.json: {"metadata": {"total_size": N}, "weight_map": {TENSOR: FILE}}.
 * Not part of a format proper; the rules are those of the libraries that write it.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "format/order.h"
#include "format/set.h"

/* As much as a safetensors header may have, which lists the same names with more text. */
enum { INDEX_MAX_BYTES = 100000000 };

static int read_text(const char *path, char **text, size_t *bytes, struct h2d_file_id *id,
		     const struct h2d_log *log)
{
	struct h2d_file file;
	uint64_t size;
	int rc;

	rc = h2d_file_open(&file, path, log);
	if (rc)
		return rc;
	*id = file.id;
	size = file.id.size_bytes;
	if (size > INDEX_MAX_BYTES) {
		rc = h2d_fail(log, H2D_E_FORMAT, "%s: index: %llu bytes, over the limit of %d",
			      path, (unsigned long long)size, INDEX_MAX_BYTES);
		goto out;
	}
	*text = h2d_mem->malloc(size + 1);
	if (!*text) {
		rc = h2d_fail(log, H2D_E_NOMEM, "%s: out of memory for the index", path);
		goto out;
	}
	rc = h2d_file_read(&file, *text, size, 0, log);
	if (rc)
		free(*text);
	*bytes = size;
out:
	h2d_file_close(&file);
	return rc;
}

int h2d_index_read(struct h2d_set *set, const char *path, struct h2d_index *index,
		   const struct h2d_log *log)
{
	json_error_t error;
	json_t *map;
	size_t bytes = 0;
	char *text = NULL;
	int rc;

	*index = (struct h2d_index){0};
	index->path = h2d_set_beside(set, path, h2d_set_name(path));
	if (!index->path)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
	rc = read_text(path, &text, &bytes, &index->id, log);
	if (rc)
		return rc;
	index->root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	free(text);
	if (!index->root) {
		if (json_error_code(&error) == json_error_out_of_memory)
			return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory for the index",
					path);
		return h2d_fail(log, H2D_E_FORMAT, "%s: index: %s (offset %d)", path,
				error.text, error.position);
	}
	map = json_object_get(index->root, "weight_map");
	index->map = json_is_object(map) ? map : NULL;
	return 0;
}

void h2d_index_free(struct h2d_index *index)
{
	json_decref(index->root);
	*index = (struct h2d_index){0};
}

static bool names(const struct h2d_index *index, const char *file)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)index->map, key, value)
	{
		if (json_is_string(value) && !strcmp(json_string_value(value), file))
			return true;
	}
	return false;
}

/* Take the index at `path` where it names `member` and none was taken before. */
static int consider(struct h2d_set *set, const char *path, const char *member,
		    struct h2d_index *taken)
{
	struct h2d_index index;
	int rc = h2d_index_read(set, path, &index, NULL);

	if (rc == H2D_E_NOMEM)
		return h2d_set_no_memory(set, member);
	if (rc) {
		h2d_log_line(set->log, H2D_LOG_WARNING,
			     "%s: passed over: it cannot be read as an index", path);
		return 0;
	}
	if (!index.map || !names(&index, h2d_set_name(member))) {
		h2d_index_free(&index);
		return 0;
	}
	if (taken->root) {
		h2d_index_free(&index);
		return h2d_fail(
			set->log, H2D_E_FORMAT,
			"%s: two indexes name this file, %s and %s: give the one that is "
			"meant",
			member, taken->path, path);
	}
	*taken = index;
	return 0;
}

int h2d_index_beside(struct h2d_set *set, const char *path, struct h2d_index *index)
{
	char **list, *beside, *folder = h2d_set_beside(set, path, ".");
	size_t count;
	int rc;

	*index = (struct h2d_index){0};
	if (!folder)
		return h2d_set_no_memory(set, path);
	rc = h2d_folder_list(set, folder, ".index.json", &list, &count);
	if (rc == H2D_E_NOMEM)
		return h2d_set_no_memory(set, path);
	/* A folder that may be passed through and not listed: then no index is to be seen. */
	if (rc)
		return 0;
	for (size_t i = 0; !rc && i < count; i++) {
		beside = h2d_set_beside(set, path, list[i]);
		rc = beside ? consider(set, beside, path, index) : h2d_set_no_memory(set, path);
	}
	if (rc)
		h2d_index_free(index);
	return rc;
}

/* Relative, and inside the index's folder whatever the text. */
static bool plain_name(const char *name)
{
	for (const char *p = name;; p++) {
		size_t n = strcspn(p, "/");

		if (!n || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n;
		if (!*p)
			return true;
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files an index names, each once, sorted. */
static int list_files(struct h2d_set *set, const struct h2d_index *index, const char ***out,
		      size_t *count)
{
	size_t n = json_object_size(index->map), kept = 0;
	const char **list, *key;
	struct h2d_shown shown;
	json_t *value;

	list = h2d_arena_array(&set->scratch, n + 1, sizeof(*list));
	if (!list)
		return h2d_set_no_memory(set, index->path);
	n = 0;
	json_object_foreach((json_t *)index->map, key, value)
	{
		h2d_show_name(&shown, key, strlen(key));
		if (!json_is_string(value))
			return h2d_fail(
				set->log, H2D_E_FORMAT,
				"%s: weight_map: tensor \"%s\": the file must be a string",
				index->path, shown.text);
		if (!plain_name(json_string_value(value)))
			return h2d_fail(set->log, H2D_E_FORMAT,
					"%s: weight_map: tensor \"%s\": file \"%s\" must be a "
					"relative name without \"..\"",
					index->path, shown.text, json_string_value(value));
		/* Neighbours mostly name the same file. */
		if (!n || strcmp(list[n - 1], json_string_value(value)))
			list[n++] = json_string_value(value);
	}
	qsort(list, n, sizeof(*list), by_text);
	for (size_t i = 0; i < n; i++)
		if (!kept || strcmp(list[kept - 1], list[i]))
			list[kept++] = list[i];
	*out = list;
	*count = kept;
	return 0;
}

/* Of the tensors [first, …) of the file just read, keep those the index has in that file. */
static void keep_listed(struct h2d_set *set, const struct h2d_index *index, const char *file,
			uint64_t first)
{
	struct h2d_catalogue *cat = set->cat;
	uint64_t kept = first;

	for (uint64_t i = first; i < cat->tensor_count; i++) {
		const struct h2d_tensor *t = &cat->tensors[i];
		const char *where = NULL;

		/* Keys of an index cannot hold a NUL. */
		if (strlen(t->name) == t->name_bytes)
			where = json_string_value(json_object_get(index->map, t->name));
		if (where && !strcmp(where, file))
			cat->tensors[kept++] = *t;
	}
	cat->ignored_count += cat->tensor_count - kept;
	cat->tensor_count = kept;
	if (cat->sorted_count > kept)
		cat->sorted_count = kept;
}

int h2d_index_open(struct h2d_set *set, struct h2d_index *index)
{
	struct h2d_catalogue *cat = set->cat;
	const char **files = NULL;
	size_t count = 0;
	int rc;

	if (!index->map)
		return h2d_fail(
			set->log, H2D_E_FORMAT,
			"%s: index: no object \"weight_map\", so not an index of tensors",
			index->path);
	rc = list_files(set, index, &files, &count);
	if (rc)
		return rc;
	if (!count)
		return h2d_fail(set->log, H2D_E_FORMAT, "%s: weight_map: names no file",
				index->path);
	cat->has_index = true;
	cat->index_id = index->id;
	for (size_t i = 0; i < count; i++) {
		uint64_t tensors = cat->tensor_count, metadata = cat->metadata_count;
		char *path = h2d_set_beside(set, index->path, files[i]);

		if (!path)
			return h2d_set_no_memory(set, index->path);
		rc = h2d_set_add(set, path, index->path);
		/* Before any is dropped: a file must be valid by itself. */
		if (!rc)
			rc = h2d_order_index_names(cat, tensors, set->log);
		if (rc)
			return rc;
		keep_listed(set, index, files[i], tensors);
		if (i)
			cat->metadata_count = metadata;
	}
	return 0;
}

static void check_total(const struct h2d_set *set, const struct h2d_index *index)
{
	json_t *metadata = json_object_get(index->root, "metadata");
	json_t *total = json_object_get(metadata, "total_size");
	double have = (double)set->cat->size_bytes;

	if (total && (!json_is_number(total) || json_number_value(total) != have))
		h2d_log_line(set->log, H2D_LOG_WARNING,
			     "%s: metadata: total_size is not the %llu bytes its tensors have",
			     index->path, (unsigned long long)set->cat->size_bytes);
}

int h2d_index_check(struct h2d_set *set, const struct h2d_index *index)
{
	struct h2d_shown shown;
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)index->map, key, value)
	{
		if (h2d_order_find(set->cat, key, strlen(key)) == UINT64_MAX)
			return h2d_fail(set->log, H2D_E_FORMAT,
					"%s: weight_map: tensor \"%s\" is not in its file %s",
					index->path, h2d_show_name(&shown, key, strlen(key)),
					json_string_value(value));
	}
	if (set->cat->ignored_count)
		h2d_log_line(
			set->log, H2D_LOG_WARNING,
			"%s: weight_map: %llu tensors of its files are not listed for them "
			"and not loaded",
			index->path, (unsigned long long)set->cat->ignored_count);
	check_total(set, index);
	return 0;
}

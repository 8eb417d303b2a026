/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "format/set.h"

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int h2d_folder_list(struct h2d_set *set, const char *path, const char *suffix, char ***names,
		    size_t *count)
{
	size_t n = 0, cap = 0;
	struct dirent *entry;
	char **list = NULL;
	int rc = 0, saved;
	DIR *dir;

	dir = opendir(path);
	if (!dir)
		return H2D_E_IO;
	while (errno = 0, (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.' || !h2d_set_ends(entry->d_name, suffix))
			continue;
		if (n == cap) {
			char **more;

			cap = cap ? cap * 2 : 64;
			more = h2d_arena_array(&set->scratch, cap, sizeof(*more));
			if (!more)
				break;
			if (n)
				memcpy(more, list, n * sizeof(*more));
			list = more;
		}
		list[n] = h2d_arena_copy(&set->scratch, entry->d_name, strlen(entry->d_name));
		if (!list[n])
			break;
		n++;
	}
	saved = errno;
	if (entry)
		rc = H2D_E_NOMEM;
	else if (saved)
		rc = H2D_E_IO;
	closedir(dir);
	errno = saved;
	if (n)
		qsort(list, n, sizeof(*list), by_text);
	*names = list;
	*count = n;
	return rc;
}

enum kind { NOTHING, DATA, INDEX };

/* What a member of the folder is. An index is told by its name as well, since a folder is full
 * of other JSON documents. */
static int judge(struct h2d_set *set, const char *path, enum kind *kind)
{
	enum h2d_format_id id = H2D_FORMAT_NONE;
	const char *name = h2d_set_name(path);
	struct h2d_index index;
	struct h2d_file file;
	struct stat st;
	int rc;

	*kind = NOTHING;
	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return 0;
	rc = h2d_file_open(&file, path, NULL);
	if (!rc) {
		rc = h2d_set_detect(&file, NULL, &id);
		h2d_file_close(&file);
	}
	if (rc == H2D_E_NOMEM)
		return h2d_set_no_memory(set, path);
	if (rc) {
		h2d_log_line(set->log, H2D_LOG_WARNING, "%s: passed over: it cannot be read",
			     path);
		return 0;
	}
	if (id != H2D_FORMAT_INDEX) {
		*kind = id == H2D_FORMAT_NONE ? NOTHING : DATA;
		return 0;
	}
	if (strcmp(name, "index.json") && !h2d_set_ends(name, ".index.json"))
		return 0;
	rc = h2d_index_read(set, path, &index, NULL);
	if (rc == H2D_E_NOMEM)
		return h2d_set_no_memory(set, path);
	/* One that is malformed counts, so that opening it says what is wrong. */
	*kind = rc || index.map ? INDEX : NOTHING;
	h2d_index_free(&index);
	return 0;
}

/* Candidates of one kind, and whether they all are members of one numbered set. */
struct candidates {
	char **paths;
	size_t count;
	bool one_set;
};

static void add(struct candidates *c, char *path)
{
	struct h2d_numbered first, now;

	c->paths[c->count++] = path;
	if (c->count == 1)
		c->one_set = h2d_numbered_parse(path, &now);
	else
		c->one_set = c->one_set && h2d_numbered_parse(c->paths[0], &first) &&
			     h2d_numbered_parse(path, &now) &&
			     h2d_numbered_same_set(&first, &now);
}

static int ambiguous(const struct h2d_set *set, const char *path, const struct candidates *c)
{
	char text[600] = "";
	size_t used = 0, i;

	for (i = 0; i < c->count; i++) {
		const char *name = h2d_set_name(c->paths[i]);
		size_t n = strlen(name);

		if (used + n + 3 > sizeof(text))
			break;
		if (used)
			used = (size_t)(stpcpy(text + used, ", ") - text);
		used = (size_t)(stpcpy(text + used, name) - text);
	}
	return h2d_fail(set->log, H2D_E_FORMAT,
			"%s: directory holds more than one checkpoint: %s%s; name the one that "
			"is meant",
			path, text, i < c->count ? ", …" : "");
}

int h2d_folder_choose(struct h2d_set *set, const char *path, const char **member)
{
	struct candidates data = {0}, indexes = {0};
	const char *slash = h2d_set_ends(path, "/") ? "" : "/";
	char **names, *inside;
	size_t count, n = strlen(path) + strlen(slash);
	int rc;

	rc = h2d_folder_list(set, path, "", &names, &count);
	if (rc == H2D_E_NOMEM)
		return h2d_set_no_memory(set, path);
	if (rc)
		return h2d_fail_errno(set->log, errno, "%s: directory cannot be listed", path);
	inside = h2d_arena_alloc(&set->scratch, n + 1);
	data.paths = h2d_arena_array(&set->scratch, count + 1, sizeof(*data.paths));
	indexes.paths = h2d_arena_array(&set->scratch, count + 1, sizeof(*indexes.paths));
	if (!inside || !data.paths || !indexes.paths)
		return h2d_set_no_memory(set, path);
	stpcpy(stpcpy(inside, path), slash);
	for (size_t i = 0; i < count; i++) {
		char *file = h2d_set_beside(set, inside, names[i]);
		enum kind kind;

		if (!file)
			return h2d_set_no_memory(set, path);
		rc = judge(set, file, &kind);
		if (rc)
			return rc;
		if (kind != NOTHING)
			add(kind == INDEX ? &indexes : &data, file);
	}
	if (indexes.count > 1)
		return ambiguous(set, path, &indexes);
	if (indexes.count == 1) {
		*member = indexes.paths[0];
		return 0;
	}
	if (!data.count)
		return h2d_fail(
			set->log, H2D_E_NOT_FOUND,
			"%s: directory holds no checkpoint: no safetensors, GGUF, .cact or "
			"PyTorch file and no index.json",
			path);
	if (data.count > 1 && !data.one_set)
		return ambiguous(set, path, &data);
	*member = data.paths[0];
	return 0;
}

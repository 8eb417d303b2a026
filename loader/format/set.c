/* SPDX-License-Identifier: Apache-2.0 */
#include "format/set.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "format/order.h"

int h2d_set_no_memory(const struct h2d_set *set, const char *path)
{
	return h2d_fail(set->log, H2D_E_NOMEM, "%s: out of memory", path);
}

const char *h2d_set_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool h2d_set_ends(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !memcmp(s + n - m, end, m);
}

char *h2d_set_beside(struct h2d_set *set, const char *path, const char *name)
{
	size_t folder = (size_t)(h2d_set_name(path) - path), n = strlen(name);
	char *out = h2d_arena_alloc(&set->scratch, folder + n + 1);

	if (!out)
		return NULL;
	memcpy(out, path, folder);
	memcpy(out + folder, name, n + 1);
	return out;
}

int h2d_set_detect(const struct h2d_file *file, const struct h2d_log *log,
		   enum h2d_format_id *id)
{
	uint64_t size = file->id.size_bytes;
	unsigned char head[H2D_DETECT_BYTES];
	size_t bytes = size < sizeof(head) ? size : sizeof(head);
	int rc = h2d_file_read(file, head, bytes, 0, log);

	if (!rc)
		*id = h2d_detect(head, bytes, size);
	return rc;
}

/* Let the parser of `id` read the header of file `index`. */
static int parse_as(struct h2d_catalogue *cat, uint32_t index, enum h2d_format_id id,
		    const struct h2d_log *log)
{
	const struct h2d_file *file = &cat->files[index];
	struct h2d_parse parse = {.cat = cat, .file = file, .file_index = index, .log = log};

	if (id == H2D_FORMAT_TORCH_LEGACY)
		return h2d_fail(
			log, H2D_E_FORMAT,
			"%s: legacy pickle stream of torch.save (offset 0): only its zip "
			"form is read, where tensors can be found without running the "
			"pickle; save it again with PyTorch 1.6 or later",
			file->path);
	if (id == H2D_FORMAT_INDEX)
		return h2d_fail(log, H2D_E_FORMAT,
				"%s: a JSON document where a file of tensors was expected "
				"(offset 0)",
				file->path);
	for (const struct h2d_format *f = h2d_formats; f->name; f++) {
		if (f->id != id)
			continue;
		if (cat->format && strcmp(cat->format, f->name))
			return h2d_fail(log, H2D_E_FORMAT,
					"%s: is %s, but %s of the same set is %s (offset 0)",
					file->path, f->name, cat->files[0].path, cat->format);
		cat->format = f->name;
		return f->parse(&parse);
	}
	return h2d_fail(log, H2D_E_FORMAT,
			"%s: no format h2d knows (offset 0): neither safetensors, GGUF, .cact, "
			"a PyTorch zip archive nor an index.json",
			file->path);
}

int h2d_set_add(struct h2d_set *set, const char *path, const char *named_by)
{
	struct h2d_catalogue *cat = set->cat;
	enum h2d_format_id id;
	struct h2d_file *file;
	struct stat st;
	int rc;

	if (named_by && stat(path, &st) && errno == ENOENT)
		return h2d_fail(set->log, H2D_E_NOT_FOUND, "%s: missing file of the set of %s",
				path, named_by);
	file = h2d_catalogue_add_file(cat);
	if (!file)
		return h2d_set_no_memory(set, path);
	rc = h2d_file_open(file, path, set->log);
	if (!rc)
		rc = h2d_set_detect(file, set->log, &id);
	if (!rc)
		rc = parse_as(cat, cat->file_count - 1, id, set->log);
	return rc;
}

/* Open what `index` describes and check it against the result. */
static int open_index(struct h2d_set *set, struct h2d_index *index)
{
	int rc = h2d_index_open(set, index);

	if (!rc)
		rc = h2d_order_finish(set->cat, set->log);
	if (!rc)
		rc = h2d_index_check(set, index);
	h2d_index_free(index);
	return rc;
}

/* A file of tensors, with what belongs to it. */
static int open_member(struct h2d_set *set, const char *path, enum h2d_format_id id)
{
	struct h2d_numbered numbered;
	struct h2d_index index;
	int rc;

	if (id == H2D_FORMAT_SAFETENSORS || id == H2D_FORMAT_TORCH) {
		rc = h2d_index_beside(set, path, &index);
		if (rc)
			return rc;
		if (index.root)
			return open_index(set, &index);
		if (h2d_numbered_parse(path, &numbered)) {
			rc = h2d_numbered_open(set, path, &numbered);
			return rc ? rc : h2d_order_finish(set->cat, set->log);
		}
	}
	rc = h2d_set_add(set, path, NULL);
	if (!rc && id == H2D_FORMAT_GGUF)
		rc = h2d_split_open(set, path);
	return rc ? rc : h2d_order_finish(set->cat, set->log);
}

static int open_path(struct h2d_set *set, const char *path)
{
	enum h2d_format_id id = H2D_FORMAT_NONE;
	struct h2d_index index;
	struct h2d_file file;
	struct stat st;
	int rc;

	if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
		rc = h2d_folder_choose(set, path, &path);
		if (rc)
			return rc;
	}
	rc = h2d_file_open(&file, path, set->log);
	if (rc)
		return rc;
	rc = h2d_set_detect(&file, set->log, &id);
	h2d_file_close(&file);
	if (rc)
		return rc;
	if (id != H2D_FORMAT_INDEX)
		return open_member(set, path, id);
	rc = h2d_index_read(set, path, &index, set->log);
	return rc ? rc : open_index(set, &index);
}

int h2d_set_open(struct h2d_catalogue *cat, const char *path, const struct h2d_log *log)
{
	struct h2d_set set = {.cat = cat, .log = log};
	int rc = open_path(&set, path);

	h2d_arena_free(&set.scratch);
	if (rc)
		h2d_catalogue_free(cat);
	return rc;
}

int h2d_set_open_file(struct h2d_catalogue *cat, struct h2d_file *file,
		      const struct h2d_log *log)
{
	struct h2d_file *slot = h2d_catalogue_add_file(cat);
	enum h2d_format_id id;
	int rc;

	if (!slot) {
		h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", file->path);
		h2d_file_close(file);
		return H2D_E_NOMEM;
	}
	*slot = *file;
	rc = h2d_set_detect(slot, log, &id);
	if (!rc)
		rc = parse_as(cat, 0, id, log);
	if (!rc)
		rc = h2d_order_finish(cat, log);
	if (rc)
		h2d_catalogue_free(cat);
	return rc;
}

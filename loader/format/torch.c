/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's zip archives (.pt, .pth, .bin, TorchScript): caffe2/serialize/inline_container.cc,
 * torch/serialization.py, torch/csrc/jit/serialization/.
 *
 * What is decided here: storages that no tensor uses are counted, not listed; classes other
 * than PyTorch's own are walked, never made; quantised, sparse and other special tensors are
 * refused, except in TorchScript archives, where raw storages are listed instead.
 */
#include "format/torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"

enum { SMALL_MAX_BYTES = 64 };

static bool under(const struct h2d_zip_record *rec, const char *folder)
{
	size_t n = strlen(folder);

	return rec->name_bytes > n && !memcmp(rec->name, folder, n);
}

static bool is_storage(const struct h2d_zip_record *rec)
{
	return under(rec, "data/") || under(rec, "constants/");
}

static int fail_record(struct h2d_torch *t, const struct h2d_zip_record *rec, const char *rule)
{
	h2d_reader_subject(&t->r, "record", rec->name, rec->name_bytes);
	return h2d_reader_fail(&t->r, rec->entry_offset, "%s", rule);
}

/* ---- the archive */

/* Everything but TorchScript's source text must lie there as it is. */
static int check_records(struct h2d_torch *t)
{
	for (uint64_t i = 0; i < t->zip.count; i++) {
		const struct h2d_zip_record *rec = &t->zip.records[i];

		if (under(rec, "code/"))
			t->script = true;
		else if (rec->method)
			return fail_record(t, rec, "it is compressed: PyTorch stores records");
	}
	if (h2d_zip_find(&t->zip, "constants.pkl", strlen("constants.pkl")))
		t->script = true;
	return 0;
}

static int read_small(struct h2d_torch *t, const char *name, char **text, size_t *bytes)
{
	const struct h2d_zip_record *rec = h2d_zip_find(&t->zip, name, strlen(name));
	struct h2d_catalogue *cat = t->p->cat;
	int rc;

	*text = NULL;
	if (!rec || rec->size_bytes > SMALL_MAX_BYTES)
		return 0;
	*text = h2d_arena_alloc(&cat->arena, (size_t)rec->size_bytes + 1);
	if (!*text)
		return h2d_reader_nomem(&t->r);
	rc = h2d_file_read(t->p->file, *text, rec->size_bytes, rec->offset_bytes, t->p->log);
	*bytes = (size_t)rec->size_bytes;
	while (*bytes && !rc && (*text)[*bytes - 1] == '\n')
		(*bytes)--;
	(*text)[*bytes] = 0;
	return rc;
}

/* What the archive says of itself, as metadata; a byte order that is not ours ends it. */
static int read_members(struct h2d_torch *t)
{
	static const char *const name[][2] = {
		{"version", "archive.version"},
		{"byteorder", "archive.byteorder"},
		{".format_version", "archive.format_version"},
		{".storage_alignment", "archive.storage_alignment"},
	};
	const struct h2d_zip_record *order = h2d_zip_find(&t->zip, "byteorder", 9);

	if (order && order->size_bytes > SMALL_MAX_BYTES)
		return fail_record(t, order, "it is no byte order");
	for (unsigned i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		struct h2d_metadata *m;
		size_t bytes;
		char *text;
		int rc = read_small(t, name[i][0], &text, &bytes);

		if (rc)
			return rc;
		if (!text)
			continue;
		if (i == 1 && !strcmp(text, "big"))
			return fail_record(t, order, "big-endian tensors are not supported");
		if (i == 1 && strcmp(text, "little"))
			return fail_record(t, order, "it is no byte order");
		m = h2d_catalogue_add_metadata(t->p->cat);
		if (!m)
			return h2d_reader_nomem(&t->r);
		m->key = name[i][1];
		m->key_bytes = strlen(m->key);
		m->type = H2D_VALUE_STRING;
		m->count = 1;
		m->data = text;
		m->data_bytes = bytes;
	}
	return 0;
}

/* ---- pickles */

static int read_pickle(struct h2d_torch *t, const struct h2d_zip_record *rec,
		       const char *folder, const char *prefix)
{
	struct h2d_pickle_value *root;
	int rc;

	h2d_reader_init(&t->r, t->p, rec->offset_bytes, rec->offset_bytes + rec->size_bytes);
	t->r.region = "pickle";
	h2d_reader_subject(&t->r, "record", rec->name, rec->name_bytes);
	t->folder = folder;
	/* A real checkpoint needs a small part of these. */
	t->visits_left = 4 * rec->size_bytes + 65536;
	t->bytes_left = 64 * rec->size_bytes + (1 << 20);
	rc = h2d_pickle_read(&t->r, &t->values, &root);
	if (!rc && h2d_reader_left(&t->r))
		h2d_reader_warn(&t->r, t->r.pos, "%llu bytes behind the pickle's end",
				(unsigned long long)h2d_reader_left(&t->r));
	if (!rc)
		rc = h2d_torch_walk(t, root, prefix);
	h2d_reader_free(&t->r);
	h2d_arena_free(&t->values);
	t->p->cat->header_bytes += rec->size_bytes;
	return rc;
}

static int read_pickles(struct h2d_torch *t)
{
	const struct h2d_zip_record *data = h2d_zip_find(&t->zip, "data.pkl", 8);
	const struct h2d_zip_record *constants = h2d_zip_find(&t->zip, "constants.pkl", 13);
	int rc;

	if (!data) {
		h2d_reader_subject(&t->r, "archive", NULL, 0);
		return h2d_reader_fail(
			&t->r, t->zip.directory_offset,
			"no data.pkl in its top folder: not an archive of PyTorch");
	}
	rc = read_pickle(t, data, "data/", "");
	if (!rc && !t->raw && constants)
		rc = read_pickle(t, constants, "constants/", "constants");
	return rc;
}

/* ---- storages */

/* In place of tensors that could not be understood: each storage as bytes. */
static int list_storages(struct h2d_torch *t)
{
	struct h2d_catalogue *cat = t->p->cat;

	h2d_log_line(t->p->log, H2D_LOG_WARNING,
		     "%s: its storages are listed as bytes, without names of tensors",
		     t->p->file->path);
	cat->tensor_count = t->first_tensor;
	for (uint64_t i = 0; i < t->zip.count; i++) {
		const struct h2d_zip_record *rec = &t->zip.records[i];
		struct h2d_tensor *out;
		uint64_t *shape;

		if (!is_storage(rec))
			continue;
		out = h2d_catalogue_add_tensor(cat);
		shape = h2d_arena_array(&cat->arena, 1, sizeof(*shape));
		if (!out || !shape)
			return h2d_reader_nomem(&t->r);
		out->name = h2d_arena_copy(&cat->arena, rec->name, rec->name_bytes);
		if (!out->name)
			return h2d_reader_nomem(&t->r);
		out->name_bytes = (uint32_t)rec->name_bytes;
		out->dtype = "uint8";
		shape[0] = rec->size_bytes;
		out->shape = shape;
		out->rank = 1;
		out->file = t->p->file_index;
		out->ordinal = (uint32_t)(cat->tensor_count - 1 - t->first_tensor);
		out->entry_offset = rec->entry_offset;
		out->offset_bytes = rec->offset_bytes;
		out->size_bytes = rec->size_bytes;
	}
	return 0;
}

static void note_unused(const struct h2d_torch *t)
{
	uint64_t count = 0, bytes = 0;

	for (uint64_t i = 0; i < t->zip.count; i++)
		if (is_storage(&t->zip.records[i]) && !t->uses[i].count) {
			count++;
			bytes += t->zip.records[i].size_bytes; /* disjoint parts of the file */
		}
	if (count)
		h2d_log_line(t->p->log, H2D_LOG_INFO,
			     "%s: %llu storages (%llu bytes) belong to no tensor and are not "
			     "listed",
			     t->p->file->path, (unsigned long long)count,
			     (unsigned long long)bytes);
}

static int parse(struct h2d_torch *t)
{
	size_t bytes;
	int rc = h2d_zip_open(&t->zip, t->p);

	if (!rc)
		rc = check_records(t);
	if (!rc)
		rc = read_members(t);
	if (rc)
		return rc;
	if (!h2d_mul_size((size_t)t->zip.count, sizeof(*t->uses), &bytes))
		return h2d_reader_nomem(&t->r);
	t->uses = h2d_mem->calloc(1, bytes + 1);
	if (!t->uses)
		return h2d_reader_nomem(&t->r);
	t->p->cat->header_bytes += t->zip.directory_bytes;
	rc = read_pickles(t);
	if (rc)
		return rc;
	if (t->raw)
		return list_storages(t);
	note_unused(t);
	return 0;
}

int h2d_torch_parse(struct h2d_parse *p)
{
	struct h2d_torch t = {.p = p, .first_tensor = p->cat->tensor_count};
	int rc;

	h2d_reader_init(&t.r, p, 0, p->file->id.size_bytes);
	rc = parse(&t);
	h2d_zip_free(&t.zip);
	h2d_arena_free(&t.values);
	free(t.uses);
	free(t.path);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets told by their names, PREFIX-00001-of-00003.safetensors, and GGUF splits, whose metadata
 * say what the names only suggest (llama.cpp, tools/gguf-split: split.no counts from 0).
 */
#include <stdio.h>
#include <string.h>

#include "format/set.h"

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Up to nine digits at `s`; their number. */
static size_t read_number(const char *s, uint32_t *value)
{
	size_t n = 0;

	*value = 0;
	for (; n < 9 && digit(s[n]); n++)
		*value = *value * 10 + (uint32_t)(s[n] - '0');
	return digit(s[n]) ? 0 : n;
}

bool h2d_numbered_parse(const char *path, struct h2d_numbered *out)
{
	const char *name = h2d_set_name(path), *of = NULL, *begin;
	size_t digits;

	for (const char *p = name; (p = strstr(p, "-of-")) != NULL; p++)
		of = p;
	if (!of)
		return false;
	for (begin = of; begin > name && digit(begin[-1]); begin--)
		;
	if (begin == name || begin[-1] != '-')
		return false;
	digits = read_number(of + 4, &out->total);
	if (digits < 5 || read_number(begin, &out->number) != digits || begin + digits != of ||
	    (of[4 + digits] && of[4 + digits] != '.'))
		return false;
	out->name = name;
	out->prefix_bytes = (size_t)(begin - name);
	out->digits = digits;
	out->rest = of + 4 + digits;
	return out->total > 1 && out->number >= 1 && out->number <= out->total;
}

bool h2d_numbered_same_set(const struct h2d_numbered *a, const struct h2d_numbered *b)
{
	return a->total == b->total && a->digits == b->digits &&
	       a->prefix_bytes == b->prefix_bytes &&
	       !memcmp(a->name, b->name, a->prefix_bytes) && !strcmp(a->rest, b->rest);
}

/* Path of member `number` beside `path`, in scratch, or NULL. */
static char *member(struct h2d_set *set, const char *path, const struct h2d_numbered *n,
		    uint32_t number)
{
	char digits[16], *out = h2d_set_beside(set, path, n->name);

	if (!out)
		return NULL;
	snprintf(digits, sizeof(digits), "%0*u", (int)n->digits, number);
	memcpy(out + (h2d_set_name(out) - out) + n->prefix_bytes, digits, n->digits);
	return out;
}

int h2d_numbered_open(struct h2d_set *set, const char *path, const struct h2d_numbered *n)
{
	for (uint32_t i = 1; i <= n->total; i++) {
		uint64_t metadata = set->cat->metadata_count;
		char *file = member(set, path, n, i);
		int rc;

		if (!file)
			return h2d_set_no_memory(set, path);
		rc = h2d_set_add(set, file, path);
		if (rc)
			return rc;
		if (i > 1)
			set->cat->metadata_count = metadata;
	}
	return 0;
}

/* An integer among the metadata [first, …). False when the key is absent or no integer. */
static bool integer(const struct h2d_catalogue *cat, uint64_t first, const char *key,
		    int64_t *out)
{
	static const struct {
		uint8_t bytes;
		bool is_signed;
	} kinds[] = {
		[H2D_VALUE_U8] = {1, false},  [H2D_VALUE_I8] = {1, true},
		[H2D_VALUE_U16] = {2, false}, [H2D_VALUE_I16] = {2, true},
		[H2D_VALUE_U32] = {4, false}, [H2D_VALUE_I32] = {4, true},
		[H2D_VALUE_U64] = {8, false}, [H2D_VALUE_I64] = {8, true},
	};

	for (uint64_t i = first; i < cat->metadata_count; i++) {
		const struct h2d_metadata *m = &cat->metadata[i];
		union {
			uint8_t u8;
			int8_t i8;
			uint16_t u16;
			int16_t i16;
			uint32_t u32;
			int32_t i32;
			int64_t i64;
		} v;
		size_t bytes;

		if (m->key_bytes != strlen(key) || memcmp(m->key, key, m->key_bytes))
			continue;
		if (m->type > H2D_VALUE_I64 || !kinds[m->type].bytes)
			return false;
		bytes = kinds[m->type].bytes;
		if (m->data_bytes != bytes)
			return false;
		memcpy(&v, m->data, bytes);
		if (kinds[m->type].is_signed)
			*out = bytes == 1   ? v.i8
			       : bytes == 2 ? v.i16
			       : bytes == 4 ? v.i32
					    : v.i64;
		else
			*out = bytes == 1   ? v.u8
			       : bytes == 2 ? v.u16
			       : bytes == 4 ? (int64_t)v.u32
					    : v.i64;
		return true;
	}
	return false;
}

/* Check what part `i` (from 0) of `total` says of itself in the metadata [first, …). */
static int check_part(const struct h2d_set *set, uint64_t first, uint32_t i, uint32_t total,
		      int64_t *tensors)
{
	const struct h2d_catalogue *cat = set->cat;
	const char *path = cat->files[i].path;
	int64_t value;

	if (!integer(cat, first, "split.count", &value) || value != total)
		return h2d_fail(set->log, H2D_E_FORMAT,
				"%s: metadata: split.count must be %u, as in the other parts",
				path, total);
	if (!integer(cat, first, "split.no", &value) || value != i)
		return h2d_fail(set->log, H2D_E_FORMAT,
				"%s: metadata: split.no must be %u in part %u of %u", path, i,
				i + 1, total);
	if (integer(cat, first, "split.tensors.count", &value)) {
		if (i && value != *tensors)
			return h2d_fail(
				set->log, H2D_E_FORMAT,
				"%s: metadata: split.tensors.count is %lld, but %lld in "
				"the first part",
				path, (long long)value, (long long)*tensors);
		*tensors = value;
	} else if (!i) {
		return h2d_fail(set->log, H2D_E_FORMAT,
				"%s: metadata: split.tensors.count is missing", path);
	}
	return 0;
}

int h2d_split_open(struct h2d_set *set, const char *path)
{
	struct h2d_catalogue *cat = set->cat;
	struct h2d_numbered n;
	int64_t total, tensors = 0;
	int rc;

	if (!integer(cat, 0, "split.count", &total) || total == 0 || total == 1)
		return 0;
	if (!h2d_numbered_parse(path, &n) || n.total != total)
		return h2d_fail(
			set->log, H2D_E_FORMAT,
			"%s: metadata: split.count is %lld, but the name does not end in "
			"-00001-of-%05lld.gguf or alike, so the other parts cannot be "
			"found",
			path, (long long)total, (long long)total);
	h2d_catalogue_free(cat);
	for (uint32_t i = 0; i < n.total; i++) {
		uint64_t metadata = cat->metadata_count;
		char *file = member(set, path, &n, i + 1);

		if (!file)
			return h2d_set_no_memory(set, path);
		rc = h2d_set_add(set, file, path);
		if (!rc)
			rc = check_part(set, metadata, i, n.total, &tensors);
		if (rc)
			return rc;
		if (i)
			cat->metadata_count = metadata;
	}
	if (tensors < 0 || (uint64_t)tensors != cat->tensor_count)
		return h2d_fail(set->log, H2D_E_FORMAT,
				"%s: metadata: split.tensors.count is %lld, but the parts hold "
				"%llu tensors",
				cat->files[0].path, (long long)tensors,
				(unsigned long long)cat->tensor_count);
	return 0;
}

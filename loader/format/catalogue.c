/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/checked.h"
#include "core/mem.h"
#include "core/json.h"
#include "file/io.h"
#include "format/format.h"

/* Room for one more element; NULL when memory cannot be had. Doubles. */
static bool grow(void **array, uint64_t count, uint64_t *cap, size_t size)
{
	uint64_t want = *cap ? *cap * 2 : 16;
	size_t bytes;
	void *p;

	if (count < *cap)
		return true;
	if (!h2d_mul_size(want, size, &bytes))
		return false;
	p = h2d_mem->realloc(*array, bytes);
	if (!p)
		return false;
	*array = p;
	*cap = want;
	return true;
}

bool h2d_catalogue_reserve(struct h2d_catalogue *cat, uint64_t count)
{
	size_t bytes;
	void *p;

	if (count <= cat->tensor_cap)
		return true;
	if (!h2d_mul_size(count, sizeof(*cat->tensors), &bytes))
		return false;
	p = h2d_mem->realloc(cat->tensors, bytes);
	if (!p)
		return false;
	h2d_advise_huge(p, bytes);
	cat->tensors = p;
	cat->tensor_cap = count;
	return true;
}

struct h2d_tensor *h2d_catalogue_add_tensor(struct h2d_catalogue *cat)
{
	struct h2d_tensor *t;

	if (!grow((void **)&cat->tensors, cat->tensor_count, &cat->tensor_cap, sizeof(*t)))
		return NULL;
	t = &cat->tensors[cat->tensor_count++];
	memset(t, 0, sizeof(*t));
	return t;
}

struct h2d_metadata *h2d_catalogue_add_metadata(struct h2d_catalogue *cat)
{
	struct h2d_metadata *m;

	if (!grow((void **)&cat->metadata, cat->metadata_count, &cat->metadata_cap, sizeof(*m)))
		return NULL;
	m = &cat->metadata[cat->metadata_count++];
	memset(m, 0, sizeof(*m));
	return m;
}

struct h2d_file *h2d_catalogue_add_file(struct h2d_catalogue *cat)
{
	uint64_t cap = cat->file_cap;
	struct h2d_file *f;

	if (cat->file_count == UINT32_MAX / 2 ||
	    !grow((void **)&cat->files, cat->file_count, &cap, sizeof(*f)))
		return NULL;
	cat->file_cap = (uint32_t)cap;
	f = &cat->files[cat->file_count++];
	memset(f, 0, sizeof(*f));
	f->fd = -1;
	return f;
}

void h2d_catalogue_free(struct h2d_catalogue *cat)
{
	for (uint32_t i = 0; i < cat->file_count; i++)
		h2d_file_close(&cat->files[i]);
	free(cat->files);
	free(cat->tensors);
	free(cat->metadata);
	free(cat->name_table);
	h2d_arena_free(&cat->arena);
	memset(cat, 0, sizeof(*cat));
}

void h2d_advise_huge(void *block, size_t bytes)
{
	const uintptr_t huge = 2u << 20;
	uintptr_t begin, end = (uintptr_t)block + bytes;

	if (bytes < 2 * huge)
		return;
	begin = ((uintptr_t)block + huge - 1) & ~(huge - 1);
	end &= ~(huge - 1);
	/* Advice: where it is refused, small pages do as well. */
	h2d_io->madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

const char *h2d_show_name(struct h2d_shown *s, const char *name, size_t bytes)
{
	const unsigned char *p = (const unsigned char *)name;
	size_t o = 0;

	for (size_t i = 0; i < bytes;) {
		size_t len = h2d_utf8_length(p + i, bytes - i);

		/* Room for the longest piece, the ellipsis and the NUL. */
		if (o + 4 + 4 > sizeof(s->text)) {
			memcpy(s->text + o, "\xe2\x80\xa6", 3);
			o += 3;
			break;
		}
		if (!p[i]) {
			memcpy(s->text + o, "\\x00", 4);
			o += 4;
			i++;
			continue;
		}
		len = len ? len : 1;
		memcpy(s->text + o, p + i, len);
		o += len;
		i += len;
	}
	s->text[o] = 0;
	return s->text;
}

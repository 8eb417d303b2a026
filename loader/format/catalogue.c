/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"
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
	h2d_arena_free(&cat->arena);
	memset(cat, 0, sizeof(*cat));
}

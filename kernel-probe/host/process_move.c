/* SPDX-License-Identifier: Apache-2.0 */
/* A process's facts in one piece of memory, which two of our own processes share. */
#include <stdlib.h>
#include <string.h>

#include "host/process.h"

struct arena {
	char *at;
	size_t left;
};

/* NULL when it does not fit. Aligned for everything that is kept. */
static void *put(struct arena *a, const void *data, size_t count, size_t each)
{
	size_t bytes = (count * each + 15) & ~(size_t)15;
	void *to = a->at;

	if (count > a->left / each || bytes > a->left)
		return NULL;
	memcpy(to, data, count * each);
	a->at += bytes;
	a->left -= bytes;
	return to;
}

static char *put_text(struct arena *a, const char *text)
{
	return put(a, text, strlen(text) + 1, 1);
}

static bool put_all(struct arena *a, const struct h2d_process *from, struct h2d_process *to)
{
	static char *const none[] = {NULL};
	static char empty[1];

	*to = *from;
	to->words = put(a, from->words ? from->words : none, from->word_count + 1,
			sizeof(*to->words));
	to->files = put(a, from->files ? (const void *)from->files : empty, from->file_count,
			sizeof(*to->files));
	to->mappings = put(a, from->mappings ? (const void *)from->mappings : empty,
			   from->mapping_count, sizeof(*to->mappings));
	if (!to->words || !to->files || !to->mappings)
		return false;
	if (!from->words)
		to->words = NULL;
	for (size_t i = 0; i < from->word_count; i++)
		if (!(to->words[i] = put_text(a, from->words[i])))
			return false;
	for (size_t i = 0; i < from->file_count; i++) {
		to->files[i].fd = -1;
		if (from->files[i].path &&
		    !(to->files[i].path = put_text(a, from->files[i].path)))
			return false;
	}
	to->largest = from->largest ? &to->files[from->largest - from->files] : NULL;
	return true;
}

bool h2d_process_move(struct h2d_process *from, void *arena, size_t bytes,
		      struct h2d_process *to)
{
	struct arena a = {arena, bytes};
	bool good = put_all(&a, from, to);

	if (!good)
		memset(to, 0, sizeof(*to));
	h2d_process_free(from);
	return good;
}

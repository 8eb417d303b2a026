/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the beginning and the end of a text of any length in bounded memory. */
#include "spawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append_ring(struct lab_text *text, const char *data, size_t size)
{
	size_t limit = text->limit_bytes, at;

	if (!text->tail && !(text->tail = malloc(limit)))
		return;
	if (size > limit) {
		data += size - limit;
		size = limit;
	}
	at = (text->tail_start + text->tail_bytes) % limit;
	for (size_t i = 0; i < size; i++, at = (at + 1) % limit)
		text->tail[at] = data[i];
	if (text->tail_bytes + size > limit) {
		text->tail_start = at;
		text->tail_bytes = limit;
	} else {
		text->tail_bytes += size;
	}
}

void lab_text_append(struct lab_text *text, const char *data, size_t size)
{
	size_t room = text->limit_bytes - text->head_bytes;
	size_t part = size < room ? size : room;

	text->total_bytes += size;
	if (part && (text->head || (text->head = malloc(text->limit_bytes)))) {
		memcpy(text->head + text->head_bytes, data, part);
		text->head_bytes += part;
		data += part;
		size -= part;
	}
	if (size && text->limit_bytes)
		append_ring(text, data, size);
}

char *lab_text_string(const struct lab_text *text)
{
	char gap[64] = "";
	uint64_t kept = (uint64_t)text->head_bytes + text->tail_bytes;
	size_t gap_bytes, first;
	char *string, *p;

	if (text->total_bytes > kept)
		snprintf(gap, sizeof(gap), "\n[... %llu bytes ...]\n",
			 (unsigned long long)(text->total_bytes - kept));
	gap_bytes = strlen(gap);
	string = malloc((size_t)kept + gap_bytes + 1);
	if (!string)
		return NULL;
	p = string;
	if (text->head_bytes)
		memcpy(p, text->head, text->head_bytes);
	p += text->head_bytes;
	memcpy(p, gap, gap_bytes);
	p += gap_bytes;
	first = text->limit_bytes - text->tail_start;
	if (first > text->tail_bytes)
		first = text->tail_bytes;
	if (text->tail_bytes) {
		memcpy(p, text->tail + text->tail_start, first);
		memcpy(p + first, text->tail, text->tail_bytes - first);
	}
	p[text->tail_bytes] = 0;
	/* A console may carry anything; a string ends at its first zero. */
	for (p = string; p < string + kept + gap_bytes; p++)
		if (*p == 0)
			*p = '?';
	return string;
}

void lab_text_free(struct lab_text *text)
{
	free(text->head);
	free(text->tail);
	memset(text, 0, sizeof(*text));
}

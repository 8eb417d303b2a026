/* SPDX-License-Identifier: Apache-2.0 */
#include "format/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

enum { BUFFER_BYTES = 64 * 1024 };

void h2d_reader_init(struct h2d_reader *r, const struct h2d_parse *p, uint64_t begin,
		     uint64_t end)
{
	memset(r, 0, sizeof(*r));
	r->p = p;
	r->pos = begin;
	r->end = end;
	r->region = "file";
	r->subject = "header";
}

void h2d_reader_free(struct h2d_reader *r)
{
	free(r->buf);
	r->buf = NULL;
	r->buf_bytes = 0;
}

void h2d_reader_subject(struct h2d_reader *r, const char *subject, const char *name,
			size_t name_bytes)
{
	r->subject = subject;
	r->name = name;
	r->name_bytes = name_bytes;
}

static int fill(struct h2d_reader *r)
{
	uint64_t left = h2d_reader_left(r);
	size_t want = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
	int rc;

	if (!r->buf) {
		/* Nothing past `end` is ever read, so a small region needs a small buffer. */
		r->buf = h2d_mem->malloc(want);
		if (!r->buf)
			return h2d_reader_nomem(r);
	}
	rc = h2d_file_read(r->p->file, r->buf, want, r->pos, r->p->log);
	if (rc)
		return rc;
	r->buf_pos = r->pos;
	r->buf_bytes = want;
	return 0;
}

int h2d_reader_read(struct h2d_reader *r, void *dst, uint64_t bytes, const char *what)
{
	unsigned char *out = dst;
	int rc;

	if (bytes > h2d_reader_left(r))
		return h2d_reader_fail(r, r->pos,
				       "the %s ends inside %s: %llu bytes wanted, %llu left",
				       r->region, what, (unsigned long long)bytes,
				       (unsigned long long)h2d_reader_left(r));
	while (bytes) {
		uint64_t used = r->pos - r->buf_pos;
		uint64_t have = used < r->buf_bytes ? r->buf_bytes - used : 0;

		if (!have && bytes >= BUFFER_BYTES) {
			rc = h2d_file_read(r->p->file, out, bytes, r->pos, r->p->log);
			if (!rc)
				r->pos += bytes;
			return rc;
		}
		if (!have) {
			rc = fill(r);
			if (rc)
				return rc;
			continue;
		}
		if (have > bytes)
			have = bytes;
		memcpy(out, r->buf + used, (size_t)have);
		out += have;
		r->pos += have;
		bytes -= have;
	}
	return 0;
}

struct described {
	char text[sizeof(struct h2d_shown) + 64];
};

static const char *describe(const struct h2d_reader *r, struct described *d)
{
	struct h2d_shown shown;

	if (r->name)
		snprintf(d->text, sizeof(d->text), "%s \"%s\"", r->subject,
			 h2d_show_name(&shown, r->name, r->name_bytes));
	else
		snprintf(d->text, sizeof(d->text), "%s", r->subject);
	return d->text;
}

int h2d_reader_fail(const struct h2d_reader *r, uint64_t at, const char *rule, ...)
{
	struct described subject;
	char text[400];
	va_list ap;

	va_start(ap, rule);
	vsnprintf(text, sizeof(text), rule, ap);
	va_end(ap);
	return h2d_fail(r->p->log, H2D_E_FORMAT, "%s: %s: %s, at offset %llu", r->p->file->path,
			describe(r, &subject), text, (unsigned long long)at);
}

void h2d_reader_warn(const struct h2d_reader *r, uint64_t at, const char *rule, ...)
{
	struct described subject;
	char text[400];
	va_list ap;

	va_start(ap, rule);
	vsnprintf(text, sizeof(text), rule, ap);
	va_end(ap);
	h2d_log_line(r->p->log, H2D_LOG_WARNING, "%s: %s: %s, at offset %llu", r->p->file->path,
		     describe(r, &subject), text, (unsigned long long)at);
}

int h2d_reader_nomem(const struct h2d_reader *r)
{
	return h2d_fail(r->p->log, H2D_E_NOMEM, "%s: out of memory while reading the %s",
			r->p->file->path, r->subject);
}

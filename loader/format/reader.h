/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file reader.h
 * A header read front to back through a small buffer, never past a stated end, and the one way
 * in which the binary formats report a broken rule.
 *
 * All formats h2d reads are little-endian, and so are the hosts it is built for: integers and
 * arrays are taken as they lie. Not thread-safe.
 */
#ifndef H2D_FORMAT_READER_H
#define H2D_FORMAT_READER_H

#include "format/format.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights are little-endian");

struct h2d_reader {
	const struct h2d_parse *p;
	unsigned char *buf;  /**< NULL until the first short read */
	uint64_t pos;	     /**< next byte, absolute in the file */
	uint64_t end;	     /**< reads stop here: the file's end, or the record's */
	uint64_t buf_pos;    /**< file offset of buf[0] */
	size_t buf_bytes;    /**< valid bytes in buf */
	const char *region;  /**< what ends at `end`, for messages; "file" */
	const char *subject; /**< kind of the thing being read: "header", "key", "tensor" */
	const char *name;    /**< its name, NULL: none */
	size_t name_bytes;
};

/** Read [begin, end) of the file; both must lie within it. Allocates nothing yet. */
void h2d_reader_init(struct h2d_reader *r, const struct h2d_parse *p, uint64_t begin,
		     uint64_t end);
void h2d_reader_free(struct h2d_reader *r);

/** What the messages that follow are about; `name` must live until the next call. */
void h2d_reader_subject(struct h2d_reader *r, const char *subject, const char *name,
			size_t name_bytes);

/** Bytes left before the end. */
static inline uint64_t h2d_reader_left(const struct h2d_reader *r)
{
	return r->end - r->pos;
}

/** Copy the next `bytes` bytes. `what` names them when the region ends too early.
 *  @return 0, H2D_E_FORMAT, or a status of reading. */
int h2d_reader_read(struct h2d_reader *r, void *dst, uint64_t bytes, const char *what);

static inline int h2d_reader_u8(struct h2d_reader *r, uint8_t *v, const char *what)
{
	return h2d_reader_read(r, v, sizeof(*v), what);
}

static inline int h2d_reader_u16(struct h2d_reader *r, uint16_t *v, const char *what)
{
	return h2d_reader_read(r, v, sizeof(*v), what);
}

static inline int h2d_reader_u32(struct h2d_reader *r, uint32_t *v, const char *what)
{
	return h2d_reader_read(r, v, sizeof(*v), what);
}

static inline int h2d_reader_u64(struct h2d_reader *r, uint64_t *v, const char *what)
{
	return h2d_reader_read(r, v, sizeof(*v), what);
}

/** Emit "FILE: SUBJECT "NAME": RULE, at offset AT" and return H2D_E_FORMAT. */
int h2d_reader_fail(const struct h2d_reader *r, uint64_t at, const char *rule, ...)
	__attribute__((format(printf, 3, 4)));
/** The same in the form of a warning; nothing is returned. */
void h2d_reader_warn(const struct h2d_reader *r, uint64_t at, const char *rule, ...)
	__attribute__((format(printf, 3, 4)));
/** Report that memory for the subject could not be had: H2D_E_NOMEM. */
int h2d_reader_nomem(const struct h2d_reader *r);

#endif

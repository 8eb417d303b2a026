/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file json_scan.h
 * The lexical half of the safetensors header scanner: a strict JSON cursor (RFC 8259) over one
 * buffer, which it decodes in place: strings lose their escapes and end in a NUL written over
 * the closing quote or before it, so that names need no copy.
 *
 * The buffer must be followed by at least H2D_SCAN_PAD zero bytes. Every function returns 0 or
 * H2D_E_FORMAT after one line in the log. Not thread-safe.
 */
#ifndef H2D_FORMAT_JSON_SCAN_H
#define H2D_FORMAT_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/log.h"

enum {
	H2D_SCAN_PAD = 16,
	H2D_SCAN_DEPTH_MAX = 128, /**< containers inside a value that is passed over */
};

struct h2d_text {
	char *data; /**< NUL-terminated, may hold NULs */
	uint32_t bytes;
};

struct h2d_scan {
	unsigned char *p, *base, *end;
	uint64_t base_offset; /**< of `base` in the file, for messages */
	const char *path;
	const struct h2d_log *log;
	struct h2d_text tensor; /**< named in messages when data is not NULL */
	const char *field;	/**< likewise */
};

/** Report a broken rule found at `at` and return H2D_E_FORMAT. */
int h2d_scan_fail(const struct h2d_scan *s, const unsigned char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/** File offset of the cursor. */
static inline uint64_t h2d_scan_offset(const struct h2d_scan *s)
{
	return s->base_offset + (uint64_t)(s->p - s->base);
}

/** Pass white space over. */
static inline void h2d_scan_space(struct h2d_scan *s)
{
	unsigned char *p = s->p;

	while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')
		p++;
	s->p = p;
}

/** Report what stands at the cursor, where `what` was expected. */
int h2d_scan_unexpected(const struct h2d_scan *s, const char *what);

/**
 * After a member of a container: pass a comma or the closing character.
 * @param more (out) whether another member follows
 */
static inline int h2d_scan_next(struct h2d_scan *s, unsigned char close, bool *more)
{
	h2d_scan_space(s);
	*more = *s->p == ',';
	if (!*more && *s->p != close)
		return h2d_scan_unexpected(s, close == '}' ? "',' or '}'" : "',' or ']'");
	s->p++;
	if (*more)
		h2d_scan_space(s);
	return 0;
}
/** Pass white space, then the character `c`; `what` names in words what was expected. */
static inline int h2d_scan_expect(struct h2d_scan *s, unsigned char c, const char *what)
{
	h2d_scan_space(s);
	if (*s->p != c)
		return h2d_scan_unexpected(s, what);
	s->p++;
	return 0;
}

/** After an opening character: does the container have a first member? Passes the end if not.
 */
static inline bool h2d_scan_first(struct h2d_scan *s, unsigned char close)
{
	h2d_scan_space(s);
	if (*s->p != close)
		return true;
	s->p++;
	return false;
}

/** A string, with the cursor (behind white space) on its opening quote. */
int h2d_scan_string(struct h2d_scan *s, struct h2d_text *out);
/** A string and the colon behind it. */
int h2d_scan_key(struct h2d_scan *s, struct h2d_text *out);
/** An unsigned integer below 2^64: no sign, fraction, exponent or leading zero. */
int h2d_scan_u64(struct h2d_scan *s, uint64_t *out);
/** Check and pass over any value. */
int h2d_scan_skip(struct h2d_scan *s);

#endif

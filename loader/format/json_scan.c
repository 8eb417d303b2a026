/* SPDX-License-Identifier: Apache-2.0 */
#include "format/json_scan.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/json.h"
#include "format/format.h"

int h2d_scan_fail(const struct h2d_scan *s, const unsigned char *at, const char *fmt, ...)
{
	unsigned long long offset = s->base_offset + (uint64_t)(at - s->base);
	struct h2d_shown name;
	char rule[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(rule, sizeof(rule), fmt, ap);
	va_end(ap);
	if (!s->tensor.data)
		return h2d_fail(s->log, H2D_E_FORMAT, "%s: %s: %s (offset %llu)", s->path,
				s->field ? s->field : "header", rule, offset);
	h2d_show_name(&name, s->tensor.data, s->tensor.bytes);
	return h2d_fail(s->log, H2D_E_FORMAT, "%s: tensor \"%s\": %s%s%s (offset %llu)",
			s->path, name.text, s->field ? s->field : "", s->field ? ": " : "",
			rule, offset);
}

int h2d_scan_unexpected(const struct h2d_scan *s, const char *what)
{
	if (s->p == s->end)
		return h2d_scan_fail(s, s->p, "the header ends where %s was expected", what);
	if (*s->p > ' ' && *s->p < 0x7f)
		return h2d_scan_fail(s, s->p, "'%c' where %s was expected", *s->p, what);
	return h2d_scan_fail(s, s->p, "byte 0x%02x where %s was expected", *s->p, what);
}

/* First byte from p on that is not plain text of a string: a quote, a backslash, a control
 * character or a byte of a longer UTF-8 sequence. Eight bytes at a time; reads at most seven
 * bytes behind it, which the pad allows. */
static unsigned char *plain(unsigned char *p)
{
	const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;

	for (;; p += 8) {
		uint64_t v, quote, slash, found;

		memcpy(&v, p, 8);
		v = le64toh(v);
		quote = v ^ ones * '"';
		slash = v ^ ones * '\\';
		/* Bits above the lowest set one may be false, which does not matter. */
		found = (((quote - ones) & ~quote) | ((slash - ones) & ~slash) |
			 ((v - ones * 0x20) & ~v) | v) &
			highs;
		if (found)
			return p + (__builtin_ctzll(found) >> 3);
	}
}

static int hex4(const unsigned char *p, uint32_t *out)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++) {
		unsigned char c = p[i], lower = c | 0x20;

		if (c >= '0' && c <= '9')
			v = v << 4 | (c - '0');
		else if (lower >= 'a' && lower <= 'f')
			v = v << 4 | (lower - 'a' + 10u);
		else
			return -1;
	}
	*out = v;
	return 0;
}

static unsigned char *put_utf8(unsigned char *w, uint32_t c)
{
	if (c < 0x80) {
		*w++ = (unsigned char)c;
		return w;
	}
	if (c < 0x800) {
		*w++ = (unsigned char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*w++ = (unsigned char)(0xe0 | c >> 12);
		} else {
			*w++ = (unsigned char)(0xf0 | c >> 18);
			*w++ = (unsigned char)(0x80 | (c >> 12 & 0x3f));
		}
		*w++ = (unsigned char)(0x80 | (c >> 6 & 0x3f));
	}
	*w++ = (unsigned char)(0x80 | (c & 0x3f));
	return w;
}

/* `*p` on the backslash; both pointers are moved on. What is written is never longer than what
 * was read, so decoding in place is safe. */
static int escape(const struct h2d_scan *s, unsigned char **p, unsigned char **w)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	unsigned char *at = *p;
	const char *hit;
	uint32_t c, low;

	if (at[1] != 'u') {
		hit = at[1] ? strchr(from, at[1]) : NULL;
		if (!hit)
			return h2d_scan_fail(s, at, "unknown escape in a string");
		*(*w)++ = (unsigned char)to[hit - from];
		*p = at + 2;
		return 0;
	}
	if (hex4(at + 2, &c))
		return h2d_scan_fail(s, at, "\\u without four hexadecimal digits");
	*p = at + 6;
	if (c >= 0xdc00 && c <= 0xdfff)
		return h2d_scan_fail(s, at, "lone surrogate in a string");
	if (c >= 0xd800 && c <= 0xdbff) {
		if (at[6] != '\\' || at[7] != 'u' || hex4(at + 8, &low) || low < 0xdc00 ||
		    low > 0xdfff)
			return h2d_scan_fail(s, at, "lone surrogate in a string");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		*p = at + 12;
	}
	*w = put_utf8(*w, c);
	return 0;
}

int h2d_scan_string(struct h2d_scan *s, struct h2d_text *out)
{
	unsigned char *p, *w = NULL, *begin = s->p + 1;

	if (*s->p != '"')
		return h2d_scan_unexpected(s, "a string");
	for (p = begin;;) {
		unsigned char *from = p;
		size_t len;

		p = plain(p);
		while (*p >= 0x80) {
			len = h2d_utf8_length(p, (size_t)(s->end - p));
			if (!len)
				return h2d_scan_fail(s, p, "string is not valid UTF-8");
			p += len;
			p = *p >= 0x80 ? p : plain(p);
		}
		if (w) {
			memmove(w, from, (size_t)(p - from));
			w += p - from;
		}
		if (*p == '"')
			break;
		if (*p != '\\') {
			if (p == s->end)
				return h2d_scan_fail(s, p, "the header ends inside a string");
			return h2d_scan_fail(s, p, "raw control character 0x%02x in a string",
					     *p);
		}
		w = w ? w : p;
		if (escape(s, &p, &w))
			return H2D_E_FORMAT;
	}
	w = w ? w : p;
	*w = 0;
	out->data = (char *)begin;
	out->bytes = (uint32_t)(w - begin);
	s->p = p + 1;
	return 0;
}

int h2d_scan_key(struct h2d_scan *s, struct h2d_text *out)
{
	int rc = h2d_scan_string(s, out);

	if (rc)
		return rc;
	if (*s->p == ':') {
		s->p++;
	} else {
		rc = h2d_scan_expect(s, ':', "':'");
		if (rc)
			return rc;
	}
	h2d_scan_space(s);
	return 0;
}

int h2d_scan_u64(struct h2d_scan *s, uint64_t *out)
{
	unsigned char *p = s->p;
	uint64_t v = 0;

	if (*p < '0' || *p > '9') {
		if (*p == '-')
			return h2d_scan_fail(s, p, "negative number");
		return h2d_scan_unexpected(s, "an unsigned integer");
	}
	if (*p == '0' && p[1] >= '0' && p[1] <= '9')
		return h2d_scan_fail(s, p, "number with a leading zero");
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return h2d_scan_fail(s, s->p, "number passes 2^64 - 1");
	if (*p == '.' || *p == 'e' || *p == 'E')
		return h2d_scan_fail(s, s->p, "number is not written as an integer");
	*out = v;
	s->p = p;
	return 0;
}

static unsigned char *digits(unsigned char *p)
{
	while (*p >= '0' && *p <= '9')
		p++;
	return p;
}

static int skip_number(struct h2d_scan *s)
{
	unsigned char *p = s->p, *from;

	p += *p == '-';
	from = p;
	p = digits(p);
	if (p == from || (*from == '0' && p - from > 1))
		return h2d_scan_fail(s, s->p, "malformed number");
	if (*p == '.') {
		from = p + 1;
		p = digits(from);
		if (p == from)
			return h2d_scan_fail(s, s->p, "malformed number");
	}
	if (*p == 'e' || *p == 'E') {
		p++;
		p += *p == '+' || *p == '-';
		from = p;
		p = digits(from);
		if (p == from)
			return h2d_scan_fail(s, s->p, "malformed number");
	}
	s->p = p;
	return 0;
}

static bool pass_word(struct h2d_scan *s, const char *word, size_t n)
{
	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n))
		return false;
	s->p += n;
	return true;
}

static int skip_scalar(struct h2d_scan *s)
{
	struct h2d_text text;

	if (*s->p == '"')
		return h2d_scan_string(s, &text);
	if (*s->p == '-' || (*s->p >= '0' && *s->p <= '9'))
		return skip_number(s);
	if (pass_word(s, "true", 4) || pass_word(s, "false", 5) || pass_word(s, "null", 4))
		return 0;
	return h2d_scan_unexpected(s, "a value");
}

int h2d_scan_skip(struct h2d_scan *s)
{
	unsigned char close[H2D_SCAN_DEPTH_MAX];
	unsigned depth = 0;
	struct h2d_text key;
	bool more;
	int rc;

	for (;;) {
		unsigned char open = *s->p;

		if (open == '{' || open == '[') {
			if (depth == H2D_SCAN_DEPTH_MAX)
				return h2d_scan_fail(s, s->p, "nested more than %d deep",
						     H2D_SCAN_DEPTH_MAX);
			close[depth++] = open == '{' ? '}' : ']';
			s->p++;
			more = h2d_scan_first(s, close[depth - 1]);
			depth -= !more;
		} else {
			rc = skip_scalar(s);
			if (rc)
				return rc;
			more = false;
		}
		while (!more && depth) {
			rc = h2d_scan_next(s, close[depth - 1], &more);
			if (rc)
				return rc;
			depth -= !more;
		}
		if (!depth)
			return 0;
		if (close[depth - 1] == '}') {
			rc = h2d_scan_key(s, &key);
			if (rc)
				return rc;
		}
	}
}

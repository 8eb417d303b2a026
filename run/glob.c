/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "run/glob.h"

/* The set that begins behind '[': its end, behind ']', or NULL if it has none. */
static const char *set(const char *p, const char *end, unsigned char c, bool *in)
{
	bool negated = p < end && (*p == '!' || *p == '^');
	const char *first;

	p += negated;
	*in = false;
	for (first = p; p < end && (*p != ']' || p == first); p++) {
		unsigned char low = (unsigned char)*p, high = low;

		if (end - p > 2 && p[1] == '-' && p[2] != ']') {
			high = (unsigned char)p[2];
			p += 2;
		}
		*in |= low <= c && c <= high;
	}
	*in ^= negated;
	return p < end ? p + 1 : NULL;
}

/* One element of the pattern against one character; the pattern behind it, or NULL. */
static const char *one(const char *p, const char *end, char c)
{
	const char *behind;
	bool in;

	if (*p == '?')
		return p + 1;
	if (*p == '[') {
		behind = set(p + 1, end, (unsigned char)c, &in);
		if (behind)
			return in ? behind : NULL;
	} else if (*p == '\\' && end - p > 1) {
		p++;
	}
	return *p == c ? p + 1 : NULL;
}

static bool match(const char *p, const char *end, const char *text)
{
	const char *star = NULL, *from = NULL;

	while (*text) {
		const char *behind = NULL;

		if (p < end && *p == '*') {
			star = ++p;
			from = text;
			continue;
		}
		if (p < end)
			behind = one(p, end, *text);
		if (behind) {
			p = behind;
			text++;
		} else if (star) {
			p = star;
			text = ++from;
		} else {
			return false;
		}
	}
	while (p < end && *p == '*')
		p++;
	return p == end;
}

bool ro_glob(const char *patterns, const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	while (*patterns) {
		const char *end = strchrnul(patterns, ':');
		bool whole = memchr(patterns, '/', (size_t)(end - patterns)) != NULL;

		if (end > patterns && match(patterns, end, whole ? path : name))
			return true;
		patterns = *end ? end + 1 : end;
	}
	return false;
}

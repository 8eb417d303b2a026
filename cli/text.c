/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <string.h>

#include "core/json.h"

void h2d_text_bytes(char *out, size_t cap, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t unit = 0;

	/* 1023.995 would print as 1024.00. */
	while (value >= (unit ? 1023.995 : 1024) && unit < 6) {
		value /= 1024;
		unit++;
	}
	snprintf(out, cap, "%.*f %s", unit ? 2 : 0, value, units[unit]);
}

void h2d_text_ns(char *out, size_t cap, uint64_t ns)
{
	if (ns < 1000)
		snprintf(out, cap, "%u ns", (unsigned)ns);
	else if (ns < 1000000)
		snprintf(out, cap, "%.3g us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(out, cap, "%.3g ms", (double)ns / 1e6);
	else
		snprintf(out, cap, "%.2f s", (double)ns / 1e9);
}

void h2d_text_about(char *out, size_t cap, uint64_t ns)
{
	const uint64_t s = ns / 1000000000;

	if (s < 10)
		snprintf(out, cap, "under 10 s");
	else if (s < 55)
		snprintf(out, cap, "about %u s", (unsigned)((s + 5) / 10 * 10));
	else if (s < 5400)
		snprintf(out, cap, "about %u min", (unsigned)((s + 30) / 60));
	else
		snprintf(out, cap, "about %u h", (unsigned)((s + 1800) / 3600));
}

static uint32_t code_point(const unsigned char *s, size_t n)
{
	uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);

	for (size_t i = 1; i < n; i++)
		c = c << 6 | (s[i] & 0x3f);
	return c;
}

/* Length of the sequence at `s` when it may be printed as it is, else 0. */
static size_t printable(const unsigned char *s, size_t left)
{
	size_t n = h2d_utf8_length(s, left);
	uint32_t c;

	if (!n)
		return 0;
	c = code_point(s, n);
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return 0;
	/* Directional marks, embeddings, overrides and isolates; line separators. */
	if (c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
	    (c >= 0x2066 && c <= 0x2069))
		return 0;
	return n;
}

bool h2d_text_is_safe(const void *data, size_t bytes)
{
	const unsigned char *s = data;

	for (size_t i = 0, n; i < bytes; i += n) {
		n = printable(s + i, bytes - i);
		if (!n)
			return false;
	}
	return true;
}

void h2d_text_safe(FILE *out, const void *data, size_t bytes)
{
	const unsigned char *s = data;

	for (size_t i = 0; i < bytes;) {
		size_t n = printable(s + i, bytes - i);

		if (n)
			fwrite(s + i, 1, n, out);
		else
			fprintf(out, "\\x%02x", s[i]);
		i += n ? n : 1;
	}
}

void h2d_text_safe_lines(FILE *out, const void *data, size_t bytes)
{
	const char *s = data, *end = s + bytes;

	while (s < end) {
		size_t n = 0;

		while (s + n < end && s[n] != '\n' && s[n] != '\t')
			n++;
		h2d_text_safe(out, s, n);
		s += n;
		if (s < end)
			fputc(*s++, out);
	}
}

void h2d_text_safe_copy(char *out, size_t cap, const void *data, size_t bytes)
{
	const unsigned char *s = data;
	size_t used = 0;

	for (size_t i = 0; i < bytes;) {
		size_t n = printable(s + i, bytes - i), need = n ? n : 4;

		if (used + need >= cap)
			break;
		if (n)
			memcpy(out + used, s + i, n);
		else
			snprintf(out + used, 5, "\\x%02x", s[i]);
		used += need;
		i += n ? n : 1;
	}
	out[used] = 0;
}

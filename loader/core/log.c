/* SPDX-License-Identifier: Apache-2.0 */
#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/json.h"

enum { LINE_BYTES = 1024 };

static void escape_line(char *out, size_t cap, const char *in)
{
	const unsigned char *s = (const unsigned char *)in;
	size_t n = strlen(in), o = 0;

	for (size_t i = 0; i < n;) {
		size_t len = h2d_utf8_length(s + i, n - i);
		size_t need = len && s[i] >= 0x20 && s[i] != 0x7f ? len : 4;

		if (o + need + 4 > cap) {
			memcpy(out + o, "\xe2\x80\xa6", 3);
			o += 3;
			break;
		}
		if (len && s[i] >= 0x20 && s[i] != 0x7f) {
			memcpy(out + o, s + i, len);
			i += len;
		} else {
			snprintf(out + o, 5, "\\x%02x", s[i]);
			i++;
		}
		o += need;
	}
	out[o] = 0;
}

static void emit(const struct h2d_log *log, enum h2d_log_level level, const char *raw)
{
	char line[LINE_BYTES];

	escape_line(line, sizeof(line), raw);
	log->fn(log->user, level, line);
}

void h2d_log_line(const struct h2d_log *log, enum h2d_log_level level, const char *fmt, ...)
{
	char raw[LINE_BYTES];
	va_list ap;

	if (!log || !log->fn)
		return;
	va_start(ap, fmt);
	vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	emit(log, level, raw);
}

int h2d_fail(const struct h2d_log *log, int status, const char *fmt, ...)
{
	char raw[LINE_BYTES];
	va_list ap;

	if (!log || !log->fn)
		return status;
	va_start(ap, fmt);
	vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	emit(log, H2D_LOG_ERROR, raw);
	return status;
}

static int errno_status(int err)
{
	switch (err) {
	case ENOENT:
	case ENOTDIR:
	case ELOOP:
	case ENAMETOOLONG:
		return H2D_E_NOT_FOUND;
	case EACCES:
	case EPERM:
		return H2D_E_PERMISSION;
	case ENOMEM:
		return H2D_E_NOMEM;
	default:
		return H2D_E_IO;
	}
}

int h2d_fail_errno(const struct h2d_log *log, int err, const char *fmt, ...)
{
	char raw[LINE_BYTES], sys[128];
	int n;
	va_list ap;

	if (!log || !log->fn)
		return errno_status(err);
	va_start(ap, fmt);
	n = vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(raw))
		snprintf(raw + n, sizeof(raw) - (size_t)n, ": %s",
			 strerror_r(err, sys, sizeof(sys)));
	emit(log, H2D_LOG_ERROR, raw);
	return errno_status(err);
}

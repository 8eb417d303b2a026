/* SPDX-License-Identifier: Apache-2.0 */
/* Several devices in one word: "cuda:0,cuda:1", "cuda:0,1", "cuda:0,gds=compat,hip:0". */
#include <stdio.h>
#include <string.h>

#include "transfer_options.h"

/* A comma ends a device, unless KEY=VALUE follows, which is an argument of it. */
static size_t device_bytes(const char *p)
{
	size_t n = strcspn(p, ",");

	while (p[n] == ',') {
		size_t more = strcspn(p + n + 1, ",");

		if (!memchr(p + n + 1, '=', more))
			break;
		n += 1 + more;
	}
	return n;
}

int h2d_device_list_next(const char **at, char *spec, size_t cap)
{
	size_t name = strcspn(spec, ":,"), n, digits;
	const char *p = *at;

	if (!p)
		return 0;
	n = device_bytes(p);
	*at = p[n] ? p + n + 1 : NULL;
	digits = strspn(p, "0123456789");
	/* A number alone is another device of the runtime before it. */
	if (spec[0] && digits && (digits == n || p[digits] == ',')) {
		if (name + 1 + n >= cap)
			return -1;
		spec[name] = ':';
		memcpy(spec + name + 1, p, n);
		spec[name + 1 + n] = 0;
		return 1;
	}
	if (n >= cap)
		return -1;
	memcpy(spec, p, n);
	spec[n] = 0;
	return 1;
}

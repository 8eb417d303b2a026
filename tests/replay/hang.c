/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into h2d: opening a file whose name begins with one of those in $HANG_AT (separated
 * by ':') never comes back, as with a driver that hangs.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) int open64(const char *path, int flags, ...);

static int hangs(const char *path)
{
	const char *at = getenv("HANG_AT");

	while (at && *at) {
		size_t n = strcspn(at, ":");

		if (n && !strncmp(path, at, n))
			return 1;
		at += n + (at[n] == ':');
	}
	return 0;
}

int open64(const char *path, int flags, ...)
{
	int (*next)(const char *, int, ...) =
		(int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	while (hangs(path))
		pause();
	return next(path, flags, mode);
}

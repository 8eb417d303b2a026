/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into h2d: opening a file whose name begins with one of those in $HANG_AT (separated
 * by ':') never comes back, as with a driver that hangs; one of those in $DIE_AT ends the
 * process. With $FORK_ERRNO no process can be started.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) int open64(const char *path, int flags, ...);
__attribute__((visibility("default"))) pid_t fork(void);

static int is_in(const char *variable, const char *path)
{
	const char *at = getenv(variable);

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
	if (is_in("DIE_AT", path))
		raise(SIGKILL);
	while (is_in("HANG_AT", path))
		pause();
	return next(path, flags, mode);
}

pid_t fork(void)
{
	pid_t (*next)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
	const char *number = getenv("FORK_ERRNO");

	if (!number)
		return next();
	errno = atoi(number);
	return -1;
}

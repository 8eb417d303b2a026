/* SPDX-License-Identifier: Apache-2.0 */
/* Two campaigns at once would measure each other. The lock is an abstract socket: it needs no
 * folder that everybody may write to, and goes away with its holder (unix(7)). */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "bench/run.h"

static int ask_owner(int fd, const struct sockaddr_un *a, socklen_t length)
{
	struct ucred who = {0};
	socklen_t bytes = sizeof(who);

	if (connect(fd, (const struct sockaddr *)a, length) ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes))
		return 0;
	return (int)who.pid;
}

static int try_lock(const char *name, int *owner, bool ask)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t length;

	*owner = 0;
	if (fd < 0)
		return -1;
	snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "%s", name ? name : "h2d-bench");
	length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			     strlen(a.sun_path + 1));
	if (!bind(fd, (const struct sockaddr *)&a, length) && !listen(fd, SOMAXCONN))
		return fd;
	/* Nobody accepts: every question stays in the queue. */
	if (ask)
		*owner = ask_owner(fd, &a, length);
	close(fd);
	return -1;
}

int h2d_bench_lock(const char *name, int *owner)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	int fd = try_lock(name, owner, false);

	/* A process that a killed campaign had just started holds it for a moment. */
	for (int i = 0; i < H2D_BENCH_LOCK_TRIES && fd < 0; i++) {
		nanosleep(&pause, NULL);
		fd = try_lock(name, owner, i + 1 == H2D_BENCH_LOCK_TRIES);
	}
	return fd;
}

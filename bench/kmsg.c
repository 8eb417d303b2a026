/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *h2d_bench_kmsg_message(char *record)
{
	char *message = strchr(record, ';');

	if (!message)
		return NULL;
	message++;
	message[strcspn(message, "\n")] = 0;
	return message;
}

void h2d_bench_kmsg_begin(struct h2d_bench_kmsg *k)
{
	memset(k, 0, sizeof(*k));
	k->fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (k->fd < 0) {
		k->error = errno;
	} else if (lseek(k->fd, 0, SEEK_END) < 0) {
		k->error = errno;
		close(k->fd);
		k->fd = -1;
	}
}

void h2d_bench_kmsg_collect(struct h2d_bench_kmsg *k)
{
	char record[8192]; /* a record is at most that long; a shorter buffer is EINVAL */

	/* Bounded, so that a storm cannot hold the runner. */
	for (int i = 0; k->fd >= 0 && i < 4096; i++) {
		const ssize_t n = read(k->fd, record, sizeof(record) - 1);
		const char *message;

		if (n < 0 && errno == EPIPE) { /* overwritten; the next read goes on */
			k->dropped_count++;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		record[n] = 0;
		message = h2d_bench_kmsg_message(record);
		if (!message)
			continue;
		if (k->count == H2D_BENCH_KMSG_LINES || !(k->lines[k->count] = strdup(message)))
			k->dropped_count++;
		else
			k->count++;
	}
}

void h2d_bench_kmsg_release(struct h2d_bench_kmsg *k)
{
	if (k->fd >= 0)
		close(k->fd);
	for (size_t i = 0; i < k->count; i++)
		free(k->lines[i]);
	memset(k, 0, sizeof(*k));
	k->fd = -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench/conditions.h"
#include "core/mem.h"

enum { LOCK_TRIES = 50 };

static int read_all(struct h2d_bench_events *e, char *text, size_t bytes,
		    const struct h2d_log *log)
{
	size_t done = 0;

	while (done < bytes) {
		const ssize_t n = pread(e->fd, text + done, bytes - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return h2d_fail_errno(log, n ? errno : EIO, "%s", e->path);
		done += (size_t)n;
	}
	return 0;
}

static int parse_lines(struct h2d_bench_events *e, const char *text, size_t bytes,
		       const struct h2d_log *log)
{
	size_t at = 0, number = 1;

	while (at < bytes) {
		const char *end = memchr(text + at, '\n', bytes - at);
		json_error_t error;
		json_t *line;

		if (!end) /* torn: it was never flushed whole */
			break;
		line = json_loadb(text + at, (size_t)(end - text) - at, JSON_REJECT_DUPLICATES,
				  &error);
		if (!line || !h2d_get_text(line, "event")) {
			json_decref(line);
			return h2d_fail(log, H2D_E_FORMAT, "%s: line %zu is no event", e->path,
					number);
		}
		json_array_append_new(e->lines, line);
		at = (size_t)(end - text) + 1;
		number++;
	}
	e->bytes = at;
	if (at < bytes && ftruncate(e->fd, (off_t)at))
		return h2d_fail_errno(log, errno, "%s", e->path);
	return 0;
}

int h2d_bench_events_open(struct h2d_bench_events *e, const char *path,
			  const struct h2d_log *log)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	struct stat st;
	char *text;
	int rc, locked;

	e->path = strdup(path);
	e->lines = json_array();
	e->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (!e->path || !e->lines)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
	if (e->fd < 0)
		return h2d_fail_errno(log, errno, "%s", path);
	/* As with the machine-wide lock, a dying child may hold it for a moment. */
	for (int i = 0; (locked = flock(e->fd, LOCK_EX | LOCK_NB)) && i < LOCK_TRIES; i++)
		nanosleep(&pause, NULL);
	if (locked)
		return h2d_fail(log, H2D_E_UNAVAILABLE, "%s: another campaign is writing it",
				path);
	if (fstat(e->fd, &st) || !S_ISREG(st.st_mode))
		return h2d_fail(log, H2D_E_FORMAT, "%s: not a regular file", path);
	text = h2d_mem->malloc((size_t)st.st_size + 1);
	if (!text)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
	rc = read_all(e, text, (size_t)st.st_size, log);
	if (!rc)
		rc = parse_lines(e, text, (size_t)st.st_size, log);
	free(text);
	return rc;
}

void h2d_bench_event_begin(struct h2d_json *j, const char *event)
{
	char now[32];

	h2d_bench_time_text(now);
	h2d_json_init_memory(j, false);
	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "event", event);
	h2d_json_string(j, "time_utc", now);
}

static int append(struct h2d_bench_events *e, const char *text, size_t bytes)
{
	size_t done = 0;
	int err = 0;

	while (done < bytes && !err) {
		const ssize_t n = write(e->fd, text + done, bytes - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			err = errno;
	}
	/* Filesystems without a device know no flushing. */
	if (!err && fdatasync(e->fd) && errno != EINVAL)
		err = errno;
	return err;
}

int h2d_bench_event_end(struct h2d_bench_events *e, struct h2d_json *j,
			const struct h2d_log *log)
{
	char *text;
	json_t *line;
	size_t bytes;
	int rc, err;

	h2d_json_object_end(j);
	rc = h2d_json_finish(j);
	text = h2d_json_take(j);
	if (rc || !text) {
		free(text);
		return h2d_fail(log, rc ? rc : H2D_E_NOMEM, "%s: an event cannot be written",
				e->path);
	}
	bytes = strlen(text);
	line = json_loadb(text, bytes, 0, NULL);
	if (!line) {
		free(text);
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", e->path);
	}
	err = append(e, text, bytes);
	if (err) {
		/* What is left of it would make the log unreadable. */
		if (ftruncate(e->fd, (off_t)e->bytes))
			rc = H2D_E_IO;
		rc = h2d_fail_errno(log, err, "%s", e->path);
		json_decref(line);
	} else {
		e->bytes += bytes;
		json_array_append(e->lines, line);
		if (e->show)
			e->show(e->user, text, line);
		json_decref(line);
	}
	free(text);
	return rc;
}

void h2d_bench_events_close(struct h2d_bench_events *e)
{
	if (e->fd >= 0)
		close(e->fd);
	free(e->path);
	json_decref(e->lines);
	*e = (struct h2d_bench_events){.fd = -1};
}

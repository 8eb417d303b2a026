/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"

enum { LANE_TID = 1000 }; /* thread numbers per reader: itself, then its slots */

struct event {
	const char *name; /* static */
	uint64_t begin_ns, end_ns;
	uint64_t file_offset, bytes; /* 0: not shown */
	uint32_t file, slot;	     /* slot 0: the reader's own row, else 1 + slot */
};

struct h2d_trace_lane {
	uint32_t reader;
	bool failed; /* an event could not be kept */
	struct event *events;
	uint64_t count, cap;
};

struct h2d_trace {
	FILE *file;
	char *path;
	bool created; /* by us, and so ours to remove */
	struct stat st;
	uint64_t began_ns;
	struct h2d_trace_lane *lanes;
	uint32_t lane_count;
};

/* Without O_TRUNC: a load that fails must not have cost the trace of an earlier one. */
static int open_file(struct h2d_trace *t)
{
	int fd = open(t->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666), err;

	t->created = fd >= 0;
	if (fd < 0 && errno == EEXIST)
		fd = open(t->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	t->file = fstat(fd, &t->st) ? NULL : fdopen(fd, "w");
	if (t->file)
		return 0;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

bool h2d_trace_over(const struct h2d_trace *t, const struct h2d_file_id *id)
{
	return t->st.st_dev == id->dev && t->st.st_ino == id->ino;
}

int h2d_trace_open(struct h2d_trace **out, const char *path, const struct h2d_log *log)
{
	size_t bytes = strlen(path) + 1;
	struct h2d_trace *t = h2d_mem->calloc(1, sizeof(*t));
	int rc = 0;

	*out = NULL;
	if (t)
		t->path = h2d_mem->malloc(bytes);
	if (!t || !t->path) {
		free(t);
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
	}
	memcpy(t->path, path, bytes);
	if (open_file(t)) {
		rc = h2d_fail_errno(log, errno, "%s: the trace cannot be written", path);
		h2d_trace_close(t, true, log);
		return rc;
	}
	t->began_ns = h2d_now_ns();
	*out = t;
	return 0;
}

int h2d_trace_attach(struct h2d_trace *t, struct h2d_reader *readers, uint32_t count)
{
	if (!t)
		return 0;
	t->lanes = h2d_mem->calloc(count, sizeof(*t->lanes));
	if (!t->lanes)
		return H2D_E_NOMEM;
	t->lane_count = count;
	for (uint32_t i = 0; i < count; i++) {
		t->lanes[i].reader = i;
		readers[i].lane = &t->lanes[i];
	}
	return 0;
}

static void add(struct h2d_trace_lane *l, const struct event *e)
{
	if (l->count == l->cap) {
		uint64_t cap = l->cap ? l->cap * 2 : 256;
		struct event *p = h2d_mem->realloc(l->events, cap * sizeof(*p));

		if (!p) {
			l->failed = true;
			return;
		}
		l->events = p;
		l->cap = cap;
	}
	l->events[l->count++] = *e;
}

static void add_chunk(struct h2d_reader *r, const struct h2d_slot *s, const char *name,
		      uint32_t row)
{
	add(r->lane, &(struct event){.name = name,
				     .begin_ns = s->began_ns,
				     .end_ns = h2d_now_ns(),
				     .file_offset = s->chunk->file_offset,
				     .bytes = s->chunk->bytes,
				     .file = s->chunk->file,
				     .slot = row});
}

void h2d_trace_read(struct h2d_reader *r, const struct h2d_slot *s)
{
	/* Reads in the background overlap: they are shown with their slot. */
	if (r->lane)
		add_chunk(r, s, "read",
			  h2d_sources[s->chunk->source]->finish ? 1 + s->index : 0);
}

void h2d_trace_copy(struct h2d_reader *r, const struct h2d_slot *s)
{
	if (r->lane)
		add_chunk(r, s, "copy", 1 + s->index);
}

void h2d_trace_wait(struct h2d_reader *r, const char *what, uint64_t start_ns)
{
	if (r->lane)
		add(r->lane, &(struct event){.name = what,
					     .begin_ns = start_ns,
					     .end_ns = h2d_now_ns()});
}

static void write_name(struct h2d_json *j, uint32_t reader, uint32_t row)
{
	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "ph", "M");
	h2d_json_string(j, "name", "thread_name");
	h2d_json_u64(j, "pid", 1);
	h2d_json_u64(j, "tid", (uint64_t)reader * LANE_TID + row);
	h2d_json_object_begin(j, "args");
	if (row)
		h2d_json_stringf(j, "name", "reader %u, slot %u", reader, row - 1);
	else
		h2d_json_stringf(j, "name", "reader %u", reader);
	h2d_json_object_end(j);
	h2d_json_object_end(j);
}

static void write_event(struct h2d_json *j, const struct h2d_trace *t, uint32_t reader,
			const struct event *e)
{
	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "ph", "X");
	h2d_json_string(j, "name", e->name);
	h2d_json_u64(j, "pid", 1);
	h2d_json_u64(j, "tid", (uint64_t)reader * LANE_TID + e->slot);
	h2d_json_double(j, "ts", (double)(e->begin_ns - t->began_ns) / 1e3);
	h2d_json_double(j, "dur", (double)(e->end_ns - e->begin_ns) / 1e3);
	if (e->bytes) {
		h2d_json_object_begin(j, "args");
		h2d_json_u64(j, "file", e->file);
		h2d_json_u64(j, "offset_bytes", e->file_offset);
		h2d_json_u64(j, "size_bytes", e->bytes);
		h2d_json_object_end(j);
	}
	h2d_json_object_end(j);
}

static int write_trace(struct h2d_trace *t, const struct h2d_log *log)
{
	struct h2d_json j;
	int rc = 0;

	if (S_ISREG(t->st.st_mode) && ftruncate(fileno(t->file), 0))
		return h2d_fail_errno(log, errno, "%s: the trace cannot be written", t->path);
	h2d_json_init_file(&j, t->file, false);
	h2d_json_object_begin(&j, NULL);
	h2d_json_string(&j, "displayTimeUnit", "ms");
	h2d_json_array_begin(&j, "traceEvents");
	for (uint32_t i = 0; i < t->lane_count; i++) {
		const struct h2d_trace_lane *l = &t->lanes[i];
		uint32_t rows = 0;

		if (l->failed)
			rc = H2D_E_NOMEM;
		for (uint64_t k = 0; k < l->count; k++)
			rows = l->events[k].slot > rows ? l->events[k].slot : rows;
		for (uint32_t row = 0; row <= rows; row++)
			write_name(&j, l->reader, row);
		for (uint64_t k = 0; k < l->count; k++)
			write_event(&j, t, l->reader, &l->events[k]);
	}
	h2d_json_array_end(&j);
	h2d_json_object_end(&j);
	if (rc)
		h2d_fail(log, rc, "%s: out of memory for the trace", t->path);
	else if (h2d_json_finish(&j))
		rc = h2d_fail(log, H2D_E_IO, "%s: the trace cannot be written", t->path);
	return rc;
}

int h2d_trace_close(struct h2d_trace *t, bool discard, const struct h2d_log *log)
{
	int rc = 0;

	if (!t)
		return 0;
	if (t->file) {
		rc = discard ? 0 : write_trace(t, log);
		if (fclose(t->file) && !rc && !discard)
			rc = h2d_fail_errno(log, errno, "%s: the trace cannot be written",
					    t->path);
	}
	if (t->created && (discard || rc))
		unlink(t->path);
	for (uint32_t i = 0; i < t->lane_count; i++)
		free(t->lanes[i].events);
	free(t->lanes);
	free(t->path);
	free(t);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Sets probes, histograms and the instance up, reads them, and takes all of it away again. */
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hostfs.h"
#include "h2d/h2d.h"

enum {
	BUFFER_KIB = 4096,		/* of each processor, for recorded calls */
	CALLS_ACTIVE_MAX = 512,		/* of one function at a time, for its return probe */
	HISTOGRAM_BYTES_MAX = 64 << 20, /* as text */
};

/* One write is one command; files of tracefs must not be truncated unless that is meant. */
static int put(const char *path, const char *text, int flags)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags), rc = 0;
	size_t n = strlen(text);
	ssize_t done;

	if (fd < 0)
		return -errno;
	do
		done = write(fd, text, n);
	while (done < 0 && errno == EINTR);
	if (done != (ssize_t)n)
		rc = done < 0 ? -errno : -EIO;
	if (close(fd) && !rc)
		rc = -errno;
	return rc;
}

__attribute__((format(printf, 2, 3))) static int put_instance(const struct h2d_trace_session *s,
							      const char *fmt, ...)
{
	char file[160], path[320], *value;
	va_list ap;

	/* "FILE VALUE" */
	va_start(ap, fmt);
	vsnprintf(file, sizeof(file), fmt, ap);
	va_end(ap);
	value = strchr(file, ' ');
	*value++ = 0;
	snprintf(path, sizeof(path), "%s/%s", s->instance, file);
	return put(path, value, 0);
}

/* ---- probes ---- */

static int add_probe(struct h2d_trace_session *s, int f, bool is_return)
{
	const struct h2d_trace_target *t = &s->targets[f];
	const char *colon = t->module ? ":" : "", *module = t->module ? t->module : "";
	const char *event = h2d_trace_event_names[f];
	char path[96], text[320];

	snprintf(path, sizeof(path), "%s/kprobe_events", s->tracefs);
	if (is_return)
		snprintf(text, sizeof(text), "r%d:%s/%s_out %s%s%s ret=$retval:s32",
			 CALLS_ACTIVE_MAX, s->group, event, module, colon, t->symbol);
	else
		snprintf(text, sizeof(text), "p:%s/%s_in %s%s%s", s->group, event, module,
			 colon, t->symbol);
	return put(path, text, O_APPEND);
}

static int remove_event(const struct h2d_trace_session *s, const char *file, const char *text)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/%s", s->tracefs, file);
	return put(path, text, O_APPEND);
}

static void remove_probe(const struct h2d_trace_session *s, const char *event, const char *end)
{
	char text[128];

	snprintf(text, sizeof(text), "-:%s/%s%s", s->group, event, end);
	remove_event(s, "kprobe_events", text);
}

static void give_up(struct h2d_trace_session *s, int f, int rc)
{
	struct h2d_trace_target *t = &s->targets[f];
	char symbol[sizeof(
		t->symbol)]; /* GCC under sanitizers sees `why` overlap its neighbour */

	memcpy(symbol, t->symbol, sizeof(symbol));
	remove_probe(s, h2d_trace_event_names[f], "_in");
	remove_probe(s, h2d_trace_event_names[f], "_out");
	snprintf(t->why, sizeof(t->why), "no probe can be set on %s: %s", symbol,
		 rc == -EADDRNOTAVAIL ? "the name stands for several functions"
				      : strerror(-rc));
	t->symbol[0] = 0;
}

static int add_probes(struct h2d_trace_session *s)
{
	struct h2d_trace_target *t = s->targets;

	s->made_probes = true;
	for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++) {
		int rc;

		if (!t[f].symbol[0])
			continue;
		rc = add_probe(s, f, false);
		if (!rc)
			rc = add_probe(s, f, true);
		if (rc)
			give_up(s, f, rc);
	}
	if (!t[H2D_TRACE_FAULT].symbol[0])
		h2d_trace_reason(s, "probe: %s", t[H2D_TRACE_FAULT].why);
	else if (!t[H2D_TRACE_PAGES].symbol[0] && !t[H2D_TRACE_EMULATED].symbol[0])
		h2d_trace_reason(s, "probe: %s", t[H2D_TRACE_PAGES].why);
	else
		return 0;
	return H2D_E_UNAVAILABLE;
}

/* ---- histograms ---- */

__attribute__((format(printf, 3, 4))) static int
add_trigger(struct h2d_trace_session *s, const char *event, const char *fmt, ...)
{
	char path[320];
	va_list ap;
	int rc;

	if (s->trigger_count == H2D_TRACE_TRIGGERS_MAX)
		return -ENOSPC;
	snprintf(s->triggers[s->trigger_count].event, sizeof(s->triggers[0].event), "%s",
		 event);
	va_start(ap, fmt);
	vsnprintf(s->triggers[s->trigger_count].text, sizeof(s->triggers[0].text), fmt, ap);
	va_end(ap);
	snprintf(path, sizeof(path), "%s/events/%s/trigger", s->instance, event);
	rc = put(path, s->triggers[s->trigger_count].text, 0);
	if (!rc)
		s->trigger_count++;
	return rc;
}

static int add_synthetic(struct h2d_trace_session *s, int which, const char *fields)
{
	char text[128], path[96];
	int rc;

	snprintf(path, sizeof(path), "%s/synthetic_events", s->tracefs);
	snprintf(text, sizeof(text), "%s_%s %s", s->group, which ? "inside" : "times", fields);
	rc = put(path, text, O_APPEND);
	s->made_synthetic[which] = !rc;
	return rc;
}

/* How long each call of hmm_range_fault took: a synthetic event holds begin and end together.
 */
static int add_times(struct h2d_trace_session *s, const char *in, const char *out)
{
	char event[96];
	int rc = add_synthetic(s, 0, "u64 lat; s32 ret");

	if (!rc)
		rc = add_trigger(s, in,
				 "hist:keys=common_pid:h2d_t=common_timestamp:size=8192:"
				 "clock=mono");
	if (!rc)
		rc = add_trigger(s, out,
				 "hist:keys=common_pid:h2d_l=common_timestamp-$h2d_t:size=8192:"
				 "clock=mono:onmatch(%s.fault_in).trace(%s_times,$h2d_l,ret)",
				 s->group, s->group);
	snprintf(event, sizeof(event), "synthetic/%s_times", s->group);
	if (!rc)
		rc = add_trigger(s, event, "hist:keys=common_pid,lat.log2:vals=lat:size=16384");
	return rc;
}

/* In which outer call each call of hmm_range_fault happened: told by when that one began. */
static int add_inside(struct h2d_trace_session *s, const char *out)
{
	char event[96];
	int rc = add_synthetic(s, 1, "u64 outer; s32 ret");

	for (int f = 0; !rc && f < H2D_TRACE_FUNCTIONS; f++) {
		const char *name = h2d_trace_event_names[f];

		if (!h2d_trace_is_outer((enum h2d_trace_function)f) || !s->targets[f].symbol[0])
			continue;
		snprintf(event, sizeof(event), "%s/%s_in", s->group, name);
		rc = add_trigger(s, event,
				 "hist:keys=common_pid:h2d_o%d=common_timestamp:size=8192:"
				 "clock=mono",
				 f);
		if (!rc)
			rc = add_trigger(s, out,
					 "hist:keys=common_pid:h2d_x%d=$h2d_o%d:size=8192:"
					 "clock=mono:onmatch(%s.%s_in).trace(%s_inside,"
					 "$h2d_x%d,ret)",
					 f, f, s->group, name, s->group, f);
	}
	snprintf(event, sizeof(event), "synthetic/%s_inside", s->group);
	if (!rc)
		rc = add_trigger(s, event, "hist:keys=common_pid,outer,ret:size=65536");
	return rc;
}

static int add_histograms(struct h2d_trace_session *s)
{
	char in[64], out[64];
	int rc;

	snprintf(in, sizeof(in), "%s/fault_in", s->group);
	snprintf(out, sizeof(out), "%s/fault_out", s->group);
	rc = add_trigger(s, out, "hist:keys=common_pid,ret:size=8192");
	if (rc) {
		h2d_trace_reason(s, "histogram: the kernel refuses it: %s", strerror(-rc));
		return H2D_E_UNAVAILABLE;
	}
	rc = s->inside_why[0] ? 0 : add_inside(s, out);
	if (rc)
		snprintf(s->inside_why, sizeof(s->inside_why),
			 "the kernel refuses the histogram of calls inside: %s", strerror(-rc));
	rc = s->times_why[0] ? 0 : add_times(s, in, out);
	if (rc)
		snprintf(s->times_why, sizeof(s->times_why),
			 "the kernel refuses the histogram of durations: %s", strerror(-rc));
	return 0;
}

/* ---- start and stop ---- */

static int enable(struct h2d_trace_session *s)
{
	int rc = put_instance(s, "events/task/task_newtask/enable 1");

	for (int f = 0; f < H2D_TRACE_FUNCTIONS && !rc; f++) {
		/* Counted in the kernel, not recorded. */
		if (f == H2D_TRACE_FAULT || !s->targets[f].symbol[0])
			continue;
		rc = put_instance(s, "events/%s/%s_in/enable 1", s->group,
				  h2d_trace_event_names[f]);
		if (!rc)
			rc = put_instance(s, "events/%s/%s_out/enable 1", s->group,
					  h2d_trace_event_names[f]);
	}
	return rc;
}

int h2d_trace_start(struct h2d_trace_session *s)
{
	char path[128];
	int rc;

	snprintf(s->group, sizeof(s->group), "h2d_%d", (int)getpid());
	snprintf(s->instance, sizeof(s->instance), "%s/instances/%s", s->tracefs, s->group);
	if (mkdir(s->instance, 0700)) {
		h2d_trace_reason(s, "instance: %s: %s", s->instance, strerror(errno));
		return H2D_E_UNAVAILABLE;
	}
	s->made_instance = true;
	rc = put_instance(s, "trace_clock mono");
	if (!rc)
		rc = put_instance(s, "buffer_size_kb %d", BUFFER_KIB);
	if (rc) {
		h2d_trace_reason(s, "instance: %s: %s", s->instance, strerror(-rc));
		return H2D_E_UNAVAILABLE;
	}
	rc = add_probes(s);
	if (!rc)
		rc = add_histograms(s);
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "%s/trace_pipe", s->instance);
	s->pipe = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	rc = s->pipe < 0 ? -errno : enable(s);
	if (rc) {
		h2d_trace_reason(s, "instance: events cannot be read or enabled: %s",
				 strerror(-rc));
		return H2D_E_UNAVAILABLE;
	}
	return 0;
}

void h2d_trace_pause(struct h2d_trace_session *s)
{
	if (!s->made_instance)
		return;
	put_instance(s, "tracing_on 0");
	for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++) {
		if (f == H2D_TRACE_FAULT || !s->targets[f].symbol[0])
			continue;
		put_instance(s, "events/%s/%s_in/enable 0", s->group, h2d_trace_event_names[f]);
		put_instance(s, "events/%s/%s_out/enable 0", s->group,
			     h2d_trace_event_names[f]);
	}
}

int h2d_trace_stop(struct h2d_trace_session *s, const struct h2d_log *log)
{
	char path[320], text[320];
	int rc = 0, err;

	if (s->pipe >= 0)
		close(s->pipe);
	s->pipe = -1;
	/* Later ones use the variables of earlier ones. */
	while (s->trigger_count) {
		s->trigger_count--;
		snprintf(path, sizeof(path), "%s/events/%s/trigger", s->instance,
			 s->triggers[s->trigger_count].event);
		snprintf(text, sizeof(text), "!%s", s->triggers[s->trigger_count].text);
		err = put(path, text, 0);
		if (err)
			rc = err;
	}
	if (s->made_instance && rmdir(s->instance))
		rc = -errno;
	for (int i = 0; i < 2; i++) {
		if (!s->made_synthetic[i])
			continue;
		snprintf(text, sizeof(text), "!%s_%s", s->group, i ? "inside" : "times");
		err = remove_event(s, "synthetic_events", text);
		if (err)
			rc = err;
	}
	for (int f = 0; f < H2D_TRACE_FUNCTIONS && s->made_probes; f++) {
		if (!s->targets[f].symbol[0])
			continue;
		remove_probe(s, h2d_trace_event_names[f], "_in");
		remove_probe(s, h2d_trace_event_names[f], "_out");
	}
	s->made_instance = s->made_probes = false;
	s->made_synthetic[0] = s->made_synthetic[1] = false;
	if (!rc)
		return 0;
	h2d_log_line(log, H2D_LOG_ERROR, "%s: something of the tracing is left behind: %s",
		     s->instance, strerror(-rc));
	return H2D_E_IO;
}

/* ---- reading ---- */

static void lines(struct h2d_trace_session *s, struct h2d_trace_counts *c)
{
	char *at = s->part, *end = s->part + s->part_bytes, *newline;

	while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
		if (s->skipping)
			c->malformed_count++;
		else if (newline > at)
			h2d_trace_line(c, at, (size_t)(newline - at));
		s->skipping = false;
		at = newline + 1;
	}
	s->part_bytes = (size_t)(end - at);
	memmove(s->part, at, s->part_bytes);
	if (s->part_bytes == sizeof(s->part)) {
		s->skipping = true;
		s->part_bytes = 0;
	}
}

void h2d_trace_drain(struct h2d_trace_session *s, struct h2d_trace_counts *c)
{
	ssize_t n;

	if (s->pipe < 0)
		return;
	for (;;) {
		n = read(s->pipe, s->part + s->part_bytes, sizeof(s->part) - s->part_bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		s->part_bytes += (size_t)n;
		lines(s, c);
	}
}

static void histogram(struct h2d_trace_session *s, struct h2d_trace_counts *c,
		      enum h2d_trace_histogram which, const char *event)
{
	char path[320], *text;
	size_t bytes;

	snprintf(path, sizeof(path), "%s/events/%s/hist", s->instance, event);
	if (h2d_hostfs_read_all(NULL, path, HISTOGRAM_BYTES_MAX, &text, &bytes)) {
		c->failed = true;
		return;
	}
	if (bytes == HISTOGRAM_BYTES_MAX)
		c->failed = true;
	h2d_trace_histogram(c, which, text);
	free(text);
}

static uint64_t field(const char *text, const char *key)
{
	char value[32];

	return h2d_text_field(text, key, value, sizeof(value)) > 0 ? strtoull(value, NULL, 10)
								   : 0;
}

/* What got lost on the way. */
static void losses(struct h2d_trace_session *s)
{
	char path[320], *text, *line, *rest, **names, name[64];
	unsigned long long hits, missed;
	size_t bytes;
	int n;

	s->overrun_count = s->missed_count = 0;
	snprintf(path, sizeof(path), "%s/per_cpu", s->instance);
	n = h2d_hostfs_list(NULL, path, &names);
	for (int i = 0; i < n; i++) {
		char stats[1024];

		snprintf(path, sizeof(path), "%s/per_cpu/%.32s/stats", s->instance, names[i]);
		if (h2d_hostfs_read(NULL, path, stats, sizeof(stats)) > 0)
			s->overrun_count +=
				field(stats, "overrun") + field(stats, "dropped events");
	}
	if (n >= 0)
		h2d_hostfs_list_free(names);
	snprintf(path, sizeof(path), "%s/kprobe_profile", s->tracefs);
	if (h2d_hostfs_read_all(NULL, path, 1 << 20, &text, &bytes))
		return;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (sscanf(line, "%63s %llu %llu", name, &hits, &missed) != 3)
			continue;
		for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++) {
			size_t k = strlen(h2d_trace_event_names[f]);

			if (!strncmp(name, h2d_trace_event_names[f], k) &&
			    (!strcmp(name + k, "_in") || !strcmp(name + k, "_out")))
				s->missed_count += missed;
		}
	}
	free(text);
}

void h2d_trace_update(struct h2d_trace_session *s, struct h2d_trace_counts *c,
		      uint32_t timeout_ms)
{
	char event[96];

	h2d_trace_histograms_begin(c);
	snprintf(event, sizeof(event), "%s/fault_out", s->group);
	histogram(s, c, H2D_TRACE_HIST_CALLS, event);
	snprintf(event, sizeof(event), "synthetic/%s_times", s->group);
	if (!s->times_why[0])
		histogram(s, c, H2D_TRACE_HIST_TIMES, event);
	snprintf(event, sizeof(event), "synthetic/%s_inside", s->group);
	if (!s->inside_why[0])
		histogram(s, c, H2D_TRACE_HIST_INSIDE, event);
	h2d_trace_windows(c, timeout_ms);
	losses(s);
}

/* ---- what killed ones left ---- */

/* Triggers in reverse: later ones use the variables of earlier ones. */
static void clear_triggers(const char *instance, const char *event)
{
	char path[320], *text, *line;
	size_t bytes;

	snprintf(path, sizeof(path), "%s/events/%s/trigger", instance, event);
	if (h2d_hostfs_read_all(NULL, path, 1 << 16, &text, &bytes))
		return;
	while (bytes) {
		char command[1024], *end;

		line = memrchr(text, '\n', bytes);
		line = line ? line + 1 : text;
		end = strstr(line, " [");
		if (end)
			*end = 0;
		snprintf(command, sizeof(command), "!%s", line);
		if (!strncmp(line, "hist:", 5))
			put(path, command, 0);
		bytes = line > text ? (size_t)(line - text) - 1 : 0;
		text[bytes] = 0;
	}
	free(text);
}

static void sweep(const struct h2d_trace_session *s, const char *group)
{
	struct h2d_trace_session old = *s;
	char event[96];

	snprintf(old.group, sizeof(old.group), "%s", group);
	snprintf(old.instance, sizeof(old.instance), "%s/instances/%s", s->tracefs, group);
	for (int i = 0; i < 2; i++) {
		snprintf(event, sizeof(event), "synthetic/%s_%s", group,
			 i ? "inside" : "times");
		clear_triggers(old.instance, event);
	}
	for (int i = 0; i < 2; i++) {
		snprintf(event, sizeof(event), "%s/fault_%s", group, i ? "in" : "out");
		clear_triggers(old.instance, event);
	}
	for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++) {
		snprintf(event, sizeof(event), "%s/%s_in", group, h2d_trace_event_names[f]);
		clear_triggers(old.instance, event);
	}
	rmdir(old.instance);
	for (int i = 0; i < 2; i++) {
		snprintf(event, sizeof(event), "!%s_%s", group, i ? "inside" : "times");
		remove_event(s, "synthetic_events", event);
	}
	for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++) {
		remove_probe(&old, h2d_trace_event_names[f], "_in");
		remove_probe(&old, h2d_trace_event_names[f], "_out");
	}
}

void h2d_trace_sweep(struct h2d_trace_session *s)
{
	char path[128], **names;

	snprintf(path, sizeof(path), "%s/instances", s->tracefs);
	if (h2d_hostfs_list(NULL, path, &names) < 0)
		return;
	for (char **n = names; *n; n++) {
		char *end;
		long pid = strncmp(*n, "h2d_", 4) ? 0 : strtol(*n + 4, &end, 10);

		if (pid > 0 && pid < 1 << 30 && !*end && strlen(*n) < 24 &&
		    kill((pid_t)pid, 0) && errno == ESRCH)
			sweep(s, *n);
	}
	h2d_hostfs_list_free(names);
}

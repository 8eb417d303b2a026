/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/sample.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "bench/conditions.h"
#include "bench/settle.h"
#include "core/clock.h"

enum {
	WAIT_MS = 100,	       /* between two looks at whether to stop */
	REAP_NS = 2000000000u, /* from the end of its stdout to its own */
	/* A fault maps what lies around it (fault_around_bytes, large folios), so that some of
	 * a tensor's pages come with its neighbour's. */
	PRESENT_NONE_MAX_PCT = 20,
	PHASES_MAX_COUNT = 64,
};

struct session {
	const struct h2d_bench_runner *runner;
	const struct h2d_bench_cell *cell;
	struct h2d_bench_sample *sample;
	struct h2d_bench_child child;
	struct h2d_bench_cgroup group;
	struct h2d_bench_schedule_saved saved;
	uint64_t deadline_ns;
	bool sampling, cancelled;
};

/* The sample ends here with that status; the first reason stands. */
__attribute__((format(printf, 3, 4))) static bool give_up(struct session *s, const char *status,
							  const char *fmt, ...)
{
	va_list ap;

	if (s->sample->status)
		return false;
	s->sample->status = status;
	va_start(ap, fmt);
	vsnprintf(s->sample->reason, sizeof(s->sample->reason), fmt, ap);
	va_end(ap);
	return false;
}

/* Killed by the kernel for want of memory: its group's counter says so, or the log. */
static bool killed_for_memory(struct session *s)
{
	char text[64];
	uint64_t kills = 0;

	if (s->group.dir[0] && !h2d_bench_cgroup_oom_kills(&s->group, &kills) && kills)
		return true;
	h2d_bench_kmsg_collect(&s->sample->kmsg);
	snprintf(text, sizeof(text), "Killed process %d (", (int)s->child.pid);
	for (size_t i = 0; i < s->sample->kmsg.count; i++)
		if (strstr(s->sample->kmsg.lines[i], text))
			return true;
	return false;
}

/* It stopped talking: it has ended, or will within a moment. */
static bool judge_end(struct session *s, const char *awaited)
{
	const uint64_t patience = h2d_now_ns() + REAP_NS;
	const struct timespec pause = {.tv_nsec = 2000000};
	int status;

	while (!h2d_bench_child_ended(&s->child) && h2d_now_ns() < patience)
		nanosleep(&pause, NULL);
	h2d_bench_child_read(&s->child);
	if (!s->child.reaped)
		return give_up(s, "failed", "closed its stdout before it said '%s'", awaited);
	status = s->child.wait_status;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && killed_for_memory(s))
		return give_up(s, "did_not_fit", "killed by the kernel for want of memory");
	if (WIFSIGNALED(status))
		return give_up(s, "killed", "ended by signal %d (%s) before it said '%s'",
			       WTERMSIG(status), strsignal(WTERMSIG(status)), awaited);
	return give_up(s, "failed", "ended with status %d before it said '%s'",
		       WEXITSTATUS(status), awaited);
}

static bool judge_error(struct session *s, const json_t *line)
{
	static const struct {
		const char *kind, *status;
	} kinds[] = {
		{"unsupported", "unsupported"},
		{"skipped", "skipped"},
		{"out_of_memory", "did_not_fit"},
		{"failed", "failed"},
	};
	const char *kind = h2d_get_text(line, "kind"), *message = h2d_get_text(line, "message");

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kind && !strcmp(kind, kinds[i].kind))
			return give_up(s, kinds[i].status, "%s", message ? message : kind);
	return give_up(s, "failed", "reported an error of unknown kind '%.64s'",
		       kind ? kind : "");
}

static bool judge_line(struct session *s, const char *awaited, json_t **out)
{
	json_error_t error;
	json_t *line = json_loads(s->child.line, JSON_REJECT_DUPLICATES, &error);
	const char *event = h2d_get_text(line, "event");
	bool good = false;

	if (!line)
		give_up(s, "failed", "wrote a line that is not JSON where '%s' was due: %.80s",
			awaited, s->child.line);
	else if (!event)
		give_up(s, "failed", "wrote a line without 'event' where '%s' was due",
			awaited);
	else if (!strcmp(event, "error"))
		judge_error(s, line);
	else if (strcmp(event, awaited))
		give_up(s, "failed", "said '%.64s' where '%s' was due", event, awaited);
	else
		good = true;
	h2d_bench_child_next(&s->child);
	if (good && out)
		*out = json_incref(line);
	json_decref(line);
	return good;
}

/* Sleep until there is something to read, a tick is due, or a moment has passed. */
static void wait_a_moment(struct session *s)
{
	struct pollfd fds[2] = {{.fd = s->child.out, .events = POLLIN},
				{.fd = s->child.err, .events = POLLIN}};
	int wait = s->sampling ? h2d_bench_sampler_tick(&s->sample->sampler) : WAIT_MS;

	poll(fds, 2, wait < WAIT_MS ? wait : WAIT_MS);
}

static bool out_of_time(struct session *s, const char *awaited)
{
	if (s->runner->stop && s->runner->stop(s->runner->user)) {
		s->cancelled = true;
		return !give_up(s, "failed", "cancelled");
	}
	if (h2d_now_ns() >= s->deadline_ns)
		return !give_up(s, "timeout", "no '%s' within %llu s; killed", awaited,
				(unsigned long long)s->runner->matrix->timeout_s);
	return false;
}

/* Wait for that line. false: the sample has its status. */
static bool await(struct session *s, const char *event, json_t **out)
{
	for (;;) {
		const int rc = h2d_bench_child_read(&s->child);

		if (rc == 1)
			return judge_line(s, event, out);
		if (rc == -EPIPE)
			return judge_end(s, event);
		if (rc == -EMSGSIZE)
			return give_up(s, "failed", "wrote a line of more than %d bytes",
				       H2D_BENCH_LINE_BYTES);
		if (rc < 0)
			return give_up(s, "failed", "cannot be read from: %s",
				       strerrordesc_np(-rc));
		if (out_of_time(s, event))
			return false;
		wait_a_moment(s);
	}
}

static bool say(struct session *s, const char *text, const char *awaited)
{
	const int rc = h2d_bench_child_send(&s->child, text, strlen(text));

	if (!rc)
		return true;
	if (rc == -EPIPE)
		return await(s, awaited, NULL) && give_up(s, "failed", "closed its stdin");
	return give_up(s, "failed", "cannot be written to: %s", strerrordesc_np(-rc));
}

static char *request(const struct session *s)
{
	const struct h2d_bench_cell *cell = s->cell;
	const struct h2d_bench_checkpoint *c = cell->checkpoint;
	struct h2d_json j;

	h2d_json_init_memory(&j, false);
	h2d_json_object_begin(&j, NULL);
	h2d_json_u64(&j, "protocol", 1);
	h2d_json_string(&j, "checkpoint", c->path);
	h2d_json_array_begin(&j, "files");
	for (uint32_t i = 0; i < c->file_count; i++)
		h2d_json_string(&j, NULL, h2d_checkpoint_file(c->handle, i));
	h2d_json_array_end(&j);
	h2d_json_u64(&j, "size_bytes", c->size_bytes);
	h2d_json_string(&j, "path", cell->path);
	h2d_json_string(&j, "device", cell->device);
	if (cell->present)
		h2d_json_string(&j, "present", cell->present);
	h2d_value_write(&j, "options", cell->options, false);
	h2d_json_bool(&j, "verify", s->runner->matrix->verify);
	h2d_json_object_end(&j);
	h2d_json_finish(&j);
	return h2d_json_take(&j);
}

static bool start(struct session *s)
{
	const json_t *command = s->cell->command;
	const size_t count = command ? json_array_size(command) : 3;
	const char *ours[] = {s->runner->self, "bench", "cell"};
	const uint64_t now = h2d_now_ns();
	char **argv = calloc(count + 1, sizeof(*argv)), *line = request(s), why[512];
	bool good = false;
	int rc;

	if (!argv || !line) {
		give_up(s, "failed", "out of memory");
		goto out;
	}
	for (size_t i = 0; i < count; i++)
		argv[i] = (char *)(uintptr_t)(command ? json_string_value(
								json_array_get(command, i))
						      : ours[i]);
	if (s->cell->memory_max_bytes &&
	    h2d_bench_cgroup_make(&s->group, s->cell->memory_max_bytes, why, sizeof(why))) {
		give_up(s, "unsupported", "%s", why);
		goto out;
	}
	s->sample->in_group = s->group.dir[0] != 0;
	if (h2d_bench_schedule_raise(&s->runner->matrix->schedule, &s->saved, why,
				     sizeof(why)) ||
	    h2d_bench_schedule_confine(&s->runner->matrix->schedule, &s->saved, why,
				       sizeof(why))) {
		give_up(s, "unsupported", "%s", why);
		goto out;
	}
	s->deadline_ns = now + s->runner->matrix->timeout_s * UINT64_C(1000000000);
	rc = h2d_bench_child_start(&s->child, argv, command ? s->runner->matrix->folder : NULL,
				   s->group.dir[0] ? s->group.procs : NULL);
	h2d_bench_schedule_free_cpus(&s->saved);
	if (rc)
		give_up(s, rc == -ENOENT && command ? "unsupported" : "failed",
			"%s cannot be started: %s", argv[0], strerrordesc_np(-rc));
	else
		good = say(s, line, "ready") && await(s, "ready", &s->sample->ready);
out:
	free(argv);
	free(line);
	return good;
}

static bool set_state(struct session *s)
{
	const struct h2d_bench_matrix *m = s->runner->matrix;
	const struct h2d_bench_state_opts opts = {
		.cold_max_pct = m->cold_max_pct,
		.warm_min_pct = m->warm_min_pct,
		.partial_tolerance_pct = m->partial_tolerance_pct,
		.drop_caches = m->drop_caches,
		.cgroup_procs = s->group.dir[0] ? s->group.procs : NULL,
	};
	const uint64_t begin = h2d_now_ns();
	char why[512];

	if (m->settle && h2d_bench_settle(s->cell->checkpoint->size_bytes))
		return give_up(s, "invalid", "too little memory to settle it before the load");
	if (h2d_bench_state_set(s->cell, &opts, &s->sample->before, &s->sample->tries, why,
				sizeof(why)))
		return give_up(s, "invalid", "%s", why);
	s->deadline_ns += h2d_now_ns() - begin; /* the limit is the loader's */
	s->sample->state_set = true;
	return true;
}

/* A whole number that is there and not negative. */
static bool member(const json_t *line, const char *key, uint64_t *out)
{
	const json_t *value = json_object_get(line, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	*out = (uint64_t)json_integer_value(value);
	return true;
}

/* In order, none over another, all within the load that counts. */
static bool judge_phases(struct session *s, uint64_t end_ns)
{
	const json_t *list = json_object_get(s->sample->loaded, "phases");
	uint64_t last = s->sample->begin_ns, from, to;

	if (list && (!json_is_array(list) || json_array_size(list) > PHASES_MAX_COUNT))
		return give_up(s, "failed", "'phases' of 'loaded' is no list of up to %d",
			       PHASES_MAX_COUNT);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *p = json_array_get(list, i);
		const char *name = h2d_get_text(p, "name");

		if (!name || !member(p, "begin_ns", &from) || !member(p, "end_ns", &to))
			return give_up(s, "failed",
				       "phase %zu of 'loaded' lacks name, begin_ns or end_ns",
				       i);
		if (from < last || to < from || to > end_ns)
			return give_up(s, "failed",
				       "phase '%.64s' of 'loaded' does not lie within the "
				       "load, after the phase before it",
				       name);
		last = to;
	}
	return true;
}

/* All repetitions, of which the shortest counts; together within what was seen from here. */
static bool judge_repeats(struct session *s, uint64_t elapsed_ns, uint64_t seen_ns)
{
	const json_t *list = json_object_get(s->sample->loaded, "repeats_ns");
	const uint64_t wanted = s->cell->repeat_count;
	uint64_t least = UINT64_MAX, left = seen_ns;

	if (!list && wanted == 1)
		return true;
	if (!json_is_array(list) || json_array_size(list) != wanted)
		return give_up(s, "failed",
			       "was to load %llu times, and 'repeats_ns' tells of %zu",
			       (unsigned long long)wanted, json_array_size(list));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *value = json_array_get(list, i);
		uint64_t ns;

		if (!json_is_integer(value) || json_integer_value(value) <= 0)
			return give_up(s, "failed",
				       "repeats_ns of 'loaded' holds what is no time");
		ns = (uint64_t)json_integer_value(value);
		if (ns > left)
			return give_up(
				s, "failed",
				"repeats_ns of 'loaded' add up to more time than there was "
				"from the command to the answer");
		left -= ns;
		least = ns < least ? ns : least;
	}
	if (least != elapsed_ns)
		return give_up(s, "failed",
			       "the time of 'loaded' is not the shortest of repeats_ns");
	return true;
}

/* Times are believed when they lie within what was seen from here. */
static bool judge_times(struct session *s, uint64_t received_ns)
{
	struct h2d_bench_sample *x = s->sample;
	const uint64_t sent = x->sampler.begin_ns;
	uint64_t end, elapsed;

	if (!member(x->loaded, "begin_ns", &x->begin_ns) ||
	    !member(x->loaded, "end_ns", &end) ||
	    !member(x->loaded, "loaded_bytes", &x->loaded_bytes))
		return give_up(
			s, "failed",
			"'loaded' lacks begin_ns, end_ns or loaded_bytes, or one of them "
			"is no whole number from 0 on");
	if (x->begin_ns < sent || end < x->begin_ns || end > received_ns)
		return give_up(s, "failed",
			       "the times of 'loaded' do not lie between the command and the "
			       "answer: it must read CLOCK_MONOTONIC");
	elapsed = end - x->begin_ns;
	if (json_object_get(x->loaded, "elapsed_ns") &&
	    (!member(x->loaded, "elapsed_ns", &elapsed) || elapsed > end - x->begin_ns))
		return give_up(s, "failed", "elapsed_ns of 'loaded' is longer than the load");
	if (!elapsed)
		return give_up(s, "failed",
			       "the load of 'loaded' took no time: begin_ns is end_ns, or "
			       "elapsed_ns is 0");
	if (x->loaded_bytes < x->size_bytes)
		return give_up(s, "failed", "loaded %llu of %llu bytes",
			       (unsigned long long)x->loaded_bytes,
			       (unsigned long long)x->size_bytes);
	if (x->loaded_bytes > x->size_bytes)
		return give_up(s, "failed", "loaded %llu bytes, and the tensors have %llu",
			       (unsigned long long)x->loaded_bytes,
			       (unsigned long long)x->size_bytes);
	if (!judge_phases(s, end) || !judge_repeats(s, elapsed, received_ns - sent))
		return false;
	x->load_ns = elapsed;
	x->wall_ns = received_ns - sent;
	return true;
}

/* What the mapping presence must be to count as the cell's. */
static bool judge_present(struct session *s)
{
	const char *wish = s->cell->present;
	const json_t *pct = json_object_get(s->sample->loaded, "present_pct");

	s->sample->present_pct = -1;
	if (!wish)
		return true;
	if (!json_is_number(pct))
		return give_up(s, "invalid", "mapping presence was not proven");
	s->sample->present_pct = json_number_value(pct);
	if (!strcmp(wish, "none") ? s->sample->present_pct > PRESENT_NONE_MAX_PCT
	    : !strcmp(wish, "read")
		    ? s->sample->present_pct < 99
		    : s->sample->present_pct <= 0 || s->sample->present_pct >= 99)
		return give_up(s, "invalid",
			       "mapping presence was to be %s, and %.2f %% of the source's "
			       "pages were present",
			       wish, s->sample->present_pct);
	return true;
}

static bool load(struct session *s)
{
	struct h2d_bench_sample *x = s->sample;
	uint64_t received;
	bool good;

	h2d_bench_sampler_attach(&x->sampler, s->child.pid,
				 s->group.dir[0] ? s->group.dir : NULL);
	h2d_bench_schedule_look(s->child.pid, &x->schedule);
	x->sampled = true;
	h2d_bench_sampler_begin(&x->sampler);
	s->sampling = true;
	good = say(s, "{\"command\":\"load\"}\n", "loaded") && await(s, "loaded", &x->loaded);
	received = h2d_now_ns();
	s->sampling = false;
	h2d_bench_sampler_end(&x->sampler);
	h2d_bench_state_query(s->cell->checkpoint, &x->after);
	return good && judge_times(s, received) && judge_present(s);
}

static bool verify(struct session *s)
{
	struct h2d_bench_sample *x = s->sample;
	const char *expected = s->cell->checkpoint->digest, *digest;
	json_t *line = NULL;

	if (!s->runner->matrix->verify ||
	    json_is_false(json_object_get(x->ready, "verifiable")))
		return true;
	if (!say(s, "{\"command\":\"verify\"}\n", "verified") || !await(s, "verified", &line))
		return false;
	digest = h2d_get_text(line, "xxh3_128");
	x->verified = true;
	x->verify_ok = json_is_true(json_object_get(line, "ok"));
	if (digest)
		snprintf(x->digest, sizeof(x->digest), "%s", digest);
	x->by_digest = digest && expected[0];
	if (x->by_digest && strcmp(x->digest, expected))
		x->verify_ok = false;
	json_decref(line);
	if (!x->verify_ok)
		return give_up(s, "failed",
			       "the bytes that arrived are not those of the file%s",
			       x->by_digest ? " (digest)" : "");
	return true;
}

/* It has said all: now it must end by itself, with status 0. */
static bool end(struct session *s)
{
	h2d_bench_child_close_in(&s->child);
	for (;;) {
		const int rc = h2d_bench_child_read(&s->child);

		if (rc == 1)
			return give_up(s, "failed", "wrote a line after its last one: %.80s",
				       s->child.line);
		if (rc < 0 && rc != -EPIPE)
			return give_up(s, "failed", "wrote garbage after its last line");
		if (h2d_bench_child_ended(&s->child))
			break;
		if (out_of_time(s, "end"))
			return false;
		if (rc == -EPIPE) {
			const struct timespec pause = {.tv_nsec = 2000000};

			nanosleep(&pause, NULL);
		} else {
			wait_a_moment(s);
		}
	}
	if (WIFSIGNALED(s->child.wait_status))
		return give_up(s, "killed", "ended by signal %d (%s) after the load",
			       WTERMSIG(s->child.wait_status),
			       strsignal(WTERMSIG(s->child.wait_status)));
	if (WEXITSTATUS(s->child.wait_status))
		return give_up(s, "failed", "ended with status %d after the load",
			       WEXITSTATUS(s->child.wait_status));
	return true;
}

static void close_session(struct session *s)
{
	struct h2d_bench_sample *x = s->sample;

	h2d_bench_child_finish(&s->child);
	h2d_bench_schedule_restore(&s->saved);
	x->ended = s->child.pid && s->child.reaped;
	x->wait_status = s->child.wait_status;
	memcpy(x->tail, s->child.tail, sizeof(x->tail));
	if (s->group.dir[0]) {
		x->peak_known = !h2d_bench_cgroup_peak(&s->group, &x->group_peak_bytes);
		x->oom_known = !h2d_bench_cgroup_oom_kills(&s->group, &x->oom_kills);
		h2d_bench_cgroup_remove(&s->group);
	}
	h2d_bench_kmsg_collect(&x->kmsg);
}

int h2d_bench_sample_run(const struct h2d_bench_runner *r, const struct h2d_bench_cell *cell,
			 uint64_t block, uint64_t order, struct h2d_bench_sample *out)
{
	struct session s = {.runner = r, .cell = cell, .sample = out};

	memset(out, 0, sizeof(*out));
	out->sampler.status_fd = -1;
	out->sampler.pressure_fd[0] = out->sampler.pressure_fd[1] = -1;
	out->block = block;
	out->order = order;
	out->present_pct = -1;
	out->size_bytes = cell->checkpoint->size_bytes;
	s.child.in = s.child.out = s.child.err = -1;
	h2d_bench_time_text(out->time_utc);
	h2d_bench_kmsg_begin(&out->kmsg);
	if (start(&s) && set_state(&s) && load(&s) && verify(&s) && end(&s)) {
		out->status = "ok";
		out->have_time = true;
	}
	close_session(&s);
	return s.cancelled ? H2D_E_CANCELLED : 0;
}

void h2d_bench_sample_release(struct h2d_bench_sample *s)
{
	json_decref(s->ready);
	json_decref(s->loaded);
	h2d_bench_sampler_release(&s->sampler);
	h2d_bench_kmsg_release(&s->kmsg);
	s->ready = s->loaded = NULL;
}

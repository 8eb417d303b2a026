/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <h2d/h2d.h>

const char *h2d_bench_cpus_parse(const char *text, cpu_set_t *out)
{
	static const char wrong[] = "is no list of processors: write for example 0-3,6";

	CPU_ZERO(out);
	for (const char *p = text;;) {
		unsigned long from, to;
		char *end;

		if (*p < '0' || *p > '9')
			return wrong;
		from = to = strtoul(p, &end, 10);
		if (*end == '-') {
			if (end[1] < '0' || end[1] > '9')
				return wrong;
			to = strtoul(end + 1, &end, 10);
		}
		if (to < from)
			return wrong;
		if (to >= CPU_SETSIZE)
			return "names a processor beyond 1023";
		for (unsigned long cpu = from; cpu <= to; cpu++)
			CPU_SET((int)cpu, out);
		if (!*end)
			return NULL;
		if (*end != ',')
			return wrong;
		p = end + 1;
	}
}

void h2d_bench_cpus_text(const cpu_set_t *cpus, char *out, size_t cap)
{
	size_t used = 0;

	out[0] = 0;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		char range[32];
		int last = cpu, n;

		if (!CPU_ISSET(cpu, cpus))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cpus))
			last++;
		n = last == cpu ? snprintf(range, sizeof(range), "%s%d", used ? "," : "", cpu)
				: snprintf(range, sizeof(range), "%s%d-%d", used ? "," : "",
					   cpu, last);
		if (used + (size_t)n + sizeof(",…") > cap) {
			snprintf(out + used, cap - used, ",…");
			return;
		}
		memcpy(out + used, range, (size_t)n + 1);
		used += (size_t)n;
		cpu = last;
	}
}

int h2d_bench_schedule_raise(const struct h2d_bench_schedule *s,
			     struct h2d_bench_schedule_saved *saved, char *why, size_t cap)
{
	const struct sched_param lowest = {.sched_priority = 1};
	const int policy = sched_getscheduler(0);

	if (!s->fifo)
		return 0;
	if (policy < 0 || sched_getparam(0, &saved->param) ||
	    sched_setscheduler(0, SCHED_FIFO, &lowest)) {
		snprintf(why, cap,
			 "priority fifo: %s (CAP_SYS_NICE or a limit on real-time priority, "
			 "RLIMIT_RTPRIO, allows it)",
			 strerrordesc_np(errno));
		return H2D_E_PERMISSION;
	}
	saved->policy = policy;
	saved->policy_set = true;
	return 0;
}

int h2d_bench_schedule_confine(const struct h2d_bench_schedule *s,
			       struct h2d_bench_schedule_saved *saved, char *why, size_t cap)
{
	char text[H2D_BENCH_CPUS_TEXT];

	if (!s->have_cpus)
		return 0;
	if (sched_getaffinity(0, sizeof(saved->cpus), &saved->cpus) ||
	    sched_setaffinity(0, sizeof(s->cpus), &s->cpus)) {
		h2d_bench_cpus_text(&s->cpus, text, sizeof(text));
		snprintf(why, cap, "processors %s: %s", text, strerrordesc_np(errno));
		return H2D_E_INVALID;
	}
	saved->cpus_set = true;
	return 0;
}

void h2d_bench_schedule_free_cpus(struct h2d_bench_schedule_saved *saved)
{
	if (saved->cpus_set)
		sched_setaffinity(0, sizeof(saved->cpus), &saved->cpus);
	saved->cpus_set = false;
}

void h2d_bench_schedule_restore(struct h2d_bench_schedule_saved *saved)
{
	h2d_bench_schedule_free_cpus(saved);
	if (saved->policy_set)
		sched_setscheduler(0, saved->policy, &saved->param);
	saved->policy_set = false;
}

void h2d_bench_schedule_look(pid_t pid, struct h2d_bench_schedule_seen *out)
{
	struct sched_param param;

	memset(out, 0, sizeof(*out));
	out->policy = sched_getscheduler(pid);
	if (out->policy < 0 || sched_getparam(pid, &param) ||
	    sched_getaffinity(pid, sizeof(out->cpus), &out->cpus))
		return;
	out->policy &= ~SCHED_RESET_ON_FORK;
	out->priority = param.sched_priority;
	errno = 0;
	out->nice = getpriority(PRIO_PROCESS, (id_t)pid);
	out->known = !errno;
}

void h2d_bench_schedule_write(struct h2d_json *j, const char *key,
			      const struct h2d_bench_schedule_seen *s)
{
	static const struct {
		int policy;
		const char *name;
	} names[] = {
		{SCHED_OTHER, "other"}, {SCHED_FIFO, "fifo"}, {SCHED_RR, "rr"},
		{SCHED_BATCH, "batch"}, {SCHED_IDLE, "idle"},
	};
	char text[H2D_BENCH_CPUS_TEXT];
	const char *policy = "unknown";

	if (!s->known) {
		snprintf(text, sizeof(text), "%s_why", key);
		h2d_json_null(j, key);
		h2d_json_string(j, text, "the load was not begun, or the process had ended");
		return;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].policy == s->policy)
			policy = names[i].name;
	h2d_bench_cpus_text(&s->cpus, text, sizeof(text));
	h2d_json_object_begin(j, key);
	h2d_json_string(j, "policy", policy);
	h2d_json_i64(j, "priority", s->priority);
	h2d_json_i64(j, "nice", s->nice);
	h2d_json_string(j, "cpus", text);
	h2d_json_object_end(j);
}

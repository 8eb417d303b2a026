/* SPDX-License-Identifier: Apache-2.0 */
#include "bpf.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf_abi.h"
#include "h2d/h2d.h"

extern const unsigned char h2d_trace_bpf_object[];
extern const size_t h2d_trace_bpf_object_bytes;

_Static_assert((int)H2D_TRACE_FUNCTIONS == (int)H2D_BPF_FUNCTIONS &&
		       (int)H2D_TRACE_IOCTL == (int)H2D_BPF_IOCTL &&
		       (int)H2D_TRACE_EMULATED == (int)H2D_BPF_EMULATED &&
		       (int)H2D_TRACE_LOG2 == (int)H2D_BPF_LOG2,
	       "one order on both sides");

struct h2d_trace_bpf {
	struct bpf_object *object;
	struct bpf_link *links[2 * H2D_TRACE_FUNCTIONS + 1];
	size_t link_count;
	struct ring_buffer *ring;
	struct h2d_trace_counts *counts; /* while the ring is read */
};

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level;
	(void)fmt;
	(void)ap;
	return 0;
}

static int map(const struct h2d_trace_session *s, const char *name)
{
	return bpf_object__find_map_fd_by_name(s->bpf->object, name);
}

static uint64_t word(const struct h2d_trace_session *s, uint32_t which)
{
	uint64_t value = 0;

	bpf_map_lookup_elem(map(s, "words"), &which, &value);
	return value;
}

static int recorded(void *user, void *data, size_t bytes)
{
	const struct h2d_bpf_call *call = data;
	struct h2d_trace_bpf *b = user;

	if (bytes >= sizeof(*call))
		h2d_trace_put_call(b->counts, (int)call->pid, call->begin_ns / 1000,
				   call->duration_ns / 1000, call->ebusy_count, call->ret);
	return 0;
}

/* Aim a pair of programs at a function; without BTF of it they are not loaded. */
static bool aim(struct h2d_trace_session *s, int f)
{
	static const char *const ends[] = {"in", "out"};
	struct h2d_trace_target *t = &s->targets[f];
	bool good = t->symbol[0];
	char name[64];

	for (int i = 0; i < 2; i++) {
		struct bpf_program *p;

		snprintf(name, sizeof(name), "%s_%s", h2d_trace_event_names[f], ends[i]);
		p = bpf_object__find_program_by_name(s->bpf->object, name);
		if (!p)
			return false;
		if (good && bpf_program__set_attach_target(p, 0, t->symbol)) {
			char symbol[sizeof(t->symbol)]; /* as in session.c, give_up() */

			good = false;
			memcpy(symbol, t->symbol, sizeof(symbol));
			snprintf(t->why, sizeof(t->why), "no BTF of %s%s%s", symbol,
				 t->module ? " in the module " : "",
				 t->module ? t->module : "");
		}
		if (!good)
			bpf_program__set_autoload(p, false);
	}
	if (!good)
		t->symbol[0] = 0;
	return good;
}

static int give_up(struct h2d_trace_session *s, const char *what, int rc)
{
	snprintf(s->bpf_why, sizeof(s->bpf_why), "%s%s%s", what, rc ? ": " : "",
		 rc == -EPERM ? "not permitted (CAP_BPF and CAP_PERFMON, or lockdown)"
		 : rc	      ? strerror(-rc)
			      : "");
	h2d_trace_bpf_stop(s);
	return H2D_E_UNAVAILABLE;
}

static int attach(struct h2d_trace_session *s)
{
	struct h2d_trace_bpf *b = s->bpf;
	struct bpf_program *p;

	bpf_object__for_each_program(p, b->object)
	{
		struct bpf_link *link;

		if (!bpf_program__autoload(p))
			continue;
		link = bpf_program__attach(p);
		if (!link)
			return -errno;
		b->links[b->link_count++] = link;
	}
	return 0;
}

static int start(struct h2d_trace_session *s, bool alone, bool everybody)
{
	uint32_t key = H2D_BPF_EVERYBODY;
	uint64_t value = everybody;
	struct h2d_trace_bpf *b = s->bpf;
	bool on[H2D_TRACE_FUNCTIONS];
	int rc;

	b->object =
		bpf_object__open_mem(h2d_trace_bpf_object, h2d_trace_bpf_object_bytes, NULL);
	if (!b->object)
		return give_up(s, "the BPF program cannot be read", -errno);
	for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++)
		on[f] = aim(s, f);
	if (!on[H2D_TRACE_FAULT])
		return give_up(s, s->targets[H2D_TRACE_FAULT].why, 0);
	if (!on[H2D_TRACE_PAGES] && !on[H2D_TRACE_EMULATED] && !alone)
		return give_up(s,
			       s->targets[strstr(s->targets[H2D_TRACE_EMULATED].why, "BTF")
						  ? H2D_TRACE_EMULATED
						  : H2D_TRACE_PAGES]
				       .why,
			       0);
	rc = bpf_object__load(b->object);
	if (rc)
		return give_up(s, "the kernel does not take the BPF program", rc);
	rc = bpf_map_update_elem(map(s, "words"), &key, &value, BPF_ANY);
	b->ring = ring_buffer__new(map(s, "calls"), recorded, b, NULL);
	if (rc || !b->ring)
		return give_up(s, "no ring buffer", rc ? rc : -errno);
	rc = attach(s);
	return rc ? give_up(s, "the BPF program cannot be attached", rc) : 0;
}

int h2d_trace_bpf_start(struct h2d_trace_session *s, bool alone, bool everybody)
{
	struct h2d_trace_target before[H2D_TRACE_FUNCTIONS];
	int rc;

	if (access("/sys/kernel/btf/vmlinux", R_OK)) {
		snprintf(s->bpf_why, sizeof(s->bpf_why),
			 "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF; no "
			 "/sys/kernel/btf/vmlinux)");
		return H2D_E_UNAVAILABLE;
	}
	s->bpf = calloc(1, sizeof(*s->bpf));
	if (!s->bpf)
		return H2D_E_UNAVAILABLE;
	memcpy(before, s->targets, sizeof(before));
	libbpf_set_print(quiet);
	rc = start(s, alone, everybody);
	if (rc)
		memcpy(s->targets, before, sizeof(before));
	return rc;
}

void h2d_trace_bpf_follow(struct h2d_trace_session *s, int pid)
{
	uint32_t key = (uint32_t)pid;
	uint8_t one = 1;

	bpf_map_update_elem(map(s, "family"), &key, &one, BPF_ANY);
}

void h2d_trace_bpf_update(struct h2d_trace_session *s, struct h2d_trace_counts *c,
			  uint32_t timeout_ms)
{
	struct h2d_bpf_key key, *before = NULL, next;
	struct h2d_bpf_stat stat;
	int stats = map(s, "stats");

	_Static_assert(sizeof(stat) == sizeof(struct h2d_trace_stat), "one layout");
	s->bpf->counts = c;
	ring_buffer__consume(s->bpf->ring);
	c->unfinished_count = 0;
	while (!bpf_map_get_next_key(stats, before, &next)) {
		key = next;
		before = &key;
		if (key.function >= H2D_TRACE_FUNCTIONS ||
		    bpf_map_lookup_elem(stats, &key, &stat))
			continue;
		c->unfinished_count += stat.call_count - stat.return_count;
		h2d_trace_put(c, (int)key.pid, (enum h2d_trace_function)key.function,
			      (const struct h2d_trace_stat *)&stat);
	}
	c->lost_count = word(s, H2D_BPF_LOST);
	c->dropped_count = word(s, H2D_BPF_DROPPED);
	c->unmatched_count = word(s, H2D_BPF_UNMATCHED);
	h2d_trace_windows(c, timeout_ms);
}

void h2d_trace_bpf_stop(struct h2d_trace_session *s)
{
	if (!s->bpf)
		return;
	for (size_t i = 0; i < s->bpf->link_count; i++)
		bpf_link__destroy(s->bpf->links[i]);
	ring_buffer__free(s->bpf->ring);
	bpf_object__close(s->bpf->object);
	free(s->bpf);
	s->bpf = NULL;
}

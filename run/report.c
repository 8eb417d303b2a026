/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "run/keep.h"
#include "run/report.h"
#include "run/sys.h"

struct text {
	char *at;
	size_t room;
};

static void add_bytes(struct text *t, const char *s, size_t n)
{
	if (n > t->room)
		n = t->room;
	memcpy(t->at, s, n);
	t->at += n;
	t->room -= n;
}

static void add(struct text *t, const char *s)
{
	add_bytes(t, s, strlen(s));
}

static void add_number(struct text *t, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	add_bytes(t, digits + at, sizeof(digits) - at);
}

static void add_counter(struct text *t, const char *before, uint64_t n)
{
	add(t, before);
	add_number(t, n);
}

static int open_report(uint64_t pid)
{
	/* Not on the stack, which may be a signal's; a process writes one report. */
	static char path[RO_PATH_BYTES + 32];
	struct text t = {path, sizeof(path) - 1};

	for (const char *s = ro.report; *s; s++) {
		if (s[0] == '%' && s[1] == 'p')
			add_number(&t, pid);
		else
			add_bytes(&t, s, 1);
		if (s[0] == '%' && (s[1] == 'p' || s[1] == '%'))
			s++;
	}
	*t.at = 0;
	return sys_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY, 0644);
}

static void add_record(struct text *t, const struct h2d_run_record *r)
{
	add_counter(t, "pid ", (uint64_t)r->pid);
	add(t, " ");
	add(t, r->command);
	add(t, ": ");
	add(t, r->path);
	add_counter(t, ": kept_mapping_count ", atomic_load(&r->mapping_count));
	add_counter(t, " kept_bytes ", atomic_load(&r->mapping_bytes));
	add_counter(t, " opened_bytes ", atomic_load(&r->opened_bytes));
	add_counter(t, " fault_count ", atomic_load(&r->fault_count));
	add_counter(t, " kernel_open_count ", atomic_load(&r->kernel_open_count));
	add_counter(t, " device_open_count ", atomic_load(&r->device_open_count));
	add_counter(t, " written_page_count ", atomic_load(&r->written_page_count));
	if (atomic_load(&r->counted_bytes) < atomic_load(&r->opened_bytes))
		add(t, " (not all counted)");
	add(t, "\n");
}

static void write_report(void)
{
	int pid = atomic_load(&ro.pid), fd = -1;
	const struct h2d_run_record *r;
	static char line[1024];
	size_t index = 0;

	while ((r = h2d_run_state_next(ro.state, &index))) {
		struct text t = {line, sizeof(line)};

		if (r->pid != pid || r->image != ro.image)
			continue;
		if (fd < 0)
			fd = open_report((uint64_t)pid);
		if (fd < 0)
			return;
		add_record(&t, r);
		if (sys_write(fd, line, (size_t)(t.at - line)) < 0)
			break;
	}
	if (fd >= 0)
		sys_close(fd);
}

void ro_end(void)
{
	int saved = errno;
	ro_signals before;
	bool first;

	/* A child of vfork() ends here in its parent's memory. */
	if (!ro.handling || !ro_own_memory())
		return;
	before = ro_enter();
	first = !ro.ended;
	if (first) {
		ro.ended = true;
		ro_count_written_locked((struct ro_span){0, UINTPTR_MAX}, 1);
	}
	ro_leave(before);
	if (first && ro.report[0])
		write_report();
	errno = saved;
}

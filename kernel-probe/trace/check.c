/* SPDX-License-Identifier: Apache-2.0 */
/* What tracing needs of the machine, and what of it is not there. Changes nothing. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hostfs.h"
#include "session.h"

static const struct {
	const char *name, *module;
} functions[H2D_TRACE_FUNCTIONS] = {
	[H2D_TRACE_FAULT] = {"hmm_range_fault", NULL},
	[H2D_TRACE_PAGES] = {"amdgpu_hmm_range_get_pages", "amdgpu"},
	[H2D_TRACE_EMULATED] = {"h2d_emulated_get_pages", "h2d_hmm"},
	[H2D_TRACE_SVM] = {"svm_range_validate_and_map", "amdgpu"},
	[H2D_TRACE_USERPTR] = {"amdgpu_ttm_tt_get_user_pages", "amdgpu"},
	[H2D_TRACE_IOCTL] = {"kfd_ioctl_svm", "amdgpu"},
};

void h2d_trace_reason(struct h2d_trace_session *s, const char *fmt, ...)
{
	va_list ap;

	if (s->reason_count == H2D_TRACE_REASONS_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(s->reasons[s->reason_count++], sizeof(s->reasons[0]), fmt, ap);
	va_end(ap);
}

static bool there(const char *root, const char *path)
{
	char buf[8];
	int rc = h2d_hostfs_read(root, path, buf, sizeof(buf));

	return rc >= 0 || rc == -EISDIR;
}

/* Where tracefs is mounted; its README is always there. */
static void find_tracefs(struct h2d_trace_session *s)
{
	static const char *const places[] = {"/sys/kernel/tracing",
					     "/sys/kernel/debug/tracing"};
	char path[128], buf[64], **names;
	int rc = -ENOENT, n;

	for (size_t i = 0; i < 2; i++) {
		int got;

		snprintf(path, sizeof(path), "%s/README", places[i]);
		got = h2d_hostfs_read(s->root, path, buf, sizeof(buf));
		if (got >= 0) {
			snprintf(s->tracefs, sizeof(s->tracefs), "%s", places[i]);
			return;
		}
		if (got == -EACCES || got == -EPERM)
			rc = got;
	}
	if (rc != -ENOENT) {
		h2d_trace_reason(s,
				 "permission: %s is for root only (CAP_DAC_OVERRIDE, and "
				 "CAP_SYS_ADMIN of the machine itself in a container)",
				 places[0]);
		return;
	}
	n = h2d_hostfs_list(s->root, places[0], &names);
	if (n >= 0) {
		h2d_hostfs_list_free(names);
		h2d_trace_reason(s,
				 "mount: tracefs is not mounted; as root: mount -t tracefs "
				 "tracefs %s",
				 places[0]);
	} else if (n == -EACCES || n == -EPERM) {
		h2d_trace_reason(s, "permission: %s is for root only", places[0]);
	} else {
		h2d_trace_reason(s,
				 "config: there is no %s: the kernel is built without "
				 "CONFIG_TRACING, or /sys is not its sysfs",
				 places[0]);
	}
}

static void check_tracefs(struct h2d_trace_session *s)
{
	static const struct {
		const char *file, *config;
	} needed[] = {
		{"kprobe_events", "CONFIG_KPROBE_EVENTS"},
		{"events/task/task_newtask/trigger", "CONFIG_EVENT_TRACING"},
		{"events/task/task_newtask/hist", "CONFIG_HIST_TRIGGERS"},
	};
	char path[192], buf[64];

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		int rc;

		snprintf(path, sizeof(path), "%s/%s", s->tracefs, needed[i].file);
		rc = h2d_hostfs_read(s->root, path, buf, sizeof(buf));
		if (rc == -EACCES)
			h2d_trace_reason(s, "permission: %s is for root only", path);
		else if (rc == -EPERM)
			h2d_trace_reason(s,
					 "permission: %s: the kernel is locked down "
					 "(kernel_lockdown(7))",
					 path);
		else if (rc < 0)
			h2d_trace_reason(s, "config: the kernel is built without %s (no %s)",
					 needed[i].config, path);
	}
	if (!s->root && s->reason_count == s->symbol_reason_count) {
		snprintf(path, sizeof(path), "%s/kprobe_events", s->tracefs);
		if (access(path, W_OK))
			h2d_trace_reason(s, "permission: %s cannot be written: %s", path,
					 strerror(errno));
	}
	snprintf(path, sizeof(path), "%s/synthetic_events", s->tracefs);
	if (!there(s->root, path)) {
		static const char why[] =
			"the kernel is built without CONFIG_SYNTH_EVENTS (no synthetic_events)";

		snprintf(s->times_why, sizeof(s->times_why), "%s", why);
		snprintf(s->inside_why, sizeof(s->inside_why), "%s", why);
	}
}

/* Compilers make clones of functions; parts that were moved away are not the function. */
static bool is_symbol(const char *symbol, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(symbol, name, n) != 0)
		return false;
	return !symbol[n] || strncmp(symbol + n, ".isra.", 6) == 0 ||
	       strncmp(symbol + n, ".constprop.", 11) == 0;
}

static void find_symbols(struct h2d_trace_session *s, FILE *f)
{
	char *line = NULL, symbol[128], type;
	size_t cap = 0;

	while (getline(&line, &cap, f) > 0) {
		if (sscanf(line, "%*s %c %127s", &type, symbol) != 2 ||
		    (type != 't' && type != 'T'))
			continue;
		for (int i = 0; i < H2D_TRACE_FUNCTIONS; i++) {
			struct h2d_trace_target *t = &s->targets[i];

			if (is_symbol(symbol, t->name) &&
			    (!t->symbol[0] || !strcmp(symbol, t->name)))
				snprintf(t->symbol, sizeof(t->symbol), "%s", symbol);
		}
	}
	free(line);
}

static void check_symbols(struct h2d_trace_session *s)
{
	struct h2d_trace_target *t = s->targets;
	char path[64];
	FILE *f;
	int rc = h2d_hostfs_open(s->root, "/proc/kallsyms", &f);

	if (rc) {
		h2d_trace_reason(s, "symbols: /proc/kallsyms cannot be read: %s",
				 strerror(-rc));
		return;
	}
	find_symbols(s, f);
	fclose(f);
	for (int i = 0; i < H2D_TRACE_FUNCTIONS; i++) {
		if (t[i].symbol[0])
			continue;
		snprintf(path, sizeof(path), "/sys/module/%s/initstate",
			 t[i].module ? t[i].module : "kernel");
		if (t[i].module && !there(s->root, path))
			snprintf(t[i].why, sizeof(t[i].why), "the module %s is not loaded",
				 t[i].module);
		else
			snprintf(t[i].why, sizeof(t[i].why),
				 "no such symbol in /proc/kallsyms%s",
				 t[i].module ? " (inlined or renamed)" : "");
	}
	if (!t[H2D_TRACE_FAULT].symbol[0])
		h2d_trace_reason(s, "symbol: the kernel has no hmm_range_fault "
				    "(CONFIG_HMM_MIRROR)");
	if (!t[H2D_TRACE_PAGES].symbol[0] && !t[H2D_TRACE_EMULATED].symbol[0])
		h2d_trace_reason(s, "symbol: no amdgpu_hmm_range_get_pages: %s",
				 t[H2D_TRACE_PAGES].why);
}

/*
 * Events carry the numbers of the machine's first PID namespace (task_struct.pid); in another one
 * they would be taken for other processes. Its inode number is fixed: PROC_PID_INIT_INO of
 * include/linux/proc_ns.h.
 */
static void check_namespace(struct h2d_trace_session *s)
{
	char name[64];

	if (h2d_hostfs_link_name(s->root, "/proc/self/ns/pid", name, sizeof(name)) >= 0 &&
	    strcmp(name, "pid:[4026531836]") != 0)
		h2d_trace_reason(s, "namespace: this is a PID namespace of its own, and the kernel "
				    "counts by the machine's process numbers; run it on the host, "
				    "or in a container that shares them (docker run --pid=host)");
}

void h2d_trace_check(struct h2d_trace_session *s, const char *root)
{
	memset(s, 0, sizeof(*s));
	s->root = root;
	s->pipe = -1;
	for (int i = 0; i < H2D_TRACE_FUNCTIONS; i++) {
		s->targets[i].name = functions[i].name;
		s->targets[i].module = functions[i].module;
	}
	/* A capture holds what the other probes read; tracing has no part in it. */
	if (root && !there(root, "/proc/kallsyms") && !there(root, "/sys/kernel/tracing")) {
		h2d_trace_reason(s, "a capture cannot be traced, only the machine itself; nor does "
				    "this one hold what tracing needs");
		s->symbol_reason_count = s->reason_count;
		return;
	}
	check_symbols(s);
	check_namespace(s);
	s->symbol_reason_count = s->reason_count;
	find_tracefs(s);
	if (s->tracefs[0])
		check_tracefs(s);
	if (root)
		h2d_trace_reason(s, "a capture cannot be traced, only the machine itself");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "core/clock.h"
#include "host/root.h"
#include "text.h"
#include "trace/bpf.h"
#include "trace/session.h"
#include "trace/who.h"
#include "trace_target.h"

struct values {
	const char *root, *report, *mechanism;
	uint64_t pid, duration_s, interval_s, timeout_ms;
};
#define AT(member) offsetof(struct values, member)

enum { DEFAULT_TIMEOUT_MS = 1000, POLL_MS = 20 };

static const char *const mechanisms[] = {"auto", "bpf", "kprobe", NULL};

static const struct h2d_option options[] = {
	{"pid", 'p', H2D_OPTION_NUMBER, "PID",
	 "Trace this process, its threads and all processes that it started or starts.", NULL,
	 0, AT(pid), 1, 1 << 30},
	{"duration", 0, H2D_OPTION_NUMBER, "SECONDS",
	 "Trace for so long. Without it until the process or command ends, or until a signal "
	 "(Ctrl-C).",
	 NULL, 0, AT(duration_s), 1, 604800},
	{"interval", 0, H2D_OPTION_NUMBER, "SECONDS",
	 "Tell the counts so far every so often, on stderr with --json.", NULL, 0,
	 AT(interval_s), 1, 86400},
	{"timeout-ms", 0, H2D_OPTION_NUMBER, "N",
	 "The driver's retry timeout, which tells windows from other calls. The default is "
	 "1000.",
	 NULL, 0, AT(timeout_ms), 1, 3600000},
	{"mechanism", 0, H2D_OPTION_CHOICE, "NAME",
	 "How to trace: by a BPF program (fentry, fexit), or by kprobe events. By default BPF "
	 "where kernel and module have BTF. With bpf, functions without BTF are left out.",
	 mechanisms, 0, AT(mechanism), 0, 0},
	{"report", 0, H2D_OPTION_TEXT, "FILE",
	 "Write the report of a command to FILE instead of stderr. The file is replaced.", NULL,
	 H2D_WORD_FILE, AT(report), 0, 0},
	{"root", 0, H2D_OPTION_TEXT, "ARCHIVE|DIR",
	 "Only say what is missing for tracing on the machine of a capture, or of a folder.",
	 NULL, H2D_WORD_FILE, AT(root), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Trace options", options};

/* Everything of one run. */
struct run {
	struct h2d_cli *cli;
	const struct values *v;
	struct h2d_trace_session session;
	struct h2d_trace_counts counts;
	struct h2d_trace_child child;
	uint32_t timeout_ms;
	uint64_t begin_ns, elapsed_ns;
	bool started, bpf;
};

/* ---- verdict ---- */

struct verdict {
	const char *value;
	int exit;
	char reason[256];
};

/* Why counts may be too low, or NULL. */
static const char *incomplete(const struct run *r)
{
	const struct h2d_trace_counts *c = &r->counts;

	if (r->session.inside_why[0])
		return r->session.inside_why;
	if (c->lost_count || r->session.overrun_count)
		return "the kernel's trace buffer lost events";
	if (r->session.missed_count)
		return "probes missed calls";
	if (c->dropped_count)
		return "a histogram was full";
	if (c->failed || c->unkept_count)
		return "there were more calls or threads than can be followed";
	if (c->malformed_count)
		return "lines of the trace could not be understood";
	if (c->unplaced_count)
		return "-EBUSY was seen outside of the calls that were seen";
	return NULL;
}

static void judge(const struct run *r, struct verdict *v)
{
	struct h2d_trace_process total;
	const char *why = incomplete(r);

	memset(v, 0, sizeof(*v));
	h2d_trace_total(&r->counts, &total);
	if (r->started && total.window_count) {
		v->value = "windows";
		v->exit = H2D_EXIT_NEGATIVE;
		return;
	}
	v->exit = H2D_EXIT_UNKNOWN;
	v->value = "unknown";
	if (!r->started)
		snprintf(v->reason, sizeof(v->reason), "%s",
			 r->session.reason_count ? r->session.reasons[0]
						 : "nothing was traced");
	else if (why)
		snprintf(v->reason, sizeof(v->reason), "%s", why);
	else if (r->started && !r->session.targets[H2D_TRACE_PAGES].symbol[0] &&
		 !r->session.targets[H2D_TRACE_EMULATED].symbol[0])
		snprintf(v->reason, sizeof(v->reason), "no outer function could be traced");
	else if (!total.outer_count) {
		v->value = "not_reached";
		snprintf(v->reason, sizeof(v->reason),
			 "no call reached the driver's code under study");
	} else {
		v->value = "no_windows";
		v->exit = H2D_EXIT_OK;
	}
}

/* ---- for people ---- */

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static void print_interval(struct run *r)
{
	FILE *out = r->cli->common.json ? stderr : r->cli->out;
	const struct h2d_trace_stat *fault;
	struct h2d_trace_process t;

	if (r->cli->common.quiet)
		return;
	h2d_trace_total(&r->counts, &t);
	fault = &t.stats[H2D_TRACE_FAULT];
	fprintf(out,
		"%8.1f s  %" PRIu64 " outer calls, %" PRIu64 " windows (%.1f ms), %" PRIu64
		" calls of hmm_range_fault, %" PRIu64 " -EBUSY\n",
		(double)(h2d_now_ns() - r->begin_ns) / 1e9, t.outer_count, t.window_count,
		ms(t.window_ns), fault->call_count, fault->ebusy_count);
	fflush(out);
}

static void print_process(const struct run *r, const struct h2d_trace_process *p)
{
	FILE *out = r->cli->out;

	for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++) {
		const struct h2d_trace_stat *s = &p->stats[f];

		if (!s->call_count)
			continue;
		fprintf(out,
			"  %-28s %10" PRIu64 " calls, %" PRIu64 " -EBUSY, %" PRIu64
			" -EAGAIN, %" PRIu64 " other errors",
			r->session.targets[f].name, s->call_count, s->ebusy_count,
			s->eagain_count, s->error_count);
		if (s->return_count)
			fprintf(out, ", mean %.3f ms", ms(s->total_ns / s->return_count));
		if (s->max_ns)
			fprintf(out, ", longest %.3f ms", ms(s->max_ns));
		fputc('\n', out);
		for (int k = 0; k < H2D_TRACE_LOG2; k++)
			if (s->log2_count[k])
				fprintf(out, "    up to %14.6f ms %10" PRIu64 "\n",
					ms((uint64_t)1 << k), s->log2_count[k]);
	}
	fprintf(out,
		"  windows: %" PRIu64 " (%.1f ms), of %" PRIu64 " outer calls %" PRIu64
		" with -EBUSY inside, at most %" PRIu64 " in one\n",
		p->window_count, ms(p->window_ns), p->outer_count, p->outer_ebusy_count,
		p->ebusy_max_count);
}

static void print_who(FILE *out, const struct h2d_trace_process *p)
{
	fprintf(out, "process %d", p->pid);
	if (p->name[0]) {
		fputs(" (", out);
		h2d_text_safe(out, p->name, strlen(p->name));
		fputc(')', out);
	}
	if (p->asked && p->rank >= 0)
		fprintf(out, ", rank %d", p->rank);
	if (p->asked && p->local_rank >= 0)
		fprintf(out, ", local rank %d", p->local_rank);
	fputc('\n', out);
}

static void print_report(const struct run *r, const struct verdict *v)
{
	FILE *out = r->cli->out;

	for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++)
		if (f != H2D_TRACE_EMULATED && !r->session.targets[f].symbol[0])
			fprintf(out, "not traced: %s: %s\n", r->session.targets[f].name,
				r->session.targets[f].why);
	for (size_t i = 0; i < r->counts.process_count; i++) {
		print_who(out, &r->counts.processes[i]);
		print_process(r, &r->counts.processes[i]);
	}
	fprintf(out,
		"overhead: %s; %" PRIu64 " events recorded, %" PRIu64 " lost, %" PRIu64
		" calls missed by probes. Each probed call is slower, so a "
		"window holds fewer calls; there are as many windows.\n",
		r->bpf ? "a BPF program (fentry, fexit)" : "kprobe events",
		r->counts.event_count, r->counts.lost_count + r->session.overrun_count,
		r->session.missed_count);
	if (r->session.bpf_why[0])
		fprintf(out, "not BPF: %s\n", r->session.bpf_why);
	if (!strcmp(v->value, "windows"))
		fputs("the driver spent whole retry timeouts: this is the stall\n", out);
	else if (!strcmp(v->value, "no_windows"))
		fputs("no window was seen\n", out);
	else
		fprintf(out, "cannot tell: %s\n", v->reason);
}

/* ---- the document ---- */

static void write_target(struct h2d_json *j, const struct run *r, char **words)
{
	h2d_json_object_begin(j, "target");
	h2d_json_string(j, "kind", words[0] ? "command" : r->v->pid ? "process" : "machine");
	if (r->v->pid)
		h2d_json_u64(j, "pid", r->v->pid);
	else if (r->child.pid > 0)
		h2d_json_i64(j, "pid", r->child.pid);
	else
		h2d_cli_null(j, "pid",
			     words[0] ? "the command was not started" : "every process");
	if (words[0] && r->child.ended)
		h2d_json_i64(j, "status", r->child.status);
	else
		h2d_cli_null(j, "status",
			     words[0] ? "the command was not started or has not ended"
				      : "no command was started");
	h2d_json_object_end(j);
}

static int document(struct run *r, const struct verdict *v, char **words)
{
	struct h2d_json j;

	h2d_cli_document(r->cli, &j, "h2d.probe-trace", 1, 0);
	h2d_json_object_begin(&j, "verdict");
	h2d_json_string(&j, "value", v->value);
	if (v->reason[0])
		h2d_json_string(&j, "reason", v->reason);
	h2d_json_object_end(&j);
	if (r->started)
		h2d_json_string(&j, "mechanism", r->bpf ? "bpf" : "kprobe_events");
	else
		h2d_cli_null(&j, "mechanism", v->reason);
	if (r->session.bpf_why[0])
		h2d_json_string(&j, "not_bpf_reason", r->session.bpf_why);
	write_target(&j, r, words);
	h2d_json_u64(&j, "timeout_ms", r->timeout_ms);
	h2d_trace_write_setup(&j, &r->session);
	if (r->started) {
		h2d_json_u64(&j, "elapsed_ns", r->elapsed_ns);
		h2d_trace_write_counts(&j, &r->session, &r->counts);
	} else {
		h2d_cli_null(&j, "elapsed_ns", v->reason);
		h2d_cli_null(&j, "total", v->reason);
		h2d_cli_null(&j, "processes", v->reason);
		h2d_cli_null(&j, "overhead", v->reason);
	}
	return h2d_cli_document_end(r->cli, &j);
}

static int report(struct run *r, char **words)
{
	struct verdict v;
	int end;

	judge(r, &v);
	if (r->cli->common.json) {
		end = document(r, &v, words);
		if (end)
			return end;
	} else if (!r->cli->common.quiet && r->started) {
		print_report(r, &v);
	}
	if (!r->started) {
		fprintf(stderr, "h2d: cannot trace here:\n");
		for (size_t i = 0; i < r->session.reason_count; i++)
			fprintf(stderr, "h2d:   %s\n", r->session.reasons[i]);
		if (words[0])
			fprintf(stderr, "h2d: the command was not started\n");
	} else if (v.exit == H2D_EXIT_UNKNOWN &&
		   (!words[0] || r->v->report || r->cli->common.json || r->cli->common.quiet)) {
		/* Else the report, which says it too, is on stderr. */
		h2d_cli_reason(r->cli, "cannot tell: %s", v.reason);
	}
	return v.exit;
}

/* ---- tracing ---- */

static bool over(struct run *r)
{
	if (h2d_signals_caught())
		return true;
	if (r->v->duration_s && h2d_now_ns() - r->begin_ns >= r->v->duration_s * 1000000000u)
		return true;
	if (r->child.pid > 0)
		return h2d_trace_child_ended(&r->child, false);
	return r->v->pid && h2d_trace_process_ended((int)r->v->pid);
}

static void take(struct run *r, bool histograms)
{
	if (r->bpf) {
		h2d_trace_bpf_update(&r->session, &r->counts, r->timeout_ms);
	} else {
		h2d_trace_drain(&r->session, &r->counts);
		if (histograms)
			h2d_trace_update(&r->session, &r->counts, r->timeout_ms);
	}
	/* While they run. */
	h2d_trace_who_all(&r->counts);
}

static void follow(struct run *r)
{
	const struct timespec pause = {0, POLL_MS * 1000000};
	uint64_t step = r->v->interval_s * 1000000000u, next = r->begin_ns + step;
	bool end;

	do {
		end = over(r);
		take(r, false);
		if (step && h2d_now_ns() >= next && !end) {
			take(r, true);
			print_interval(r);
			next += step;
		}
		if (!end)
			nanosleep(&pause, NULL);
	} while (!end);
	r->elapsed_ns = h2d_now_ns() - r->begin_ns;
	h2d_trace_pause(&r->session);
	take(r, true);
}

static int process_of(void *user, int tid)
{
	(void)user;
	return h2d_trace_process_of(tid);
}

static void follow_process(void *user, int pid)
{
	h2d_trace_bpf_follow(user, pid);
}

/* BPF, or else kprobe events. */
static int start(struct run *r)
{
	struct h2d_trace_session *s = &r->session;
	const char *wanted = r->v->mechanism ? r->v->mechanism : "auto";

	if (strcmp(wanted, "kprobe") != 0 &&
	    !h2d_trace_bpf_start(s, !strcmp(wanted, "bpf"), r->counts.everybody)) {
		r->bpf = true;
		r->counts.follow = follow_process;
		r->counts.follow_user = s;
		s->reason_count = 0;
		return 0;
	}
	if (!strcmp(wanted, "bpf")) {
		s->reason_count = 0;
		h2d_trace_reason(s, "bpf: %s", s->bpf_why);
	}
	if (s->reason_count) {
		if (s->bpf_why[0] && strcmp(wanted, "bpf") != 0)
			h2d_trace_reason(s, "not by BPF either: %s", s->bpf_why);
		return H2D_E_UNAVAILABLE;
	}
	h2d_trace_sweep(s);
	return h2d_trace_start(s);
}

static int trace(struct run *r, char **words)
{
	const struct h2d_log log = {h2d_cli_log, r->cli};
	bool alone = r->v->mechanism && !strcmp(r->v->mechanism, "bpf");
	int exit = 0, rc;

	h2d_signals_install();
	h2d_trace_check(&r->session, r->cli->root);
	/* Without symbols nothing can be traced in any way. */
	if (r->cli->root || (r->session.symbol_reason_count && !alone))
		return report(r, words);
	if (words[0] && (rc = h2d_trace_child_prepare(&r->child, words)))
		return h2d_cli_error(r->cli, H2D_EXIT_SYSTEM, "cannot run %s: %s", words[0],
				     strerror(-rc));
	rc = start(r);
	if (!rc) {
		r->started = true;
		r->begin_ns = h2d_now_ns();
		if (r->child.pid > 0)
			h2d_trace_follow(&r->counts, r->child.pid, r->child.pid);
		else if (r->v->pid)
			h2d_trace_follow_tree(&r->counts, (int)r->v->pid);
		rc = words[0] ? h2d_trace_child_go(&r->child) : 0;
		if (rc)
			exit = h2d_cli_error(r->cli, H2D_EXIT_INPUT, "cannot run %s: %s",
					     words[0],
					     rc == -ENOENT ? "no such command" : strerror(-rc));
		else
			follow(r);
	} else {
		h2d_trace_child_cancel(&r->child);
	}
	h2d_trace_bpf_stop(&r->session);
	if (h2d_trace_stop(&r->session, &log) && !exit && r->started)
		exit = h2d_cli_fail(r->cli, H2D_STAGE_LOAD, H2D_E_IO, "tracefs");
	if (exit)
		return exit;
	if (h2d_signals_caught() && r->child.pid > 0)
		kill(r->child.pid, h2d_signals_caught());
	if (r->child.pid > 0 && !r->child.cancelled)
		h2d_trace_child_ended(&r->child, true);
	return report(r, words);
}

static int check(struct h2d_cli *cli, const struct values *v, int count)
{
	if (v->pid && count)
		return h2d_cli_usage(cli, "either --pid or a command");
	if (v->report && !count)
		return h2d_cli_usage(cli, "--report: only where a command is run");
	if (v->pid && !v->root && kill((pid_t)v->pid, 0) && errno == ESRCH)
		return h2d_cli_error(cli, H2D_EXIT_INPUT, "there is no process %" PRIu64,
				     v->pid);
	return 0;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	const struct values *v = values;
	FILE *standard = cli->out, *out = NULL;
	struct run r = {.cli = cli, .v = v};
	const struct h2d_log log = {h2d_cli_log, cli};
	char *none[] = {NULL};
	struct h2d_root root;
	int exit = check(cli, v, count), rc;

	if (exit)
		return exit;
	if (count) {
		/* stdout is the command's. */
		int fd = v->report ? open(v->report, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
					  0666)
				   : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

		out = fd < 0 ? NULL : fdopen(fd, "w");
		if (!out)
			return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "%s: %s",
					     v->report ? v->report : "stderr", strerror(errno));
		cli->out = out;
	}
	r.timeout_ms = v->timeout_ms ? (uint32_t)v->timeout_ms : DEFAULT_TIMEOUT_MS;
	h2d_trace_counts_init(&r.counts);
	r.counts.everybody = !count && !v->pid;
	r.counts.process_of = process_of;
	rc = h2d_root_open(v->root, &log, &root);
	cli->root = rc ? NULL : root.path;
	exit = rc ? h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "%s", v->root)
		  : trace(&r, count ? words : none);
	cli->root = NULL;
	h2d_root_close(&root);
	h2d_trace_counts_free(&r.counts);
	cli->out = standard;
	if (out && (ferror(out) | fclose(out)) && v->report)
		exit = h2d_cli_error(cli, H2D_EXIT_SYSTEM, "%s: it cannot be written",
				     v->report);
	return exit;
}

const struct h2d_command h2d_command_probe_trace = {
	.name = "trace",
	.summary = "count the driver's calls, -EBUSY and windows as they happen",
	.arguments = "[-- COMMAND]",
	.description =
		(const char *const[]){
			"Traces how the amdgpu driver takes memory: calls, return values and "
			"durations of hmm_range_fault, amdgpu_hmm_range_get_pages (the outer "
			"call), its callers svm_range_validate_and_map and "
			"amdgpu_ttm_tt_get_user_pages, and the KFD's SVM ioctl; and inside "
			"which outer calls -EBUSY was returned. Of a command, of a process "
			"and what it starts, or of the whole machine until Ctrl-C.",
			"A window is an outer call that had -EBUSY inside, was told to try "
			"again (-EAGAIN) and lasted half of the driver's retry timeout or "
			"longer. Figures are given for each process, with its name and, where "
			"its environment was started with one (RANK, LOCAL_RANK, or those of "
			"Open MPI, PMI and Slurm), its rank in a distributed program.",
			"Where kernel and module have BTF, a BPF program counts in the kernel "
			"(fentry, fexit). Else kprobe events do, through tracefs, in an "
			"instance of its own that is removed at the end; the kernel counts "
			"the calls of hmm_range_fault in histograms, so that none gets lost. "
			"Either makes each call slower, so a window holds fewer of them, but "
			"there are as many windows. What was lost nevertheless is in the "
			"report.",
			"Tracing needs root, the loaded amdgpu module, and for kprobe events "
			"tracefs, CONFIG_KPROBE_EVENTS and CONFIG_HIST_TRIGGERS. What is "
			"missing is said, and then no command is started. If h2d is killed "
			"(SIGKILL), its probes stay until the next h2d probe trace.",
			"With --duration, a command that takes longer goes on untraced and is "
			"waited for. Its exit status is in the report; its stdout is its own.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct values),
	.examples =
		(const struct h2d_example[]){
			{"Count what loading a model does in the driver",
			 "h2d probe trace -- python load.py"},
			{"Watch a running server for a minute",
			 "h2d probe trace -p 4242 --duration 60 --interval 5"},
			{0},
		},
	.exits =
		(const struct h2d_exit_note[]){
			{"0", "Outer calls were seen, and no window."},
			{"1", "Windows were seen."},
			{"2", "The command line was wrong."},
			{"3", "There is no such process or command."},
			{"5", "Input or output failed, or memory ran out."},
			{"77", "It cannot be traced here, or cannot be told; the reason is on "
			       "stderr."},
			{0},
		},
	.min_words = 0,
	.max_words = -1,
	.takes_command = true,
	.run = run,
};

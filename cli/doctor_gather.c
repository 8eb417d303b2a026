/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor_gather.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/envelope.h"
#include "doctor_measure.h"

/* A process that hangs in the kernel cannot be ended, so what is waited for is never one's own
 * call: the page must come within ten seconds. */
enum {
	END_MS = 9000,
	CAPTURE_END_MS = 60000,
	FIND_MS = 1500,
	MEASURE_MS = 5000,
	SAMPLES = 3,
	SAMPLE_INTERVAL_MS = 750,
	ARENA_BYTES = 64 << 20, /* of address space: pages come as they are written */
};

enum part { MACHINE, PROCESS, KERNEL, ENVIRONMENT, PARTS };

/* Shared with the parts; each writes members of its own and then says that it is done. */
struct h2d_doctor_gathered {
	struct h2d_doctor_facts facts;
	struct h2d_memory own_memory; /* where there is no process to ask for */
	atomic_bool done[PARTS];
	char doing[PARTS][80]; /* what a part is at */
	int process_status;
	bool process_left_out; /* it does not fit the arena */
	_Alignas(16) char arena[ARENA_BYTES];
};

/* The process of a part, and what became of it. */
struct part_process {
	pid_t pid;	 /* 0 once it has ended */
	int start_errno; /* it could not be started */
	int status;	 /* of waitpid(), or -1 where that was not told */
	bool given_up;	 /* it still ran at the end */
	uint64_t ended_ns;
};

struct gather {
	const struct h2d_doctor_gather *what;
	struct h2d_doctor_gathered *shared;
	uint64_t begin_ns, end_ns;
	struct part_process processes[PARTS];
};

/* ---- the parts, each in a process of its own ---- */

static void look_at_machine(struct gather *g)
{
	struct h2d_machine machine;
	struct h2d_memory memory;

	h2d_machine_read(g->what->root, &machine);
	h2d_memory_read(g->what->root, 0, &memory);
	g->shared->facts.machine = machine;
	g->shared->own_memory = memory;
}

static void sample_live(struct h2d_doctor_facts *f)
{
	for (size_t i = 0; i < SAMPLES && !h2d_signals_caught(); i++) {
		struct timespec pause = {0, SAMPLE_INTERVAL_MS * 1000000L};

		if (i)
			nanosleep(&pause, NULL);
		h2d_sample_take(NULL, f->process.pid, &f->samples[f->sample_count]);
		h2d_sample_must_be(&f->samples[f->sample_count], f->process.start_ticks);
		if (f->samples[f->sample_count++].gone)
			return;
	}
}

static void sample_recorded(const char *root, struct h2d_doctor_facts *f)
{
	for (unsigned k = 0; k < SAMPLES; k++)
		if (h2d_sample_recorded(root, k, f->process.pid,
					&f->samples[f->sample_count])) {
			h2d_sample_must_be(&f->samples[f->sample_count],
					   f->process.start_ticks);
			f->sample_count++;
		}
}

static void keep_error(void *user, enum h2d_log_level level, const char *line)
{
	struct h2d_doctor_facts *f = user;

	if (level == H2D_LOG_ERROR)
		snprintf(f->process_why, sizeof(f->process_why), "%.190s", line);
}

static void look_at_process(struct gather *g)
{
	struct h2d_doctor_gathered *s = g->shared;
	struct h2d_doctor_facts *f = &s->facts;
	const struct h2d_log log = {keep_error, f};
	const char *root = g->what->root;
	struct h2d_process process;
	int pid = g->what->pid;

	h2d_say(s->doing[PROCESS], sizeof(s->doing[0]),
		"finding a process that maps a checkpoint");
	if (!pid)
		pid = h2d_doctor_find_process(root, FIND_MS * UINT64_C(1000000));
	if (!pid)
		return;
	h2d_say(s->doing[PROCESS], sizeof(s->doing[0]), "reading what process %d maps", pid);
	s->process_status = h2d_process_read(root, pid, &log, &process);
	if (s->process_status)
		return;
	if (!h2d_process_move(&process, s->arena, sizeof(s->arena), &f->process)) {
		s->process_left_out = true;
		return;
	}
	h2d_say(s->doing[PROCESS], sizeof(s->doing[0]), "watching process %d", pid);
	if (root)
		sample_recorded(root, f);
	else
		sample_live(f);
	h2d_memory_read(root, pid, &f->memory);
	f->have_process = true;
}

static void look_at_kernel(struct gather *g)
{
	const struct h2d_log log = {h2d_cli_log, g->what->cli};
	struct h2d_doctor_kernel kernel;

	h2d_doctor_kernel_read(g->what->root, &g->shared->facts.measured, &log, &kernel);
	g->shared->facts.kernel = kernel;
}

/* A trial: what the document tells of the machine besides is read where it is written. */
static void look_at_environment(struct gather *g)
{
	const struct h2d_environment env = {.root = g->what->root};
	char *text = NULL;
	size_t bytes;
	FILE *memory = open_memstream(&text, &bytes);
	struct h2d_json j;

	if (!memory)
		return;
	h2d_json_init_file(&j, memory, false);
	h2d_json_object_begin(&j, NULL);
	h2d_environment_write(&j, "environment", &env);
	h2d_json_object_end(&j);
	h2d_json_finish(&j);
}

static void start(struct gather *g, enum part part)
{
	static void (*const looks[])(struct gather *) = {
		[MACHINE] = look_at_machine,
		[PROCESS] = look_at_process,
		[KERNEL] = look_at_kernel,
		[ENVIRONMENT] = look_at_environment,
	};

	struct part_process *p = &g->processes[part];

	fflush(NULL);
	p->pid = fork();
	if (p->pid > 0)
		return;
	if (p->pid < 0) {
		p->pid = 0;
		p->start_errno = errno;
		/* A capture hangs nobody. On this machine it stays unseen: a file that hangs
		 * would take us with it. */
		if (g->what->root) {
			looks[part](g);
			atomic_store(&g->shared->done[part], true);
		}
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	looks[part](g);
	atomic_store(&g->shared->done[part], true);
	_exit(0);
}

/* ---- waiting for them ---- */

/* Whether every part has ended. */
static bool reap(struct gather *g)
{
	bool all = true;

	for (int i = 0; i < PARTS; i++) {
		struct part_process *p = &g->processes[i];
		int status;
		pid_t got = p->pid ? waitpid(p->pid, &status, WNOHANG) : 0;

		/* Whoever started us may have had SIGCHLD ignored: then no status is told. */
		if (got) {
			p->status = got > 0 ? status : -1;
			p->ended_ns = h2d_now_ns();
			p->pid = 0;
		}
		all = all && !p->pid;
	}
	return all;
}

static void await(struct gather *g)
{
	const struct timespec pause = {0, 5 * 1000000};

	while (!reap(g) && h2d_now_ns() < g->end_ns && !h2d_signals_caught())
		nanosleep(&pause, NULL);
	for (int i = 0; i < PARTS; i++)
		if (g->processes[i].pid) {
			g->processes[i].given_up = true;
			kill(g->processes[i].pid, SIGKILL);
		}
	/* One that hangs in the kernel is left to init. */
	for (int i = 0; i < 20 && !reap(g); i++)
		nanosleep(&pause, NULL);
}

/* ---- what they did not say ---- */

static void say_died(const struct part_process *p, char *out, size_t cap)
{
	if (p->status < 0)
		h2d_say(out, cap, "ended early");
	else if (WIFSIGNALED(p->status))
		h2d_say(out, cap, "was ended by signal %d (%s)", WTERMSIG(p->status),
			strsignal(WTERMSIG(p->status)));
	else
		h2d_say(out, cap, "ended early with status %d", WEXITSTATUS(p->status));
}

/* @return why that part was not seen, without its name; valid like the facts */
static const char *unanswered(struct gather *g, enum part part, const char *what,
			      enum h2d_doctor_end *end)
{
	const struct part_process *p = &g->processes[part];
	const char *doing = g->shared->doing[part];
	struct h2d_doctor_facts *f = &g->shared->facts;
	char *line = f->ends[f->end_count++], died[64];

	if (!doing[0])
		doing = "reading it";
	if (p->start_errno) {
		*end = H2D_DOCTOR_NOT_STARTED;
		h2d_say(line, sizeof(f->ends[0]),
			"%s: no process could be started for it: %s (%s)", what,
			strerrordesc_np(p->start_errno), strerrorname_np(p->start_errno));
	} else if (p->given_up) {
		*end = H2D_DOCTOR_LATE;
		h2d_say(line, sizeof(f->ends[0]), "%s: %s did not end within %u s", what, doing,
			(unsigned)((h2d_now_ns() - g->begin_ns) / 1000000000u));
	} else {
		*end = H2D_DOCTOR_DIED;
		say_died(p, died, sizeof(died));
		h2d_say(line, sizeof(f->ends[0]), "%s: %s %s after %u s", what, doing, died,
			(unsigned)((p->ended_ns - g->begin_ns) / 1000000000u));
	}
	return line + strlen(what) + strlen(": ");
}

/* The one thing that can be asked without any file. */
static void ask_kernel_alone(const struct gather *g, struct h2d_machine *m)
{
	struct utsname u;

	memset(m, 0, sizeof(*m));
	if (g->what->root || uname(&u))
		return;
	h2d_say(m->release, sizeof(m->release), "%s", u.release);
	h2d_say(m->architecture, sizeof(m->architecture), "%s", u.machine);
}

static void settle(struct gather *g)
{
	struct h2d_doctor_gathered *s = g->shared;
	struct h2d_doctor_facts *f = &s->facts;
	const char *why;

	if (!atomic_load(&s->done[MACHINE])) {
		ask_kernel_alone(g, &f->machine);
		why = unanswered(g, MACHINE,
				 "the machine's devices, its memory and the kernel's log",
				 &f->machine_end);
		h2d_say(f->machine_why, sizeof(f->machine_why), "%s", why);
	}
	if (!atomic_load(&s->done[KERNEL])) {
		why = unanswered(g, KERNEL, "the kernel's driver", &f->kernel_end);
		h2d_doctor_kernel_unread(&f->measured, why, &f->kernel);
	}
	if (!atomic_load(&s->done[PROCESS])) {
		f->have_process = false;
		why = unanswered(g, PROCESS, "the process", &f->process_end);
		h2d_say(f->process_why, sizeof(f->process_why), "%s", why);
	}
	if (g->what->cli->common.json && !atomic_load(&s->done[ENVIRONMENT]))
		unanswered(g, ENVIRONMENT, "the document's environment", &f->environment_end);
	if (s->process_left_out)
		h2d_say(f->process_why, sizeof(f->process_why),
			"it maps more files than fit into %u MiB", ARENA_BYTES >> 20);
	if (!f->have_process) {
		memset(&f->process, 0, sizeof(f->process));
		f->sample_count = 0;
		f->memory = s->own_memory;
	}
	h2d_trend_of(f->samples, f->sample_count, &f->trend);
}

int h2d_doctor_gather(const struct h2d_doctor_gather *what, struct h2d_doctor_gathered **out,
		      struct h2d_doctor_facts **facts)
{
	struct gather g = {.what = what, .begin_ns = h2d_now_ns()};
	struct h2d_doctor_facts *f;
	unsigned end_ms = what->root ? CAPTURE_END_MS : END_MS;

	*out = NULL;
	g.end_ns = g.begin_ns + end_ms * UINT64_C(1000000);
	g.shared = mmap(NULL, sizeof(*g.shared), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (g.shared == MAP_FAILED)
		return h2d_cli_error(what->cli, H2D_EXIT_SYSTEM, "out of memory");
	*out = g.shared;
	*facts = f = &g.shared->facts;
	f->redact = what->cli->common.redact;
	f->asked_for_process = what->pid;
	f->asked_pid = what->pid;
	start(&g, MACHINE);
	start(&g, PROCESS);
	if (what->cli->common.json)
		start(&g, ENVIRONMENT);
	if (what->root)
		snprintf(f->measured.why, sizeof(f->measured.why),
			 "a capture cannot be measured");
	else if (!what->measure)
		snprintf(f->measured.why, sizeof(f->measured.why), "not wanted (--no-measure)");
	else
		h2d_doctor_measure(MEASURE_MS, &f->measured);
	/* It is told what was measured. */
	h2d_say(g.shared->doing[KERNEL], sizeof(g.shared->doing[0]),
		"reading its amdgpu module");
	start(&g, KERNEL);
	await(&g);
	if (h2d_signals_caught())
		return h2d_cli_error(what->cli, H2D_EXIT_CANCELLED, "cancelled");
	settle(&g);
	if (g.shared->process_status == H2D_E_NOT_FOUND && what->pid)
		return h2d_cli_error(what->cli, H2D_EXIT_INPUT, "%s", f->process_why);
	return 0;
}

void h2d_doctor_gathered_free(struct h2d_doctor_gathered *gathered)
{
	if (gathered)
		munmap(gathered, sizeof(*gathered));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor_gather.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

struct gather {
	const struct h2d_doctor_gather *what;
	struct h2d_doctor_gathered *shared;
	uint64_t begin_ns, end_ns;
	pid_t pids[PARTS];
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
		h2d_sample_take(NULL, f->process.pid, &f->samples[f->sample_count++]);
		if (f->samples[f->sample_count - 1].gone)
			return;
	}
}

static void sample_recorded(const char *root, struct h2d_doctor_facts *f)
{
	for (unsigned k = 0; k < SAMPLES; k++)
		if (h2d_sample_recorded(root, k, f->process.pid, &f->samples[f->sample_count]))
			f->sample_count++;
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

	fflush(NULL);
	g->pids[part] = fork();
	if (g->pids[part])
		return;
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
		if (g->pids[i] > 0 && waitpid(g->pids[i], NULL, WNOHANG))
			g->pids[i] = 0;
		all = all && g->pids[i] <= 0;
	}
	return all;
}

static void await(struct gather *g)
{
	const struct timespec pause = {0, 5 * 1000000};

	while (!reap(g) && h2d_now_ns() < g->end_ns && !h2d_signals_caught())
		nanosleep(&pause, NULL);
	for (int i = 0; i < PARTS; i++)
		if (g->pids[i] > 0)
			kill(g->pids[i], SIGKILL);
	/* One that hangs in the kernel is left to init. */
	for (int i = 0; i < 20 && !reap(g); i++)
		nanosleep(&pause, NULL);
}

/* ---- what they did not say ---- */

static void unanswered(struct gather *g, enum part part, const char *what)
{
	struct h2d_doctor_gathered *s = g->shared;
	struct h2d_doctor_facts *f = &s->facts;
	bool late = h2d_now_ns() >= g->end_ns;

	h2d_say(f->late[f->late_count++], sizeof(f->late[0]), "%s: %s %s %u s", what,
		s->doing[part][0] ? s->doing[part] : "reading it",
		late ? "did not end within" : "broke off after",
		(unsigned)((h2d_now_ns() - g->begin_ns) / 1000000000u));
}

static void settle(struct gather *g)
{
	struct h2d_doctor_gathered *s = g->shared;
	struct h2d_doctor_facts *f = &s->facts;

	if (!atomic_load(&s->done[MACHINE])) {
		memset(&f->machine, 0, sizeof(f->machine));
		f->machine_late = true;
		unanswered(g, MACHINE, "the machine's devices and the kernel's log");
	}
	if (!atomic_load(&s->done[KERNEL])) {
		f->kernel_late = true;
		unanswered(g, KERNEL, "the kernel's driver");
		h2d_doctor_kernel_unread(&f->measured, "reading its driver did not end",
					 &f->kernel);
	}
	if (!atomic_load(&s->done[PROCESS])) {
		f->process_late = true;
		f->have_process = false;
		unanswered(g, PROCESS, "the process");
		h2d_say(f->process_why, sizeof(f->process_why), "%s",
			f->late[f->late_count - 1] + strlen("the process: "));
	}
	if (g->what->cli->common.json && !atomic_load(&s->done[ENVIRONMENT])) {
		f->environment_late = true;
		unanswered(g, ENVIRONMENT, "the document's environment");
	}
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

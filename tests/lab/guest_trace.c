/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracing, shown on a kernel: a program copies 32 MiB of weights that it maps as PyTorch does,
 * under `h2d probe trace`, and what was traced is what the module counted.
 *
 * usage: guest_trace MAP-CHECKPOINT H2D shipped|emulated
 */
#include "programs.h"

static json_t *function(const json_t *process, const char *name)
{
	json_t *f;
	size_t i;

	json_array_foreach(json_object_get(process, "functions"), i, f)
	{
		if (!strcmp(text_of(f, "name"), name))
			return f;
	}
	return NULL;
}

static long long durations(const json_t *f)
{
	long long sum = 0;
	json_t *d;
	size_t i;

	json_array_foreach(json_object_get(f, "durations"), i, d) sum += number_of(d, "count");
	return sum;
}

static void nothing_lost(const json_t *report, int events)
{
	static const char *const zero[] = {
		"lost_event_count",	"missed_probe_count",	  "dropped_count",
		"malformed_line_count", "unmatched_return_count", "unfinished_call_count",
		"unplaced_ebusy_count", "unkept_call_count",
	};
	json_t *overhead = json_object_get(report, "overhead");

	for (size_t i = 0; i < sizeof(zero) / sizeof(zero[0]); i++)
		CHECK_EQ(number_of(overhead, zero[i]), 0);
	CHECK(number_of(overhead, "event_count") >= events);
}

static void counts(void)
{
	json_t *c = command(0, 1), *module = parsed(text_of(c, "stdout"), true);
	json_t *report = parsed(text_of(c, "stderr"), true), *total, *outer, *fault;

	total = json_object_get(report, "total");
	outer = function(total,
			 shipped ? "amdgpu_hmm_range_get_pages" : "h2d_emulated_get_pages");
	fault = function(total, "hmm_range_fault");
	CHECK_STR(text_of(report, "mechanism"), "kprobe_events");
	CHECK_STR(text_of(json_object_get(report, "verdict"), "value"), "windows");
	CHECK_EQ(number_of(json_object_get(report, "target"), "status"), 0);
	CHECK_EQ(json_array_size(json_object_get(report, "processes")), 1);
	nothing_lost(report, 2 * (SPANS + 1));
	/* What the module says: one outer call more than restarts, each with its window. */
	CHECK_EQ(number_of(module, "restart_count"), SPANS);
	CHECK_EQ(number_of(outer, "call_count"), number_of(module, "restart_count") + 1);
	CHECK_EQ(number_of(outer, "eagain_count"), number_of(module, "restart_count"));
	CHECK_EQ(number_of(outer, "ok_count"), 1);
	CHECK_EQ(number_of(outer, "timed_count"), SPANS + 1);
	CHECK_EQ(durations(outer), SPANS + 1);
	CHECK_EQ(number_of(total, "outer_call_count"), SPANS + 1);
	CHECK_EQ(number_of(total, "outer_ebusy_call_count"), SPANS);
	CHECK_EQ(number_of(total, "windows"), SPANS);
	CHECK_EQ(number_of(module, "callback_count"), (32 << 20) / 4096);
	/* Every call of hmm_range_fault, although there are very many. */
	CHECK_EQ(durations(fault), number_of(fault, "call_count"));
	CHECK_EQ(number_of(fault, "call_count"),
		 number_of(fault, "ebusy_count") + number_of(fault, "ok_count"));
	CHECK_EQ(number_of(fault, "ok_count"), 1);
	/* On a busy host one call may take a whole shortened timeout. */
	CHECK(number_of(total, "ebusy_per_call_max_count") >= 1);
	if (!shipped) {
		CHECK_EQ(number_of(fault, "call_count"), number_of(module, "fault_call_count"));
		CHECK_EQ(number_of(fault, "ebusy_count"),
			 number_of(module, "fault_ebusy_count"));
	}
	json_decref(report);
	json_decref(module);
}

/* The same by BPF. The laboratory's module has no BTF, so there its outer calls are unseen. */
static void by_bpf(void)
{
	json_t *c = json_array_get(json_object_get(kernel, "commands"), 6), *module, *report;
	json_t *total, *fault, *outer;

	report = parsed(text_of(c, "stderr"), true);
	if (strstr(text_of(json_object_get(report, "verdict"), "reason"), "without libbpf"))
		return;
	command(6, shipped ? 1 : 77);
	module = parsed(text_of(c, "stdout"), true);
	CHECK_STR(text_of(report, "mechanism"), "bpf");
	total = json_object_get(report, "total");
	fault = function(total, "hmm_range_fault");
	CHECK_EQ(durations(fault), number_of(fault, "call_count"));
	CHECK_EQ(number_of(fault, "call_count"), number_of(fault, "timed_count"));
	CHECK_EQ(number_of(fault, "ok_count"), 1);
	CHECK_EQ(number_of(module, "restart_count"), SPANS);
	CHECK_EQ(json_array_size(json_object_get(report, "processes")), 1);
	if (shipped) {
		outer = function(total, "amdgpu_hmm_range_get_pages");
		CHECK_EQ(number_of(outer, "call_count"), SPANS + 1);
		CHECK_EQ(number_of(outer, "eagain_count"), SPANS);
		CHECK_EQ(durations(outer), SPANS + 1);
		CHECK_EQ(number_of(total, "windows"), SPANS);
		CHECK_EQ(number_of(total, "outer_ebusy_call_count"), SPANS);
		nothing_lost(report, SPANS + 1);
	} else {
		CHECK_EQ(number_of(fault, "call_count"), number_of(module, "fault_call_count"));
		CHECK_EQ(number_of(fault, "ebusy_count"),
			 number_of(module, "fault_ebusy_count"));
		nothing_lost(report, 0);
	}
	json_decref(report);
	json_decref(module);
}

/* The same program, not there, and nothing that reaches the driver: told apart from "clean". */
static void not_reached(void)
{
	json_t *report = parsed(text_of(command(1, 77), "stderr"), true);

	CHECK_STR(text_of(json_object_get(report, "verdict"), "value"), "not_reached");
	CHECK_EQ(number_of(json_object_get(report, "total"), "outer_call_count"), 0);
	json_decref(report);
	command(2, 3);
}

/* A process that runs already, as one rank: it is traced to its end, with its name and rank,
 * and the counts so far are told meanwhile. */
static void running(void)
{
	json_t *c = json_array_get(json_object_get(kernel, "commands"), 7), *module, *report;
	const char *text = text_of(c, "stderr");
	json_t *process, *outer;

	CHECK_EQ(number_of(c, "status"), 1);
	fprintf(stderr, "%s", text);
	report = json_object_get(c, "document");
	CHECK(strstr(text, " outer calls, "));
	module = parsed(strchr(text, '{') ? strchr(text, '{') : "", true);
	CHECK_STR(text_of(json_object_get(report, "target"), "kind"), "process");
	CHECK_STR(text_of(json_object_get(report, "verdict"), "value"), "windows");
	CHECK_EQ(json_array_size(json_object_get(report, "processes")), 1);
	process = json_array_get(json_object_get(report, "processes"), 0);
	CHECK_EQ(number_of(process, "pid"),
		 number_of(json_object_get(report, "target"), "pid"));
	CHECK_STR(text_of(process, "name"), "map-checkpoint");
	CHECK_EQ(number_of(process, "rank"), 3);
	CHECK_EQ(number_of(process, "local_rank"), 1);
	CHECK_EQ(number_of(module, "restart_count"), SPANS);
	CHECK_EQ(number_of(process, "windows"), SPANS);
	outer = function(process,
			 shipped ? "amdgpu_hmm_range_get_pages" : "h2d_emulated_get_pages");
	CHECK_EQ(number_of(outer, "call_count"), SPANS + 1);
	nothing_lost(report, 2 * (SPANS + 1));
	json_decref(module);
}

/* One that goes on: tracing ends at its time. */
static void for_a_while(void)
{
	json_t *c = json_array_get(json_object_get(kernel, "commands"), 8), *report;

	CHECK_EQ(number_of(c, "status"), 77);
	report = json_object_get(c, "document");
	CHECK_STR(text_of(json_object_get(report, "target"), "kind"), "process");
	CHECK_STR(text_of(json_object_get(report, "verdict"), "value"), "not_reached");
	CHECK(number_of(report, "elapsed_ns") >= 2000000000);
	CHECK_EQ(json_array_size(json_object_get(report, "processes")), 0);
	CHECK(strstr(text_of(c, "stderr"), " 0 outer calls, "));
}

/* Nothing is left behind; tracing goes on working. */
static void clean(void)
{
	json_t *c = json_array_get(json_object_get(kernel, "commands"), 3);

	/* Ended by a signal while it traced. */
	CHECK_EQ(number_of(c, "status"), 77);
	CHECK_STR(text_of(command(4, 0), "stdout"), "");
	CHECK_STR(text_of(command(5, 0), "stdout"), "");
}

int main(int argc, char **argv)
{
	const char *files[] = {NULL, NULL, "/bin/cat", "/bin/ls", "/bin/dash", "/bin/sleep"};
	char later[512];
	json_t *document;

	if (argc < 4)
		return 2;
	files[0] = argv[1];
	files[1] = argv[2];
	shipped = strcmp(argv[3], "shipped") == 0;

	const char *const traced[] = {"/bin/h2d",
				      "probe",
				      "trace",
				      "--json",
				      "--mechanism",
				      "kprobe",
				      "--timeout-ms",
				      shipped ? "1000" : TIMEOUT_TEXT,
				      "--",
				      "/bin/map-checkpoint",
				      "/mnt/ext4/model.safetensors",
				      shipped ? "shipped" : "stale",
				      shipped ? NULL : TIMEOUT_TEXT,
				      NULL};
	const char *const bpf[] = {"/bin/h2d",
				   "probe",
				   "trace",
				   "--json",
				   "--mechanism",
				   "bpf",
				   "--timeout-ms",
				   shipped ? "1000" : TIMEOUT_TEXT,
				   "--",
				   "/bin/map-checkpoint",
				   "/mnt/ext4/model.safetensors",
				   shipped ? "shipped" : "stale",
				   shipped ? NULL : TIMEOUT_TEXT,
				   NULL};
	const char *const idle[] = {"/bin/h2d", "probe",    "trace",   "--json",
				    "--",	"/bin/h2d", "version", NULL};
	const char *const absent[] = {"/bin/h2d", "probe",	 "trace", "--json",
				      "--",	  "/bin/absent", NULL};
	/* Only a started command can end its tracer, so it is tracing by then. */
	const char *const ended[] = {
		"/bin/h2d", "probe",	 "trace", "--json",
		"--",	    "/bin/dash", "-c",	  "kill -TERM $PPID; while :; do :; done",
		NULL};
	const char *const events[] = {"/bin/cat", "/sys/kernel/tracing/kprobe_events",
				      "/sys/kernel/tracing/synthetic_events", NULL};
	const char *const instances[] = {"/bin/ls", "/sys/kernel/tracing/instances", NULL};
	/* It waits until it is traced: an instance of tracefs is made before that. */
	snprintf(later, sizeof(later),
		 "(export RANK=3 LOCAL_RANK=1; while [ \"$(ls /sys/kernel/tracing/instances)\" "
		 "= "
		 "'' ]; do sleep 1; done; sleep 3; exec map-checkpoint "
		 "/mnt/ext4/second.safetensors "
		 "%s %s >&2) & exec h2d probe trace --json --mechanism kprobe --timeout-ms %s "
		 "--interval 1 --duration 600 -p $!",
		 shipped ? "shipped" : "stale", shipped ? "" : TIMEOUT_TEXT,
		 shipped ? "1000" : TIMEOUT_TEXT);
	const char *const pid[] = {"/bin/dash", "-c", later, NULL};
	const char *const a_while[] = {"/bin/dash", "-c",
				       "exec h2d probe trace --json --mechanism kprobe "
				       "--interval 1 --duration 2 -p $$",
				       NULL};
	const char *const *const commands[] = {traced,	  idle, absent, ended,	events,
					       instances, bpf,	pid,	a_while};

	document = run_programs(argv[3], files, 6, commands, 9);
	RUN(counts);
	RUN(by_bpf);
	RUN(not_reached);
	RUN(clean);
	RUN(running);
	RUN(for_a_while);
	json_decref(document);
	return TEST_DONE();
}

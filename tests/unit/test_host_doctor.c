/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_host */
/* What no capture can hold: measurements, conflicts, programs under h2d run, odd command lines.
 * Judging is a pure function of these facts. */
#include "host/doctor.h"
#include "scratch.h"
#include "test.h"

static struct h2d_switches *switches;
static struct h2d_doctor_facts facts;
static struct h2d_diagnosis diagnosis;

static const struct h2d_finding *judge(void)
{
	h2d_doctor_judge(&facts, switches, &diagnosis);
	return &diagnosis.findings[0];
}

static bool says(const struct h2d_finding *f, const char *text)
{
	for (size_t i = 0; i < f->evidence_count; i++)
		if (strstr(f->evidence[i], text))
			return true;
	return strstr(f->line, text) || strstr(f->action, text);
}

static void amd(enum h2d_stall stall, enum h2d_confidence confidence)
{
	memset(&facts, 0, sizeof(facts));
	facts.machine.gpus_visible = true;
	facts.machine.amd = true;
	facts.kernel.stall = stall;
	facts.kernel.confidence = confidence;
	facts.kernel.policy = stall == H2D_STALL_YES ? H2D_RETRY_STALE : H2D_RETRY_NONE;
}

/* A process whose one mapping of a checkpoint is as told. */
static void process(const char *permissions, uint64_t anonymous_bytes, char **words,
		    size_t word_count)
{
	static struct h2d_mapped_file file;
	static struct h2d_file_mapping mapping;

	file = (struct h2d_mapped_file){
		.path = (char *)(uintptr_t) "/models/m.safetensors",
		.checkpoint = true,
		.content_known = true,
		.size_known = true,
		.size_bytes = UINT64_C(8) << 30,
		.fd = -1,
	};
	mapping = (struct h2d_file_mapping){
		.begin = 1 << 20,
		.end = (1 << 20) + (UINT64_C(8) << 30),
		.anonymous_bytes = anonymous_bytes,
		.seen = H2D_SMAPS_ANONYMOUS,
	};
	memcpy(mapping.permissions, permissions, 5);
	facts.have_process = facts.asked_for_process = true;
	facts.process = (struct h2d_process){
		.pid = 42,
		.name = "python3",
		.files = &file,
		.file_count = 1,
		.mappings = &mapping,
		.mapping_count = 1,
		.words = words,
		.word_count = word_count,
		.checkpoint_count = 1,
		.checkpoint_file_bytes = file.size_bytes,
		.largest = &file,
	};
	facts.process.checkpoints.mapping_count = 1;
	facts.process.checkpoints.size_bytes = mapping.end - mapping.begin;
	if (h2d_mapping_is_writable(&mapping))
		facts.process.writable = facts.process.checkpoints;
	if (h2d_mapping_is_copied(&facts.process, &mapping)) {
		facts.process.copied = facts.process.checkpoints;
		facts.process.copied.anonymous_bytes = anonymous_bytes;
	}
}

static void measured_stall(void)
{
	const struct h2d_finding *f;

	amd(H2D_STALL_YES, H2D_CONFIDENCE_HIGH);
	facts.machine.amd = false; /* the hmm device: no GPU at all */
	facts.kernel.by_measurement = true;
	snprintf(facts.kernel.statements[0], sizeof(facts.kernel.statements[0]),
		 "measured on hmm:shipped: affected");
	facts.kernel.statement_count = 1;
	f = judge();
	CHECK_STR(f->id, "stall");
	CHECK_EQ(f->status, H2D_DOCTOR_AFFECTED);
	CHECK_STR(f->line, "Your kernel has the one-second copy bug. Run: h2d run -- COMMAND");
	CHECK(says(f, "measured on hmm:shipped"));
	CHECK(f->gain[0] && f->source[0]);
	snprintf(facts.kernel.upgrade_to, sizeof(facts.kernel.upgrade_to), "linux-image-9");
	f = judge();
	CHECK_STR(f->line, "Your kernel has the one-second copy bug. Upgrade to linux-image-9, "
			   "or run: h2d run -- COMMAND");
	CHECK_STR(f->action, "Upgrade the kernel to linux-image-9");
	facts.kernel.confidence = H2D_CONFIDENCE_MEDIUM;
	CHECK(says(judge(), "probably has"));
}

static void a_conflict_is_told(void)
{
	const struct h2d_finding *f;

	amd(H2D_STALL_NO, H2D_CONFIDENCE_LOW);
	snprintf(facts.kernel.conflict, sizeof(facts.kernel.conflict),
		 "the table says stale, the file no_retry");
	f = judge();
	CHECK_STR(f->id, "kernel_well");
	CHECK_EQ(f->confidence, H2D_CONFIDENCE_LOW);
	CHECK(says(f, "Not all of that agrees: the table says stale"));
}

static void a_version_proves_nothing(void)
{
	amd(H2D_STALL_NO, H2D_CONFIDENCE_MEDIUM);
	facts.kernel.only_table = true;
	CHECK_EQ(judge()->status, H2D_DOCTOR_UNKNOWN);
	facts.kernel.only_table = false;
	CHECK_EQ(judge()->status, H2D_DOCTOR_WELL);
	CHECK(!judge()->action[0]);
	facts.kernel.permission = H2D_PERMISSION_VMA;
	CHECK(says(judge(), "h2d run -- COMMAND"));
	amd(H2D_STALL_UNKNOWN, H2D_CONFIDENCE_LOW);
	CHECK_STR(judge()->id, "kernel_unknown");
	CHECK_EQ(judge()->status, H2D_DOCTOR_UNKNOWN);
}

static void a_read_only_mapping_is_out_of_reach(void)
{
	amd(H2D_STALL_YES, H2D_CONFIDENCE_HIGH);
	process("r--p", 0, NULL, 0);
	CHECK_STR(judge()->id, "process_well");
	CHECK_EQ(judge()->status, H2D_DOCTOR_WELL);
	CHECK_STR(diagnosis.findings[diagnosis.count - 1].id, "stall_out_of_reach");
	/* Not asked about that process, the machine is what matters. */
	facts.asked_for_process = false;
	CHECK_STR(judge()->id, "stall");
	process("rw-p", 0, NULL, 0);
	CHECK_STR(judge()->id, "stall");
	process("rw-s", 0, NULL, 0);
	CHECK_STR(judge()->id, "process_well");
}

static void copies_and_their_cure(void)
{
	char *words[] = {(char[]){"python3"}, (char[]){"my app.py"}, (char[]){"it's"}};
	char *title[] = {(char[]){"VLLM::EngineCore"}};
	const struct h2d_finding *f;

	amd(H2D_STALL_NO, H2D_CONFIDENCE_HIGH);
	process("rw-p", 5 << 20, words, 3);
	f = judge();
	CHECK_STR(f->id, "copied");
	CHECK(says(f, "5.00 MiB so far. Run: h2d run -- python3 'my app.py' 'it'\\''s'"));
	facts.redact = true;
	CHECK(says(judge(), "h2d run -- COMMAND"));
	facts.redact = false;
	process("rw-p", 5 << 20, title, 1);
	facts.program = "vLLM";
	f = judge();
	CHECK(says(f, "h2d run -- COMMAND"));
	CHECK(strstr(f->otherwise, "--safetensors-load-strategy eager"));
	facts.program = NULL;

	/* What h2d run could not help is the program's own doing. */
	facts.process.runtimes = H2D_RUNTIME_H2D_RUN;
	f = judge();
	CHECK(says(f, "writes its weights itself"));
	CHECK(!strstr(f->line, "Run:") && f->action[0]);
	facts.process.runtimes = 0;

	/* A few pages are nobody's, unless more come; not asked for they are no news. */
	process("rw-p", 4096, NULL, 0);
	CHECK_STR(judge()->id, "few_copied");
	CHECK_EQ(judge()->status, H2D_DOCTOR_UNKNOWN);
	facts.trend.anon_delta_bytes = 1 << 20;
	CHECK_STR(judge()->id, "copied");
	facts.trend.anon_delta_bytes = 0;
	facts.asked_for_process = false;
	CHECK_STR(judge()->id, "kernel_well");

	process("rw-p", 5 << 20, NULL, 0);
	facts.process.copied.swap_bytes = 9 << 20;
	CHECK_STR(judge()->id, "swapped");
	facts.memory.group_limit_bytes.known = true;
	facts.memory.group_limit_bytes.value = UINT64_C(4) << 30;
	CHECK_STR(judge()->id, "will_not_fit");
}

/* Pages that were written before the mapping was made read-only are copies all the same. */
static void copies_that_are_read_only_now(void)
{
	const struct h2d_finding *f;

	amd(H2D_STALL_NO, H2D_CONFIDENCE_HIGH);
	process("r--p", 5 << 20, NULL, 0);
	facts.trend.progress = H2D_PROGRESS_STILL;
	facts.trend.state = 'S';
	f = judge();
	CHECK_STR(f->id, "copied");
	CHECK(says(f, "has copied its checkpoint into anonymous memory: 5.00 MiB"));
	CHECK(says(f, "hold pages that were written while they were writable: 5.00 MiB"));
	CHECK(says(f, "The mapping was writable"));
	/* The bug's windows came with those writes. */
	amd(H2D_STALL_YES, H2D_CONFIDENCE_HIGH);
	process("r--p", 5 << 20, NULL, 0);
	CHECK_STR(judge()->id, "stall");
	process("rw-p", 5 << 20, NULL, 0);
	facts.kernel.stall = H2D_STALL_NO;
	facts.trend.progress = H2D_PROGRESS_MOVING;
	CHECK(says(judge(), "copies its checkpoint into anonymous memory while it loads"));
}

/* What cannot be told is not cleared. */
static void copies_that_cannot_be_told(void)
{
	const struct h2d_finding *f;

	amd(H2D_STALL_NO, H2D_CONFIDENCE_HIGH);
	process("rw-p", 5 << 20, NULL, 0);
	facts.process.files->checkpoint = false;
	facts.process.files->content_known = false;
	facts.process.files->named_like_one = true;
	snprintf(facts.process.files->why, sizeof(facts.process.files->why), "it is deleted");
	facts.process.copied.mapping_count = facts.process.checkpoint_count = 0;
	f = judge();
	CHECK_STR(f->id, "copies_unknown");
	CHECK_EQ(f->status, H2D_DOCTOR_UNKNOWN);
	CHECK(says(f, "it is deleted"));
	/* Beside a checkpoint that is mapped read-only it is no safer. */
	facts.kernel.stall = H2D_STALL_YES;
	facts.process.checkpoint_count = 1;
	facts.process.writable.mapping_count = 0;
	CHECK_STR(judge()->id, "stall");

	/* Nobody wrote there. */
	amd(H2D_STALL_NO, H2D_CONFIDENCE_HIGH);
	process("rw-p", 0, NULL, 0);
	facts.process.files->named_like_one = true;
	CHECK_STR(judge()->id, "process_well");

	process("rw-p", 0, NULL, 0);
	facts.process.mappings->seen = 0;
	facts.process.only_maps = true;
	CHECK_STR(judge()->id, "copies_unknown");
	CHECK(!says(judge(), "0 B copied"));
	process("rw-p", 0, NULL, 0);
	facts.process.cut = true;
	CHECK_STR(judge()->id, "copies_unknown");
	facts.trend.progress = H2D_PROGRESS_SLOW;
	CHECK_STR(judge()->id, "slow");
	CHECK(!says(judge(), "none of the known causes"));
	process("rw-p", 0, NULL, 0);
	facts.process.state = 'Z';
	facts.trend.progress = H2D_PROGRESS_UNKNOWN;
	CHECK_STR(judge()->id, "copies_unknown");
}

/* A first thread that sleeps or computes may wait for one that hangs. */
static void a_worker_hangs(void)
{
	amd(H2D_STALL_NO, H2D_CONFIDENCE_HIGH);
	process("r--p", 0, NULL, 0);
	facts.trend.elapsed_ns = 1500000000;
	facts.trend.progress = H2D_PROGRESS_STILL;
	facts.trend.state = 'S';
	CHECK_STR(judge()->id, "process_well");
	facts.trend.threads_stuck = 2;
	CHECK_STR(judge()->id, "still");
	CHECK_EQ(judge()->status, H2D_DOCTOR_UNKNOWN);
	CHECK(says(judge(), "2 of its threads wait in the kernel"));
	facts.trend.progress = H2D_PROGRESS_BUSY;
	CHECK_STR(judge()->id, "still");
	facts.trend.progress = H2D_PROGRESS_MOVING;
	CHECK_STR(judge()->id, "process_well");
}

/* The log names no process: only one that maps more than the limit can be it. */
static void whose_the_svm_limit_is(void)
{
	const struct h2d_finding *f;

	amd(H2D_STALL_NO, H2D_CONFIDENCE_HIGH);
	snprintf(facts.machine.svm_limit, sizeof(facts.machine.svm_limit),
		 "amdgpu: SVM mapping failed, exceeds resident system memory limit");
	facts.machine.ttm_limit_bytes = (struct h2d_known_u64){true, UINT64_C(16) << 30};
	f = judge();
	CHECK_STR(f->id, "svm_limit");
	CHECK_EQ(f->confidence, H2D_CONFIDENCE_MEDIUM);
	CHECK(says(f, "of some program"));
	process("r--p", 0, NULL, 0);
	CHECK_STR(judge()->id, "process_well");
	f = &diagnosis.findings[diagnosis.count - 1];
	CHECK_STR(f->id, "svm_limit");
	CHECK_EQ(f->status, H2D_DOCTOR_UNKNOWN);
	CHECK_EQ(f->confidence, H2D_CONFIDENCE_LOW);
	facts.machine.ttm_limit_bytes.value = UINT64_C(4) << 30;
	f = judge();
	CHECK_STR(f->id, "svm_limit");
	CHECK_EQ(f->confidence, H2D_CONFIDENCE_HIGH);
	CHECK(says(f, "refuses to map a checkpoint"));
	/* Nothing is known of the limit. */
	facts.machine.ttm_limit_bytes.known = false;
	CHECK_STR(judge()->id, "process_well");
}

static void nothing_is_said_of_what_was_not_seen(void)
{
	memset(&facts, 0, sizeof(facts));
	facts.asked_for_process = true;
	snprintf(facts.process_why, sizeof(facts.process_why), "closed");
	CHECK_STR(judge()->id, "process_unseen");
	CHECK_EQ(judge()->status, H2D_DOCTOR_UNKNOWN);
	CHECK(diagnosis.unseen_count > 3);
	memset(&facts, 0, sizeof(facts));
	CHECK_STR(judge()->id, "no_gpu");
	CHECK_EQ(judge()->confidence, H2D_CONFIDENCE_LOW); /* PCI was not visible */
	facts.machine.gpus_visible = true;
	CHECK_EQ(judge()->confidence, H2D_CONFIDENCE_HIGH);
	facts.machine.nvidia = true;
	CHECK_STR(judge()->id, "nothing_known");
	facts.machine.unified = true;
	CHECK_STR(judge()->id, "coherent");
}

static bool finds(const char *id)
{
	judge();
	for (size_t i = 0; i < diagnosis.count; i++)
		if (!strcmp(diagnosis.findings[i].id, id))
			return true;
	return false;
}

/* What could not be looked at, or died of it, does not hang. */
static void only_what_is_late_hangs(void)
{
	static const enum h2d_doctor_end ends[] = {H2D_DOCTOR_SEEN, H2D_DOCTOR_NOT_STARTED,
						   H2D_DOCTOR_DIED, H2D_DOCTOR_LATE};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		bool late = ends[i] == H2D_DOCTOR_LATE, seen = ends[i] == H2D_DOCTOR_SEEN;

		memset(&facts, 0, sizeof(facts));
		facts.machine_end = ends[i];
		snprintf(facts.machine_why, sizeof(facts.machine_why), "the reason");
		CHECK_EQ(finds("machine_hangs"), late);
		CHECK_EQ(finds("machine_unseen"), !late && !seen);
		CHECK_EQ(finds("no_gpu"), seen);
		CHECK_EQ(says(judge(), "hangs"), late);
		CHECK_EQ(says(judge(), "the reason"), !late && !seen);
		facts.asked_for_process = true;
		facts.process_end = ends[i];
		CHECK_STR(judge()->id, "process_unseen");
		CHECK_EQ(says(judge(), "wchan"), late);
		CHECK_EQ(says(judge(), "ulimit -u"), ends[i] == H2D_DOCTOR_NOT_STARTED);
	}
}

/* Copies that did not wait say so, even where it cannot be seen which policy that was. */
static void a_clean_measurement(void)
{
	struct h2d_doctor_measured m = {.done = true, .confidence = H2D_CONFIDENCE_HIGH};
	struct h2d_doctor_kernel k;
	const char *source = getenv("H2D_SOURCE_DIR");
	char root[512];

	snprintf(m.statement, sizeof(m.statement), "measured on hip:0: clean");
	h2d_doctor_kernel_read("/nonexistent", &m, &scratch_log, &k);
	CHECK_EQ(k.stall, H2D_STALL_NO);
	CHECK(k.by_measurement && !k.only_table);
	CHECK_EQ(k.confidence, H2D_CONFIDENCE_HIGH);
	CHECK_STR(k.statements[0], "measured on hip:0: clean");
	if (!source)
		return;
	snprintf(root, sizeof(root), "%s/tests/replay/captures/radeon-debian-115", source);
	h2d_doctor_kernel_read(root, &m, &scratch_log, &k);
	CHECK_EQ(k.stall, H2D_STALL_NO);
	CHECK_EQ(k.confidence, H2D_CONFIDENCE_LOW);
	CHECK(k.conflict[0]);
	m.done = false;
	h2d_doctor_kernel_read(root, &m, &scratch_log, &k);
	CHECK_EQ(k.stall, H2D_STALL_YES);
	CHECK(k.by_file && !k.by_measurement && !k.conflict[0]);
}

/* Every combination has an answer, in order, and the first one is the most urgent. */
static void there_is_always_an_answer(void)
{
	for (unsigned bits = 0; bits < 1 << 9; bits++) {
		memset(&facts, 0, sizeof(facts));
		facts.machine.amd = bits & 1;
		facts.machine.nvidia = bits & 2;
		facts.machine.unified = bits & 4;
		facts.machine.container = bits & 8;
		facts.kernel.stall = (enum h2d_stall)(bits >> 4 & 3) % 3;
		if (bits & 64)
			process(bits & 128 ? "rw-p" : "r--p", bits & 256 ? 3 << 20 : 0, NULL,
				0);
		if (facts.have_process)
			facts.asked_for_process = !(bits & 8);
		else
			facts.asked_for_process = bits & 128;
		judge();
		CHECK(diagnosis.count > 0);
		for (size_t i = 0; i < diagnosis.count; i++) {
			const struct h2d_finding *f = &diagnosis.findings[i];

			CHECK(f->id && f->line[0]);
			CHECK(f->status != H2D_DOCTOR_AFFECTED || f->action[0]);
			CHECK(i == 0 || f->status != H2D_DOCTOR_AFFECTED ||
			      diagnosis.findings[0].status == H2D_DOCTOR_AFFECTED);
		}
	}
}

int main(void)
{
	if (h2d_switches_open(NULL, &scratch_log, &switches))
		return 1;
	RUN(measured_stall);
	RUN(a_conflict_is_told);
	RUN(a_version_proves_nothing);
	RUN(a_read_only_mapping_is_out_of_reach);
	RUN(copies_and_their_cure);
	RUN(copies_that_are_read_only_now);
	RUN(copies_that_cannot_be_told);
	RUN(a_worker_hangs);
	RUN(whose_the_svm_limit_is);
	RUN(nothing_is_said_of_what_was_not_seen);
	RUN(only_what_is_late_hangs);
	RUN(a_clean_measurement);
	RUN(there_is_always_an_answer);
	h2d_switches_close(switches);
	return TEST_DONE();
}

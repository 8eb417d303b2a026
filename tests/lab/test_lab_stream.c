/* SPDX-License-Identifier: Apache-2.0 */
/* The job and result stream: what was written is read, and nothing else is. */
#include <unistd.h>

#include "lab/internal.h"
#include "lab/klog.h"
#include "unit/test.h"

static const struct h2d_log silent;

struct writer {
	uint8_t data[1 << 16];
	size_t size;
};

static void put(struct writer *w, uint16_t type, uint32_t step, const void *payload,
		size_t length)
{
	struct lab_record record = {.type = type, .step = step, .length = (uint32_t)length};

	lab_record_head_encode(&record, w->data + w->size);
	if (length)
		memcpy(w->data + w->size + LAB_RECORD_HEAD_BYTES, payload, length);
	w->size += lab_record_total((uint32_t)length);
}

static void put_end(struct writer *w, uint32_t step, int32_t status, uint32_t flags)
{
	struct lab_step_end end = {
		.status = status, .flags = flags, .elapsed_ns = 12345678901u};
	uint8_t wire[LAB_STEP_END_BYTES];

	lab_step_end_encode(&end, wire);
	put(w, LAB_RES_END, step, wire, sizeof(wire));
}

/* Three steps: one done, one failed, one that never ended. */
static void write_results(struct writer *w, uint64_t key)
{
	memset(w, 0, sizeof(*w));
	lab_stream_head_encode(key, w->data);
	w->size = LAB_STREAM_HEAD_BYTES;
	put(w, LAB_RES_BOOT, 0, "6.1.0-x\0#1\0", 11);
	put(w, LAB_RES_BEGIN, 0, NULL, 0);
	put(w, LAB_RES_OUT, 0, "hello ", 6);
	put(w, LAB_RES_OUT, 0, "wor\0ld", 6);
	put_end(w, 0, 0, 0);
	put(w, LAB_RES_BEGIN, 1, NULL, 0);
	put(w, LAB_RES_ERR, 1, "no such thing\n", 14);
	put(w, LAB_RES_KMSG, 1, "WARNING: CPU: 0", 15);
	put_end(w, 1, -9, LAB_END_TIMED_OUT | LAB_END_SIGNALLED);
	put(w, LAB_RES_NOTE, 2, "about to", 8);
	put(w, LAB_RES_BEGIN, 2, NULL, 0);
}

static void make_job(struct lab_job *job)
{
	const char *const argv[] = {"/bin/x", "a b", "", NULL};

	lab_job_begin(job);
	lab_job_add(job, LAB_JOB_LOAD, true, "/modules/a.ko", "signature=1", NULL);
	lab_job_add(job, LAB_JOB_MKDIR, false, "/mnt", NULL);
	lab_job_run(job, false, "cell", 1500, argv);
}

static void job_round_trip(void)
{
	struct lab_job job;
	struct lab_cursor cursor;
	struct lab_record record;
	size_t offset = 0;

	make_job(&job);
	REQUIRE(!job.failed);
	CHECK_EQ(job.step_count, 3);
	REQUIRE(lab_cursor_open(&cursor, job.data, job.size, job.key) == 0);
	CHECK(lab_cursor_open(&(struct lab_cursor){0}, job.data, job.size, job.key + 1) == -1);
	REQUIRE(lab_cursor_next(&cursor, &record) == 1);
	CHECK_EQ(record.type, LAB_JOB_LOAD);
	CHECK_EQ(record.flags, LAB_FLAG_REQUIRED);
	CHECK_STR(lab_record_string(&record, &offset), "/modules/a.ko");
	CHECK_STR(lab_record_string(&record, &offset), "signature=1");
	CHECK(!lab_record_string(&record, &offset));
	REQUIRE(lab_cursor_next(&cursor, &record) == 1);
	CHECK_EQ(record.flags, 0);
	REQUIRE(lab_cursor_next(&cursor, &record) == 1);
	offset = 0;
	CHECK_STR(lab_record_string(&record, &offset), "cell");
	CHECK_STR(lab_record_string(&record, &offset), "1500");
	CHECK_STR(lab_record_string(&record, &offset), "/bin/x");
	CHECK_STR(lab_record_string(&record, &offset), "a b");
	CHECK_STR(lab_record_string(&record, &offset), "");
	CHECK(!lab_record_string(&record, &offset));
	CHECK_EQ(lab_cursor_next(&cursor, &record), 0);
	lab_job_free(&job);
}

static void results(void)
{
	static struct writer w;
	struct lab_steps steps;
	struct lab_job job;

	make_job(&job);
	write_results(&w, job.key);
	/* The rest of the disk is zeros. */
	REQUIRE(lab_steps_parse(&silent, w.data, sizeof(w.data), &job, &steps) == 0);
	CHECK(!steps.damaged && !steps.done);
	CHECK_STR(steps.boot_release, "6.1.0-x");
	CHECK_STR(steps.notes, "about to\n");
	CHECK_STR(steps.steps[0].out, "hello wor?ld");
	CHECK_EQ(steps.steps[0].out_bytes, 12);
	CHECK(steps.steps[0].ended && steps.steps[0].end.status == 0);
	CHECK_EQ(steps.steps[0].end.elapsed_ns, 12345678901);
	CHECK_STR(steps.steps[1].err, "no such thing\n");
	CHECK_STR(steps.steps[1].kmsg, "WARNING: CPU: 0\n");
	CHECK_EQ(steps.steps[1].end.status, -9);
	CHECK_EQ(steps.steps[1].end.flags, LAB_END_TIMED_OUT | LAB_END_SIGNALLED);
	CHECK(steps.steps[2].begun && !steps.steps[2].ended);
	lab_steps_free(&steps);
	put(&w, LAB_RES_DONE, 3, NULL, 0);
	REQUIRE(lab_steps_parse(&silent, w.data, sizeof(w.data), &job, &steps) == 0);
	CHECK(steps.done);
	lab_steps_free(&steps);
	lab_job_free(&job);
}

static void foreign_results(void)
{
	static struct writer w;
	struct lab_steps steps;
	struct lab_job job;

	make_job(&job);
	write_results(&w, job.key ^ 1);
	REQUIRE(lab_steps_parse(&silent, w.data, sizeof(w.data), &job, &steps) == 0);
	CHECK(!steps.boot_release && !steps.steps[0].begun);
	lab_steps_free(&steps);
	lab_job_free(&job);
}

/* Every prefix and every single changed byte is read without harm, and never as finished. */
static void hostile_results(void)
{
	static struct writer w;
	struct lab_steps steps;
	struct lab_job job;

	make_job(&job);
	write_results(&w, job.key);
	for (size_t n = 0; n <= w.size; n++) {
		uint8_t *exact = malloc(n ? n : 1);

		REQUIRE(exact);
		memcpy(exact, w.data, n);
		REQUIRE(lab_steps_parse(&silent, exact, n, &job, &steps) == 0);
		CHECK(!steps.done);
		lab_steps_free(&steps);
		free(exact);
	}
	for (size_t n = 0; n < w.size; n++) {
		for (unsigned flip = 1; flip < 256; flip += 50) {
			w.data[n] ^= (uint8_t)flip;
			REQUIRE(lab_steps_parse(&silent, w.data, w.size, &job, &steps) == 0);
			lab_steps_free(&steps);
			w.data[n] ^= (uint8_t)flip;
		}
	}
	lab_job_free(&job);
}

static void out_of_range(void)
{
	static struct writer w;
	struct lab_steps steps;
	struct lab_job job;

	make_job(&job);
	memset(&w, 0, sizeof(w));
	lab_stream_head_encode(job.key, w.data);
	w.size = LAB_STREAM_HEAD_BYTES;
	put(&w, LAB_RES_OUT, 3, "beyond the job", 14);
	put(&w, LAB_RES_END, 0, "short", 5);
	put(&w, 999, 1, "no such type", 12);
	REQUIRE(lab_steps_parse(&silent, w.data, w.size, &job, &steps) == 0);
	CHECK(steps.damaged);
	CHECK(!steps.steps[0].ended);
	lab_steps_free(&steps);
	lab_job_free(&job);
}

static void kernel_log(void)
{
	CHECK(lab_klog_is_fault("BUG: kernel NULL pointer dereference, address: 0"));
	CHECK(lab_klog_is_fault("[ 1.0] WARNING: CPU: 1 PID: 7 at mm/hmm.c:1"));
	CHECK(lab_klog_is_fault("WARNING: possible circular locking dependency detected"));
	CHECK(lab_klog_is_fault("Oops: 0000 [#1] PREEMPT SMP"));
	CHECK(lab_klog_is_fault("INFO: task x:1 blocked for more than 120 seconds."));
	CHECK(!lab_klog_is_fault("h2d_hmm: loading out-of-tree module taints kernel."));
	CHECK(!lab_klog_is_fault("h2d_hmm: module verification failed: signature missing"));
	CHECK(!lab_klog_is_fault("debug: nothing"));
	CHECK(lab_klog_is_panic("x\nKernel panic - not syncing: y"));
	CHECK(!lab_klog_is_panic("Kernel command line: panic=-1"));
}

int main(void)
{
	RUN(job_round_trip);
	RUN(results);
	RUN(foreign_results);
	RUN(hostile_results);
	RUN(out_of_range);
	RUN(kernel_log);
	return TEST_DONE();
}

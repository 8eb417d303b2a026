/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_LAB_STREAM_H
#define H2D_LAB_STREAM_H

/*
 * The record stream that carries a job into a guest and its results out again.
 *
 * A stream is a 16-byte head (8 bytes of magic, 8 bytes of key) followed by records; a record
 * is a 16-byte head and `length` bytes of payload, padded with zeros to a multiple of eight.
 * All numbers are little-endian. The key ties the results to the job, so that a disk image of
 * another run is never read as this one's. The same source is compiled into the host library
 * and into the guest's init; it depends on nothing but the C library and allocates nothing.
 *
 * Thread-safety: a cursor or buffer belongs to one thread. Since 0.1.
 */

#include <stddef.h>
#include <stdint.h>

#define LAB_STREAM_MAGIC      "H2DLAB01"
#define LAB_STREAM_HEAD_BYTES 16
#define LAB_RECORD_HEAD_BYTES 16
#define LAB_RECORD_MAGIC      0x4352424cu /* "LBRC" */

/* Longest payload that either side writes or accepts. */
#define LAB_RECORD_MAX_BYTES (1u << 20)

/* Job records. Strings are NUL-terminated, one after the other. */
enum lab_job_type {
	LAB_JOB_LOAD = 1,  /* module path, parameters */
	LAB_JOB_MOUNT = 2, /* source (device path or "serial:NAME"), target, type, options */
	LAB_JOB_RUN = 3,   /* name, timeout in ms (decimal), argv[0], argv[1], ... */
	LAB_JOB_WRITE = 4, /* path, text */
	LAB_JOB_MKDIR = 5, /* path */
	LAB_JOB_LIMIT = 6, /* bytes of output kept per command (decimal) */
};

/* A failing step with this flag ends the job; without it the job goes on. */
#define LAB_FLAG_REQUIRED 0x1u

/* Result records; `step` is the index of the job record they belong to. */
enum lab_result_type {
	LAB_RES_BOOT = 100,  /* uname release, uname version */
	LAB_RES_BEGIN = 101, /* a step starts; payload empty */
	LAB_RES_OUT = 102,   /* bytes of standard output */
	LAB_RES_ERR = 103,   /* bytes of standard error */
	LAB_RES_END = 104,   /* struct lab_step_end */
	LAB_RES_KMSG = 105,  /* one suspicious line of the kernel's log */
	LAB_RES_NOTE = 106,  /* a sentence by init itself */
	LAB_RES_DONE = 107,  /* the job was finished; payload empty */
};

/* How a step ended. 28 bytes on the wire. */
struct lab_step_end {
	int32_t status;	     /* exit status, -signal, or -errno of a step that is no command */
	uint32_t flags;	     /* LAB_END_* */
	uint64_t elapsed_ns; /* CLOCK_MONOTONIC of the guest */
	uint64_t dropped_bytes; /* output beyond the limit, not kept */
	uint32_t kmsg_lost;	/* times the kernel's log overran its reader */
};
#define LAB_STEP_END_BYTES 28
#define LAB_END_TIMED_OUT  0x1u /* killed by init at the step's timeout */
#define LAB_END_SIGNALLED  0x2u /* ended by a signal; status is -signal */
#define LAB_END_SKIPPED	   0x4u /* not run, because a required step failed before */

struct lab_record {
	uint16_t type;
	uint16_t flags;
	uint32_t step;
	uint32_t length;
	const uint8_t *payload; /* into the caller's buffer */
};

struct lab_cursor {
	const uint8_t *data;
	size_t size;
	size_t offset;
};

/*
 * Checks the stream's head against `key` and sets the cursor on the first record.
 * Returns 0, or -1 when the buffer does not start with such a stream.
 */
int lab_cursor_open(struct lab_cursor *cursor, const void *data, size_t size, uint64_t key);

/*
 * Reads the next record. Returns 1 with *record filled in, 0 at the end (eight or more bytes
 * that are zero, or no byte left), -1 when the bytes at the cursor are no record or one cut
 * short. The cursor does not move on 0 or -1.
 */
int lab_cursor_next(struct lab_cursor *cursor, struct lab_record *record);

/*
 * Takes one NUL-terminated string out of a payload. Returns the string, or NULL when none is
 * left or the last is not terminated. *offset starts at 0.
 */
const char *lab_record_string(const struct lab_record *record, size_t *offset);

/* Decodes a LAB_RES_END payload. Returns 0, or -1 on a wrong length. */
int lab_step_end_decode(const struct lab_record *record, struct lab_step_end *end);
void lab_step_end_encode(const struct lab_step_end *end, uint8_t out[LAB_STEP_END_BYTES]);

void lab_stream_head_encode(uint64_t key, uint8_t out[LAB_STREAM_HEAD_BYTES]);
void lab_record_head_encode(const struct lab_record *record,
			    uint8_t out[LAB_RECORD_HEAD_BYTES]);

/* Bytes a record takes with its head and padding. */
static inline size_t lab_record_total(uint32_t length)
{
	return LAB_RECORD_HEAD_BYTES + (((size_t)length + 7) & ~(size_t)7);
}

#endif

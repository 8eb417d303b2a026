/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the job that a guest's init works through. */
#include "internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void append(struct lab_job *job, const void *data, size_t size)
{
	if (job->failed)
		return;
	if (size > job->capacity - job->size) {
		size_t capacity = (job->capacity + size) * 2;
		void *grown = realloc(job->data, capacity);

		if (!grown) {
			job->failed = true;
			return;
		}
		job->data = grown;
		job->capacity = capacity;
	}
	memcpy(job->data + job->size, data, size);
	job->size += size;
}

void lab_job_begin(struct lab_job *job)
{
	uint8_t head[LAB_STREAM_HEAD_BYTES];

	memset(job, 0, sizeof(*job));
	/* Any number does; it only has to differ from that of other runs. */
	if (getrandom(&job->key, sizeof(job->key), GRND_NONBLOCK) != sizeof(job->key))
		job->key = (uint64_t)(uintptr_t)job ^ (uint64_t)errno;
	lab_stream_head_encode(job->key, head);
	append(job, head, sizeof(head));
}

/* Writes a record whose payload is the strings, each with its NUL. */
static uint32_t add_strings(struct lab_job *job, enum lab_job_type type, bool required,
			    const char *const *strings, size_t count)
{
	static const uint8_t zeros[8];
	uint8_t head[LAB_RECORD_HEAD_BYTES];
	struct lab_record record = {
		.type = (uint16_t)type,
		.flags = required ? LAB_FLAG_REQUIRED : 0,
		.step = job->step_count,
	};
	size_t length = 0;

	for (size_t i = 0; i < count; i++)
		length += strlen(strings[i]) + 1;
	if (length > LAB_RECORD_MAX_BYTES)
		job->failed = true;
	record.length = (uint32_t)length;
	lab_record_head_encode(&record, head);
	append(job, head, sizeof(head));
	for (size_t i = 0; i < count; i++)
		append(job, strings[i], strlen(strings[i]) + 1);
	append(job, zeros, (8 - length % 8) % 8);
	return job->step_count++;
}

uint32_t lab_job_add(struct lab_job *job, enum lab_job_type type, int required, ...)
{
	const char *strings[8];
	size_t count = 0;
	va_list args;

	va_start(args, required);
	while (count < 8 && (strings[count] = va_arg(args, const char *)))
		count++;
	va_end(args);
	return add_strings(job, type, required, strings, count);
}

uint32_t lab_job_run(struct lab_job *job, bool required, const char *name, uint64_t timeout_ms,
		     const char *const *argv)
{
	const char *strings[66];
	char timeout[32];
	size_t count = 2;

	snprintf(timeout, sizeof(timeout), "%llu", (unsigned long long)timeout_ms);
	strings[0] = name;
	strings[1] = timeout;
	while (argv[count - 2]) {
		if (count == sizeof(strings) / sizeof(strings[0])) {
			job->failed = true;
			break;
		}
		strings[count] = argv[count - 2];
		count++;
	}
	return add_strings(job, LAB_JOB_RUN, required, strings, count);
}

void lab_job_free(struct lab_job *job)
{
	free(job->data);
	memset(job, 0, sizeof(*job));
}

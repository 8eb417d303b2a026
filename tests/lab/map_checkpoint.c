/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that knows nothing of h2d and loads a checkpoint as PyTorch does: private and
 * writable, all of it read, then copied by a device, here /dev/h2d_hmm. Linked dynamically, so
 * that a library can be preloaded. Prints one JSON object; the host judges.
 *
 * usage: map-checkpoint FILE shipped | FILE stale TIMEOUT_MS
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/hmm_client.h"
#include "core/json.h"
#include "lab/guest/mapping.h"

enum { SIZE_BYTES = 32 << 20, ATTEMPT_LOG_COUNT = 4096, CHUNK_BYTES = 1 << 20 };

static struct h2d_hmm_attempt attempts[ATTEMPT_LOG_COUNT];

static void log_line(void *user, enum h2d_log_level level, const char *line)
{
	(void)user;
	(void)level;
	fprintf(stderr, "%s\n", line);
}

static const struct h2d_log stderr_log = {.fn = log_line};

/* A safetensors file of one tensor, cached and clean. Returns a descriptor for reading, or -1.
 */
static int checkpoint(const char *path)
{
	char header[4096] = {0};
	int n, fd = mapping_file(path, SIZE_BYTES);

	if (fd < 0)
		return -1;
	close(fd);
	n = snprintf(header + 8, sizeof(header) - 8,
		     "{\"weight\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
		     SIZE_BYTES - 4096, SIZE_BYTES - 4096);
	memset(header + 8 + n, ' ', sizeof(header) - 8 - (size_t)n);
	header[0] = (char)((sizeof(header) - 8) & 0xff);
	header[1] = (char)((sizeof(header) - 8) >> 8);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    fsync(fd))
		return -1;
	close(fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Whether the mapping holds the file's bytes, byte by byte. */
static bool equal(const char *map, const char *path)
{
	static char chunk[CHUNK_BYTES];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool good = fd >= 0;

	for (size_t at = 0; good && at < SIZE_BYTES; at += CHUNK_BYTES)
		good = pread(fd, chunk, CHUNK_BYTES, (off_t)at) == CHUNK_BYTES &&
		       memcmp(chunk, map + at, CHUNK_BYTES) == 0;
	if (fd >= 0)
		close(fd);
	return good;
}

/* Anonymous memory of the whole process; status lags on old kernels. */
static uint64_t process_anonymous(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	unsigned long long kib = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Anonymous: %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib * 1024;
}

/* Writes through the mapping must work, and must not reach the file. */
static bool writable(char *map, const char *path)
{
	bool good;

	for (size_t at = 0; at < SIZE_BYTES; at += CHUNK_BYTES)
		map[at + 5] ^= 0x55;
	good = !equal(map, path);
	for (size_t at = 0; at < SIZE_BYTES; at += CHUNK_BYTES)
		map[at + 5] ^= 0x55;
	return good && equal(map, path);
}

/* Restarts that took most of the driver's timeout; a span without a window takes far less. */
static uint64_t timed_out(const struct h2d_hmm_copy_source *r, uint64_t timeout_ms)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < r->attempt_log_count; i++)
		n += attempts[i].return_code != 0 &&
		     attempts[i].elapsed_ns >= timeout_ms * 500000u;
	return n;
}

int main(int argc, char **argv)
{
	struct mapping_facts before, after;
	struct h2d_hmm_copy_source r;
	uint64_t all_before, all_after, timeout_ms;
	struct h2d_json j;
	struct h2d_hmm hmm;
	char *map;
	int fd;

	if (argc < 3 || h2d_hmm_open(NULL, &stderr_log, &hmm))
		return 4;
	fd = checkpoint(argv[1]);
	map = fd < 0 ? MAP_FAILED
		     : mmap(NULL, SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
		return 5;
	}
	close(fd);
	mapping_touch(map, SIZE_BYTES);
	h2d_hmm_request_init(&r, map, SIZE_BYTES);
	if (strcmp(argv[2], "shipped") == 0)
		h2d_hmm_request_shipped(&r);
	else
		r.timeout_ms = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
	timeout_ms = r.timeout_ms ? r.timeout_ms : hmm.facts.default_timeout_ms;
	r.attempt_log = (uintptr_t)attempts;
	r.attempt_log_capacity = ATTEMPT_LOG_COUNT;
	if (mapping_read(map, SIZE_BYTES, &before))
		return 5;
	all_before = process_anonymous();
	if (h2d_hmm_copy_source(&hmm, &stderr_log, &r))
		return 4;
	all_after = process_anonymous();
	if (mapping_read(map, SIZE_BYTES, &after))
		return 5;
	h2d_json_init_file(&j, stdout, false);
	h2d_json_object_begin(&j, NULL);
	h2d_json_string(&j, "permissions", before.permissions);
	h2d_json_u64(&j, "size_bytes", SIZE_BYTES);
	h2d_json_u64(&j, "present_bytes", before.present_bytes);
	h2d_json_u64(&j, "span_count", r.spans_touched);
	h2d_json_u64(&j, "windows", h2d_hmm_windows(&r, attempts, (uint32_t)timeout_ms));
	h2d_json_u64(&j, "restart_count", r.restarts);
	h2d_json_u64(&j, "timeout_count", timed_out(&r, timeout_ms));
	h2d_json_u64(&j, "callback_count", r.callbacks);
	h2d_json_u64(&j, "fault_call_count", r.fault_calls);
	h2d_json_u64(&j, "fault_ebusy_count", r.fault_ebusy);
	h2d_json_i64(&j, "last_code", r.last_code);
	h2d_json_u64(&j, "valid_page_count", r.pfns_valid);
	h2d_json_u64(&j, "elapsed_ns", r.elapsed_ns);
	h2d_json_u64(&j, "anonymous_before_bytes", before.anonymous_bytes);
	h2d_json_u64(&j, "anonymous_after_bytes", after.anonymous_bytes);
	h2d_json_u64(&j, "process_anonymous_before_bytes", all_before);
	h2d_json_u64(&j, "process_anonymous_after_bytes", all_after);
	h2d_json_bool(&j, "bytes_equal", equal(map, argv[1]));
	h2d_json_bool(&j, "writable", writable(map, argv[1]));
	h2d_json_object_end(&j);
	h2d_hmm_close(&hmm);
	return h2d_json_finish(&j) ? 5 : 0;
}

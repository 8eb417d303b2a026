/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One cell of the laboratory's matrix, run inside a guest: a file of known bytes is mapped,
 * made present or not, and taken through /dev/h2d_hmm as the source of a copy. Prints one JSON
 * object of counters. Nothing here judges; the host does.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/hmm_client.h"
#include "core/json.h"
#include "mapping.h"

enum { ATTEMPT_LOG_COUNT = 4096, PAGE_BYTES = 4096 };

struct cell {
	const char *directory, *driver, *policy, *permission, *state;
	uint64_t size_bytes;
	uint32_t timeout_ms;
};

static struct h2d_hmm_attempt attempts[ATTEMPT_LOG_COUNT];

static void log_line(void *user, enum h2d_log_level level, const char *line)
{
	(void)user;
	(void)level;
	fprintf(stderr, "%s\n", line);
}

static const struct h2d_log stderr_log = {.fn = log_line};

static int complain(const char *what, const char *value)
{
	fprintf(stderr, "%s: %s\n", what, value ? value : strerror(errno));
	return -1;
}

static int parse_options(int argc, char **argv, struct cell *cell)
{
	static const struct option options[] = {
		{"directory", required_argument, NULL, 'd'},
		{"size", required_argument, NULL, 's'},
		{"driver", required_argument, NULL, 'r'},
		{"policy", required_argument, NULL, 'p'},
		{"permission", required_argument, NULL, 'm'},
		{"state", required_argument, NULL, 't'},
		{"timeout-ms", required_argument, NULL, 'o'},
		{0},
	};
	int c;

	*cell = (struct cell){.directory = "/tmp",
			      .driver = "emulated",
			      .policy = "stale",
			      .permission = "vma",
			      .state = "rw-present",
			      .size_bytes = 32 << 20};
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'd':
			cell->directory = optarg;
			break;
		case 's':
			cell->size_bytes = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			cell->driver = optarg;
			break;
		case 'p':
			cell->policy = optarg;
			break;
		case 'm':
			cell->permission = optarg;
			break;
		case 't':
			cell->state = optarg;
			break;
		case 'o':
			cell->timeout_ms = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		default:
			return -1;
		}
	}
	if (!cell->size_bytes || cell->size_bytes % PAGE_BYTES)
		return complain("size", "must be a multiple of the page size");
	return 0;
}

static int apply_options(const struct cell *cell, struct h2d_hmm_copy_source *request)
{
	if (strcmp(cell->driver, "shipped") == 0) {
		h2d_hmm_request_shipped(request);
	} else {
		if (strcmp(cell->policy, "refresh") == 0)
			request->policy = H2D_HMM_POLICY_REFRESH;
		else if (strcmp(cell->policy, "stale") == 0)
			request->policy = H2D_HMM_POLICY_STALE;
		else if (strcmp(cell->policy, "no_retry") == 0)
			request->policy = H2D_HMM_POLICY_NO_RETRY;
		else
			return complain("policy", cell->policy);
		/*
		 * The timeout of refresh covers the whole range, so a shortened one would break
		 * it, and in a slow guest the kernel's own does.
		 */
		if (request->policy == H2D_HMM_POLICY_STALE)
			request->timeout_ms = cell->timeout_ms;
		else if (request->policy == H2D_HMM_POLICY_REFRESH)
			request->timeout_ms = H2D_HMM_TIMEOUT_MS_MAX;
	}
	if (strcmp(cell->permission, "access") == 0)
		request->permission = H2D_HMM_PERMISSION_ACCESS;
	else if (strcmp(cell->permission, "vma") != 0)
		return complain("permission", cell->permission);
	request->attempt_log = (uintptr_t)attempts;
	request->attempt_log_capacity = ATTEMPT_LOG_COUNT;
	return 0;
}

/* Maps the file in the cell's state. Returns NULL after an error. */
static void *make_mapping(const struct cell *cell)
{
	char path[512];
	int prot, fd;
	void *map;

	if (strcmp(cell->state, "rw-present") == 0 || strcmp(cell->state, "rw-absent") == 0)
		prot = PROT_READ | PROT_WRITE;
	else if (strcmp(cell->state, "ro-present") == 0)
		prot = PROT_READ;
	else {
		complain("state", cell->state);
		return NULL;
	}
	snprintf(path, sizeof(path), "%s/h2d-cell.bin", cell->directory);
	fd = mapping_file(path, cell->size_bytes);
	if (fd < 0) {
		complain(path, NULL);
		return NULL;
	}
	map = mmap(NULL, cell->size_bytes, prot, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED) {
		complain("mmap", NULL);
		return NULL;
	}
	if (strstr(cell->state, "-present"))
		mapping_touch(map, cell->size_bytes);
	return map;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Lengths of the restarts that are windows by the client's rule, sorted; returns their number.
 */
static size_t window_lengths(const struct h2d_hmm_copy_source *r, uint64_t timeout_ms,
			     uint64_t lengths[ATTEMPT_LOG_COUNT])
{
	size_t n = 0;

	for (uint32_t i = 0; i < r->attempt_log_count; i++) {
		struct h2d_hmm_copy_source one = {.attempt_log_count = 1};

		if (h2d_hmm_windows(&one, &attempts[i], (uint32_t)timeout_ms))
			lengths[n++] = attempts[i].elapsed_ns;
	}
	qsort(lengths, n, sizeof(lengths[0]), by_value);
	return n;
}

static void write_windows(struct h2d_json *j, const struct h2d_hmm *hmm,
			  const struct h2d_hmm_copy_source *r)
{
	static uint64_t lengths[ATTEMPT_LOG_COUNT];
	uint64_t timeout_ms = r->timeout_ms ? r->timeout_ms : hmm->facts.default_timeout_ms;
	bool counted = (r->valid & H2D_HMM_VALID_WINDOWS) != 0;
	size_t n = window_lengths(r, timeout_ms, lengths);

	h2d_json_u64(j, "windows", h2d_hmm_windows(r, attempts, (uint32_t)timeout_ms));
	h2d_json_object_begin(j, "window");
	h2d_json_string(j, "source", counted ? "counted" : "restarts");
	h2d_json_u64(j, "timeout_ms", timeout_ms);
	h2d_json_double(j, "jiffy_ms", hmm->facts.hz ? 1000.0 / hmm->facts.hz : 0);
	if (n) {
		h2d_json_u64(j, "min_ns", lengths[0]);
		h2d_json_u64(j, "median_ns", lengths[n / 2]);
		h2d_json_u64(j, "max_ns", lengths[n - 1]);
	}
	h2d_json_object_end(j);
}

/* The outer return codes, each with how often it came. */
static void write_codes(struct h2d_json *j, const struct h2d_hmm_copy_source *r)
{
	int32_t codes[16];
	uint64_t counts[16];
	size_t n = 0, k;

	for (uint32_t i = 0; i < r->attempt_log_count; i++) {
		for (k = 0; k < n && codes[k] != attempts[i].return_code; k++)
			;
		if (k == n && n < 16) {
			codes[n] = attempts[i].return_code;
			counts[n++] = 0;
		}
		if (k < n)
			counts[k]++;
	}
	h2d_json_array_begin(j, "return_codes");
	for (k = 0; k < n; k++) {
		h2d_json_object_begin(j, NULL);
		h2d_json_i64(j, "code", codes[k]);
		h2d_json_string(j, "name", codes[k] ? strerrorname_np(-codes[k]) : "0");
		h2d_json_u64(j, "count", counts[k]);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
}

static void write_counters(struct h2d_json *j, const struct h2d_hmm_copy_source *r)
{
	static const char *const events[H2D_HMM_EVENT_COUNT] = {
		"unmap",   "clear",   "protection_vma", "protection_page", "soft_dirty",
		"release", "migrate", "exclusive",	"other",
	};
	static const char not_counted[] =
		"inside the shipped driver, where calls are counted only on demand";
	bool calls = (r->valid & H2D_HMM_VALID_FAULT_CALLS) != 0;

	h2d_json_u64(j, "elapsed_ns", r->elapsed_ns);
	h2d_json_u64(j, "restart_count", r->restarts);
	h2d_json_u64(j, "revalidation_restart_count", r->restarts_revalidated);
	h2d_json_u64(j, "driver_call_count", r->driver_calls);
	if (calls) {
		h2d_json_u64(j, "fault_call_count", r->fault_calls);
		h2d_json_u64(j, "fault_ebusy_count", r->fault_ebusy);
	} else {
		h2d_json_null(j, "fault_call_count");
		h2d_json_string(j, "fault_call_count_why", not_counted);
		h2d_json_null(j, "fault_ebusy_count");
		h2d_json_string(j, "fault_ebusy_count_why", not_counted);
	}
	h2d_json_u64(j, "callback_count", r->callbacks);
	h2d_json_u64(j, "foreign_callback_count", r->callbacks_foreign);
	h2d_json_u64(j, "callback_page_count", r->callback_pages);
	h2d_json_object_begin(j, "callbacks_by_event");
	for (int i = 0; i < H2D_HMM_EVENT_COUNT; i++)
		if (r->callbacks_by_event[i])
			h2d_json_u64(j, events[i], r->callbacks_by_event[i]);
	h2d_json_object_end(j);
	h2d_json_u64(j, "span_count", r->spans_touched);
	h2d_json_u64(j, "invalidated_span_count", r->spans_invalidated);
	h2d_json_u64(j, "mapping_count", r->mappings);
	h2d_json_u64(j, "valid_page_count", r->pfns_valid);
	h2d_json_u64(j, "writable_page_count", r->pfns_writable);
	h2d_json_i64(j, "last_code", r->last_code);
	h2d_json_bool(j, "restart_bound_met", (r->ended & H2D_HMM_ENDED_RESTART_MAX) != 0);
}

static int write_report(const struct cell *cell, const struct h2d_hmm *hmm,
			const struct h2d_hmm_copy_source *r, const struct mapping_facts *before,
			const struct mapping_facts *after)
{
	struct h2d_json j;

	h2d_json_init_file(&j, stdout, false);
	h2d_json_object_begin(&j, NULL);
	h2d_json_string(&j, "driver", cell->driver);
	h2d_json_string(&j, "policy", cell->policy);
	h2d_json_string(&j, "permission", cell->permission);
	h2d_json_string(&j, "state", cell->state);
	h2d_json_u64(&j, "size_bytes", cell->size_bytes);
	h2d_json_string(&j, "permissions", before->permissions);
	h2d_json_u64(&j, "span_offset_bytes", r->address % H2D_HMM_SPAN_BYTES);
	h2d_json_u64(&j, "present_before_bytes", before->present_bytes);
	h2d_json_u64(&j, "present_span_count", before->present_spans);
	h2d_json_u64(&j, "rss_before_bytes", before->rss_bytes);
	h2d_json_u64(&j, "rss_after_bytes", after->rss_bytes);
	h2d_json_u64(&j, "anonymous_before_bytes", before->anonymous_bytes);
	h2d_json_u64(&j, "anonymous_after_bytes", after->anonymous_bytes);
	write_counters(&j, r);
	write_codes(&j, r);
	write_windows(&j, hmm, r);
	h2d_json_object_end(&j);
	return h2d_json_finish(&j);
}

int main(int argc, char **argv)
{
	struct mapping_facts before, after;
	struct h2d_hmm_copy_source request;
	struct h2d_hmm hmm;
	struct cell cell;
	void *map;
	int err;

	if (parse_options(argc, argv, &cell))
		return 2;
	if (h2d_hmm_open(NULL, &stderr_log, &hmm))
		return 4;
	map = make_mapping(&cell);
	if (!map)
		return 5;
	h2d_hmm_request_init(&request, map, cell.size_bytes);
	if (apply_options(&cell, &request))
		return 2;
	if (mapping_read(map, cell.size_bytes, &before))
		return complain("/proc/self", NULL), 5;
	err = h2d_hmm_copy_source(&hmm, &stderr_log, &request);
	if (err)
		return 4;
	if (mapping_read(map, cell.size_bytes, &after))
		return complain("/proc/self", NULL), 5;
	if (!mapping_intact(map, cell.size_bytes))
		return complain(cell.directory, "the mapping's bytes have changed"), 1;
	return write_report(&cell, &hmm, &request, &before, &after) ? 5 : 0;
}

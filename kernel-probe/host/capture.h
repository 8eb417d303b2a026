/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file capture.h
 * A small archive of what the probes read here, so that they can be run elsewhere. Since 0.1.
 */
#ifndef H2D_HOST_CAPTURE_H
#define H2D_HOST_CAPTURE_H

#include "host/record.h"
#include "host/switches.h"

struct h2d_capture_opts {
	const int *pids;
	size_t pid_count;
	bool found; /**< they were found, not asked for: one that ends is left out */
	bool redact;
	bool as_tree;		 /**< write a directory, not an archive */
	unsigned samples;	 /**< of each process */
	unsigned interval_ms;	 /**< between them */
	int (*stop)(void *user); /**< non-zero: give up with H2D_E_CANCELLED; may be NULL */
	void *stop_user;
	const struct h2d_switches *switches;
	struct h2d_log log;
};

struct h2d_capture_result {
	size_t process_count; /**< of `pids`, from the first on */
	size_t file_count, link_count;
	size_t unreadable_count; /**< files that the machine did not let us read */
	uint64_t text_bytes;	 /**< before compression */
	uint64_t size_bytes;	 /**< of the archive; of a tree the same as `text_bytes` */
};

/**
 * Read everything and write it to `output`, which must not exist.
 * @return 0; H2D_E_INVALID (it exists), H2D_E_NOT_FOUND (a process), H2D_E_PERMISSION (a
 *         process's mappings), H2D_E_UNAVAILABLE (archives, without libarchive),
 * H2D_E_CANCELLED, H2D_E_IO, H2D_E_NOMEM
 */
int h2d_capture(const struct h2d_capture_opts *opts, const char *output,
		struct h2d_capture_result *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file repro.h
 * The reproducer: every cell at every size, copied to a device and judged. The same on every
 * back-end; what a back-end cannot show is absent from the numbers, and the verdict knows it.
 * One run at a time on a device; nothing process-wide. Since 0.1.
 */
#ifndef H2D_REPRO_REPRO_H
#define H2D_REPRO_REPRO_H

#include "core/json.h"
#include "repro/cells.h"
#include "repro/verdict.h"

enum { H2D_REPRO_REPEAT_MAX = 1000, H2D_REPRO_SIZE_MAX_COUNT = 16 };

/** How to run. Zeros and NULLs mean the defaults. */
struct h2d_repro_opts {
	const uint64_t *sizes; /**< bytes, multiples of the page size; default 8 and 32 MiB */
	size_t size_count;
	const char *const *cells; /**< names; default all */
	size_t cell_count;
	const char *file; /**< where the file of known bytes is made, see h2d_known_file_make()
			   */
	unsigned repeat;  /**< samples of each cell; default 1 */
	/** Before each sample, `done` of `total`. Return non-zero to stop with
	 *  H2D_E_CANCELLED. */
	int (*progress)(void *user, const char *cell, uint64_t size_bytes, size_t done,
			size_t total);
	void *progress_user;
	struct h2d_log log;
};

/** One cell at one size. */
struct h2d_repro_cell {
	const struct h2d_cell *cell;
	uint64_t size_bytes;
	/* Of the first sample, before its copy. */
	char permissions[5];
	uint64_t present_bytes, span_count, present_span_count, expected_windows;
	uint64_t expected_anon_bytes, file_bytes, anonymous_bytes, huge_bytes;
	int64_t rss_anon_delta_bytes, rss_delta_bytes; /**< by the copy, from smaps */
	bool verified; /**< every sample's bytes were read back and compared */
	struct h2d_repro_sample *samples;
	struct h2d_hmm_count *counts;
	int64_t *windows; /**< as judged; -1: cannot be told */
	size_t sample_count;
	char invalid[192]; /**< why it was not measured, or "" */
};

/** Where CONFIG_HZ came from. */
enum h2d_hz_source {
	H2D_HZ_UNKNOWN,
	H2D_HZ_DEVICE, /**< the module told it */
	H2D_HZ_CLOCK,  /**< resolution of the coarse clock */
	H2D_HZ_CONFIG, /**< /boot/config-RELEASE */
	H2D_HZ_FITTED,
};

struct h2d_repro_result {
	char device_name[64], device_hardware[128];
	const char *backend;
	bool restarts_visible;
	const char *filesystem; /**< of the file: "ext4", or "0x…" when it has no name here */
	char filesystem_text[24];
	struct h2d_window_clock clock;
	enum h2d_hz_source hz_source;
	uint32_t fitted_hz; /**< 0: nothing to fit, or not unique */
	struct h2d_repro_cell *cells;
	size_t cell_count;
	struct h2d_verdict verdict;
};

/**
 * Run.
 *
 * @param out  (out) owned by the caller, freed by h2d_repro_free()
 * @return 0, whatever the verdict; H2D_E_INVALID (an option; the file exists), H2D_E_NOT_FOUND
 *         (no such cell), H2D_E_MISMATCH (bytes that did not arrive), H2D_E_CANCELLED, or a
 *         status of the device or the file
 */
int h2d_repro_run(struct h2d_device *dev, const struct h2d_repro_opts *opts,
		  struct h2d_repro_result **out);
void h2d_repro_free(struct h2d_repro_result *r);

/** CONFIG_HZ of this machine as far as it can be read, without a device. */
uint32_t h2d_hz_read(enum h2d_hz_source *source);
const char *h2d_hz_source_name(enum h2d_hz_source source);
/** Name of a filesystem by its statfs type, or `buf` with the number. */
const char *h2d_filesystem_name(uint64_t type, char *buf, size_t bytes);

/** The members of the document `h2d.repro` behind the envelope. */
void h2d_repro_write(struct h2d_json *j, const struct h2d_repro_result *r);

#endif

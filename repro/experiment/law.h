/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file law.h
 * The window law as an experiment: sources in states for which the rules that have been
 * proposed predict different numbers of windows, each copied once and counted. Run on a device
 * that shows restarts. Since 0.1.
 *
 * Three rules are compared:
 *   by bytes     present bytes / 2 MiB
 *   by presence  spans that hold any present entry of a writable mapping
 *   the law      spans that hold a present entry which the write has to replace
 */
#ifndef H2D_REPRO_LAW_H
#define H2D_REPRO_LAW_H

#include "repro/repro.h"

enum { H2D_LAW_COPIES_MAX = 2 };

/** What a row does beside one copy. */
enum h2d_law_kind {
	H2D_LAW_COPY,
	H2D_LAW_HUGE_FILE,   /**< the source lies on a tmpfs of its own, with huge pages */
	H2D_LAW_ALIAS,	     /**< the file is also mapped writable, present and untouched */
	H2D_LAW_TWO_THREADS, /**< two mappings at once, each to a device of its own */
	H2D_LAW_TWO_THREADS_SAME, /**< one mapping, twice at once */
	H2D_LAW_INVALIDATED,	  /**< another thread drops a page of it again and again */
};

struct h2d_law_row {
	const char *name;
	const char *question;
	enum h2d_law_kind kind;
	uint64_t size_bytes; /**< 0: that of the options */
	struct h2d_cell cell;
};

/** The rows, ended by a NULL name. */
extern const struct h2d_law_row h2d_law_rows[];

/** One copy of a row. */
struct h2d_law_copy {
	uint64_t elapsed_ns;
	struct h2d_hmm_count count;
};

struct h2d_law_outcome {
	const struct h2d_law_row *row;
	char not_run[192]; /**< why, or "" */
	/* State of the source before the copy. */
	char permissions[5];
	uint64_t size_bytes, present_bytes, span_count, huge_bytes, contiguous_count;
	/* Predictions, of all copies of the row together. */
	double by_bytes;
	uint64_t by_presence, by_law_min;
	uint64_t by_law_max; /**< UINT64_MAX: the law gives no upper bound */
	/* Measured. */
	struct h2d_law_copy copies[H2D_LAW_COPIES_MAX];
	size_t copy_count;
	uint64_t windows, restarts; /**< of all copies */
	int64_t rss_anon_delta_bytes;
	int64_t alias_anon_bytes; /**< what became anonymous in the alias; -1: no alias */
	uint64_t invalidation_count, invalidation_ns; /**< by the other thread */
	bool agrees; /**< restarts are as the law says, and windows are those or none */
};

enum h2d_law_value { H2D_LAW_HOLDS, H2D_LAW_FAILS, H2D_LAW_UNDECIDED };

struct h2d_law_result {
	char device_name[64], device_hardware[128];
	const char *filesystem;
	char filesystem_text[24];
	struct h2d_window_clock clock;
	struct h2d_law_outcome *rows;
	size_t row_count;
	enum h2d_law_value value;
	uint64_t run_count, not_run_count, disagree_count;
};

struct h2d_law_opts {
	struct h2d_device *devs[H2D_LAW_COPIES_MAX]; /**< the same device, opened twice */
	const char *file;			     /**< as in struct h2d_repro_opts */
	uint64_t size_bytes;	 /**< of rows without a size of their own; default 16 MiB */
	const char *const *rows; /**< names; default all */
	size_t row_count;
	int (*progress)(void *user, const char *row, size_t done, size_t total);
	void *progress_user;
	struct h2d_log log;
};

/**
 * Run the rows.
 * @return 0; H2D_E_UNSUPPORTED (the device shows no restarts), H2D_E_NOT_FOUND (no such row),
 *         H2D_E_CANCELLED, or a status of device or file. A row that cannot be run is no error.
 */
int h2d_law_run(const struct h2d_law_opts *opts, struct h2d_law_result **out);
void h2d_law_free(struct h2d_law_result *r);
const char *h2d_law_value_name(enum h2d_law_value v);

/** The members of the document `h2d.window-law` behind the envelope. */
void h2d_law_write(struct h2d_json *j, const struct h2d_law_result *r);

/** A file of known bytes on a tmpfs of its own with huge=always, mounted nowhere.
 *  @return 0; H2D_E_UNAVAILABLE with the reason in `why`, or as h2d_known_file_make() */
int h2d_law_huge_file(uint64_t bytes, const struct h2d_log *log, struct h2d_known_file *out,
		      char *why, size_t why_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file compare.h
 * Two results held against each other: two campaigns, two documents of `h2d repro`, or two of
 * `h2d probe lab`. A cell
 * is faster or slower only where a rank test and the size of the effect both say so. Since 0.1.
 */
#ifndef H2D_BENCH_COMPARE_H
#define H2D_BENCH_COMPARE_H

#include "bench/stats.h"
#include "bench/value.h"

enum h2d_compare_verdict {
	H2D_COMPARE_IMPROVED,
	H2D_COMPARE_SAME,
	H2D_COMPARE_REGRESSED,
	H2D_COMPARE_INCONCLUSIVE, /**< too few samples, or they scatter too much to tell */
	H2D_COMPARE_MISSING,	  /**< measured in A, not in B */
	H2D_COMPARE_INCOMPARABLE, /**< something else differs, and is named */
	H2D_COMPARE_NEW,	  /**< measured in B, not in A */
	H2D_COMPARE_VERDICTS,
};
const char *h2d_compare_verdict_name(enum h2d_compare_verdict v);

struct h2d_compare_opts {
	double margin;	    /**< what counts as the same: a ratio within 1/(1+m) … 1+m */
	double alpha;	    /**< of the rank tests of all cells together (Holm) */
	uint64_t min_count; /**< samples on each side below which nothing is said */
	uint64_t seed;
	const char *const *require; /**< environment facts that must agree, by name … */
	size_t require_count;
	const char *const *ignore; /**< … and those of the defaults that need not */
	size_t ignore_count;
};

/** A cell as one of the documents has it. */
struct h2d_compare_side {
	bool there;
	const char *status, *fingerprint; /**< live with the document; the latter or NULL */
	double *times;			  /**< ns, owned */
	size_t count;
	int64_t windows; /**< most of any sample; -1: none tells */
	bool uncounted;	 /**< some sample does not tell its windows */
	uint64_t bytes;	 /**< loaded by every sample; 0: unknown */
	/** How every sample ran, borrowed; NULL: unknown, or not alike. */
	const json_t *scheduling;
	bool mixed;		 /**< they were not scheduled alike */
	const char *accelerator; /**< of a guest; NULL: unknown, or several */
	const char *verdict;	 /**< of the document or a kernel; then there is nothing else */
};

struct h2d_compare_cell {
	json_t *key; /**< what was matched; owned */
	char name[320];
	struct h2d_compare_side a, b;
	enum h2d_compare_verdict verdict;
	char reason[320];
	bool timed;	   /**< its times decide */
	bool windows_only; /**< "same" of its windows: the times were not compared */
	bool tested;	   /**< ratio and rank are there */
	bool adjusted;	   /**< and p_adjusted, by which it is judged */
	struct h2d_ratio ratio;
	struct h2d_rank_test rank;
	double p_adjusted; /**< of the rank test, for the number of cells (Holm) */
};

struct h2d_compare_difference {
	const char *name;
	char a[160], b[160];
	bool required;
	bool untold;   /**< neither tells what every document does */
	bool of_cells; /**< the cells that differ are found one by one */
};

enum { H2D_COMPARE_DIFFERENCES = 16 };

enum h2d_compare_kind { H2D_COMPARE_BENCH, H2D_COMPARE_REPRO, H2D_COMPARE_LAB };
/** "bench", "repro", "lab" */
const char *h2d_compare_kind_name(enum h2d_compare_kind kind);

struct h2d_compare {
	enum h2d_compare_kind kind;
	json_t *a, *b;
	const char *a_path, *b_path;
	struct h2d_compare_opts opts;
	struct h2d_compare_cell *cells;
	size_t cell_count, cell_room;
	struct h2d_compare_difference differences[H2D_COMPARE_DIFFERENCES];
	size_t difference_count;
	size_t counts[H2D_COMPARE_VERDICTS];
	size_t windows_only_count;
	bool nothing_measured;		  /**< no cell has been in both */
	enum h2d_compare_verdict verdict; /**< of all */
};

/** Names of environment facts, ended by NULL. */
const char *const *h2d_compare_fact_names(void);
/** Whether a fact must agree. In the laboratory's guests windows are counted, whatever the host
 *  is: nothing is required there but what is asked for, and what h2d_compare_apart() says. */
bool h2d_compare_requires(const struct h2d_compare *c, const char *name);
/** What makes the times of a cell those of two machines although its windows can be compared
 *  (guests: accelerator and processor); NULL: nothing. */
const char *h2d_compare_apart(const struct h2d_compare *c, const struct h2d_compare_cell *cell);
/** Whether a cell's samples were scheduled alike, in both documents. */
bool h2d_compare_scheduled_alike(const struct h2d_compare_cell *cell);

/**
 * Read and compare two documents.
 * @return 0 (whatever the verdict), H2D_E_NOT_FOUND, H2D_E_PERMISSION, H2D_E_IO, H2D_E_FORMAT
 *         (not JSON, another schema or version, a negative or missing time, a sample
 *         listed twice or one that cannot be true: named by its pointer), H2D_E_NOMEM
 */
int h2d_compare_files(const char *a, const char *b, const struct h2d_compare_opts *opts,
		      const struct h2d_log *log, struct h2d_compare *out);
void h2d_compare_release(struct h2d_compare *c);

/** Whether a cell says nothing: undecided, or left out of both. */
bool h2d_compare_silent(const struct h2d_compare_cell *cell);

/** Members of an h2d.bench-compare, after the envelope; `status` is the exit status. */
void h2d_compare_write(struct h2d_json *j, const struct h2d_compare *c, int status,
		       bool redact);
/** For a comment on a change. */
void h2d_compare_markdown(FILE *out, const struct h2d_compare *c);
/** For a CI server: regressed and missing cells fail, undecided ones are skipped. */
void h2d_compare_junit(FILE *out, const struct h2d_compare *c);

/* Parts of h2d_compare_files(). */
int h2d_compare_read(struct h2d_compare *c, const struct h2d_log *log);
/** The verdict of every cell. @return 0 or H2D_E_NOMEM */
int h2d_compare_judge(struct h2d_compare *c);
/** Member that has to be there, a whole number from `least` to 2^53. */
int h2d_compare_number(const struct h2d_value *of, const char *key, uint64_t least,
		       uint64_t *out);
/** Room for the times of so many samples. */
int h2d_compare_room(const struct h2d_value *samples, struct h2d_compare_side *side);
/** Fail where a cell of an h2d.bench has two samples of one block. */
int h2d_compare_blocks(const struct h2d_value *samples);
/** The time of an ok sample of an h2d.bench; fail where its members cannot be true together:
 *  wall_ns below load_ns, repeats_ns whose shortest is another time or which do not fit into
 *  wall_ns, a throughput of no bytes. `cell` may be of no JSON. */
int h2d_compare_sample(const struct h2d_value *cell, const struct h2d_value *sample,
		       double *out);
void h2d_compare_environments(struct h2d_compare *c);

#endif

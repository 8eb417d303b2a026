/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_TEST_LAB_DOCUMENT_H
#define H2D_TEST_LAB_DOCUMENT_H

/* For tests that boot guests: runs the laboratory and gives back what its document says. */

#include <jansson.h>

#include "lab/lab.h"

/* The kernel that tests run, unless $H2D_TEST_KERNEL names another. */
const char *test_kernel(void);

/*
 * Runs and parses. A kernel that cannot be had, or no QEMU, ends the test program with 77 and
 * the reason. Returns NULL after an error, with its status in *status.
 */
json_t *run_laboratory(struct h2d_lab_options *options, int *status);
/* The same for results that were expected to be not verified: never skips. */
json_t *run_laboratory_plain(struct h2d_lab_options *options, int *status);

/* The first kernel of a document. */
json_t *first_kernel(json_t *document);
/* Its cell, or NULL. policy NULL: the shipped driver's. */
json_t *find_cell(json_t *kernel, const char *filesystem, const char *policy,
		  const char *permission, const char *state);
/* An integer member, or -1 when it is none. */
long long number_of(const json_t *object, const char *key);
const char *text_of(const json_t *object, const char *key);
const char *verdict_of(const json_t *kernel, const char *key);

/* The last error line of the library. */
extern char last_error[1024];

#endif

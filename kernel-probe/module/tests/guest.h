/* SPDX-License-Identifier: GPL-2.0-only */
/* What the module's test programs share: output in TAP, mappings and what the kernel says of
 * them. Everything here ends the program when the guest itself does not work (status 1). */
#ifndef H2D_MODULE_TESTS_GUEST_H
#define H2D_MODULE_TESTS_GUEST_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/hmm_client.h"

enum { PAGE = 4096, SPAN = 2 << 20 };

extern const struct h2d_log guest_log; /* lines beginning with '#' on stdout */

/* One TAP line; a failed one counts. */
void guest_check(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Last line (the plan); the exit status: 0, or 1 when a check failed or none was made. */
int guest_finish(void);
void guest_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* A file of `bytes` incompressible bytes at path, synced, its pages in the page cache. */
int guest_make_file(const char *path, size_t bytes);
/* Read one byte of every `stride` bytes. */
void guest_touch(const void *address, size_t bytes, size_t stride);
/* Spans of [address, address + bytes) that hold a present page (/proc/self/pagemap). */
uint64_t guest_present_spans(const void *address, size_t bytes);
uint64_t guest_present_pages(const void *address, size_t bytes);
/* Anonymous bytes of the mappings that overlap the range (/proc/self/smaps). */
uint64_t guest_anonymous_bytes(const void *address, size_t bytes);

#endif

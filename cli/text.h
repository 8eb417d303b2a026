/* SPDX-License-Identifier: Apache-2.0 */
/** @file text.h  Numbers and hostile names as people read them on a terminal. */
#ifndef H2D_CLI_TEXT_H
#define H2D_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** "512 B", "1.50 GiB" */
void h2d_text_bytes(char *out, size_t cap, uint64_t bytes);
/** "850 ns", "12.3 ms", "4.21 s" */
void h2d_text_ns(char *out, size_t cap, uint64_t ns);
/** A guess, no more exact than it is: "under 10 s", "about 40 s", "about 3 min", "about 2 h" */
void h2d_text_about(char *out, size_t cap, uint64_t ns);
/**
 * Print bytes so that they cannot steer a terminal: control characters (C0, DEL, C1), what
 * turns the direction of text, and what is not UTF-8 become \xNN of each byte.
 */
void h2d_text_safe(FILE *out, const void *data, size_t bytes);
/** The same, line by line: newlines and tabs stay. */
void h2d_text_safe_lines(FILE *out, const void *data, size_t bytes);
/** The same into memory, cut at `cap` - 1; for messages. */
void h2d_text_safe_copy(char *out, size_t cap, const void *data, size_t bytes);
/** Whether those bytes are printed as they are. */
bool h2d_text_is_safe(const void *data, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file switches.h
 * What can be done about a finding, from the data file known-switches.json: general actions and
 * the switches of programs, each with the gain that somebody reported and where. The file is
 * built in; another can be given. Thread-safe once opened. Since 0.1.
 */
#ifndef H2D_HOST_SWITCHES_H
#define H2D_HOST_SWITCHES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/log.h"

struct h2d_switches;

/** One thing to do; texts belong to the table. */
struct h2d_switch {
	const char *action; /**< a sentence with {command}, {upgrade}, {file}, or a switch */
	const char *gain, *source;
};

/** @param file  NULL: the one that is built in
 *  @return 0; H2D_E_NOT_FOUND, H2D_E_PERMISSION, H2D_E_IO, H2D_E_FORMAT, H2D_E_NOMEM */
int h2d_switches_open(const char *file, const struct h2d_log *log, struct h2d_switches **out);
void h2d_switches_close(struct h2d_switches *s);

/** The general action `id` if it is one for that finding, else the first that is; `id` may be
 *  NULL. @return false when there is none */
bool h2d_switches_general(const struct h2d_switches *s, const char *id, const char *finding,
			  struct h2d_switch *out);
/** The program that a command line runs, by its first words. @return its name or NULL */
const char *h2d_switches_program(const struct h2d_switches *s, char *const *words,
				 size_t count);
/** That program's switch for a finding. */
bool h2d_switches_of_program(const struct h2d_switches *s, const char *program,
			     const char *finding, struct h2d_switch *out);
/** The part of a word that the table knows: a program's name or a switch. Nothing else of a
 *  command line needs to stay in a capture. @return it, in `word`, or NULL */
const char *h2d_switches_match(const struct h2d_switches *s, const char *word, size_t *bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** @file doctor_gather.h  Everything that the doctor looks at, in bounded time. */
#ifndef H2D_CLI_DOCTOR_GATHER_H
#define H2D_CLI_DOCTOR_GATHER_H

#include "cli.h"
#include "host/doctor.h"

struct h2d_doctor_gather {
	struct h2d_cli *cli;
	const char *root; /**< a capture; NULL: this machine */
	int pid;	  /**< 0: find one */
	bool measure;
};

/** What was seen; belongs to h2d_doctor_gathered_free(). */
struct h2d_doctor_gathered;

/**
 * Look at everything. Each part looks from a process of its own, so that a file of /proc or
 * /sys, a module or a device that hangs costs only that part: what did not end in time is named
 * in the facts. Takes less than ten seconds on this machine, whatever hangs; a capture, which
 * hangs nobody, may take a minute.
 * @param facts  (out) valid until h2d_doctor_gathered_free()
 * @return 0, or an exit status after the error was told
 */
int h2d_doctor_gather(const struct h2d_doctor_gather *what, struct h2d_doctor_gathered **out,
		      struct h2d_doctor_facts **facts);
void h2d_doctor_gathered_free(struct h2d_doctor_gathered *gathered);

#endif

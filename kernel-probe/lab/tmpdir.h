/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_LAB_TMPDIR_H
#define H2D_LAB_TMPDIR_H

#include "internal.h"

/*
 * Makes lab->tmp below $TMPDIR, private and locked while this process lives, and removes what
 * earlier runs left that were killed before they could. Returns 0 or an error of the system.
 */
int lab_tmp_make(struct lab *lab);
/* Removes it, or with options.keep says where it is and gives it up. */
void lab_tmp_leave(struct lab *lab);

#endif

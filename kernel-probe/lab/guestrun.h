/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_LAB_GUESTRUN_H
#define H2D_LAB_GUESTRUN_H

#include "internal.h"

/*
 * Fills in the result of one kernel; `index` names its directory. A kernel that cannot be had
 * or tested here is an outcome (not verified, with reasons) and returns 0.
 */
int lab_kernel_run(struct lab *lab, size_t index, struct lab_kernel_result *result);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** @file doctor_measure.h  What the doctor measures itself. */
#ifndef H2D_CLI_DOCTOR_MEASURE_H
#define H2D_CLI_DOCTOR_MEASURE_H

#include "cli.h"
#include "host/doctor.h"

/** Copy at most 8 MiB to a device whose copies may go through HMM, and judge. Takes at most
 *  `limit_ms`, whatever the device does. Never fails: `out->why` says why nothing was measured.
 */
void h2d_doctor_measure(unsigned limit_ms, struct h2d_doctor_measured *out);

#endif

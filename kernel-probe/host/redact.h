/* SPDX-License-Identifier: Apache-2.0 */
/** @file redact.h  Private details out of a record: names of host and users, serial numbers,
 *  command lines, folders. Since 0.1. */
#ifndef H2D_HOST_REDACT_H
#define H2D_HOST_REDACT_H

#include "host/record.h"
#include "host/switches.h"

/**
 * Take them out. Of command lines the words stay that the table of switches knows; of paths
 * the last component; of control groups their depth.
 * @return 0 or H2D_E_NOMEM, and then the record must not be written
 */
int h2d_redact(struct h2d_record *r, const struct h2d_switches *s);

#endif

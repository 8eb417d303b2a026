/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file module_facts.h
 * What was read in a kernel module's code, as a few lines that a capture can hold instead of
 * the module: /h2d/module. Since 0.1.
 */
#ifndef H2D_HOST_MODULE_FACTS_H
#define H2D_HOST_MODULE_FACTS_H

#include "inspect/inspect.h"

/** Show a report to an observer of hostfs. */
void h2d_module_facts_note(const struct h2d_module_report *report);
/** The report that a capture holds; of the evidence only the verdicts are left.
 *  @return 0, H2D_E_NOT_FOUND, H2D_E_NOMEM; released by h2d_module_report_free() */
int h2d_module_facts_read(const char *root, struct h2d_module_report **out);

#endif

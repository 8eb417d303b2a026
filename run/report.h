/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file report.h
 * The end of a process: written pages are counted, and where H2D_RUN_REPORT asks for it, one
 * line per file is appended there. Raw system calls only: it may be a signal handler that ends
 * it.
 */
#ifndef H2D_RUN_REPORT_H
#define H2D_RUN_REPORT_H

/** Once per process; nothing when no mapping was kept. errno stays. */
void ro_end(void);

#endif

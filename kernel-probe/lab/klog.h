/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_LAB_KLOG_H
#define H2D_LAB_KLOG_H

/*
 * Tells a line of a kernel's log that reports a fault of the kernel itself (BUG, WARNING, Oops,
 * lockdep, KASAN, kmemleak, stalls) from any other. Used by the guest's init on /dev/kmsg and
 * by the host on the console. Since 0.1.
 */

#include <stdbool.h>

/* `line` is one NUL-terminated line, with or without a time stamp in front. Thread-safe. */
bool lab_klog_is_fault(const char *line);

/* The same for the lines after which a kernel does not go on ("Kernel panic"). Thread-safe. */
bool lab_klog_is_panic(const char *line);

#endif

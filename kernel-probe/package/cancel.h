/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_PACKAGE_CANCEL_H
#define H2D_PACKAGE_CANCEL_H

/* How long-running work is asked whether it should stop. Since 0.1. */

#include <stdbool.h>
#include <stddef.h>

/** `asked` returns not 0 to stop; it is called often, from the thread that does the work. */
struct lab_cancel {
	int (*asked)(void *user); /* NULL: never */
	void *user;
};

static inline bool lab_cancel_asked(const struct lab_cancel *cancel)
{
	return cancel && cancel->asked && cancel->asked(cancel->user);
}

#endif

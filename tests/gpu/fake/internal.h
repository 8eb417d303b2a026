/* SPDX-License-Identifier: Apache-2.0 */
/** @file internal.h  What the parts of a fake share. */
#ifndef H2D_FAKE_INTERNAL_H
#define H2D_FAKE_INTERNAL_H

#include "fake.h"

/** Whether a copy that has not ended reads or writes this memory. */
bool fake_is_pending(const void *p, uint64_t bytes);
void *fake_device_bytes(int d, const void *p, uint64_t bytes);
bool fake_is_pinned(const void *p, uint64_t bytes);
void fake_count_register(bool read_only);
void fake_memory_sweep(void);
void fake_memory_live(struct fake_live *out);

#endif

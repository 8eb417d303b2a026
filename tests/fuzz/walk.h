/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file walk.h
 * What must hold of any checkpoint that opened, checked by asking for all of it. A broken
 * promise ends the process, as a fuzzer wants it.
 */
#ifndef H2D_FUZZ_WALK_H
#define H2D_FUZZ_WALK_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "h2d/h2d.h"

/** The target's entry, called by libFuzzer or by replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define PROMISE(cond)                                                                          \
	do {                                                                                   \
		if (!(cond))                                                                   \
			abort();                                                               \
	} while (0)

/* Kept, so that reads of it are not optimised away. */
static volatile unsigned char walk_sink;

static inline void walk_touch(const void *data, size_t bytes)
{
	const unsigned char *p = data;

	if (bytes) {
		walk_sink = p[0];
		walk_sink = p[bytes - 1];
	}
}

/** A log that reads its line, which must be one. */
static inline void walk_log(void *user, enum h2d_log_level level, const char *line)
{
	(void)level;
	PROMISE(line && !strchr(line, '\n'));
	if (level == H2D_LOG_ERROR)
		++*(unsigned *)user;
}

/** All tensors and metadata of `c`; every byte of data is looked at from both ends. */
static inline void walk(struct h2d_checkpoint *c)
{
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_tensor_info t = H2D_OPTS(t), before = H2D_OPTS(before);
	struct h2d_metadata_info m = H2D_OPTS(m);
	uint64_t total = 0, index, size;
	const void *view;

	PROMISE(!h2d_checkpoint_info(c, &info));
	for (uint64_t i = 0; i < info.tensor_count; i++) {
		PROMISE(!h2d_checkpoint_tensor(c, i, &t));
		PROMISE(t.file < info.file_count && h2d_checkpoint_file(c, t.file));
		PROMISE(t.name && t.name[t.name_bytes] == 0 && t.dtype && t.dtype[0]);
		PROMISE(!t.rank || t.shape);
		if (t.rank)
			walk_touch(t.shape, t.rank * sizeof(*t.shape));
		if (t.strides)
			walk_touch(t.strides, t.rank * sizeof(*t.strides));
		if (i)
			PROMISE(before.file < t.file ||
				(before.file == t.file &&
				 before.offset_bytes <= t.offset_bytes));
		PROMISE(!h2d_checkpoint_find(c, t.name, t.name_bytes, &index) && index == i);
		PROMISE(!h2d_checkpoint_view(c, i, &view, &size) && size == t.size_bytes);
		walk_touch(view, size);
		total += t.size_bytes;
		before = t;
	}
	PROMISE(total == info.size_bytes);
	for (uint64_t i = 0; i < info.metadata_count; i++) {
		PROMISE(!h2d_checkpoint_metadata(c, i, &m));
		PROMISE(m.key && m.key[m.key_bytes] == 0);
		walk_touch(m.data, m.data_bytes);
	}
	PROMISE(h2d_checkpoint_tensor(c, info.tensor_count, &t) == H2D_E_NOT_FOUND);
}

/** Open bytes as a file of any format: one error line or a sound checkpoint. */
static inline int walk_memory(const void *data, size_t bytes)
{
	struct h2d_open_opts o = H2D_OPTS(o);
	struct h2d_checkpoint *c;
	unsigned errors = 0;
	int rc;

	o.log = walk_log;
	o.log_user = &errors;
	rc = h2d_checkpoint_open_memory(data, bytes, &o, &c);
	PROMISE(errors == (rc ? 1 : 0));
	PROMISE(rc ? !c : c != NULL);
	if (!rc)
		walk(c);
	h2d_checkpoint_close(c);
	return rc;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file verdict.h
 * Each case is opened as a file and from memory; both must give the verdict, a refusal with
 * status H2D_E_FORMAT and one line that begins with the file's name.
 */
#ifndef H2D_CONFORMANCE_VERDICT_H
#define H2D_CONFORMANCE_VERDICT_H

#include "ckpt.h"

enum verdict { REJECT, ACCEPT };

static inline void judge_one(const char *name, enum verdict want, int rc,
			     struct h2d_checkpoint *c, const char *path)
{
	bool right = want == ACCEPT ? !rc && c && !lines.errors
				    : rc == H2D_E_FORMAT && !c && lines.errors == 1 &&
					      !strncmp(lines.error, path, strlen(path)) &&
					      lines.error[strlen(path)] == ':';

	CHECK(right);
	if (!right)
		fprintf(stderr, "  %s: status %d, said: %s\n", name, rc, lines.error);
	h2d_checkpoint_close(c);
}

static inline void judge(const char *name, enum verdict want, const void *data, size_t bytes)
{
	struct h2d_open_opts o = fresh_log();
	unsigned char *copy = malloc(bytes ? bytes : 1);
	struct h2d_checkpoint *c;
	char path[512];
	int rc;

	REQUIRE(copy);
	if (bytes)
		memcpy(copy, data, bytes);
	rc = h2d_checkpoint_open_memory(copy, bytes, &o, &c);
	judge_one(name, want, rc, c, "memory");
	free(copy);

	o = fresh_log();
	write_bytes("case", data, bytes);
	snprintf(path, sizeof(path), "%s", in_scratch("case"));
	rc = h2d_checkpoint_open(path, &o, &c);
	judge_one(name, want, rc, c, path);
}

#endif

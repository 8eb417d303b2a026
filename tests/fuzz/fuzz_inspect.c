/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_inspect */
/*
 * The input is a kernel module, compressed or not. Whatever it holds, the inspector ends, and
 * what it says is whole: unknown with a reason, evidence with places inside the file, and a
 * document that can be written.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/inspect.h"
#include "walk.h"

static bool terminated(const char *text, size_t cap)
{
	return memchr(text, 0, cap) != NULL;
}

static void check_evidence(const struct h2d_module_report *r, size_t bytes)
{
	for (size_t i = 0; i < r->evidence_count; i++) {
		const struct h2d_inspect_evidence *e = &r->evidence[i];

		PROMISE(e->kind[0] && e->section[0] && e->statement[0]);
		PROMISE(terminated(e->function, sizeof(e->function)));
		PROMISE(strcmp(r->compression, "none") || e->address < bytes);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct h2d_log log = {0};
	struct h2d_module_report *r = NULL;
	struct h2d_json j;
	char *text;

	if (h2d_inspect_bytes("x.ko", data, bytes, &log, &r)) {
		PROMISE(!r);
		return 0;
	}
	PROMISE((unsigned)r->retry_policy <= H2D_RETRY_NONE);
	PROMISE((r->retry_policy == H2D_RETRY_UNKNOWN) == (r->retry_why[0] != 0));
	for (unsigned i = 0; i < H2D_CALLER_COUNT; i++)
		PROMISE((r->callers[i].rule == H2D_PERMISSION_UNKNOWN) ==
			(r->callers[i].why[0] != 0));
	check_evidence(r, bytes);
	h2d_json_init_memory(&j, false);
	h2d_module_report_write(&j, NULL, r);
	PROMISE(!h2d_json_finish(&j));
	text = h2d_json_take(&j);
	PROMISE(text && text[0] == '{');
	free(text);
	h2d_module_report_free(r);
	return 0;
}

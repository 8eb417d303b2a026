/* SPDX-License-Identifier: Apache-2.0 */
/* label: long */
/* Half a gigabyte of values: too much for the quick set. */
#include "format/pickle.h"
#include "torch_fixture.h"

static int read_pickle(struct h2d_parse *p)
{
	struct h2d_arena arena = {0};
	struct h2d_pickle_value *root;
	struct h2d_reader r;
	int rc;

	h2d_reader_init(&r, p, 0, p->file->id.size_bytes);
	rc = h2d_pickle_read(&r, &arena, &root);
	h2d_reader_free(&r);
	h2d_arena_free(&arena);
	return rc;
}

/* More values on the stack, more marks and more values than are allowed. */
static void limits(void)
{
	struct bytes b = {0};

	pk_begin(&b);
	put_u8(&b, 'N');
	put_fill(&b, '2', H2D_PICKLE_STACK_MAX);
	CHECK_REJECTED(read_pickle, &b, "more than 4194304 values on the stack");
	bytes_free(&b);
	pk_begin(&b);
	put_fill(&b, '(', H2D_PICKLE_STACK_MAX + 1);
	CHECK_REJECTED(read_pickle, &b, "more than 4194304 marks");
	bytes_free(&b);
	pk_begin(&b);
	for (unsigned i = 0; i <= H2D_PICKLE_VALUES_MAX; i++)
		put(&b, "N0", 2);
	CHECK_REJECTED(read_pickle, &b, "more than 16777216 values");
	bytes_free(&b);
}

int main(void)
{
	RUN(limits);
	return TEST_DONE();
}

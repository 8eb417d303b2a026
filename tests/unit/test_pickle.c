/* SPDX-License-Identifier: Apache-2.0 */
#include "format/pickle.h"
#include "torch_fixture.h"

static struct h2d_arena arena;
static struct h2d_pickle_value *root;

/* A pickle alone, in the form of a parser; the tree stays until the next one. */
static int read_pickle(struct h2d_parse *p)
{
	struct h2d_reader r;
	int rc;

	h2d_arena_free(&arena);
	h2d_reader_init(&r, p, 0, p->file->id.size_bytes);
	h2d_reader_subject(&r, "pickle", NULL, 0);
	rc = h2d_pickle_read(&r, &arena, &root);
	h2d_reader_free(&r);
	return rc;
}

static void load(const void *data, size_t n)
{
	struct outcome o;

	root = NULL;
	parse(read_pickle, data, n, &o);
	CHECK_EQ(o.rc, 0);
	if (o.rc)
		fprintf(stderr, "  message: %s\n", o.error);
	outcome_free(&o);
}

#define LOAD(text) load(text, sizeof(text) - 1)

static void reject(const void *data, size_t n, const char *part)
{
	struct bytes b = {0};

	put(&b, data, n);
	CHECK_REJECTED(read_pickle, &b, part);
	bytes_free(&b);
}

#define REJECT(text, part) reject(text, sizeof(text) - 1, part)

/* ---- tests */

static void scalars(void)
{
	LOAD("\x80\x02N.");
	CHECK_EQ(root->kind, H2D_PICKLE_NONE);
	LOAD("\x80\x02\x88.");
	CHECK(root->kind == H2D_PICKLE_BOOL && root->integer == 1);
	LOAD("\x80\x02\x89.");
	CHECK(root->kind == H2D_PICKLE_BOOL && root->integer == 0);
	LOAD("\x80\x02K\xff.");
	CHECK_EQ(root->integer, 255);
	LOAD("\x80\x02M\xff\xff.");
	CHECK_EQ(root->integer, 65535);
	LOAD("\x80\x02J\xfe\xff\xff\xff.");
	CHECK_EQ(root->integer, -2);
	LOAD("\x80\x02\x8a\x00.");
	CHECK(root->kind == H2D_PICKLE_INT && root->integer == 0);
	LOAD("\x80\x02\x8a\x01\x80.");
	CHECK_EQ(root->integer, -128);
	LOAD("\x80\x02\x8a\x02\x80\x00.");
	CHECK_EQ(root->integer, 128);
	LOAD("\x80\x02\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.");
	CHECK_EQ(root->integer, INT64_MAX);
	LOAD("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.");
	CHECK_EQ(root->kind, H2D_PICKLE_LONG);
	LOAD("\x80\x02\x8b\x01\x00\x00\x00\x07.");
	CHECK_EQ(root->integer, 7);
	LOAD("\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00.");
	CHECK(root->kind == H2D_PICKLE_FLOAT && root->real == 1.5);
	LOAD("\x80\x02X\x03\x00\x00\x00"
	     "abc.");
	CHECK(root->kind == H2D_PICKLE_STRING && root->text.bytes == 3);
	CHECK_STR(root->text.data, "abc");
	LOAD("\x80\x04\x8c\x01z.");
	CHECK_STR(root->text.data, "z");
	LOAD("\x80\x04\x8d\x01\x00\x00\x00\x00\x00\x00\x00z.");
	CHECK_STR(root->text.data, "z");
	LOAD("\x80\x03"
	     "C\x02\x00\x01.");
	CHECK(root->kind == H2D_PICKLE_BYTES && root->text.bytes == 2);
}

static void containers(void)
{
	const struct h2d_pickle_item *i;

	LOAD("\x80\x02)."); /* () */
	CHECK(root->kind == H2D_PICKLE_TUPLE && root->count == 0);
	LOAD("\x80\x02K\x01K\x02K\x03\x87."); /* (1, 2, 3) */
	CHECK(root->kind == H2D_PICKLE_TUPLE && root->count == 3);
	CHECK_EQ(h2d_pickle_at(root, 2)->integer, 3);
	CHECK(!h2d_pickle_at(root, 3));
	LOAD("\x80\x02(K\x01K\x02t.");
	CHECK(root->kind == H2D_PICKLE_TUPLE && root->count == 2);
	LOAD("\x80\x02]K\x01"
	     "a(K\x02K\x03"
	     "e.");
	CHECK(root->kind == H2D_PICKLE_LIST && root->count == 3);
	CHECK_EQ(h2d_pickle_at(root, 1)->integer, 2);
	LOAD("\x80\x02}K\x01K\x02s(K\x03K\x04K\x05K\x06u.");
	REQUIRE(root->kind == H2D_PICKLE_DICT && root->count == 3);
	i = root->items.first->next;
	CHECK(i->key->integer == 3 && i->value->integer == 4);
	LOAD("\x80\x04\x8f(K\x01\x90.");
	CHECK(root->kind == H2D_PICKLE_SET && root->count == 1);
	LOAD("\x80\x04(K\x01K\x01\x91.");
	CHECK(root->kind == H2D_PICKLE_SET && root->count == 2);
	/* POP of a value and of a mark, POP_MARK, DUP. */
	LOAD("\x80\x02K\x07N0(0(NN1.");
	CHECK_EQ(root->integer, 7);
	LOAD("\x80\x02K\x07"
	     "2\x86.");
	CHECK_EQ(root->count, 2);
}

static void memo(void)
{
	/* A list that contains itself. */
	LOAD("\x80\x02]q\x00h\x00"
	     "a.");
	REQUIRE(root->kind == H2D_PICKLE_LIST && root->count == 1);
	CHECK(h2d_pickle_at(root, 0) == root);
	LOAD("\x80\x04N\x94K\x05\x94h\x01\x87.");
	CHECK_EQ(h2d_pickle_at(root, 2)->integer, 5);
	LOAD("\x80\x02K\x05r\x03\x00\x00\x00j\x03\x00\x00\x00\x86.");
	CHECK_EQ(root->count, 2);
	REJECT("\x80\x02h\x00.", "memo index 0 was never set, at offset 2");
	REJECT("\x80\x02Nq\x02h\x01.", "memo index 1 was never set");
	REJECT("\x80\x02Nr\xff\xff\xff\xff.", "memo index 4294967295 is too large");
	REJECT("\x80\x02q\x00.", "fewer values");
}

/* What would call something is only written down. */
static void calls(void)
{
	LOAD("\x80\x02"
	     "cos\nsystem\n(X\x04\x00\x00\x00true"
	     "tR.");
	REQUIRE(root->kind == H2D_PICKLE_OBJECT);
	CHECK(h2d_pickle_is_global(root->call->callable, "os", "system"));
	CHECK(!h2d_pickle_is_global(root->call->callable, "os", "popen"));
	CHECK_STR(h2d_pickle_at(root->call->args, 0)->text.data, "true");
	CHECK_EQ(root->call->at, 2 + 11 + 1 + 9 + 1);
	LOAD("\x80\x02"
	     "cm\nC\n)\x81}X\x01\x00\x00\x00"
	     "aK\x01sb.");
	REQUIRE(root->kind == H2D_PICKLE_OBJECT && root->call->state);
	CHECK_EQ(root->call->state->count, 1);
	LOAD("\x80\x04\x8c\x01m\x8c\x01"
	     "C\x93)}\x92.");
	REQUIRE(root->kind == H2D_PICKLE_OBJECT);
	CHECK(h2d_pickle_is_global(root->call->callable, "m", "C"));
	CHECK_EQ(root->call->args->count, 0);
	LOAD("\x80\x04\x8c\x01m\x8c\x01"
	     "C\x93)}K\x01K\x02s\x92.");
	CHECK_EQ(root->call->args->count, 2);
	/* Objects filled like lists and dicts. */
	LOAD("\x80\x02"
	     "cm\nC\n)RK\x01"
	     "a.");
	CHECK(root->count == 1 && !root->items.first->key);
	LOAD("\x80\x02"
	     "cm\nC\n)RK\x01K\x02s.");
	CHECK(root->count == 1 && root->items.first->key);
	LOAD("\x80\x02K\x03Q.");
	CHECK(root->kind == H2D_PICKLE_PERSISTENT && root->call->args->integer == 3);
}

static void damaged(void)
{
	REJECT("\x80\x01N.", "not a pickle of protocol 2 to 5");
	REJECT("\x80\x06N.", "not a pickle");
	REJECT("N.", "not a pickle");
	REJECT("\x80\x02.", "ends with 0 values");
	REJECT("\x80\x02NN.", "ends with 2 values");
	REJECT("\x80\x02N(.", "ends with 1 values");
	REJECT("\x80\x02N", "the file ends inside its opcodes");
	REJECT("\x80\x02I1\n.", "opcode 0x49 is none that torch.save or TorchScript writes");
	REJECT("\x80\x02(i.", "opcode 0x69");
	REJECT("\x80\x02(o.", "opcode 0x6f");
	REJECT("\x80\x02\x82\x01.", "opcode 0x82"); /* EXT1 */
	REJECT("\x80\x05\x97.", "opcode 0x97");	    /* NEXT_BUFFER */
	REJECT("\x80\x02\x80\x02N.", "opcode 0x80");
	REJECT("\x80\x02t.", "no mark");
	REJECT("\x80\x02]e.", "no mark");
	REJECT("\x80\x02(e.", "nothing on the stack to add to");
	REJECT("\x80\x02N((e.", "nothing on the stack to add to");
	REJECT("\x80\x02N(K\x01"
	       "e.",
	       "cannot be added to");
	REJECT("\x80\x02)K\x01"
	       "a.",
	       "cannot be added to");
	REJECT("\x80\x02](K\x01K\x02u.", "cannot be added to");
	REJECT("\x80\x02}(K\x01u.", "a key without a value");
	REJECT("\x80\x02(K\x01"
	       "d.",
	       "a key without a value");
	REJECT("\x80\x04"
	       "cm\nC\n)R(K\x01\x90.",
	       "cannot be added to");
	REJECT("\x80\x02K\x01\x86.", "fewer values");
	REJECT("\x80\x02K\x01(K\x02\x86.", "fewer values"); /* not past a mark */
	REJECT("\x80\x02"
	       "0.",
	       "fewer values");
	REJECT("\x80\x02"
	       "2.",
	       "fewer values");
	REJECT("\x80\x02R.", "fewer values");
	REJECT("\x80\x02"
	       "cm\nC\nK\x01R.",
	       "not a tuple");
	REJECT("\x80\x02}}b.", "what is no object");
	REJECT("\x80\x02"
	       "cm\nC\n)R}b}b.",
	       "twice");
	REJECT("\x80\x04\x8c\x01mK\x01\x93.", "a global's name is damaged");
	REJECT("\x80\x04\x8c\x02m\x00\x8c\x01n\x93.", "a global's name is damaged");
	REJECT("\x80\x02"
	       "cm\x00\nC\n.",
	       "a global's name is damaged");
	REJECT("\x80\x02X\xff\xff\xff\xff.", "a string of 4294967295 bytes passes the end");
	REJECT("\x80\x02\x8b\xff\xff\xff\xff.", "a number of 4294967295 bytes passes the end");
	REJECT("\x80\x04\x95\xff\x00\x00\x00\x00\x00\x00\x00N.", "a frame of 255 bytes");
	REJECT("\x80\x04\x95\x01\x00\x00", "the file ends inside a frame's length");
}

static void long_names(void)
{
	struct bytes b = {0};

	pk_begin(&b);
	put_u8(&b, 'c');
	put_fill(&b, 'm', 1024);
	put_text(&b, "\nC\n.");
	CHECK_ACCEPTED(read_pickle, &b);
	bytes_free(&b);
	pk_begin(&b);
	put_u8(&b, 'c');
	put_fill(&b, 'm', 1025);
	put_text(&b, "\nC\n.");
	CHECK_REJECTED(read_pickle, &b, "a global's name is damaged");
	bytes_free(&b);
}

/* Nesting that would overflow a recursive reader. */
static void deep(void)
{
	struct bytes b = {0};

	pk_begin(&b);
	put_u8(&b, 'N');
	put_fill(&b, 0x85, 100000);
	put_u8(&b, '.');
	CHECK_ACCEPTED(read_pickle, &b);
	bytes_free(&b);
}

static void faults(void)
{
	struct bytes b = {0};

	pk_begin(&b);
	put_u8(&b, '}');
	pk_ops(&b, "(");
	for (int i = 0; i < 20; i++) {
		pk_text(&b, "key");
		put_u8(&b, 'q');
		put_u8(&b, (unsigned)i);
		pk_vector(&b, "FloatStorage", "0", 4);
	}
	pk_ops(&b, "u.");
	check_truncation(read_pickle, &b, b.n);
	check_allocations(read_pickle, &b);
	check_reads(read_pickle, &b);
	bytes_free(&b);
}

int main(void)
{
	RUN(scalars);
	RUN(containers);
	RUN(memo);
	RUN(calls);
	RUN(damaged);
	RUN(long_names);
	RUN(deep);
	RUN(faults);
	h2d_arena_free(&arena);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Sets told by numbers in names, GGUF splits, and what a directory stands for. */
#include "ckpt.h"
#include "format/set.h"

static int open_in(const char *name, struct h2d_checkpoint **c)
{
	struct h2d_open_opts o = fresh_log();

	return h2d_checkpoint_open(in_scratch(name), &o, c);
}

static uint64_t tensors(struct h2d_checkpoint *c)
{
	struct h2d_checkpoint_info info = H2D_OPTS(info);

	return h2d_checkpoint_info(c, &info) ? UINT64_MAX : info.tensor_count;
}

static void opens(const char *name, uint64_t files, uint64_t count)
{
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_checkpoint *c;
	int rc = open_in(name, &c);

	CHECK_EQ(rc, 0);
	if (rc) {
		fprintf(stderr, "  %s said: %s\n", name, lines.error);
		return;
	}
	CHECK_EQ(h2d_checkpoint_info(c, &info), 0);
	CHECK_EQ(info.file_count, files);
	CHECK_EQ(info.tensor_count, count);
	CHECK_EQ(lines.errors + lines.warnings, 0);
	h2d_checkpoint_close(c);
}

static void refuses(const char *name, int status, const char *says)
{
	struct h2d_checkpoint *c;

	CHECK_EQ(open_in(name, &c), status);
	CHECK_EQ(lines.errors, 1);
	CHECK(strstr(lines.error, says) != NULL);
	if (!strstr(lines.error, says))
		fprintf(stderr, "  %s said: %s\n", name, lines.error);
	h2d_checkpoint_close(c);
}

static void names(void)
{
	static const struct {
		const char *path;
		unsigned number, total;
	} all[] = {
		{"m-00001-of-00003.safetensors", 1, 3},
		{"a/b-00001-of-00009/m-00003-of-00003.gguf", 3, 3},
		{"m-000002-of-123456.bin", 2, 123456},
		{"m-00002-of-00002", 2, 2},
		{"m-of-00001-of-00002.x", 1, 2},
		{"-00001-of-00002.x", 1, 2},
		{"m-00000-of-00003.safetensors", 0, 0},
		{"m-00004-of-00003.safetensors", 0, 0},
		{"m-00001-of-00001.safetensors", 0, 0},
		{"m-1-of-3.safetensors", 0, 0},
		{"m-0001-of-0003.safetensors", 0, 0},
		{"m-00001-of-000003.safetensors", 0, 0},
		{"m-00001-of-00003x.safetensors", 0, 0},
		{"m00001-of-00003.safetensors", 0, 0},
		{"00001-of-00003.safetensors", 0, 0},
		{"m-0000000001-of-0000000003.x", 0, 0},
		{"m-of-00003.safetensors", 0, 0},
		{"m.safetensors", 0, 0},
		{"m-00001-of-00003.d/m.safetensors", 0, 0},
		{"", 0, 0},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct h2d_numbered n;
		bool is = h2d_numbered_parse(all[i].path, &n);

		CHECK_EQ(is, all[i].total != 0);
		if (is && all[i].total) {
			CHECK_EQ(n.number, all[i].number);
			CHECK_EQ(n.total, all[i].total);
		}
	}
}

static void numbered(void)
{
	struct h2d_tensor_info t = H2D_OPTS(t);
	struct h2d_checkpoint *c;
	uint64_t index;

	make_folder("n");
	write_st("n/m-00001-of-00003.safetensors", 4, NAMES("a", "b"));
	write_st("n/m-00002-of-00003.safetensors", 4, NAMES("c"));
	write_st("n/m-00003-of-00003.safetensors", 4, NAMES("d"));
	opens("n", 3, 4);
	opens("n/m-00001-of-00003.safetensors", 3, 4);
	opens("n/m-00003-of-00003.safetensors", 3, 4);
	REQUIRE(!open_in("n/m-00003-of-00003.safetensors", &c));
	CHECK_EQ(h2d_checkpoint_find(c, "a", 1, &index), 0);
	CHECK_EQ(index, 0);
	CHECK_EQ(h2d_checkpoint_tensor(c, 3, &t), 0);
	CHECK_STR(t.name, "d");
	CHECK_EQ(t.file, 2);
	h2d_checkpoint_close(c);

	/* The same name in two members; offsets of both entries are said. */
	write_st("n/m-00003-of-00003.safetensors", 4, NAMES("d", "b"));
	refuses("n", H2D_E_FORMAT,
		"m-00003-of-00003.safetensors: tensor \"b\": name is not unique: "
		"the entry at offset ");
	write_st("n/m-00003-of-00003.safetensors", 4, NAMES("d"));

	CHECK(!rename(in_scratch("n/m-00002-of-00003.safetensors"), in_scratch("n/other")));
	refuses("n/m-00003-of-00003.safetensors", H2D_E_NOT_FOUND,
		"m-00002-of-00003.safetensors: missing file of the set of ");
	CHECK(!unlink(in_scratch("n/other")));
	refuses("n", H2D_E_NOT_FOUND, "m-00002-of-00003.safetensors: missing file");
	/* A single file whose name only looks alike. */
	write_st("n/x-00001-of-00001.safetensors", 4, NAMES("q"));
	opens("n/x-00001-of-00001.safetensors", 1, 1);
}

/* Only the first member's metadata are the checkpoint's. */
static void metadata_of_the_first(void)
{
	static const char first[] = "{\"__metadata__\":{\"k\":\"1\"}}";
	static const char second[] = "{\"__metadata__\":{\"k\":\"2\",\"l\":\"3\"}}";
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_metadata_info m = H2D_OPTS(m);
	struct h2d_checkpoint *c;
	unsigned char *p;
	size_t n;

	p = st_file(first, sizeof(first) - 1, 0, &n);
	write_bytes("md-00001-of-00002.safetensors", p, n);
	free(p);
	p = st_file(second, sizeof(second) - 1, 0, &n);
	write_bytes("md-00002-of-00002.safetensors", p, n);
	free(p);
	REQUIRE(!open_in("md-00002-of-00002.safetensors", &c));
	CHECK_EQ(h2d_checkpoint_info(c, &info), 0);
	CHECK_EQ(info.metadata_count, 1);
	CHECK_EQ(h2d_checkpoint_metadata(c, 0, &m), 0);
	CHECK_STR((const char *)m.data, "1");
	h2d_checkpoint_close(c);
}

/* ---- GGUF */

struct split {
	int no, count, total; /* -1: left out */
	bool as_u32;	      /* wider types than llama.cpp writes */
};

static size_t put(unsigned char *p, size_t n, const void *data, size_t bytes)
{
	memcpy(p + n, data, bytes);
	return n + bytes;
}

static size_t put_number(unsigned char *p, size_t n, uint64_t v, size_t bytes)
{
	return put(p, n, &v, bytes);
}

static size_t put_string(unsigned char *p, size_t n, const char *s)
{
	n = put_number(p, n, strlen(s), 8);
	return put(p, n, s, strlen(s));
}

static size_t put_key(unsigned char *p, size_t n, const char *key, int value, bool wide,
		      unsigned type, size_t bytes)
{
	if (value < 0)
		return n;
	n = put_string(p, n, key);
	n = put_number(p, n, wide ? 10 : type, 4);
	return put_number(p, n, (uint64_t)value, wide ? 8 : bytes);
}

/* A GGUF file of F32 tensors of 8 elements (32 bytes each). */
static void write_gguf(const char *name, struct split s, const char *const *list)
{
	unsigned char p[4096] = {0};
	uint64_t count = 0, keys = 1 + (s.no >= 0) + (s.count >= 0) + (s.total >= 0);
	size_t n = 0;

	while (list[count])
		count++;
	n = put(p, n, "GGUF", 4);
	n = put_number(p, n, 3, 4);
	n = put_number(p, n, count, 8);
	n = put_number(p, n, keys, 8);
	n = put_key(p, n, "split.no", s.no, s.as_u32, 2, 2);
	n = put_key(p, n, "split.count", s.count, s.as_u32, 2, 2);
	n = put_key(p, n, "split.tensors.count", s.total, s.as_u32, 5, 4);
	n = put_string(p, n, "general.name");
	n = put_number(p, n, 8, 4);
	n = put_string(p, n, name);
	for (uint64_t i = 0; i < count; i++) {
		n = put_string(p, n, list[i]);
		n = put_number(p, n, 1, 4);
		n = put_number(p, n, 8, 8);
		n = put_number(p, n, 0, 4);
		n = put_number(p, n, 32 * i, 8);
	}
	n = (n + 31) & ~(size_t)31;
	write_bytes(name, p, n + 32 * count);
}

#define PART(no, count, total) ((struct split){no, count, total, false})

static void gguf_splits(void)
{
	struct h2d_metadata_info m = H2D_OPTS(m);
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_checkpoint *c;
	int fd;

	make_folder("g");
	write_gguf("g/q-00001-of-00003.gguf", PART(0, 3, 3), NAMES(NULL));
	write_gguf("g/q-00002-of-00003.gguf", PART(1, 3, 3), NAMES("a", "b"));
	write_gguf("g/q-00003-of-00003.gguf", PART(2, 3, 3), NAMES("c"));
	opens("g", 3, 3);
	opens("g/q-00001-of-00003.gguf", 3, 3);
	opens("g/q-00002-of-00003.gguf", 3, 3);
	opens("g/q-00003-of-00003.gguf", 3, 3);
	REQUIRE(!open_in("g/q-00003-of-00003.gguf", &c));
	CHECK_EQ(h2d_checkpoint_info(c, &info), 0);
	CHECK_STR(info.format, "gguf");
	CHECK_EQ(info.metadata_count, 4);
	CHECK_EQ(h2d_checkpoint_metadata(c, 3, &m), 0);
	CHECK_EQ(m.data_bytes, strlen("g/q-00001-of-00003.gguf"));
	CHECK_EQ(memcmp(m.data, "g/q-00001-of-00003.gguf", m.data_bytes), 0);
	h2d_checkpoint_close(c);

	/* Integers of any width say the same. */
	write_gguf("g/q-00002-of-00003.gguf", (struct split){1, 3, 3, true}, NAMES("a", "b"));
	opens("g", 3, 3);
	/* The total may be left out behind the first part. */
	write_gguf("g/q-00002-of-00003.gguf", PART(1, 3, -1), NAMES("a", "b"));
	opens("g", 3, 3);
	/* By descriptor a part is read alone. */
	fd = open(in_scratch("g/q-00002-of-00003.gguf"), O_RDONLY);
	REQUIRE(fd >= 0);
	REQUIRE(!h2d_checkpoint_open_fd(fd, NULL, NULL, &c));
	close(fd);
	CHECK_EQ(tensors(c), 2);
	h2d_checkpoint_close(c);

	write_gguf("g/q-00002-of-00003.gguf", PART(2, 3, 3), NAMES("a", "b"));
	refuses("g", H2D_E_FORMAT,
		"q-00002-of-00003.gguf: metadata: split.no must be 1 in part 2 of 3");
	write_gguf("g/q-00002-of-00003.gguf", PART(-1, 3, 3), NAMES("a", "b"));
	refuses("g", H2D_E_FORMAT, "split.no must be 1 in part 2 of 3");
	write_gguf("g/q-00002-of-00003.gguf", PART(1, 4, 3), NAMES("a", "b"));
	refuses("g", H2D_E_FORMAT, "q-00002-of-00003.gguf: metadata: split.count must be 3");
	refuses("g/q-00002-of-00003.gguf", H2D_E_FORMAT,
		"metadata: split.count is 4, but the name does not end in "
		"-00001-of-00004.gguf");
	write_gguf("g/q-00002-of-00003.gguf", PART(1, -1, 3), NAMES("a", "b"));
	refuses("g", H2D_E_FORMAT, "split.count must be 3");
	write_gguf("g/q-00002-of-00003.gguf", PART(1, 3, 4), NAMES("a", "b"));
	refuses("g", H2D_E_FORMAT, "split.tensors.count is 4, but 3 in the first part");
	write_gguf("g/q-00002-of-00003.gguf", PART(1, 3, 3), NAMES("a", "b", "d"));
	refuses("g", H2D_E_FORMAT, "split.tensors.count is 3, but the parts hold 4 tensors");
	write_gguf("g/q-00002-of-00003.gguf", PART(1, 3, 3), NAMES("a", "c"));
	refuses("g", H2D_E_FORMAT, "q-00003-of-00003.gguf: tensor \"c\": name is not unique");
	write_gguf("g/q-00002-of-00003.gguf", PART(1, 3, 3), NAMES("a", "b"));
	write_gguf("g/q-00001-of-00003.gguf", PART(0, 3, -1), NAMES(NULL));
	refuses("g", H2D_E_FORMAT,
		"q-00001-of-00003.gguf: metadata: split.tensors.count is missing");
	write_gguf("g/q-00001-of-00003.gguf", PART(0, 3, 3), NAMES(NULL));
	CHECK(!unlink(in_scratch("g/q-00003-of-00003.gguf")));
	refuses("g/q-00001-of-00003.gguf", H2D_E_NOT_FOUND,
		"q-00003-of-00003.gguf: missing file of the set of ");
	write_st("g/q-00003-of-00003.gguf", 4, NAMES("c"));
	refuses("g/q-00001-of-00003.gguf", H2D_E_FORMAT,
		"q-00003-of-00003.gguf: is safetensors, but ");
}

static void gguf_alone(void)
{
	write_gguf("one.gguf", PART(-1, -1, -1), NAMES("a"));
	opens("one.gguf", 1, 1);
	write_gguf("one.gguf", PART(0, 1, 1), NAMES("a"));
	opens("one.gguf", 1, 1);
	/* Numbered by name only: the metadata decide. */
	write_gguf("p-00002-of-00009.gguf", PART(-1, -1, -1), NAMES("a"));
	opens("p-00002-of-00009.gguf", 1, 1);
	/* A split under a name that does not lead to its siblings. */
	write_gguf("part2.gguf", PART(1, 3, 3), NAMES("a"));
	refuses("part2.gguf", H2D_E_FORMAT,
		"part2.gguf: metadata: split.count is 3, but the name");
}

/* ---- directories */

static void directories(void)
{
	make_folder("d");
	refuses("d", H2D_E_NOT_FOUND, "d: directory holds no checkpoint");
	write_text("d/config.json", "{\"a\":1}");
	write_text("d/notes", "text");
	write_st("d/.hidden", 4, NAMES("h"));
	make_folder("d/sub");
	write_st("d/sub/deeper.safetensors", 4, NAMES("x"));
	refuses("d", H2D_E_NOT_FOUND, "directory holds no checkpoint");
	/* By content, whatever the name. */
	write_st("d/weights", 4, NAMES("a"));
	opens("d", 1, 1);
	write_gguf("d/zz.dat", PART(-1, -1, -1), NAMES("a"));
	refuses("d", H2D_E_FORMAT,
		"d: directory holds more than one checkpoint: weights, zz.dat; name the one");
	CHECK(!unlink(in_scratch("d/zz.dat")));
	/* A set and a single file, then two sets, then an incomplete one. */
	write_st("d/m-00001-of-00002.safetensors", 4, NAMES("a"));
	write_st("d/m-00002-of-00002.safetensors", 4, NAMES("b"));
	refuses("d", H2D_E_FORMAT,
		"more than one checkpoint: m-00001-of-00002.safetensors, "
		"m-00002-of-00002.safetensors, weights;");
	CHECK(!unlink(in_scratch("d/weights")));
	opens("d", 2, 2);
	write_st("d/k-00001-of-00002.safetensors", 4, NAMES("a"));
	refuses("d", H2D_E_FORMAT,
		"more than one checkpoint: k-00001-of-00002.safetensors, m-");
	/* An index that has no weight_map is some other document; a malformed one is told. */
	CHECK(!unlink(in_scratch("d/k-00001-of-00002.safetensors")));
	write_text("d/index.json", "{\"manifests\":[]}");
	opens("d", 2, 2);
	write_text("d/index.json", "{\"weight_map\":{\"b\":\"m-00002-of-00002.safetensors\"}}");
	opens("d", 1, 1);
	write_text("d/index.json", "{\"weight_map\":{\"b\":}}");
	refuses("d", H2D_E_FORMAT, "d/index.json: index: ");
}

static void a_long_list_of_candidates(void)
{
	char name[64];

	make_folder("many");
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "many/checkpoint-%03d.safetensors", i);
		write_st(name, 4, NAMES("a"));
	}
	refuses("many", H2D_E_FORMAT, "checkpoint-000.safetensors, checkpoint-001.safetensors");
	CHECK(strstr(lines.error, ", \xe2\x80\xa6; name the one") != NULL);
}

static void unreadable(void)
{
	struct h2d_checkpoint *c;

	if (!geteuid())
		return; /* root reads everything */
	write_st("d/locked.safetensors", 4, NAMES("a"));
	CHECK(!unlink(in_scratch("d/index.json")));
	CHECK(!chmod(in_scratch("d/locked.safetensors"), 0));
	CHECK_EQ(open_in("d", &c), 0);
	CHECK_EQ(lines.warnings, 1);
	CHECK(strstr(lines.warning, "locked.safetensors: passed over: it cannot be read") !=
	      NULL);
	h2d_checkpoint_close(c);
	CHECK_EQ(open_in("d/locked.safetensors", &c), H2D_E_PERMISSION);
	CHECK(!chmod(in_scratch("d/sub"), 0));
	CHECK_EQ(open_in("d/sub", &c), H2D_E_PERMISSION);
	CHECK(strstr(lines.error, "d/sub: directory cannot be listed") != NULL);
	CHECK(!chmod(in_scratch("d/sub"), 0755));
}

static void every_allocation_fails(void)
{
	static const char *const sets[] = {"f", "s/t-00002-of-00002.gguf", "s"};
	struct h2d_checkpoint *c;

	make_folder("f");
	make_folder("s");
	write_st("f/m-00001-of-00002.safetensors", 4, NAMES("a"));
	write_st("f/m-00002-of-00002.safetensors", 4, NAMES("b"));
	write_gguf("s/t-00001-of-00002.gguf", PART(0, 2, 2), NAMES("a"));
	write_gguf("s/t-00002-of-00002.gguf", PART(1, 2, 2), NAMES("b"));
	for (size_t s = 0; s < 3; s++) {
		for (long i = 0;; i++) {
			int rc;

			mem_begin(i);
			rc = open_in(sets[s], &c);
			mem_end();
			h2d_checkpoint_close(c);
			if (!rc) {
				CHECK(i > 10);
				break;
			}
			CHECK_EQ(rc, H2D_E_NOMEM);
			CHECK_EQ(lines.errors, 1);
			CHECK_EQ(lines.warnings, 0);
			REQUIRE(i < 300);
		}
	}
}

int main(void)
{
	scratch_make();
	RUN(names);
	RUN(numbered);
	RUN(metadata_of_the_first);
	RUN(gguf_splits);
	RUN(gguf_alone);
	RUN(directories);
	RUN(a_long_list_of_candidates);
	RUN(unreadable);
	RUN(every_allocation_fails);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* index.json: what it names is loaded and nothing else; what it says wrongly is an error. */
#include "ckpt.h"

#define ONE   "model-00001-of-00002.safetensors"
#define TWO   "model-00002-of-00002.safetensors"
#define INDEX "model.safetensors.index.json"

/* A folder with two shards (a, b; c, d) and an index of this text. */
static void make_set(const char *folder, const char *index)
{
	char name[128];

	make_folder(folder);
	snprintf(name, sizeof(name), "%s/" ONE, folder);
	write_st(name, 4, NAMES("a", "b"));
	snprintf(name, sizeof(name), "%s/" TWO, folder);
	write_st(name, 6, NAMES("c", "d"));
	snprintf(name, sizeof(name), "%s/" INDEX, folder);
	write_text(name, index);
}

#define MAP(entries) "{\"weight_map\":{" entries "}}"
#define GOOD_MAP                                                                               \
	"\"weight_map\":{\"a\":\"" ONE "\",\"b\":\"" ONE "\",\"c\":\"" TWO "\",\"d\":\"" TWO   \
	"\"}"

static int open_in(const char *folder, const char *member, struct h2d_checkpoint **c)
{
	struct h2d_open_opts o = fresh_log();
	char name[256];

	snprintf(name, sizeof(name), "%s%s%s", folder, *member ? "/" : "", member);
	return h2d_checkpoint_open(in_scratch(name), &o, c);
}

static void from_every_member(void)
{
	static const char *const members[] = {"", ONE, TWO, INDEX};
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_tensor_info t = H2D_OPTS(t);
	struct h2d_checkpoint *c;
	uint64_t index;
	const void *view;

	make_set("good", "{\"metadata\":{\"total_size\":20}," GOOD_MAP "}");
	write_text("good/config.json", "{\"weight_map\":{\"x\":\"y\"}}");
	write_text("good/tokenizer.json", "{}");
	write_text("good/README.md", "# read me");
	make_folder("good/folder.safetensors");
	for (size_t i = 0; i < 4; i++) {
		REQUIRE(!open_in("good", members[i], &c));
		CHECK_EQ(h2d_checkpoint_info(c, &info), 0);
		CHECK_STR(info.format, "safetensors");
		CHECK_EQ(info.file_count, 2);
		CHECK_EQ(info.tensor_count, 4);
		CHECK_EQ(info.size_bytes, 20);
		CHECK_EQ(info.ignored_count, 0);
		CHECK(strstr(h2d_checkpoint_file(c, 0), "/good/" ONE) != NULL);
		CHECK(strstr(h2d_checkpoint_file(c, 1), "/good/" TWO) != NULL);
		CHECK_EQ(h2d_checkpoint_find(c, "d", 1, &index), 0);
		CHECK_EQ(index, 3);
		CHECK_EQ(h2d_checkpoint_tensor(c, 3, &t), 0);
		CHECK_EQ(t.file, 1);
		CHECK_EQ(h2d_checkpoint_view(c, 3, &view, NULL), 0);
		CHECK_EQ(*(const unsigned char *)view, pattern(6));
		CHECK_EQ(lines.errors + lines.warnings, 0);
		h2d_checkpoint_close(c);
	}
	/* Outside the folder, and with a trailing slash. */
	REQUIRE(!open_in("good/", "", &c));
	h2d_checkpoint_close(c);
}

static void relative_paths(void)
{
	struct h2d_checkpoint *c;
	struct h2d_open_opts o = fresh_log();
	char back[4096];

	REQUIRE(getcwd(back, sizeof(back)));
	REQUIRE(!chdir(in_scratch("good")));
	REQUIRE(!h2d_checkpoint_open(INDEX, &o, &c));
	CHECK_STR(h2d_checkpoint_file(c, 0), ONE);
	h2d_checkpoint_close(c);
	REQUIRE(!h2d_checkpoint_open(TWO, &o, &c));
	CHECK_STR(h2d_checkpoint_file(c, 0), ONE);
	h2d_checkpoint_close(c);
	REQUIRE(!h2d_checkpoint_open(".", &o, &c));
	h2d_checkpoint_close(c);
	CHECK(!chdir(back));
}

/* A download cache: entries of a snapshot are links to blobs whose names say nothing. */
static void symbolic_links(void)
{
	static const char *const members[] = {"", ONE, TWO, INDEX};
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_checkpoint *c;

	make_folder("hub");
	make_folder("hub/blobs");
	make_folder("hub/snapshots");
	make_folder("hub/snapshots/main");
	write_st("hub/blobs/0f1e", 4, NAMES("a", "b"));
	write_st("hub/blobs/2d3c", 6, NAMES("c", "d"));
	write_text("hub/blobs/4b5a", "{" GOOD_MAP "}");
	make_link("../../blobs/0f1e", "hub/snapshots/main/" ONE);
	make_link("../../blobs/2d3c", "hub/snapshots/main/" TWO);
	make_link("../../blobs/4b5a", "hub/snapshots/main/" INDEX);
	for (size_t i = 0; i < 4; i++) {
		REQUIRE(!open_in("hub/snapshots/main", members[i], &c));
		CHECK_EQ(h2d_checkpoint_info(c, &info), 0);
		CHECK_EQ(info.file_count, 2);
		CHECK_EQ(info.tensor_count, 4);
		CHECK(strstr(h2d_checkpoint_file(c, 1), "/snapshots/main/" TWO) != NULL);
		h2d_checkpoint_close(c);
	}
	/* Without the index the names of the links still tell the set. */
	CHECK(!unlink(in_scratch("hub/snapshots/main/" INDEX)));
	REQUIRE(!open_in("hub/snapshots/main", TWO, &c));
	CHECK_EQ(h2d_checkpoint_info(c, &info), 0);
	CHECK_EQ(info.tensor_count, 4);
	h2d_checkpoint_close(c);
	/* A link that leads nowhere is a missing shard. */
	CHECK(!unlink(in_scratch("hub/blobs/0f1e")));
	CHECK_EQ(open_in("hub/snapshots/main", TWO, &c), H2D_E_NOT_FOUND);
	CHECK(strstr(lines.error, ONE ": missing file of the set of ") != NULL);
}

/* What the index does not list is counted, said once and left out; of two copies it chooses. */
static void not_listed(void)
{
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_tensor_info t = H2D_OPTS(t);
	struct h2d_checkpoint *c;
	uint64_t index;

	make_set("stale", MAP("\"b\":\"" ONE "\",\"c\":\"" TWO "\",\"a\":\"" TWO "\""));
	write_st("stale/" TWO, 6, NAMES("c", "a", "nul\\u0000"));
	REQUIRE(!open_in("stale", "", &c));
	CHECK_EQ(h2d_checkpoint_info(c, &info), 0);
	CHECK_EQ(info.tensor_count, 3);
	CHECK_EQ(info.ignored_count, 2);
	CHECK_EQ(info.size_bytes, 16);
	CHECK_EQ(h2d_checkpoint_find(c, "a", 1, &index), 0);
	CHECK_EQ(h2d_checkpoint_tensor(c, index, &t), 0);
	CHECK_EQ(t.file, 1);
	CHECK_EQ(lines.warnings, 1);
	CHECK(strstr(lines.warning, INDEX ": weight_map: 2 tensors of its files are not listed "
					  "for them and not loaded") != NULL);
	h2d_checkpoint_close(c);
}

static void rejected(const char *text, int status, const char *says)
{
	static unsigned n;
	struct h2d_checkpoint *c;
	char folder[32];

	snprintf(folder, sizeof(folder), "bad%u", n++);
	make_set(folder, text);
	CHECK_EQ(open_in(folder, INDEX, &c), status);
	CHECK_EQ(lines.errors, 1);
	CHECK(strstr(lines.error, says) != NULL);
	if (!strstr(lines.error, says))
		fprintf(stderr, "  said: %s\n", lines.error);
	CHECK(c == NULL);
}

static void wrong_indexes(void)
{
	rejected(MAP("\"a\":\"" ONE "\",\"d\":\"" ONE "\""), H2D_E_FORMAT,
		 INDEX ": weight_map: tensor \"d\" is not in its file " ONE);
	rejected(MAP("\"a\":\"" ONE "\",\"x\":\"" TWO "\""), H2D_E_FORMAT,
		 "weight_map: tensor \"x\" is not in its file " TWO);
	rejected(MAP("\"a\":\"model-3.safetensors\""), H2D_E_NOT_FOUND,
		 "/model-3.safetensors: missing file of the set of ");
	rejected(MAP("\"a\":\"/etc/passwd\""), H2D_E_FORMAT,
		 "tensor \"a\": file \"/etc/passwd\" must be a relative name");
	rejected(MAP("\"a\":\"../x\""), H2D_E_FORMAT, "file \"../x\" must be a relative name");
	rejected(MAP("\"a\":\"x/../../y\""), H2D_E_FORMAT, "must be a relative name");
	rejected(MAP("\"a\":\"x/..\""), H2D_E_FORMAT, "must be a relative name");
	rejected(MAP("\"a\":\"..\""), H2D_E_FORMAT, "must be a relative name");
	rejected(MAP("\"a\":\"./" ONE "\""), H2D_E_FORMAT, "must be a relative name");
	rejected(MAP("\"a\":\"x//y\""), H2D_E_FORMAT, "must be a relative name");
	rejected(MAP("\"a\":\"x/\""), H2D_E_FORMAT, "must be a relative name");
	rejected(MAP("\"a\":\"\""), H2D_E_FORMAT, "must be a relative name");
	rejected(MAP("\"a\":1"), H2D_E_FORMAT, "tensor \"a\": the file must be a string");
	rejected(MAP("\"a\":\"" INDEX "\""), H2D_E_FORMAT,
		 "a JSON document where a file of tensors");
	rejected(MAP(""), H2D_E_FORMAT, "weight_map: names no file");
	rejected("{\"weight_map\":[]}", H2D_E_FORMAT, "no object \"weight_map\"");
	rejected("{}", H2D_E_FORMAT, "no object \"weight_map\"");
	rejected(MAP("\"a\":\"" ONE "\",\"a\":\"" TWO "\""), H2D_E_FORMAT,
		 "index: duplicate object key");
	rejected("{\"weight_map\":{}", H2D_E_FORMAT, "index: ");
	rejected("{\"weight_map\":{\"\\ud800\":\"x\"}}", H2D_E_FORMAT, "index: ");
	rejected("{\"weight_map\":{\"a\\u0000\":\"x\"}}", H2D_E_FORMAT, "index: ");
	rejected("{\"weight_map\":{}} x", H2D_E_FORMAT, "index: end of file expected");
}

static void wrong_shards(void)
{
	struct h2d_checkpoint *c;

	make_set("shards", "{" GOOD_MAP "}");
	write_text("shards/" TWO, "nothing of the kind");
	CHECK_EQ(open_in("shards", "", &c), H2D_E_FORMAT);
	CHECK(strstr(lines.error, TWO ": no format h2d knows") != NULL);
	/* A tensor that the index leaves out must be sound all the same. */
	write_st("shards/" TWO, 6, NAMES("c", "d", "e", "e"));
	CHECK_EQ(open_in("shards", "", &c), H2D_E_FORMAT);
	CHECK(strstr(lines.error, TWO ": tensor \"e\": duplicate name at offset ") != NULL);
	CHECK_EQ(lines.errors, 1);
	CHECK_EQ(lines.warnings, 0);
	/* Another format in the same set. */
	write_bytes("shards/" TWO, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
	CHECK_EQ(open_in("shards", "", &c), H2D_E_FORMAT);
	CHECK(strstr(lines.error, TWO ": is gguf, but ") != NULL);
	CHECK(!unlink(in_scratch("shards/" TWO)));
	make_folder("shards/" TWO);
	CHECK_EQ(open_in("shards", "", &c), H2D_E_FORMAT);
	CHECK(strstr(lines.error, TWO ": not a regular file") != NULL);
}

static void total_size(void)
{
	static const struct {
		const char *text;
		int warnings;
	} cases[] = {
		{"{" GOOD_MAP "}", 0},
		{"{\"metadata\":null," GOOD_MAP "}", 0},
		{"{\"metadata\":{}," GOOD_MAP "}", 0},
		{"{\"metadata\":{\"total_size\":20}," GOOD_MAP "}", 0},
		{"{\"metadata\":{\"total_size\":20.0}," GOOD_MAP "}", 0},
		{"{\"metadata\":{\"total_size\":2e1}," GOOD_MAP "}", 0},
		{"{\"metadata\":{\"total_size\":21}," GOOD_MAP "}", 1},
		{"{\"metadata\":{\"total_size\":20.5}," GOOD_MAP "}", 1},
		{"{\"metadata\":{\"total_size\":\"20\"}," GOOD_MAP "}", 1},
		{"{\"metadata\":{\"total_size\":-1}," GOOD_MAP "}", 1},
	};
	struct h2d_checkpoint *c;

	make_set("total", "{}");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		write_text("total/" INDEX, cases[i].text);
		CHECK_EQ(open_in("total", "", &c), 0);
		CHECK_EQ(lines.warnings, cases[i].warnings);
		h2d_checkpoint_close(c);
	}
}

/* A file given directly: an index beside it counts only when it names the file. */
static void index_beside(void)
{
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_checkpoint *c;

	make_set("beside", "{" GOOD_MAP "}");
	write_st("beside/alone.safetensors", 4, NAMES("x"));
	write_st("beside/named-by-none.safetensors", 4, NAMES("x"));
	REQUIRE(!open_in("beside", "alone.safetensors", &c));
	CHECK_EQ(h2d_checkpoint_info(c, &info), 0);
	CHECK_EQ(info.tensor_count, 1);
	h2d_checkpoint_close(c);
	/* A member need not have a number in its name. */
	write_text("beside/other.index.json",
		   MAP("\"x\":\"alone.safetensors\",\"c\":\"" TWO "\""));
	REQUIRE(!open_in("beside", "alone.safetensors", &c));
	CHECK_EQ(h2d_checkpoint_info(c, &info), 0);
	CHECK_EQ(info.tensor_count, 2);
	h2d_checkpoint_close(c);
	/* But now two indexes name this one. */
	CHECK_EQ(open_in("beside", TWO, &c), H2D_E_FORMAT);
	CHECK(strstr(lines.error, TWO ": two indexes name this file, ") != NULL);
	CHECK(strstr(lines.error, INDEX) != NULL);
	CHECK(strstr(lines.error, "other.index.json") != NULL);
	REQUIRE(!open_in("beside", ONE, &c));
	h2d_checkpoint_close(c);
	CHECK_EQ(open_in("beside", "", &c), H2D_E_FORMAT);
	CHECK(strstr(lines.error, "more than one checkpoint: " INDEX ", other.index.json;") !=
	      NULL);
	/* One that cannot be read is said and passed over. */
	write_text("beside/other.index.json", "{\"weight_map\"");
	REQUIRE(!open_in("beside", "alone.safetensors", &c));
	CHECK_EQ(lines.warnings, 1);
	CHECK(strstr(lines.warning, "other.index.json: passed over") != NULL);
	h2d_checkpoint_close(c);
}

static void too_large(void)
{
	struct h2d_checkpoint *c;

	make_set("large", "{" GOOD_MAP "}");
	CHECK(!truncate(in_scratch("large/" INDEX), 100000001));
	CHECK_EQ(open_in("large", INDEX, &c), H2D_E_FORMAT);
	CHECK(strstr(lines.error, INDEX ": index: 100000001 bytes, over the limit") != NULL);
}

static void not_followed_from_memory(void)
{
	static const char text[] = "{" GOOD_MAP "}";
	struct h2d_open_opts o = fresh_log();
	struct h2d_checkpoint *c;
	int fd;

	CHECK_EQ(h2d_checkpoint_open_memory(text, sizeof(text) - 1, &o, &c), H2D_E_FORMAT);
	CHECK(strstr(lines.error, "memory: a JSON document where a file of tensors") != NULL);
	/* A descriptor of a member is that member alone. */
	fd = open(in_scratch("good/" ONE), O_RDONLY);
	REQUIRE(fd >= 0);
	REQUIRE(!h2d_checkpoint_open_fd(fd, ONE, &o, &c));
	close(fd);
	CHECK(h2d_checkpoint_file(c, 1) == NULL);
	h2d_checkpoint_close(c);
}

static void every_allocation_fails(void)
{
	static const char *const members[] = {"", TWO, INDEX};
	struct h2d_checkpoint *c;

	for (size_t m = 0; m < 3; m++) {
		for (long i = 0;; i++) {
			int rc;

			mem_begin(i);
			rc = open_in("good", members[m], &c);
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
	RUN(from_every_member);
	RUN(relative_paths);
	RUN(symbolic_links);
	RUN(not_listed);
	RUN(wrong_indexes);
	RUN(wrong_shards);
	RUN(total_size);
	RUN(index_beside);
	RUN(too_large);
	RUN(not_followed_from_memory);
	RUN(every_allocation_fails);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_bench */
/* Matrices: what they make, and that every mistake is named by its pointer. */
#include "bench/matrix.h"
#include "bench/settle.h"
#include "scratch.h"
#include "test.h"

static const char head[] =
	"{\"schema\":\"h2d.bench-matrix\",\"schema_version\":{\"major\":1,\"minor\":0},"
	"\"name\":\"t\",\"checkpoints\":[{\"name\":\"few\",\"file\":\"few.safetensors\"}],";

static const char *write_text(const char *name, const char *a, const char *b)
{
	const char *path = scratch_path(name);
	FILE *f = fopen(path, "w");

	fputs(a, f);
	fputs(b, f);
	fclose(f);
	return path;
}

/* Two tensors of 32 and 16 bytes. */
static void make_checkpoint(void)
{
	static const char header[] =
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]},"
		"\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[32,48]}}";
	const uint64_t bytes = sizeof(header) - 1;
	FILE *f = fopen(scratch_path("few.safetensors"), "w");

	fwrite(&bytes, 8, 1, f);
	fwrite(header, 1, bytes, f);
	for (int i = 0; i < 48; i++)
		fputc(i, f);
	fclose(f);
}

static int read_rest(const char *rest, struct h2d_bench_matrix *m)
{
	scratch_line[0] = 0;
	return h2d_bench_matrix_read(write_text("m.json", head, rest), NULL, &scratch_log, m);
}

static void the_product(void)
{
	struct h2d_bench_matrix m;

	CHECK_EQ(read_rest("\"paths\":[\"mmap\",\"pread\"],\"cache_states\":[\"cold\",\"warm\","
			   "\"partial:50\",\"asis\"],\"devices\":[\"host\",\"null\"],"
			   "\"memory_max\":[\"none\",\"50%\"],\"options\":[{},{\"threads\":2}],"
			   "\"external\":[{\"name\":\"x\",\"command\":[\"x\"]}],"
			   "\"exclude\":[{\"path\":\"mmap\",\"cache\":\"cold\",\"reason\":"
			   "\"so\"}]}",
			   &m),
		 0);
	/* (2 paths x 2 options + 1 loader) x 4 states x 2 devices x 2 limits */
	CHECK_EQ(m.cell_count, 80);
	CHECK_EQ(m.block_count, 9);
	CHECK_EQ(m.timeout_s, 600);
	CHECK(m.verify && !m.drop_caches && !m.settle);
	{
		size_t skipped = 0, limited = 0, external = 0, partial = 0;

		for (size_t i = 0; i < m.cell_count; i++) {
			const struct h2d_bench_cell *c = &m.cells[i];

			skipped += c->status && !strcmp(c->status, "skipped") &&
				   !strcmp(c->reason, "so");
			limited += c->memory_max_bytes == 24;
			external += c->command != NULL;
			partial += c->cache == H2D_BENCH_PARTIAL && c->cache_pct == 50;
			CHECK(h2d_bench_cell_find(&m, c->id) == c);
		}
		CHECK_EQ(skipped, 8);
		CHECK_EQ(limited, 40);
		CHECK_EQ(external, 16);
		CHECK_EQ(partial, 20);
	}
	h2d_bench_matrix_free(&m);
}

static void ids_and_hashes(void)
{
	struct h2d_bench_matrix a, b, c;

	CHECK_EQ(read_rest("\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"]}", &a), 0);
	CHECK_EQ(read_rest("\"cache_states\":[\"warm\"],\"about\":\"x\",\"paths\":[\"mmap\"]}",
			   &b),
		 0);
	CHECK_EQ(read_rest("\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"seed\":2}", &c),
		 0);
	CHECK_STR(a.cells[0].id, b.cells[0].id);
	CHECK_STR(a.config_hash, b.config_hash);
	CHECK_STR(a.cells[0].id, c.cells[0].id);
	CHECK(strcmp(a.config_hash, c.config_hash));
	h2d_bench_matrix_free(&a);
	h2d_bench_matrix_free(&b);
	h2d_bench_matrix_free(&c);
}

static void mistakes_are_named(void)
{
	static const struct {
		const char *rest, *says;
	} wrong[] = {
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"pahts\":1}",
		 "/pahts: unknown"},
		{"\"paths\":[\"mmap\",\"nmap\"],\"cache_states\":[\"warm\"]}",
		 "/paths/1: 'nmap' is no transfer path"},
		{"\"paths\":\"mmap\",\"cache_states\":[\"warm\"]}", "/paths: must be an array"},
		{"\"paths\":[],\"cache_states\":[\"warm\"]}", "/paths: is empty"},
		{"\"paths\":[\"mmap\",\"mmap\"],\"cache_states\":[\"warm\"]}",
		 "/paths/1: 'mmap' is there twice"},
		{"\"paths\":[1],\"cache_states\":[\"warm\"]}", "/paths/0: must be a string"},
		{"\"paths\":[\"mmap\"]}", "/cache_states: is missing"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"partial:0\"]}", "/cache_states/0: "},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"partial:100\"]}",
		 "/cache_states/0: "},
		{"\"cache_states\":[\"warm\"]}", "neither paths nor external"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"block_count\":0}",
		 "/block_count: must be between 1"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"block_count\":-3}",
		 "/block_count: is negative"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"block_count\":1.5}",
		 "/block_count: must be a whole number"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"verify\":1}",
		 "/verify: must be true or false"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"cold_max_pct\":101}",
		 "/cold_max_pct: must be between"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"memory_max\":[\"8GB\"]}",
		 "/memory_max/0: '8GB' has an unknown unit"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"options\":[{\"thread\":1}]"
		 "}",
		 "/options/0/thread: unknown member"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"options\":[{\"chunk\":"
		 "\"x\"}]}",
		 "/options/0/chunk: "},
		{"\"cache_states\":[\"warm\"],\"external\":[{\"name\":\"x\",\"command\":[]}]}",
		 "/external/0/command: is empty"},
		{"\"cache_states\":[\"warm\"],\"external\":[{\"name\":\"h2d\",\"command\":["
		 "\"x\"]}]}",
		 "/external/0/name: "},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"exclude\":[{\"path\":"
		 "\"mmap\"}]}",
		 "/exclude/0/reason: is missing"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"exclude\":[{\"reason\":"
		 "\"\"}]}",
		 "/exclude/0: excludes everything"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"baseline\":{\"speed\":"
		 "\"1\"}}",
		 "/baseline/speed: unknown member"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"options\":[{\"repeat\":0}]"
		 "}",
		 "/options/0/repeat: must be between 1"},
		{"\"cache_states\":[\"warm\"],\"external\":[{\"name\":\"x\",\"command\":[\"x\"]"
		 ","
		 "\"options\":{\"repeat\":-1}}]}",
		 "/external/0/options/repeat: is negative"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"priority\":\"high\"}",
		 "/priority: is none of"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"cpus\":\"0-\"}",
		 "/cpus: '0-' is no list"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"cpus\":2}",
		 "/cpus: must be a string"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"]} x", "line 1"},
		{"\"name\":\"t\",\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"]}",
		 "duplicate"},
		{"\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"]", "line 1"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct h2d_bench_matrix m;

		CHECK_EQ(read_rest(wrong[i].rest, &m), H2D_E_FORMAT);
		if (!scratch_logged(wrong[i].says)) {
			fprintf(stderr, "%s\n  said: %s\n", wrong[i].rest, scratch_line);
			CHECK(0);
		}
		h2d_bench_matrix_free(&m);
	}
}

static void other_documents(void)
{
	struct h2d_bench_matrix m;
	const char *path;

	path = write_text("o.json",
			  "{\"schema\":\"h2d.bench\",\"schema_version\":{\"major\":1}}", "");
	CHECK_EQ(h2d_bench_matrix_read(path, NULL, &scratch_log, &m), H2D_E_FORMAT);
	CHECK(scratch_logged("/schema: is 'h2d.bench'"));
	h2d_bench_matrix_free(&m);
	path = write_text("o.json",
			  "{\"schema\":\"h2d.bench-matrix\",\"schema_version\":{\"major\":2,"
			  "\"minor\":0},",
			  "\"name\":\"t\"}");
	CHECK_EQ(h2d_bench_matrix_read(path, NULL, &scratch_log, &m), H2D_E_FORMAT);
	CHECK(scratch_logged("/schema_version/major: version 2 is not known"));
	h2d_bench_matrix_free(&m);
	path = write_text("o.json", "[]", "");
	CHECK_EQ(h2d_bench_matrix_read(path, NULL, &scratch_log, &m), H2D_E_FORMAT);
	h2d_bench_matrix_free(&m);
	CHECK_EQ(h2d_bench_matrix_read(scratch_path("none"), NULL, &scratch_log, &m),
		 H2D_E_NOT_FOUND);
	h2d_bench_matrix_free(&m);
	CHECK_EQ(h2d_bench_matrix_read("/dev/zero", NULL, &scratch_log, &m), H2D_E_FORMAT);
	h2d_bench_matrix_free(&m);
}

static void overrides(void)
{
	const char *files[] = {"other=few.safetensors"}, *paths[] = {"pread"};
	const struct h2d_bench_overrides o = {
		.checkpoints = files,
		.checkpoint_count = 1,
		.block_count = 2,
		.paths = paths,
		.path_count = 1,
	};
	struct h2d_bench_matrix m;
	char cwd[512];

	REQUIRE(getcwd(cwd, sizeof(cwd)) && !chdir(scratch_dir));
	CHECK_EQ(h2d_bench_matrix_read("m2.json", &o, &scratch_log, &m), 0);
	REQUIRE(!chdir(cwd));
	CHECK_EQ(m.cell_count, 1);
	CHECK_EQ(m.block_count, 2);
	CHECK_STR(m.cells[0].path, "pread");
	CHECK_STR(m.checkpoints[0].name, "other");
	h2d_bench_matrix_free(&m);
}

static void sizes(void)
{
	uint64_t bytes;

	CHECK(!h2d_bench_memory_parse("none", 100, &bytes) && bytes == 0);
	CHECK(!h2d_bench_memory_parse("8GiB", 100, &bytes) && bytes == UINT64_C(8) << 30);
	CHECK(!h2d_bench_memory_parse("150%", 100, &bytes) && bytes == 150);
	CHECK(!h2d_bench_memory_parse("4096", 100, &bytes) && bytes == 4096);
	CHECK(h2d_bench_memory_parse("0", 100, &bytes));
	CHECK(h2d_bench_memory_parse("-1", 100, &bytes));
	CHECK(h2d_bench_memory_parse("99999999999TiB", 100, &bytes));
	CHECK(h2d_bench_memory_parse("99999999999999999999999", 100, &bytes));
}

static void processors(void)
{
	static const char *const wrong[] = {
		"",	   ",",	   "1,", "a",	"3-1",
		"0-1023-", "1024", "-1", "0 1", "0-99999999999999999999"};
	static const struct {
		const char *text, *again;
	} right[] = {{"0", "0"}, {"0-3,6", "0-3,6"}, {"6,1,2,0", "0-2,6"}, {"1023", "1023"}};
	char text[H2D_BENCH_CPUS_TEXT];
	cpu_set_t cpus;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK(h2d_bench_cpus_parse(wrong[i], &cpus));
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		CHECK(!h2d_bench_cpus_parse(right[i].text, &cpus));
		h2d_bench_cpus_text(&cpus, text, sizeof(text));
		CHECK_STR(text, right[i].again);
	}
	/* A list that is too long for its room is cut between two ranges. */
	CPU_ZERO(&cpus);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu += 2)
		CPU_SET(cpu, &cpus);
	h2d_bench_cpus_text(&cpus, text, 16);
	CHECK_STR(text, "0,2,4,6,8,…");
}

static void repetition(void)
{
	struct h2d_bench_matrix m;

	CHECK_EQ(
		read_rest(
			"\"paths\":[\"mmap\"],\"cache_states\":[\"cold\",\"warm\",\"asis\"],"
			"\"options\":[{},{\"repeat\":5}],\"priority\":\"fifo\",\"cpus\":\"1\"}",
			&m),
		0);
	CHECK(m.schedule.fifo && m.schedule.have_cpus && CPU_ISSET(1, &m.schedule.cpus));
	CHECK_EQ(m.cell_count, 6);
	for (size_t i = 0; i < m.cell_count; i++) {
		const bool again = m.cells[i].repeat_count == 5;

		CHECK(again || m.cells[i].repeat_count == 1);
		CHECK_EQ(m.cells[i].status != NULL,
			 again && m.cells[i].cache == H2D_BENCH_COLD);
	}
	h2d_bench_matrix_free(&m);
}

static void settling(void)
{
	struct h2d_bench_matrix m;

	CHECK_EQ(read_rest("\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"settle\":true}",
			   &m),
		 0);
	CHECK(m.settle);
	h2d_bench_matrix_free(&m);
	CHECK_EQ(h2d_bench_settle(0), 0);
	CHECK_EQ(h2d_bench_settle(3 << 20), 0);
	CHECK_EQ(h2d_bench_settle(UINT64_MAX), H2D_E_NOMEM);
	CHECK_EQ(h2d_bench_settle(UINT64_C(1) << 62), H2D_E_NOMEM);
}

int main(void)
{
	scratch_path("x");
	make_checkpoint();
	write_text("m2.json", head,
		   "\"paths\":[\"mmap\"],\"cache_states\":[\"warm\"],\"block_count\":5}");
	RUN(the_product);
	RUN(ids_and_hashes);
	RUN(mistakes_are_named);
	RUN(other_documents);
	RUN(overrides);
	RUN(sizes);
	RUN(settling);
	RUN(processors);
	RUN(repetition);
	return TEST_DONE();
}

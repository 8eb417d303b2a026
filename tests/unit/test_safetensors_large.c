/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A header of 200 000 tensors: what opening it reads, allocates and finds, in order and
 * shuffled. The CPU time is printed and not judged; alone and with an argument, the program is
 * the benchmark: `test_safetensors_large 25`.
 */
#include <time.h>

#include "ckpt.h"
#include "format/checkpoint.h"

enum { COUNT = 200000, EACH = 8 };

static uint64_t read_calls, read_bytes;
static int repeats = 3;

static ssize_t counting_pread(int fd, void *buf, size_t bytes, off_t offset)
{
	ssize_t n = pread(fd, buf, bytes, offset);

	read_calls++;
	read_bytes += n > 0 ? (uint64_t)n : 0;
	return n;
}

static double cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Tensor number i of the header lies at place (i * step) % COUNT of the data. */
static size_t make(const char *name, uint64_t step)
{
	char *text = malloc(COUNT * 160);
	size_t n = 0, bytes;
	unsigned char *file;

	if (!text)
		abort();
	text[n++] = '{';
	for (uint64_t i = 0; i < COUNT; i++) {
		uint64_t at = i * step % COUNT * EACH;

		n += (size_t)sprintf(
			text + n,
			"%s\"model.layers.%u.mlp.experts.%u.down_proj.weight_%06u\": "
			"{\"dtype\": \"BF16\", \"shape\": [2, 2], "
			"\"data_offsets\": [%llu, %llu]}",
			i ? ", " : "", (unsigned)i / 3000, (unsigned)i % 128, (unsigned)i,
			(unsigned long long)at, (unsigned long long)at + EACH);
	}
	text[n++] = '}';
	file = st_file(text, n, COUNT * EACH, &bytes);
	write_bytes(name, file, bytes);
	free(text);
	free(file);
	return n;
}

static void check(const char *name, uint64_t step)
{
	struct h2d_io_ops io = h2d_io_system;
	struct h2d_checkpoint *c = NULL;
	size_t header = make(name, step);
	double *ms = calloc((size_t)repeats, sizeof(*ms));
	struct h2d_open_opts o;
	int rc;

	REQUIRE(ms);
	io.pread = counting_pread;
	h2d_io = &io;
	for (int i = 0; i < repeats; i++) {
		double begin;

		h2d_checkpoint_close(c);
		o = fresh_log();
		read_calls = read_bytes = 0;
		mem_begin(-1);
		begin = cpu_ms();
		rc = h2d_checkpoint_open(in_scratch(name), &o, &c);
		ms[i] = cpu_ms() - begin;
		mem_end();
		if (rc)
			break;
	}
	h2d_io = &h2d_io_system;
	REQUIRE(!rc);
	qsort(ms, (size_t)repeats, sizeof(*ms), by_value);
	printf("%s: header of %zu bytes, %d tensors: %.1f ms of CPU (median of %d), %ld "
	       "allocations of %.1f MB\n",
	       name, header, COUNT, ms[repeats / 2], repeats, mem_calls,
	       (double)mem_bytes / 1e6);
	free(ms);

	/* The header is read once, and nothing else of the file but its begin. */
	CHECK(read_calls < 8);
	CHECK(read_bytes < header + 300);
	/* Memory in proportion to the header, in blocks and not per tensor. */
	CHECK(mem_calls < 200);
	CHECK(mem_bytes < 5 * header);

	for (uint64_t i = 0; i < COUNT; i++) {
		uint64_t place = i * step % COUNT, index = 0;
		struct h2d_tensor_info t = H2D_OPTS(t);
		char want[96];
		int n;

		n = snprintf(want, sizeof(want),
			     "model.layers.%u.mlp.experts.%u.down_proj.weight_%06u",
			     (unsigned)i / 3000, (unsigned)i % 128, (unsigned)i);
		REQUIRE(!h2d_checkpoint_find(c, want, (size_t)n, &index));
		REQUIRE(index == place);
		REQUIRE(!h2d_checkpoint_tensor(c, index, &t));
		REQUIRE(!strcmp(t.name, want) && t.ordinal == i && t.size_bytes == EACH);
		REQUIRE(t.offset_bytes == 8 + header + place * EACH);
	}
	h2d_checkpoint_close(c);
}

static void in_order(void)
{
	check("in-order.safetensors", 1);
}

static void shuffled(void)
{
	/* Prime to COUNT, so that every place is taken once. */
	check("shuffled.safetensors", 123457);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		repeats = atoi(argv[1]) > 0 ? atoi(argv[1]) : repeats;
	scratch_make();
	RUN(in_order);
	RUN(shuffled);
	return TEST_DONE();
}

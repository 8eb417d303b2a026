/* SPDX-License-Identifier: Apache-2.0 */
/* h2d_load_split(): layers, slices and copies on several devices, each byte read once. */
#include "opencl_bench.h"

#include "device/engine_thread.h"

enum { DEVICES = 2, ROWS = 96, COLS = 700, LAYERS = 6 };

static struct fixture f;
static uint64_t shapes[LAYERS + 2][2];

/* An embedding, six layers of ROWS × COLS, a norm of a few bytes. */
static void make_fixture(void)
{
	struct extent e[LAYERS + 2];
	struct h2d_catalogue *cat;
	uint64_t at = 321;

	for (int i = 0; i < LAYERS + 2; i++) {
		e[i] = (struct extent){at, i == LAYERS + 1 ? 37 : ROWS * COLS};
		at += e[i].bytes;
	}
	if (fixture_open(&f, at + 5, e, LAYERS + 2)) {
		fprintf(stderr, "no fixture\n");
		exit(1);
	}
	cat = &f.ckpt->cat;
	for (int i = 0; i < LAYERS + 2; i++) {
		struct h2d_tensor *t = &cat->tensors[i];
		char name[64];

		snprintf(name, sizeof(name),
			 i == 0		   ? "model.embed.weight"
			 : i == LAYERS + 1 ? "model.norm.weight"
					   : "model.layers.%d.w",
			 i - 1);
		t->name_bytes = (uint32_t)strlen(name);
		t->name = h2d_arena_copy(&cat->arena, name, t->name_bytes);
		shapes[i][0] = i == LAYERS + 1 ? 1 : ROWS;
		shapes[i][1] = i == LAYERS + 1 ? 37 : COLS;
		t->shape = shapes[i];
		t->rank = 2;
	}
}

static void open_devices(const char *a, const char *b, struct h2d_device **devs,
			 uint64_t timeout_ns)
{
	devs[0] = opencl_open(&f, a, timeout_ns);
	devs[1] = opencl_open(&f, b, timeout_ns);
}

static void close_devices(struct h2d_device **devs)
{
	h2d_device_close(devs[0]);
	h2d_device_close(devs[1]);
}

/* The bytes that a device should have of a tensor, by the same geometry as asked for. */
static bool is_right(const struct h2d_weights *w, uint64_t i, int dimension, uint64_t begin,
		     uint64_t length)
{
	uint64_t index, bytes, rows, row, offset;
	unsigned char *got;
	bool ok = true;

	h2d_weights_data(w, i, &index, NULL, &bytes);
	offset = f.ckpt->cat.tensors[index].offset_bytes;
	rows = dimension == 1 ? ROWS : 1;
	row = dimension == 1 ? length : dimension == 0 ? length * COLS : bytes;
	if (bytes != rows * row)
		return false;
	got = malloc(bytes);
	ok = !h2d_weights_read(w, i, 0, got, bytes);
	for (uint64_t r = 0; ok && r < rows; r++)
		ok = fixture_differs(got + r * row, row,
				     offset + (dimension == 1	? r * COLS + begin
					       : dimension == 0 ? begin * COLS
								: 0)) == UINT64_MAX;
	free(got);
	return ok;
}

static void verified(struct h2d_weights *const *w)
{
	for (int d = 0; d < DEVICES; d++) {
		struct h2d_verify_result v = H2D_OPTS(v);

		CHECK_EQ(h2d_verify(w[d], NULL, &v), 0);
		CHECK_EQ(v.tensor_count, h2d_weights_count(w[d]));
	}
}

static void freed(struct h2d_weights *const *w)
{
	h2d_weights_free(w[0]);
	h2d_weights_free(w[1]);
}

static uint64_t read_bytes(const struct h2d_weights *w)
{
	struct h2d_report r = H2D_OPTS(r);

	h2d_weights_report(w, &r);
	return r.read_bytes;
}

static void layers(struct h2d_device *const *devs, const char *path)
{
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w[DEVICES];

	o.path = path;
	o.chunk_bytes = 65536;
	REQUIRE(!h2d_load_split(f.ckpt, devs, DEVICES, NULL, NULL, &o, w));
	CHECK_EQ(h2d_weights_count(w[0]), 5); /* embedding, three layers, norm */
	CHECK_EQ(h2d_weights_count(w[1]), 3);
	for (uint64_t i = 0; i < 5; i++)
		CHECK(is_right(w[0], i, -1, 0, 0));
	for (uint64_t i = 0; i < 3; i++)
		CHECK(is_right(w[1], i, -1, 0, 0));
	verified(w);
	freed(w);
}

/* Rows to one and the rest to the other, then columns, then a copy for each. */
static int tensor_parallel(void *user, uint64_t index, const struct h2d_tensor_info *t,
			   uint32_t device, struct h2d_part *part)
{
	static const uint64_t ends[] = {0, 300, COLS};

	(void)user;
	if (t->size_bytes == 37)
		return 1;
	part->dimension = index % 2;
	if (part->dimension) {
		part->begin = ends[device];
		part->length = ends[device + 1] - ends[device];
	} else {
		part->begin = device ? 31 : 0;
		part->length = device ? ROWS - 31 : 31;
	}
	return 1;
}

static void slices(struct h2d_device *const *devs, const char *path)
{
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w[DEVICES];
	uint64_t data = (LAYERS + 1) * ROWS * COLS + 37;

	o.path = path;
	o.chunk_bytes = 100000;
	o.threads = 2;
	REQUIRE(!h2d_load_split(f.ckpt, devs, DEVICES, tensor_parallel, NULL, &o, w));
	for (int d = 0; d < DEVICES; d++) {
		CHECK_EQ(h2d_weights_count(w[d]), LAYERS + 2);
		for (uint64_t i = 0; i <= LAYERS; i++)
			CHECK(i % 2 ? is_right(w[d], i, 1, d ? 300 : 0, d ? COLS - 300 : 300)
				    : is_right(w[d], i, 0, d ? 31 : 0, d ? ROWS - 31 : 31));
		CHECK(is_right(w[d], LAYERS + 1, -1, 0, 0));
	}
	verified(w);
	/* Each byte once, whoever wants it; direct reads in whole blocks. */
	if (!strcmp(path, "pinned") || !strcmp(path, "mmap"))
		CHECK_EQ(read_bytes(w[0]), data);
	freed(w);
}

static void on(const char *a, const char *b)
{
	static const char *const paths[] = {"pinned", "direct", "mmap", "clone",
					    "eager",  "pread",	"auto", "mmap-rw"};
	struct h2d_device *devs[DEVICES];

	open_devices(a, b, devs, 0);
	if (!devs[0] || !devs[1]) {
		close_devices(devs);
		printf("note: %s and %s are not both here\n", a, b);
		return;
	}
	for (size_t p = 0; p < sizeof(paths) / sizeof(paths[0]); p++) {
		layers(devs, paths[p]);
		slices(devs, paths[p]);
	}
	close_devices(devs);
}

static void on_all_kinds(void)
{
	on("host", "host");
	on("opencl:0", "opencl:1");
	on("opencl:0,memory=buffer", "opencl:1");
	on("opencl:0", "host");
}

static int bad_part(void *user, uint64_t index, const struct h2d_tensor_info *t,
		    uint32_t device, struct h2d_part *part)
{
	const struct h2d_part *want = user;

	(void)index;
	(void)t;
	(void)device;
	if (!want)
		return -1;
	*part = *want;
	return 1;
}

static int nothing(void *user, uint64_t index, const struct h2d_tensor_info *t, uint32_t device,
		   struct h2d_part *part)
{
	(void)user;
	(void)index;
	(void)t;
	(void)part;
	return device == 1;
}

static void refusals(void)
{
	struct h2d_part over = {sizeof(over), 0, 90, 7}, dim = {sizeof(dim), 2, 0, 1};
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w[DEVICES] = {(void *)1, (void *)1};
	struct h2d_device *devs[DEVICES], *one[DEVICES];

	open_devices("host", "host", devs, 0);
	CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, bad_part, &over, &o, w), H2D_E_INVALID);
	CHECK(!w[0] && !w[1]);
	CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, bad_part, &dim, &o, w), H2D_E_INVALID);
	CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, bad_part, NULL, &o, w), H2D_E_INVALID);
	CHECK_EQ(h2d_load_split(f.ckpt, devs, 0, NULL, NULL, &o, w), H2D_E_INVALID);
	o.path = "view";
	CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, NULL, NULL, &o, w), H2D_E_UNSUPPORTED);
	o.path = "pinned";
	o.per_tensor = 1;
	CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, NULL, NULL, &o, w), H2D_E_UNSUPPORTED);
	o.per_tensor = 0;
	/* One that gets nothing, and the same one twice. */
	CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, nothing, NULL, &o, w), 0);
	CHECK_EQ(h2d_weights_count(w[0]), 0);
	CHECK_EQ(h2d_weights_count(w[1]), LAYERS + 2);
	freed(w);
	one[0] = one[1] = devs[0];
	CHECK_EQ(h2d_load_split(f.ckpt, one, DEVICES, NULL, NULL, &o, w), 0);
	verified(w);
	freed(w);
	close_devices(devs);
}

/* Rows of such a tensor are no rows of bytes. All of it may go anywhere. */
static void what_is_not_stored_by_rows(void)
{
	struct h2d_tensor *t = &f.ckpt->cat.tensors[2];
	const int64_t strides[] = {1, ROWS};
	struct h2d_tensor_info info = H2D_OPTS(info);
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w[DEVICES];
	struct h2d_device *devs[DEVICES];

	open_devices("host", "host", devs, 0);
	t->flags |= H2D_TENSOR_WHOLE;
	h2d_checkpoint_tensor(f.ckpt, 2, &info);
	CHECK_EQ(info.whole, 1);
	CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, tensor_parallel, NULL, &o, w),
		 H2D_E_INVALID);
	CHECK(strstr(f.last_error, "\"model.layers.1.w\"") != NULL);
	CHECK(strstr(f.last_error, "not stored row by row") != NULL);
	CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, NULL, NULL, &o, w), 0);
	verified(w);
	freed(w);
	t->flags &= ~(uint32_t)H2D_TENSOR_WHOLE;
	t->strides = strides;
	CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, tensor_parallel, NULL, &o, w),
		 H2D_E_INVALID);
	CHECK(strstr(f.last_error, "not in C order") != NULL);
	t->strides = NULL;
	h2d_checkpoint_tensor(f.ckpt, 2, &info);
	CHECK_EQ(info.whole, 0);
	close_devices(devs);
}

/* One of two devices hangs: it alone is lost. */
static void one_hangs(void)
{
	struct h2d_copy_fault fault = {.kind = H2D_COPY_FAULT_HANG, .first = 2, .count = 1};
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w[DEVICES];
	struct h2d_device *devs[DEVICES];
	struct h2d_soft *soft;

	open_devices("null", "null", devs, 40000000);
	soft = h2d_soft_hold(devs[1]);
	h2d_copy_fault_set(devs[1], &fault);
	o.path = "pinned";
	o.chunk_bytes = 65536;
	o.staging_bytes = 1 << 20;
	CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, NULL, NULL, &o, w), H2D_E_DEVICE_LOST);
	CHECK_EQ(atomic_load(&devs[0]->lost), 0);
	CHECK_EQ(atomic_load(&devs[1]->lost), 1);
	CHECK(atomic_load(&devs[0]->quarantined_bytes) > 0); /* the staging is its */
	CHECK(atomic_load(&devs[1]->quarantined_bytes) > 0);
	CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, NULL, NULL, &o, w), H2D_E_DEVICE_LOST);
	CHECK_EQ(h2d_load_split(f.ckpt, devs, 1, NULL, NULL, &o, w), 0);
	h2d_weights_free(w[0]);
	close_devices(devs);
	h2d_copy_fault_release(soft);
	CHECK(h2d_soft_wait_threads(soft, 0, UINT64_C(5000000000)));
	h2d_soft_release(soft);
}

static void one_fails(void)
{
	struct h2d_copy_fault fault = {
		.kind = H2D_COPY_FAULT_FAIL, .count = 1, .status = H2D_E_DEVICE};
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w[DEVICES];
	struct h2d_device *devs[DEVICES];

	open_devices("null", "null", devs, 0);
	o.path = "pinned";
	o.chunk_bytes = 65536;
	o.staging_bytes = 1 << 20;
	for (fault.first = 1; fault.first < 5; fault.first++) {
		struct h2d_soft_counts c;

		h2d_copy_fault_set(devs[1], &fault);
		CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, NULL, NULL, &o, w),
			 H2D_E_DEVICE);
		h2d_soft_count(devs[1]->priv, &c);
		CHECK_EQ(c.alloc_count, 0);
		CHECK_EQ(c.stream_count, 0);
		CHECK_EQ(c.event_count, 0);
	}
	h2d_copy_fault_set(devs[1], NULL);
	CHECK_EQ(h2d_load_split(f.ckpt, devs, DEVICES, NULL, NULL, &o, w), 0);
	freed(w);
	close_devices(devs);
}

int main(void)
{
	setenv("POCL_DEVICES", "pthread pthread", 0);
	make_fixture();
	RUN(on_all_kinds);
	RUN(refusals);
	RUN(what_is_not_stored_by_rows);
	RUN(one_fails);
	RUN(one_hangs);
	fixture_close(&f);
	return TEST_DONE();
}

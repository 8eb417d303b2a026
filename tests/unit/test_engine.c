/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine promises besides the bytes: callbacks, bounds, measurements, reports. */
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "device/engine_thread.h"
#include "file/cache.h"
#include "file/io.h"
#include "load_fixture.h"
#include "transfer/tuning.h"

enum { FILE_BYTES = 3 << 19, TENSORS = 40 };

static struct fixture f;
static struct extent extents[TENSORS];
static struct h2d_tuning tuning;

static struct h2d_device *open_device(const char *spec)
{
	struct h2d_device_opts o = H2D_OPTS(o);
	struct h2d_device *dev = NULL;

	o.log = fixture_log;
	o.log_user = &f;
	CHECK_EQ(h2d_device_open(spec, &o, &dev), 0);
	return dev;
}

static struct h2d_weights *load(struct h2d_device *dev, const struct h2d_load_opts *o)
{
	struct h2d_weights *w = NULL;
	int rc = h2d_load(f.ckpt, dev, o, &w);

	if (rc)
		fprintf(stderr, "load: %d %s\n", rc, f.last_error);
	CHECK_EQ(rc, 0);
	return w;
}

/* ---------------------------------------------------------------- callbacks */

static struct {
	_Atomic int inside;
	uint64_t calls, done_calls, last;
	bool together, backwards, early;
	struct h2d_weights *w;
} cb;

static int on_progress(void *user, uint64_t done, uint64_t total)
{
	(void)user;
	cb.together |= atomic_fetch_add(&cb.inside, 1) != 0;
	cb.calls++;
	cb.backwards |= done < cb.last || done > total;
	cb.last = done;
	atomic_fetch_sub(&cb.inside, 1);
	return 0;
}

static void on_done(void *user, uint64_t index)
{
	(void)index;
	(void)user;
	cb.together |= atomic_fetch_add(&cb.inside, 1) != 0;
	cb.done_calls++;
	atomic_fetch_sub(&cb.inside, 1);
}

static void callbacks_come_one_at_a_time(void)
{
	static const char *const paths[] = {"pinned", "direct", "mmap", "auto"};
	static const char *const devices[] = {"host", "null"};

	for (int i = 0; i < 8; i++) {
		struct h2d_device *dev = open_device(devices[i / 4]);
		struct h2d_load_opts o = H2D_OPTS(o);

		memset(&cb, 0, sizeof(cb));
		o.path = paths[i % 4];
		o.threads = 4;
		o.chunk_bytes = 16384;
		o.progress = on_progress;
		o.tensor_done = on_done;
		h2d_weights_free(load(dev, &o));
		CHECK(!cb.together && !cb.backwards);
		CHECK_EQ(cb.done_calls, TENSORS);
		CHECK_EQ(cb.last, f.ckpt->cat.size_bytes);
		CHECK(cb.calls > 1);
		h2d_device_close(dev);
	}
}

/* ---------------------------------------------------------------- selection, alignment */

static int every_third(void *user, uint64_t index, const struct h2d_tensor_info *t)
{
	uint64_t *seen = user;

	CHECK_EQ(index, *seen);
	CHECK(t->name && t->size_bytes == extents[index].bytes);
	++*seen;
	return index % 3 == 1;
}

static void selection_and_alignment(void)
{
	struct h2d_device *dev = open_device("host");
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_weights *w;
	uint64_t seen = 0, sum = 0, index, bytes;
	void *data;

	o.select = every_third;
	o.select_user = &seen;
	o.align_bytes = 8192;
	o.path = "pinned";
	w = load(dev, &o);
	REQUIRE(w);
	CHECK_EQ(seen, TENSORS);
	CHECK_EQ(h2d_weights_count(w), TENSORS / 3);
	for (uint64_t i = 0; i < TENSORS / 3; i++) {
		CHECK_EQ(h2d_weights_data(w, i, &index, &data, &bytes), 0);
		CHECK_EQ(index, i * 3 + 1);
		CHECK_EQ((uintptr_t)data % 8192, 0);
		CHECK_EQ(fixture_differs(data, bytes, extents[index].offset), UINT64_MAX);
		sum += bytes;
	}
	CHECK_EQ(h2d_weights_data(w, TENSORS / 3, NULL, NULL, NULL), H2D_E_NOT_FOUND);
	CHECK_EQ(h2d_weights_report(w, &r), 0);
	CHECK_EQ(r.tensor_count, TENSORS / 3);
	CHECK_EQ(r.loaded_bytes, sum);
	/* What was not selected lies in gaps that are stepped over. */
	CHECK(r.read_bytes < f.ckpt->cat.size_bytes);
	h2d_weights_free(w);
	o.align_bytes = 48;
	w = NULL;
	CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), H2D_E_INVALID);
	h2d_device_close(dev);
}

/* ---------------------------------------------------------------- overlap and bounds */

static void copies_overlap_within_the_ring(void)
{
	struct h2d_device *dev = open_device("null");
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_weights *w;

	/* Each copy takes 1 ms, so that slots fill up. */
	h2d_copy_fault_set(dev, &(struct h2d_copy_fault){.kind = H2D_COPY_FAULT_DELAY,
							 .first = 1,
							 .delay_ns = 1000000});
	o.path = "pinned";
	o.chunk_bytes = 65536;
	o.threads = 2;
	o.staging_bytes = 6 * 65536;
	w = load(dev, &o);
	REQUIRE(w);
	CHECK_EQ(h2d_weights_report(w, &r), 0);
	CHECK_EQ(r.threads, 2);
	CHECK(r.staging_bytes <= 6 * 65536);
	CHECK(r.max_in_flight_count >= 3);
	CHECK(r.max_in_flight_count <= 6);
	CHECK(r.chunk_bytes <= 65536);
	CHECK_EQ(r.copy_count, r.chunk_count); /* small neighbours travel together */
	h2d_weights_free(w);
	h2d_device_close(dev);
}

/* Sizes that do not fit together are made to fit, or refused when both were named. */
static void sizes_fit_into_staging(void)
{
	struct h2d_device *dev = open_device("null");
	uint64_t staging;

	for (staging = 8192; staging <= 2 << 20; staging += staging / 2) {
		struct h2d_load_opts o = H2D_OPTS(o);
		struct h2d_report r = H2D_OPTS(r);
		struct h2d_weights *w;

		o.path = "pinned";
		o.staging_bytes = staging;
		w = load(dev, &o);
		REQUIRE(w);
		h2d_weights_report(w, &r);
		CHECK(r.staging_bytes <= staging);
		CHECK(r.staging_bytes > 0);
		h2d_weights_free(w);
		o.chunk_bytes = staging * 2;
		w = NULL;
		CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), H2D_E_INVALID);
	}
	h2d_device_close(dev);
}

static void in_place_needs_no_staging(void)
{
	static const char *const paths[] = {"pinned", "mmap", "eager"};
	struct h2d_device *dev = open_device("host");

	for (int i = 0; i < 3; i++) {
		struct h2d_load_opts o = H2D_OPTS(o);
		struct h2d_report r = H2D_OPTS(r);
		struct h2d_weights *w;

		o.path = paths[i];
		w = load(dev, &o);
		REQUIRE(w);
		h2d_weights_report(w, &r);
		CHECK_EQ(r.staging_bytes, 0);
		CHECK_EQ(r.copy_count, 0);
		CHECK(strstr(r.reason, "in place") != NULL);
		h2d_weights_free(w);
		o.staging_bytes = 1 << 20;
		w = load(dev, &o);
		REQUIRE(w);
		h2d_weights_report(w, &r);
		CHECK(r.copy_count > 0);
		CHECK(strstr(r.reason, "in place") == NULL);
		h2d_weights_free(w);
	}
	h2d_device_close(dev);
}

/* ---------------------------------------------------------------- per tensor */

static void per_tensor_is_measured(void)
{
	struct h2d_device *dev = open_device("null");
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_tensor_report tr = H2D_OPTS(tr);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_weights *w;

	o.path = "mmap";
	w = load(dev, &o);
	REQUIRE(w);
	CHECK_EQ(h2d_weights_tensor_report(w, 0, &tr), H2D_E_UNSUPPORTED);
	h2d_weights_free(w);
	o.per_tensor = 1;
	o.threads = 4;
	o.chunk_bytes = 4096;
	w = load(dev, &o);
	REQUIRE(w);
	h2d_weights_report(w, &r);
	CHECK_EQ(r.threads, 1);
	CHECK_EQ(r.copy_count, TENSORS - 1); /* one is empty, none is cut */
	for (uint64_t i = 0; i < TENSORS; i++) {
		CHECK_EQ(h2d_weights_tensor_report(w, i, &tr), 0);
		CHECK_EQ(tr.windows, -1);
		CHECK_EQ(tr.elapsed_ns > 0, extents[i].bytes > 0);
		if (extents[i].bytes)
			CHECK(tr.present_before_bytes <= extents[i].bytes);
		else
			CHECK_EQ(tr.present_before_bytes, UINT64_MAX);
	}
	CHECK_EQ(h2d_weights_tensor_report(w, TENSORS, &tr), H2D_E_NOT_FOUND);
	h2d_weights_free(w);
	o.path = "pinned";
	w = load(dev, &o);
	REQUIRE(w);
	CHECK_EQ(h2d_weights_tensor_report(w, 5, &tr), 0);
	CHECK_EQ(tr.present_before_bytes, UINT64_MAX);
	h2d_weights_free(w);
	h2d_device_close(dev);
}

/* `present` makes pages of the mapping present: with READ all of them are when the copy starts,
 * which the device sees as no further faults. Here: it changes no byte, and mapped paths take
 * it. */
static void present_modes(void)
{
	static const char *const paths[] = {"mmap", "mmap-rw", "clone"};
	struct h2d_device *dev = open_device("host");

	for (int i = 0; i < 6; i++) {
		struct h2d_load_opts o = H2D_OPTS(o);
		struct h2d_verify_result v = H2D_OPTS(v);
		struct h2d_weights *w;

		o.path = paths[i / 2];
		o.present = i % 2 ? H2D_PRESENT_READ : H2D_PRESENT_SPARSE;
		w = load(dev, &o);
		REQUIRE(w);
		CHECK_EQ(h2d_verify(w, NULL, &v), 0);
		h2d_weights_free(w);
	}
	h2d_device_close(dev);
}

/* Tensor by tensor, what was made present is proven before the copy is timed. */
static void present_is_proven(void)
{
	struct h2d_device *dev = open_device("host");
	struct h2d_tensor_report tr = H2D_OPTS(tr);
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w;

	o.path = "mmap";
	o.per_tensor = 1;
	o.present = H2D_PRESENT_READ;
	w = load(dev, &o);
	REQUIRE(w);
	for (uint64_t i = 0; i < TENSORS; i++) {
		CHECK_EQ(h2d_weights_tensor_report(w, i, &tr), 0);
		if (extents[i].bytes && tr.present_before_bytes != UINT64_MAX)
			CHECK_EQ(tr.present_before_bytes, extents[i].bytes);
	}
	h2d_weights_free(w);
	h2d_device_close(dev);
}

/* ---------------------------------------------------------------- trace */

static void trace_is_chrome_json(void)
{
	struct h2d_device *dev = open_device("null");
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_weights *w;
	uint64_t reads = 0, copies = 0, names = 0;
	char path[160];
	json_t *doc, *events, *e;
	size_t i;

	snprintf(path, sizeof(path), "%s.trace", f.path);
	o.path = "pinned";
	o.trace_path = path;
	o.chunk_bytes = 65536;
	o.threads = 2;
	w = load(dev, &o);
	REQUIRE(w);
	h2d_weights_report(w, &r);
	doc = json_load_file(path, 0, NULL);
	REQUIRE(doc);
	events = json_object_get(doc, "traceEvents");
	CHECK(json_is_array(events));
	json_array_foreach(events, i, e)
	{
		const char *ph = json_string_value(json_object_get(e, "ph"));
		const char *name = json_string_value(json_object_get(e, "name"));

		REQUIRE(ph && name && json_is_integer(json_object_get(e, "tid")));
		if (!strcmp(ph, "M")) {
			names++;
			continue;
		}
		CHECK_STR(ph, "X");
		CHECK(json_number_value(json_object_get(e, "ts")) >= 0);
		CHECK(json_number_value(json_object_get(e, "dur")) >= 0);
		reads += !strcmp(name, "read");
		copies += !strcmp(name, "copy");
	}
	CHECK_EQ(reads, r.chunk_count);
	CHECK_EQ(copies, r.chunk_count);
	CHECK(names >= 2);
	json_decref(doc);
	h2d_weights_free(w);
	unlink(path);
	o.trace_path = "/nonexistent/trace.json";
	w = NULL;
	CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), H2D_E_NOT_FOUND);
	CHECK(w == NULL);
	h2d_device_close(dev);
}

/* ---------------------------------------------------------------- concurrency */

static void *load_again(void *arg)
{
	struct h2d_device *dev = arg;
	static const char *const paths[] = {"pinned", "mmap", "direct", "view"};

	for (int i = 0; i < 8; i++) {
		struct h2d_load_opts o = H2D_OPTS(o);
		struct h2d_weights *w = NULL;
		struct h2d_verify_result v = H2D_OPTS(v);

		o.path = paths[i % 4];
		if (h2d_load(f.ckpt, dev, &o, &w) || h2d_verify(w, NULL, &v))
			return arg;
		h2d_weights_free(w);
	}
	return NULL;
}

/* One checkpoint and one device serve several loads at once. */
static void loads_at_the_same_time(void)
{
	struct h2d_device *dev = open_device("host");
	pthread_t t[4];
	void *failed;

	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, load_again, dev), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &failed);
		CHECK(failed == NULL);
	}
	h2d_device_close(dev);
}

/* ---------------------------------------------------------------- page cache */

static _Atomic uint64_t dropped;

static int count_fadvise(int fd, off_t offset, off_t bytes, int advice)
{
	if (advice == POSIX_FADV_DONTNEED)
		atomic_fetch_add(&dropped, (uint64_t)bytes);
	return h2d_io_system.fadvise(fd, offset, bytes, advice);
}

static void pages_are_given_back(void)
{
	static const char *const paths[] = {"pinned",  "pread", "mmap",
					    "mmap-rw", "clone", "eager"};
	struct h2d_device *dev = open_device("null");
	struct h2d_cache_state st;
	struct h2d_io_ops io = h2d_io_system;
	int fd = open(f.path, O_RDONLY | O_CLOEXEC);

	fdatasync(fd);
	close(fd);
	io.fadvise = count_fadvise;
	h2d_io = &io;
	for (int i = 0; i < 6; i++) {
		struct h2d_load_opts o = H2D_OPTS(o);

		atomic_store(&dropped, 0);
		o.path = paths[i];
		o.cache = H2D_CACHE_DROP;
		o.chunk_bytes = 65536;
		h2d_weights_free(load(dev, &o));
		CHECK(atomic_load(&dropped) >= f.ckpt->cat.size_bytes);
		h2d_cache_query(&f.ckpt->cat.files[0], 0, FILE_BYTES, &st);
		/* Behind the last tensor nothing is ours to drop, nor in a folio across its
		 * end. */
		if (st.method == H2D_CACHE_CACHESTAT && !st.dirty_bytes)
			CHECK(st.cached_bytes < FILE_BYTES / 2);
		atomic_store(&dropped, 0);
		o.cache = H2D_CACHE_KEEP;
		h2d_weights_free(load(dev, &o));
		CHECK_EQ(atomic_load(&dropped), 0);
	}
	h2d_io = &h2d_io_system;
	h2d_device_close(dev);
}

/* What the page cache holds decides per extent. */
static void auto_mixes_paths(void)
{
	struct h2d_device *dev = open_device("host");
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_weights *w;
	struct h2d_verify_result v = H2D_OPTS(v);
	const struct h2d_file *file = &f.ckpt->cat.files[0];
	struct h2d_cache_state st;
	unsigned char block[4096];
	uint64_t sum = 0;

	CHECK_EQ(h2d_cache_evict(file, 0, FILE_BYTES, NULL), 0);
	h2d_cache_query(file, 0, FILE_BYTES, &st);
	if (st.method != H2D_CACHE_CACHESTAT || st.cached_bytes) {
		printf("     (the page cache cannot be emptied here)\n");
		h2d_device_close(dev);
		return;
	}
	/* One block at a time: no readahead into the cold half. */
	posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM);
	for (uint64_t at = 0; at < FILE_BYTES / 2; at += sizeof(block))
		CHECK_EQ(h2d_file_read(file, block, sizeof(block), at, NULL), 0);
	o.chunk_bytes = 65536;
	w = load(dev, &o);
	REQUIRE(w);
	CHECK_EQ(h2d_verify(w, NULL, &v), 0);
	h2d_weights_report(w, &r);
	CHECK_STR(r.path_requested, "auto");
	for (uint32_t i = 0; i < r.extent_count; i++)
		sum += r.extent_bytes[i];
	CHECK_EQ(sum, r.loaded_bytes);
	if (r.extent_count == 2) {
		CHECK_STR(r.path_used, "auto");
		CHECK_STR(r.extent_path[0], "pinned");
		CHECK_STR(r.extent_path[1], "direct");
		CHECK(r.extent_bytes[0] > FILE_BYTES / 4);
		CHECK(r.extent_bytes[1] > FILE_BYTES / 4);
	} else {
		/* No O_DIRECT on this filesystem: the reason says so. */
		CHECK_STR(r.path_used, "pinned");
		CHECK(strstr(r.reason, "through the page cache") != NULL);
	}
	h2d_weights_free(w);
	CHECK_EQ(h2d_cache_warm(file, 0, FILE_BYTES, NULL), 0);
	w = load(dev, &o);
	REQUIRE(w);
	h2d_weights_report(w, &r);
	CHECK_STR(r.path_used, "pinned");
	CHECK(strstr(r.reason, "in the page cache") != NULL);
	h2d_weights_free(w);
	h2d_device_close(dev);
}

int main(void)
{
	uint64_t sizes[TENSORS];

	for (int i = 0; i < TENSORS; i++)
		sizes[i] = i == 7 ? 0 : i % 5 == 4 ? 100000 : (uint64_t)(1 + i * 613);
	if (fixture_open(&f, FILE_BYTES, extents,
			 fixture_row(extents, sizes, TENSORS, 12345, 3) <= FILE_BYTES ? TENSORS
										      : 0) ||
	    !f.ckpt->cat.tensor_count) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	tuning = h2d_tuning_default;
	tuning.progress_interval_ns = 0;
	tuning.sink_bytes = 64;
	tuning.read_through_bytes = 4096;
	h2d_tuning = &tuning;
	RUN(callbacks_come_one_at_a_time);
	RUN(selection_and_alignment);
	RUN(copies_overlap_within_the_ring);
	RUN(sizes_fit_into_staging);
	RUN(in_place_needs_no_staging);
	RUN(per_tensor_is_measured);
	RUN(present_modes);
	RUN(present_is_proven);
	RUN(trace_is_chrome_json);
	RUN(pages_are_given_back);
	RUN(auto_mixes_paths);
	RUN(loads_at_the_same_time); /* views keep pages in the cache: last */
	fixture_close(&f);
	return TEST_DONE();
}

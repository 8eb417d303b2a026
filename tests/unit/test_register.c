/* SPDX-License-Identifier: Apache-2.0 */
/* Path `register` on a host device that has been taught to register: which ranges, how many at
 * a time, what is copied from them, and every way in which it falls back. */
#include <sys/mman.h>

#include "core/mem.h"
#include "device/engine_thread.h"
#include "load_fixture.h"
#include "transfer/tuning.h"

enum { RANGES = 64 };

static struct fixture f;
static struct h2d_device *dev;
static struct h2d_backend teach;
static const struct h2d_backend *real;

static struct {
	pthread_mutex_t lock;
	struct {
		unsigned char *p;
		uint64_t bytes;
	} ranges[RANGES];
	uint64_t now, most, calls, refuse_at, refuse_count, outside, bad;
	bool read_only, copies, truncate;
} reg = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* As a kernel that cannot pin a file's page in place. */
static void make_anonymous(unsigned char *p, uint64_t bytes)
{
	unsigned char *copy = malloc(bytes);

	memcpy(copy, p, bytes);
	if (mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) != p)
		abort();
	memcpy(p, copy, bytes);
	free(copy);
}

static int host_register(struct h2d_device *d, void *at, uint64_t bytes, bool read_only)
{
	unsigned char *p = at;
	uint64_t n;
	int slot = -1;

	(void)d;
	pthread_mutex_lock(&reg.lock);
	n = ++reg.calls;
	if ((uintptr_t)p % 4096 || !bytes || bytes % 4096)
		reg.bad++;
	reg.read_only = read_only;
	if (n >= reg.refuse_at && n - reg.refuse_at < reg.refuse_count) {
		pthread_mutex_unlock(&reg.lock);
		return H2D_E_DEVICE;
	}
	for (int i = 0; i < RANGES; i++) {
		if (!reg.ranges[i].p)
			slot = i;
		else if (p < reg.ranges[i].p + reg.ranges[i].bytes &&
			 reg.ranges[i].p < p + bytes)
			reg.bad++; /* overlap */
	}
	if (slot < 0)
		abort();
	reg.ranges[slot].p = p;
	reg.ranges[slot].bytes = bytes;
	reg.now += bytes;
	reg.most = reg.now > reg.most ? reg.now : reg.most;
	if (reg.copies)
		make_anonymous(p, bytes);
	if (reg.truncate && truncate(f.path, 4096))
		abort();
	pthread_mutex_unlock(&reg.lock);
	return 0;
}

static int host_unregister(struct h2d_device *d, void *p, uint64_t bytes)
{
	int rc = H2D_E_INVALID;

	(void)d;
	pthread_mutex_lock(&reg.lock);
	for (int i = 0; i < RANGES; i++) {
		if (reg.ranges[i].p != p || reg.ranges[i].bytes != bytes)
			continue;
		reg.ranges[i].p = NULL;
		reg.now -= bytes;
		rc = 0;
	}
	reg.bad += rc != 0;
	pthread_mutex_unlock(&reg.lock);
	return rc;
}

/* A copy lies in one registration, or in none at all. */
static int copy_to_device(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes)
{
	const unsigned char *p = src;
	bool inside = false;

	pthread_mutex_lock(&reg.lock);
	for (int i = 0; i < RANGES; i++) {
		const unsigned char *r = reg.ranges[i].p;
		const unsigned char *end = r + reg.ranges[i].bytes;

		if (!r || p >= end || r >= p + bytes)
			continue;
		inside = true;
		if (p < r || p + bytes > end)
			reg.bad++;
	}
	reg.outside += !inside;
	pthread_mutex_unlock(&reg.lock);
	return real->copy_to_device(s, dst, src, bytes);
}

static void open_device(unsigned caps, uint64_t timeout_ns)
{
	struct h2d_device_opts o = H2D_OPTS(o);

	o.log = fixture_log;
	o.log_user = &f;
	o.copy_timeout_ns = timeout_ns;
	if (h2d_device_open("host", &o, &dev))
		abort();
	real = dev->backend;
	teach = *real;
	teach.host_register = host_register;
	teach.host_unregister = host_unregister;
	teach.copy_to_device = copy_to_device;
	teach.caps = H2D_DEV_READABLE | H2D_DEV_COPY_2D | caps;
	dev->backend = &teach;
	dev->caps = teach.caps;
	reg.now = reg.most = reg.calls = reg.refuse_at = reg.refuse_count = 0;
	reg.outside = reg.bad = 0;
	reg.copies = reg.truncate = reg.read_only = false;
	memset(reg.ranges, 0, sizeof(reg.ranges));
}

static void close_device(void)
{
	dev->backend = real;
	h2d_device_close(dev);
}

static int load(uint64_t staging, uint32_t threads, uint64_t chunk, struct h2d_report *r,
		char *reason)
{
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_verify_result v = H2D_OPTS(v);
	struct h2d_weights *w = NULL;
	int rc;

	o.path = "register";
	o.staging_bytes = staging;
	o.threads = threads;
	o.chunk_bytes = chunk;
	rc = h2d_load(f.ckpt, dev, &o, &w);
	if (rc)
		return rc;
	CHECK_EQ(h2d_weights_report(w, r), 0);
	snprintf(reason, 700, "%s", r->reason);
	r->reason = reason;
	CHECK_EQ(h2d_verify(w, NULL, &v), 0);
	h2d_weights_free(w);
	return 0;
}

static struct h2d_report report = H2D_OPTS(report);
static char reason[700];

/* Long and short, unaligned, with gaps; the small ones go through a slot. */
static const struct extent extents[] = {
	{1000, 3},	  {1003, 5000},	     {6003, 100},      {8192, 4096}, {100001, 300000},
	{400001, 262144}, {662145, 1},	     {700000, 100000}, {800000, 7},  {900000, 500000},
	{1400000, 65536}, {1500000, 548575}, {2048576, 100},
};
enum { FILE_BYTES = 2048676 };

static void windows_hold_what_they_promise(void)
{
	static const struct {
		uint64_t staging, chunk;
		uint32_t threads;
	} ways[] = {{0, 0, 0},
		    {0, 65536, 2},
		    {13 * 65536, 65536, 2},
		    {13 * 65536, 10000, 2},
		    {4 * 4096, 4096, 1},
		    {7 * 8192, 5000, 1},
		    {19 * 131072, 0, 3},
		    {100000, 0, 2},
		    {1 << 20, 0, 7}};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		open_device(H2D_DEV_REGISTER | H2D_DEV_REGISTER_READ_ONLY, 0);
		CHECK_EQ(load(ways[i].staging, ways[i].threads, ways[i].chunk, &report, reason),
			 0);
		CHECK(reg.calls > 0);
		CHECK_EQ(reg.bad, 0);
		CHECK_EQ(reg.now, 0);
		CHECK(reg.read_only);
		if (ways[i].staging)
			CHECK(report.staging_bytes <= ways[i].staging);
		CHECK(report.staging_bytes >= reg.most);
		CHECK(strstr(reason, "were registered") != NULL);
		CHECK(strstr(reason, "unregistered") == NULL);
		/* Only what is put together first is copied from elsewhere. */
		CHECK(reg.outside < report.copy_count);
		close_device();
	}
	/* Each window once: all of the file is registered no more than once over. */
	open_device(H2D_DEV_REGISTER, 0);
	CHECK_EQ(load(13 * 65536, 2, 65536, &report, reason), 0);
	CHECK(reg.calls <= FILE_BYTES / 65536 + 1);
	CHECK(!reg.read_only); /* it cannot */
	CHECK_EQ(load(3 * 4096, 1, 4096, &report, reason), H2D_E_INVALID);
	close_device();
}

/* xorshift64 */
static uint64_t seed = 88172645463325252;

static uint64_t below(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

enum { TARGETS = 24, ROOM_BYTES = TARGETS * 600000 };

/* Parts of tensors, of which many overlap in the file. */
static size_t make_targets(struct h2d_target *t, unsigned char *memory)
{
	size_t n = 1 + below(TARGETS);

	for (size_t i = 0; i < n; i++) {
		uint64_t tensor = below(3) ? 11 : below(sizeof(extents) / sizeof(extents[0]));
		uint64_t bytes = extents[tensor].bytes;

		t[i] = (struct h2d_target)H2D_OPTS(t[i]);
		t[i].tensor = tensor;
		t[i].begin_bytes = below(2) ? 0 : below(bytes);
		t[i].length_bytes = bytes - t[i].begin_bytes;
		if (below(2))
			t[i].length_bytes = 1 + below(t[i].length_bytes);
		t[i].capacity_bytes = t[i].length_bytes;
		t[i].data = memory;
		memory += t[i].length_bytes + below(2) * 64;
	}
	return n;
}

/* Without coalescing a long target's chunks come before those of a target within it, so that
 * windows are left and come back. */
static void targets_that_overlap(void)
{
	static const uint64_t chunks[] = {0, 4096, 5000, 16384, 65536, 1 << 20};
	static const uint64_t stagings[] = {0, 65536, 200000, 1 << 20};
	unsigned char *memory = malloc(ROOM_BYTES);
	uint64_t refused = 0;

	for (int round = 0; round < 200; round++) {
		struct h2d_load_opts o = H2D_OPTS(o);
		struct h2d_report r = H2D_OPTS(r);
		struct h2d_target t[TARGETS];
		size_t n = make_targets(t, memory);
		int rc;

		o.path = "register";
		o.per_tensor = below(3) != 0;
		o.threads = (uint32_t)below(6);
		o.chunk_bytes = chunks[below(6)];
		o.staging_bytes = stagings[below(4)];
		o.cache = below(4) ? H2D_CACHE_KEEP : H2D_CACHE_DROP;
		open_device(H2D_DEV_REGISTER, 0);
		rc = h2d_load_into(f.ckpt, dev, t, n, &o, &r);
		/* A chunk that the caller wants may be too long for the staging he wants. */
		if (rc == H2D_E_INVALID && strstr(f.last_error, "does not hold")) {
			refused++;
			close_device();
			continue;
		}
		CHECK_EQ(rc, 0);
		CHECK_EQ(reg.bad, 0);
		CHECK_EQ(reg.now, 0);
		CHECK(r.staging_bytes >= reg.most);
		if (o.staging_bytes)
			CHECK(r.staging_bytes <= o.staging_bytes);
		for (size_t i = 0; !rc && i < n; i++)
			CHECK_EQ(
				fixture_differs(t[i].data, t[i].length_bytes,
						extents[t[i].tensor].offset + t[i].begin_bytes),
				UINT64_MAX);
		if (rc) {
			printf("round %d: %s\n", round, f.last_error);
			break;
		}
		h2d_report_clear(&r);
		close_device();
	}
	CHECK(refused < 150);
	free(memory);
}

static void a_refused_window_is_copied_all_the_same(void)
{
	for (uint64_t n = 1; n < 12; n++) {
		open_device(H2D_DEV_REGISTER | H2D_DEV_REGISTER_READ_ONLY, 0);
		reg.refuse_at = n;
		reg.refuse_count = 2;
		CHECK_EQ(load(13 * 65536, 2, 65536, &report, reason), 0);
		CHECK_EQ(reg.bad, 0);
		CHECK_EQ(reg.now, 0);
		CHECK(strstr(reason,
			     "2 windows were copied unregistered: the device refused") != NULL);
		close_device();
	}
	/* All of them. */
	open_device(H2D_DEV_REGISTER, 0);
	reg.refuse_at = 1;
	reg.refuse_count = UINT64_MAX;
	CHECK_EQ(load(0, 2, 0, &report, reason), 0);
	CHECK(strstr(reason, "were registered") == NULL);
	close_device();
}

/* A kernel that copies pages when they are pinned: found out in the first window, which is the
 * only one. */
static void copied_pages_are_noticed(void)
{
	open_device(H2D_DEV_REGISTER | H2D_DEV_REGISTER_READ_ONLY, 0);
	reg.copies = true;
	CHECK_EQ(load(13 * 65536, 2, 65536, &report, reason), 0);
	CHECK_EQ(reg.calls, 1);
	CHECK_EQ(reg.bad, 0);
	CHECK_EQ(reg.now, 0);
	CHECK(strstr(reason, "anonymous memory: 65536 bytes of the first window") != NULL);
	close_device();
}

static void failures_leave_nothing_registered(void)
{
	struct h2d_copy_fault fault = {
		.kind = H2D_COPY_FAULT_FAIL, .count = 1, .status = H2D_E_DEVICE};

	open_device(H2D_DEV_REGISTER, 0);
	for (uint64_t n = 1; n < 20; n++) {
		fault.first = n;
		h2d_copy_fault_set(dev, &fault);
		CHECK_EQ(load(13 * 65536, 2, 65536, &report, reason), H2D_E_DEVICE);
		CHECK_EQ(reg.now, 0);
		CHECK_EQ(reg.bad, 0);
	}
	h2d_copy_fault_set(dev, NULL);
	CHECK_EQ(load(13 * 65536, 2, 65536, &report, reason), 0);
	close_device();
}

static void a_lost_device_keeps_its_windows(void)
{
	struct h2d_copy_fault fault = {.kind = H2D_COPY_FAULT_HANG, .first = 3, .count = 1};
	static struct h2d_tuning quick;
	struct h2d_soft *soft;

	quick = h2d_tuning_default;
	quick.pageable_bytes_per_s = UINT64_C(1) << 40;
	h2d_tuning = &quick;
	open_device(H2D_DEV_REGISTER, 40000000);
	soft = h2d_soft_hold(dev);
	h2d_copy_fault_set(dev, &fault);
	CHECK_EQ(load(13 * 65536, 2, 65536, &report, reason), H2D_E_DEVICE_LOST);
	CHECK(reg.now > 0);
	CHECK(atomic_load(&dev->quarantined_bytes) >= reg.now);
	close_device();
	h2d_copy_fault_release(soft);
	CHECK(h2d_soft_wait_threads(soft, 0, UINT64_C(5000000000)));
	h2d_soft_release(soft);
	h2d_tuning = &h2d_tuning_default;
}

static void not_everywhere(void)
{
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w;

	open_device(0, 0);
	o.path = "register";
	CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), H2D_E_UNSUPPORTED);
	CHECK(strstr(f.last_error, "cannot register host memory") != NULL);
	close_device();
}

/* Last: the file is cut short under the first window. */
static void truncated(void)
{
	open_device(H2D_DEV_REGISTER, 0);
	reg.truncate = true;
	CHECK_EQ(load(13 * 65536, 2, 65536, &report, reason), H2D_E_CHANGED);
	CHECK_EQ(reg.now, 0);
	close_device();
}

int main(void)
{
	if (fixture_open(&f, FILE_BYTES, extents, sizeof(extents) / sizeof(extents[0]))) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	RUN(windows_hold_what_they_promise);
	RUN(targets_that_overlap);
	RUN(a_refused_window_is_copied_all_the_same);
	RUN(copied_pages_are_noticed);
	RUN(failures_leave_nothing_registered);
	RUN(a_lost_device_keeps_its_windows);
	RUN(not_everywhere);
	RUN(truncated);
	fixture_close(&f);
	return TEST_DONE();
}

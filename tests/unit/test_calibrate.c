/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of the staging ring by calibration: on a device that is taught how long copies take, by
 * a clock of its own, and kept in a directory of the test's own. */
#include <sys/stat.h>

#include "device/engine_thread.h"
#include "load_fixture.h"
#include "path/calibration.h"
#include "scratch.h"

#define MIB (UINT64_C(1) << 20)
#define US  UINT64_C(1000)

/* ---- the taught device: `host`, whose copies go over one link */

static struct {
	uint64_t bytes_per_ms, latency_ns, each_ns; /* as taught */
	uint64_t now, busy;			    /* time, and when the link is free */
	uint64_t copies, bytes;
	struct {
		const struct h2d_event *event;
		uint64_t at;
	} marks[256];
	uint64_t waits, lose_at; /* the wait that never ends, counted from 1 */
	bool refuse_memory;
} wire;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct h2d_backend taught;
static struct h2d_device *dev;
static struct fixture f;
static char home[4096], info[16][600]; /* the last lines of level info */
static unsigned info_count;

static uint64_t now(void)
{
	uint64_t t;

	pthread_mutex_lock(&lock);
	t = wire.now;
	pthread_mutex_unlock(&lock);
	return t;
}

static int copy(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	if (wire.busy < wire.now)
		wire.busy = wire.now;
	wire.busy += wire.each_ns + bytes * 1000000 / wire.bytes_per_ms;
	wire.copies++;
	wire.bytes += bytes;
	pthread_mutex_unlock(&lock);
	return h2d_soft_copy(s, dst, src, bytes);
}

static uint64_t *mark(const struct h2d_event *e)
{
	size_t i = 0;

	while (wire.marks[i].event && wire.marks[i].event != e)
		i++;
	if (i == sizeof(wire.marks) / sizeof(wire.marks[0]))
		abort();
	wire.marks[i].event = e;
	return &wire.marks[i].at;
}

static int record(struct h2d_event *e, struct h2d_stream *s)
{
	pthread_mutex_lock(&lock);
	*mark(e) = wire.busy + wire.latency_ns;
	pthread_mutex_unlock(&lock);
	return h2d_soft_event_record(e, s);
}

static int await(struct h2d_event *e, uint64_t timeout_ns)
{
	bool lost;

	pthread_mutex_lock(&lock);
	if (wire.now < *mark(e))
		wire.now = *mark(e);
	lost = ++wire.waits == wire.lose_at;
	pthread_mutex_unlock(&lock);
	return lost ? H2D_E_DEVICE_LOST : h2d_soft_event_wait(e, timeout_ns);
}

static int memory(struct h2d_device *d, uint64_t bytes, struct h2d_devmem *out)
{
	return wire.refuse_memory && bytes == H2D_CALIBRATE_REGION_BYTES
		       ? H2D_E_NOMEM
		       : h2d_backends[0]->alloc(d, bytes, out);
}

static char driver[64];

static void runtime(struct h2d_runtime *out)
{
	memset(out, 0, sizeof(*out));
	snprintf(out->version, sizeof(out->version), "%s", driver);
}

static void lines(void *user, enum h2d_log_level level, const char *line)
{
	(void)user;
	if (level == H2D_LOG_INFO)
		snprintf(info[info_count++ % 16], sizeof(info[0]), "%s", line);
}

static bool told(const char *text)
{
	for (unsigned i = 0; i < 16; i++)
		if (strstr(info[i], text))
			return true;
	return false;
}

static void teach(uint64_t bytes_per_ms, uint64_t latency_ns, uint64_t each_ns)
{
	memset(&wire, 0, sizeof(wire));
	memset(info, 0, sizeof(info));
	wire.bytes_per_ms = bytes_per_ms;
	wire.latency_ns = latency_ns;
	wire.each_ns = each_ns;
	wire.now = 1;
}

static void open_device(void)
{
	struct h2d_device_opts o = H2D_OPTS(o);

	if (h2d_device_open("host", &o, &dev))
		abort();
	taught = *dev->backend;
	taught.copy_to_device = copy;
	taught.event_record = record;
	taught.event_wait = await;
	taught.alloc = memory;
	taught.runtime = runtime;
	dev->backend = &taught;
	dev->caps &= ~(unsigned)H2D_DEV_FILL;
}

/* ---- measuring */

static int chosen(uint64_t bytes_per_ms, uint64_t latency_ns, uint64_t each_ns)
{
	struct h2d_calibrate_result r;

	teach(bytes_per_ms, latency_ns, each_ns);
	CHECK_EQ(h2d_calibrate(dev, &r), 0);
	CHECK_EQ(r.copied_bytes, wire.bytes);
	CHECK(r.copied_bytes <= H2D_CALIBRATE_BYTES);
	CHECK_EQ(r.elapsed_ns, wire.now - 1);
	return r.chosen;
}

static void picks_the_smallest_that_is_fast(void)
{
	const uint64_t gb = 10000000; /* 10 GB/s: 1 MiB in 105 us */
	struct h2d_soft_counts c;

	open_device();
	CHECK_EQ(chosen(gb, 0, 0), 0);	      /* 1 MiB × 2: nothing to hide */
	CHECK_EQ(chosen(gb, 300 * US, 0), 1); /* 1 MiB × 4 hide 0.3 ms */
	CHECK_EQ(chosen(gb, 700 * US, 0), 3); /* 2 MiB × 4 hide 0.7 ms */
	CHECK_EQ(chosen(gb, 0, 100 * US), 4); /* few copies, each costs */
	CHECK_EQ(wire.bytes, H2D_CALIBRATE_BYTES);
	h2d_device_host_trim(dev);
	h2d_soft_count(dev->priv, &c);
	CHECK_EQ(c.alloc_count + c.host_alloc_count + c.stream_count + c.event_count, 0);
	h2d_device_close(dev);
}

static void ends_in_time(void)
{
	open_device();
	CHECK_EQ(chosen(200000, 0, 0), 0); /* time for the first touch and one size */
	CHECK(wire.now < H2D_CALIBRATE_TIME_NS + 25000 * US);
	CHECK(wire.bytes < 24 * MIB);
	CHECK_EQ(chosen(50000, 0, 0), 0); /* not even for that */
	CHECK(wire.bytes <= 8 * MIB);
	h2d_device_close(dev);
}

static void five_percent(void)
{
	struct h2d_calibrate_try t[3] = {{1, 1, 949}, {1, 1, 950}, {1, 1, 1000}};

	CHECK_EQ(h2d_calibrate_pick(t, 3), 1);
	t[0].bytes_per_s = t[1].bytes_per_s = t[2].bytes_per_s = 0;
	CHECK_EQ(h2d_calibrate_pick(t, 3), -1);
}

static void failures(void)
{
	struct h2d_calibrate_result r;
	struct h2d_soft_counts c;

	open_device();
	for (uint64_t first = 1; first < 60; first += 7) {
		struct h2d_copy_fault fault = {.kind = H2D_COPY_FAULT_FAIL,
					       .first = first,
					       .count = 1,
					       .status = H2D_E_DEVICE};

		teach(10000000, 0, 0);
		h2d_copy_fault_set(dev, &fault);
		CHECK_EQ(h2d_calibrate(dev, &r), first <= 40 ? H2D_E_DEVICE : 0);
	}
	h2d_copy_fault_set(dev, NULL);
	teach(10000000, 0, 0);
	wire.refuse_memory = true;
	CHECK_EQ(h2d_calibrate(dev, &r), H2D_E_NOMEM);
	CHECK(!atomic_load(&dev->lost));
	h2d_device_host_trim(dev);
	h2d_soft_count(dev->priv, &c);
	CHECK_EQ(c.alloc_count + c.host_alloc_count + c.stream_count + c.event_count, 0);
	h2d_device_close(dev);
}

static void a_copy_that_never_ends(void)
{
	struct h2d_calibrate_result r;

	open_device();
	teach(10000000, 0, 0);
	wire.lose_at = 9;
	CHECK_EQ(h2d_calibrate(dev, &r), H2D_E_DEVICE_LOST);
	CHECK(atomic_load(&dev->lost));
	CHECK_EQ(atomic_load(&dev->quarantined_bytes), 2 * H2D_CALIBRATE_REGION_BYTES);
	dev->backend = h2d_backends[0];
	h2d_device_close(dev);
}

/* ---- in loads */

static struct h2d_report load(enum h2d_calibrate_mode mode, uint64_t chunk, uint64_t staging)
{
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_weights *w = NULL;

	o.log = lines;
	o.path = "pinned";
	o.threads = 1;
	o.calibrate = mode;
	o.chunk_bytes = chunk;
	o.staging_bytes = staging;
	CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), 0);
	if (w)
		h2d_weights_report(w, &r);
	r.reason = r.path_requested = r.path_used = NULL; /* they end with the weights */
	h2d_weights_free(w);
	return r;
}

static bool kept(void)
{
	struct h2d_identity id;
	struct h2d_log log = {lines, NULL};
	uint64_t chunk;
	uint32_t slots;

	h2d_identity_read(&id, dev);
	return h2d_calibration_read(&id, &log, &chunk, &slots);
}

/* A new process, as far as the device goes. */
static void reopen(uint64_t latency_ns)
{
	if (dev)
		h2d_device_close(dev);
	open_device();
	teach(10000000, latency_ns, 0);
}

static void only_when_asked(void)
{
	struct h2d_report r;

	reopen(0);
	r = load(H2D_CALIBRATE_NEVER, 0, 0);
	CHECK_STR(r.sizes_from, "defaults");
	CHECK_EQ(wire.bytes, f.file_bytes);
	CHECK(!kept());
	/* Sizes that somebody named. */
	r = load(H2D_CALIBRATE_AGAIN, 3 * MIB, 0);
	CHECK_STR(r.sizes_from, "options");
	CHECK_EQ(r.chunk_bytes, 3 * MIB);
	r = load(H2D_CALIBRATE_AGAIN, 0, 6 * MIB);
	CHECK_STR(r.sizes_from, "options");
	/* Less than a calibration copies. */
	r = load(H2D_CALIBRATE_AUTO, 0, 0);
	CHECK_STR(r.sizes_from, "defaults");
	CHECK_EQ(wire.bytes, 4 * f.file_bytes);
	CHECK(!kept());
	/* Memory that readers write in place. */
	dev->caps |= H2D_DEV_FILL;
	r = load(H2D_CALIBRATE_AGAIN, 0, 0);
	CHECK(!r.sizes_from);
	CHECK_EQ(wire.bytes, 4 * f.file_bytes);
	CHECK(!kept());
}

static void kept_for_later(void)
{
	struct h2d_report r;
	struct stat st;
	char dir[4200];

	reopen(0);
	r = load(H2D_CALIBRATE_AGAIN, 0, 0);
	CHECK_STR(r.sizes_from, "calibration");
	CHECK_EQ(r.chunk_bytes, MIB);
	CHECK_EQ(r.staging_bytes, H2D_CALIBRATE_REGION_BYTES); /* its memory serves the load */
	CHECK_EQ(wire.bytes, H2D_CALIBRATE_BYTES + f.file_bytes);
	snprintf(dir, sizeof(dir), "%s/cache/h2d", home);
	CHECK_EQ(stat(dir, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0700);
	/* The same device remembers. */
	r = load(H2D_CALIBRATE_AUTO, 0, 0);
	CHECK_STR(r.sizes_from, "calibration");
	CHECK_EQ(wire.bytes, H2D_CALIBRATE_BYTES + 2 * f.file_bytes);
	/* A later process reads, however it would measure, until it is asked again. */
	reopen(700 * US);
	r = load(H2D_CALIBRATE_AUTO, 0, 0);
	CHECK_STR(r.sizes_from, "cache");
	CHECK_EQ(r.chunk_bytes, MIB);
	CHECK_EQ(wire.bytes, f.file_bytes);
	r = load(H2D_CALIBRATE_AGAIN, 0, 0);
	CHECK_STR(r.sizes_from, "calibration");
	CHECK_EQ(r.chunk_bytes, 2 * MIB);
	reopen(0);
	r = load(H2D_CALIBRATE_AUTO, 0, 0);
	CHECK_EQ(r.chunk_bytes, 2 * MIB);
	/* Another driver. */
	reopen(0);
	snprintf(driver, sizeof(driver), "2");
	r = load(H2D_CALIBRATE_AUTO, 0, 0);
	CHECK_STR(r.sizes_from, "defaults"); /* too small to measure anew */
	CHECK(told("ignored: kernel, runtime or h2d have changed"));
	snprintf(driver, sizeof(driver), "1");
	CHECK(kept());
	/* Another device. */
	snprintf(dev->facts.pci_address, sizeof(dev->facts.pci_address), "0000:01:00.0");
	CHECK(!kept());
}

static void nowhere_to_keep(void)
{
	struct h2d_report r;

	reopen(0);
	setenv("XDG_CACHE_HOME", "/dev/null/none", 1);
	r = load(H2D_CALIBRATE_AGAIN, 0, 0);
	CHECK_STR(r.sizes_from, "calibration");
	CHECK(told("cannot be kept"));
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	teach(10000000, 0, 0);
	r = load(H2D_CALIBRATE_AGAIN, 0, 0);
	CHECK(told("no cache directory"));
	setenv("XDG_CACHE_HOME", "relative", 1); /* counts as none */
	CHECK(!kept());
	setenv("HOME", home, 1);
	load(H2D_CALIBRATE_AGAIN, 0, 0);
	CHECK(kept());
	CHECK_EQ(access("relative", F_OK), -1);
}

/* ---- what somebody else left there */

static struct h2d_identity hostile_id;
static char hostile_path[600];

static bool taken(const char *text)
{
	struct h2d_log log = {lines, NULL};
	uint64_t chunk = 0;
	uint32_t slots = 0;
	FILE *out;

	memset(info, 0, sizeof(info));
	info_count = 0;
	unlink(hostile_path);
	out = text ? fopen(hostile_path, "w") : NULL;
	if (out) {
		fputs(text, out);
		fclose(out);
	}
	return h2d_calibration_read(&hostile_id, &log, &chunk, &slots);
}

static char *read_text(const char *path)
{
	static char text[1 << 15];
	FILE *in = fopen(path, "r");
	size_t n = in ? fread(text, 1, sizeof(text) - 1, in) : 0;

	text[n] = 0;
	if (in)
		fclose(in);
	return text;
}

/* @return whether a text with `from` replaced is taken */
static bool changed(const char *good, const char *from, const char *to)
{
	static char text[1 << 15];
	const char *at = strstr(good, from);

	CHECK(at);
	if (!at)
		return true;
	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
	return taken(text);
}

static void hostile(void)
{
	static char good[1 << 15], large[20000];
	struct h2d_log log = {lines, NULL};
	struct h2d_calibrate_result r;
	char dir[4200], *at;

	reopen(0);
	CHECK_EQ(h2d_calibrate(dev, &r), 0);
	h2d_identity_read(&hostile_id, dev);
	h2d_calibration_write(&hostile_id, &log, &r);
	for (unsigned i = 0; i < 16; i++)
		if ((at = strstr(info[i], ": the calibration is kept")))
			snprintf(hostile_path, sizeof(hostile_path), "%.*s",
				 (int)(at - info[i]), info[i]);
	REQUIRE(hostile_path[0]);
	snprintf(good, sizeof(good), "%s", read_text(hostile_path));
	CHECK(taken(good));
	CHECK_EQ(info_count, 0);
	CHECK(!taken(NULL));
	CHECK_EQ(info_count, 0); /* nothing there is nothing to tell */
	CHECK(!taken("") && told("not a JSON text"));
	CHECK(!taken("[[[[") && !taken("[]") && !taken("null") && !taken("{}"));
	CHECK(!changed(good, "1048576", "1048577") && told("none that a calibration"));
	CHECK(!changed(good, "1048576", "-1") && !changed(good, "1048576", "1e6"));
	CHECK(!changed(good, "1048576", "\"1048576\""));
	CHECK(!changed(good, "1048576", "99999999999999999999999"));
	CHECK(!changed(good, "\"slot_count\": 2", "\"slot_count\": 4294967298"));
	CHECK(!changed(good, "\"slot_count\": 2", "\"slot_count\": 2, \"slot_count\": 2"));
	CHECK(!changed(good, "h2d.calibration", "h2d.load") && info_count == 1);
	CHECK(!changed(good, "\"schema_version\": 1", "\"schema_version\": 2"));
	CHECK(!changed(good, "\"kernel\": \"", "\"kernel\": \"x") && told("have changed"));
	CHECK(!changed(good, "\"cpu\": \"", "\"cpu\": \"x") && told("another machine"));
	memset(large, ' ', sizeof(large) - 1);
	CHECK(!taken(large) && told("too long"));
	/* Not files. */
	CHECK(!taken(NULL));
	CHECK_EQ(mkfifo(hostile_path, 0600), 0);
	CHECK(!h2d_calibration_read(&hostile_id, &log, &(uint64_t){0}, &(uint32_t){0}));
	CHECK(told("not a regular file"));
	unlink(hostile_path);
	CHECK_EQ(symlink("/etc/passwd", hostile_path), 0);
	CHECK(!h2d_calibration_read(&hostile_id, &log, &(uint64_t){0}, &(uint32_t){0}));
	h2d_calibration_write(&hostile_id, &log, &r); /* replaces the link, not its target */
	CHECK(taken(read_text(hostile_path)));
	/* A directory that others may write. */
	snprintf(dir, sizeof(dir), "%s/cache/h2d", home);
	CHECK_EQ(chmod(dir, 0777), 0);
	CHECK(!kept());
	CHECK_EQ(chmod(dir, 0700), 0);
	CHECK(kept());
}

int main(void)
{
	struct extent e = {0, 24 * MIB};
	static char cache[4200];

	h2d_calibrate_now = now;
	scratch_path(""); /* makes the directory */
	if (!realpath(scratch_dir, home) || fixture_open(&f, e.bytes, &e, 1))
		return 1;
	setenv("HOME", home, 1);
	snprintf(cache, sizeof(cache), "%s/cache", home);
	setenv("XDG_CACHE_HOME", cache, 1);
	snprintf(driver, sizeof(driver), "1");
	RUN(picks_the_smallest_that_is_fast);
	RUN(ends_in_time);
	RUN(five_percent);
	RUN(failures);
	RUN(a_copy_that_never_ends);
	dev = NULL;
	RUN(only_when_asked);
	RUN(kept_for_later);
	RUN(hostile);
	RUN(nowhere_to_keep);
	h2d_device_close(dev);
	fixture_close(&f);
	return TEST_DONE();
}

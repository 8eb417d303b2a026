/* SPDX-License-Identifier: Apache-2.0 */
/* What `auto` makes of the memory that is left. */
#include <errno.h>

#include "device/engine_thread.h"
#include "file/io.h"
#include "load_fixture.h"
#include "path/auto.h"

static struct fixture f;
static uint64_t left;

static void room(struct h2d_room *r)
{
	*r = (struct h2d_room){UINT64_C(1) << 40, left, "the memory cgroup's limit"};
}

static int no_cachestat(int fd, uint64_t offset, uint64_t bytes, struct h2d_cachestat *out)
{
	(void)fd;
	(void)offset;
	(void)bytes;
	(void)out;
	errno = EPERM;
	return -1;
}

static struct h2d_report report = H2D_OPTS(report);
static char reason[700];

static struct h2d_pci link_facts;

static int link_of(const char *address, struct h2d_pci *out)
{
	CHECK_STR(address, "0000:65:00.0");
	*out = link_facts;
	return 0;
}

/* The line for -v. */
static char told[1024];

static void keep_told(void *user, enum h2d_log_level level, const char *line)
{
	if (level == H2D_LOG_INFO && !strncmp(line, "auto: ", 6))
		snprintf(told, sizeof(told), "%s", line);
	fixture_log(user, level, line);
}

static bool on_bus; /* the device says that it has an address */
static uint32_t threads;

static void load(const char *device)
{

	struct h2d_device_opts d = H2D_OPTS(d);
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w = NULL;
	struct h2d_device *dev = NULL;

	d.log = keep_told;
	d.log_user = &f;
	CHECK_EQ(h2d_device_open(device, &d, &dev), 0);
	if (on_bus)
		snprintf(dev->facts.pci_address, sizeof(dev->facts.pci_address),
			 "0000:65:00.0");
	o.log = keep_told;
	o.log_user = &f;
	o.kernel_retry_policy = "stale";
	o.threads = threads;
	o.chunk_bytes = on_bus ? 65536 : 0;
	CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), 0);
	CHECK_EQ(h2d_weights_report(w, &report), 0);
	snprintf(reason, sizeof(reason), "%s", report.reason);
	for (uint32_t i = 0; i < report.extent_count; i++)
		CHECK(!strcmp(report.extent_path[i], "pinned") ||
		      !strcmp(report.extent_path[i], "direct"));
	CHECK(strstr(reason, "the kernel's retry policy is stale: no mapping is used") != NULL);
	h2d_weights_free(w);
	h2d_device_close(dev);
}

static void plenty(void)
{
	left = UINT64_C(1) << 38;
	load("null");
	CHECK(!strstr(reason, "memory are left") && !strstr(reason, "do not fit"));
	CHECK(strstr(told, "262144 MiB of memory left (the memory cgroup's limit)") != NULL);
	left = UINT64_MAX; /* unknown */
	load("null");
	CHECK(!strstr(told, "memory left") && !strstr(told, "unknown"));
	CHECK(!strncmp(told, "auto: device null; ", 19) && !strstr(told, "link"));
	CHECK(!strstr(reason, "memory are left") && !strstr(reason, "do not fit"));
}

static void room_for_the_weights_only(void)
{
	left = 64 << 20;
	load("null");
	CHECK(strstr(reason,
		     "64 MiB of memory are left (the memory cgroup's limit): staging of "
		     "at most 8 MiB") != NULL);
	CHECK(report.staging_bytes <= 8 << 20);
	CHECK(!strstr(reason, "do not fit"));
	load("host"); /* nothing is staged there */
	CHECK(!strstr(reason, "staging of at most"));
}

static void less_than_the_checkpoint(void)
{
	struct h2d_io_ops io = h2d_io_system;

	left = 1 << 20;
	load("null");
	CHECK(report.staging_bytes <= 4 << 20);
	CHECK(strstr(reason, "do not fit into the memory that is left") != NULL);
	/* Nobody can tell what is cached: with room through the cache, else not. */
	io.cachestat = no_cachestat;
	h2d_io = &io;
	load("null");
	CHECK(strstr(reason, "cached pages are given back") != NULL);
	CHECK(!strstr(reason, "cache state unknown"));
	left = UINT64_C(1) << 38;
	load("null");
	CHECK(strstr(reason, "cache state unknown") != NULL);
	CHECK(!strstr(reason, "given back"));
	h2d_io = &h2d_io_system;
}

static void link_bounds_the_readers(void)
{
	on_bus = true;
	h2d_auto_link = link_of;
	left = UINT64_C(1) << 38;
	/* Gen 3 in one lane: 0.98 GB/s, whatever it runs at while it idles. */
	link_facts = (struct h2d_pci){.speed_gt_per_s = 2.5,
				      .speed_max_gt_per_s = 8,
				      .lane_count = 1,
				      .lane_max_count = 16};
	load("null");
	CHECK(strstr(reason, "the link carries 1.0 GB/s at most (8.0 GT/s x1, of more lanes it "
			     "could have)") != NULL);
	CHECK(report.threads <= 2);
	CHECK(strstr(told, "device null, link now 2.5 GT/s x1, link at most 8.0 GT/s x16; ") !=
	      NULL);
	threads = 3; /* who names a number gets it */
	load("null");
	CHECK_EQ(report.threads, 3);
	threads = 0;
	/* Gen 5 in sixteen: as many as there are. */
	link_facts = (struct h2d_pci){.speed_gt_per_s = 32, .lane_count = 16};
	load("null");
	CHECK(strstr(reason, "63.0 GB/s at most") != NULL);
	CHECK(!strstr(reason, "keep the link busy"));
	link_facts = (struct h2d_pci){.speed_gt_per_s = 5}; /* lanes unknown */
	load("null");
	CHECK(strstr(told, "device null, link now 5.0 GT/s; ") != NULL);
	CHECK(!strstr(reason, "the link carries"));
	CHECK_EQ(h2d_pci_bytes_per_s(2.5, 4), 1000000000);
	CHECK_EQ(h2d_pci_bytes_per_s(0, 16), 0);
	on_bus = false;
}

static void next_to_nothing(void)
{
	static const struct extent e[] = {{0, 1000}, {5000, 3}};
	struct fixture saved = f;

	REQUIRE(!fixture_open(&f, 8000, e, 2));
	left = UINT64_C(1) << 38;
	load("null");
	CHECK(strstr(reason, "less than 256 KiB in all") != NULL);
	CHECK_STR(report.path_used, "pinned");
	fixture_close(&f);
	f = saved;
}

int main(void)
{
	static const struct extent e[] = {{1000, 3000000}, {3001000, 7}};

	if (fixture_open(&f, 3001007, e, 2)) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	h2d_auto_room = room;
	RUN(plenty);
	RUN(room_for_the_weights_only);
	RUN(less_than_the_checkpoint);
	RUN(link_bounds_the_readers);
	RUN(next_to_nothing);
	fixture_close(&f);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file is truncated, rewritten, replaced or removed at each step of a load, by every path,
 * under mappings too: the load fails, the process lives, and no wrong byte is called right.
 */
#include <sys/mman.h>
#include <sys/stat.h>

#include "faults.h"

static struct fixture f;
static char spare[160]; /* an equal file to replace it with */

enum change { TRUNCATE, REWRITE, REPLACE, REMOVE, APPEND, CHANGES };

static struct {
	enum change what;
	uint64_t at, calls;
	bool made;
} plan;

static void change_file(void)
{
	static const unsigned char other[4096] = {1};
	int fd;

	plan.made = true;
	switch (plan.what) {
	case TRUNCATE:
		CHECK_EQ(truncate(f.path, 4096 * 3), 0);
		break;
	case REWRITE:
		fd = open(f.path, O_WRONLY | O_CLOEXEC);
		CHECK_EQ(pwrite(fd, other, sizeof(other), 300000), sizeof(other));
		close(fd);
		break;
	case REPLACE:
		CHECK_EQ(rename(spare, f.path), 0);
		break;
	case REMOVE:
		CHECK_EQ(unlink(f.path), 0);
		break;
	default:
		fd = open(f.path, O_WRONLY | O_APPEND | O_CLOEXEC);
		CHECK_EQ(write(fd, "x", 1), 1);
		close(fd);
	}
}

static int on_progress(void *user, uint64_t done, uint64_t total)
{
	(void)user;
	plan.calls++;
	if (!plan.made && (plan.calls == plan.at || done == total))
		change_file();
	return 0;
}

/* The file as it was when the checkpoint was made, and a checkpoint of it. */
static int restore(void)
{
	const size_t count = sizeof(fault_extents) / sizeof(fault_extents[0]);
	struct h2d_file *file;

	h2d_checkpoint_close(f.ckpt);
	f.ckpt = NULL;
	if (fixture_write(f.path, FAULT_FILE_BYTES) ||
	    (access(spare, F_OK) && fixture_write(spare, FAULT_FILE_BYTES)))
		return -1;
	/* Kernels before 6.13 stamp files by the clock tick: let one pass. */
	nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	f.ckpt = fixture_checkpoint(&f);
	file = h2d_catalogue_add_file(&f.ckpt->cat);
	if (h2d_file_open(file, f.path, &f.ckpt->log))
		return -1;
	return fixture_add(&f.ckpt->cat, 0, fault_extents, count);
}

static void change_once(const struct way *w, enum change what, uint64_t at)
{
	struct h2d_load_opts o = fault_opts(w);
	struct h2d_device *dev;
	int rc;

	REQUIRE(!restore());
	dev = fault_device(&f, w->device, 0);
	o.progress = on_progress;
	plan.what = what;
	plan.at = at;
	plan.calls = 0;
	plan.made = false;
	rc = fault_load(&f, dev, &o, way_readable(w));
	CHECK(plan.made);
	if (rc != H2D_E_CHANGED)
		fprintf(stderr, "path %s device %s change %d at %llu: %d\n", w->path, w->device,
			what, (unsigned long long)at, rc);
	CHECK_EQ(rc, H2D_E_CHANGED);
	h2d_device_close(dev);
}

/* Before the first chunk, in the middle, and after the last byte has arrived. */
static void walk(enum change what)
{
	struct way w;

	for (unsigned i = 0; fault_way(i, &w); i++) {
		change_once(&w, what, 1);
		if (what > REWRITE)
			continue;
		change_once(&w, what, 4);
		change_once(&w, what, UINT64_MAX);
	}
}

static void truncated(void)
{
	walk(TRUNCATE);
}

static void rewritten(void)
{
	walk(REWRITE);
}

static void replaced(void)
{
	walk(REPLACE);
}

static void removed(void)
{
	walk(REMOVE);
}

static void appended(void)
{
	walk(APPEND);
}

/* Changed between opening and loading, and between loading and verifying. */
static void around_the_load(void)
{
	static const char *const all[] = {"pinned", "direct", "mmap", "eager", "view"};
	struct h2d_device *dev = fault_device(&f, "host", 0);

	for (int what = 0; what < CHANGES; what++)
		for (int p = 0; p < 5; p++) {
			struct h2d_verify_result v = H2D_OPTS(v);
			struct h2d_load_opts o = H2D_OPTS(o);
			struct h2d_weights *w = NULL;

			o.path = all[p];
			plan.what = what;
			REQUIRE(!restore());
			change_file();
			CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), H2D_E_CHANGED);
			REQUIRE(!restore());
			CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), 0);
			change_file();
			CHECK_EQ(h2d_verify(w, NULL, &v), H2D_E_CHANGED);
			h2d_weights_free(w);
		}
	h2d_device_close(dev);
}

static int change_midway(void *user, uint64_t done, uint64_t total)
{
	(void)user;
	(void)done;
	(void)total;
	if (!plan.made)
		change_file();
	return 0;
}

/* Changed after the first tensor was compared, and at no time before. */
static void while_verifying(void)
{
	static const char *const all[] = {"pinned", "mmap", "view"};
	struct h2d_device *dev = fault_device(&f, "host", 0);

	for (int what = 0; what < CHANGES; what++)
		for (int p = 0; p < 3; p++) {
			struct h2d_verify_result v = H2D_OPTS(v);
			struct h2d_load_opts o = H2D_OPTS(o), vo = H2D_OPTS(vo);
			struct h2d_weights *w = NULL;

			o.path = all[p];
			vo.progress = change_midway;
			plan.what = what;
			REQUIRE(!restore());
			REQUIRE(!h2d_load(f.ckpt, dev, &o, &w));
			plan.made = false;
			CHECK_EQ(h2d_verify(w, &vo, &v), H2D_E_CHANGED);
			CHECK(plan.made);
			h2d_weights_free(w);
		}
	h2d_device_close(dev);
}

/* Stores into pages that were dirty before move no time, so that nothing but their bytes tells
 * of them; verifying says that this may be why. */
static void through_a_dirty_mapping(void)
{
	struct h2d_device *dev = fault_device(&f, "host", 0);
	struct h2d_verify_result v = H2D_OPTS(v);
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w = NULL;
	struct h2d_file *file;
	unsigned char *map;
	int fd, rc;

	REQUIRE(!restore());
	file = &f.ckpt->cat.files[0];
	fd = open(f.path, O_RDWR | O_CLOEXEC);
	map = mmap(NULL, FAULT_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	REQUIRE(map != MAP_FAILED);
	for (uint64_t at = 0; at < FAULT_FILE_BYTES; at += 4096)
		((volatile unsigned char *)map)[at] ^= 0;
	h2d_file_close(file);
	REQUIRE(!h2d_file_open(file, f.path, &f.ckpt->log));
	o.path = "eager";
	rc = h2d_load(f.ckpt, dev, &o, &w);
	for (uint64_t at = 0; at < FAULT_FILE_BYTES; at++)
		map[at] ^= 0xff;
	rc = rc ? rc : h2d_verify(w, NULL, &v);
	if (rc == H2D_E_CHANGED) {
		printf("note: the pages were written back meanwhile\n");
	} else {
		CHECK_EQ(rc, H2D_E_MISMATCH);
		CHECK(strstr(f.last_error, "written through a mapping") != NULL);
	}
	munmap(map, FAULT_FILE_BYTES);
	h2d_weights_free(w);
	h2d_device_close(dev);
}

/* What is read back of a view comes from the file itself. */
static void reading_a_view(void)
{
	struct h2d_device *dev = fault_device(&f, "host", 0);
	struct h2d_load_opts o = H2D_OPTS(o);
	unsigned char byte;

	o.path = "view";
	for (int what = 0; what < CHANGES; what++) {
		struct h2d_weights *w = NULL;
		uint64_t size = 0, i = 0;

		plan.what = what;
		REQUIRE(!restore());
		REQUIRE(!h2d_load(f.ckpt, dev, &o, &w));
		while (i < h2d_weights_count(w) &&
		       (h2d_weights_data(w, i, NULL, NULL, &size) || !size))
			i++;
		REQUIRE(i < h2d_weights_count(w));
		CHECK_EQ(h2d_weights_read(w, i, 0, &byte, 1), 0);
		change_file();
		CHECK_EQ(h2d_weights_read(w, i, 0, &byte, 1), H2D_E_CHANGED);
		h2d_weights_free(w);
	}
	h2d_device_close(dev);
}

int main(void)
{
	if (fixture_open(&f, FAULT_FILE_BYTES, fault_extents,
			 sizeof(fault_extents) / sizeof(fault_extents[0]))) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	snprintf(spare, sizeof(spare), "%s.spare", f.path);
	faults_install();
	RUN(truncated);
	RUN(rewritten);
	RUN(replaced);
	RUN(removed);
	RUN(appended);
	RUN(around_the_load);
	RUN(while_verifying);
	RUN(through_a_dirty_mapping);
	RUN(reading_a_view);
	unlink(spare);
	fixture_close(&f);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_run_core */
/* The state file that processes under the preloaded library share with `h2d run`. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/state.h"
#include "scratch.h"
#include "test.h"

static struct h2d_run_record *claim(struct h2d_run_state *s, int pid, uint64_t inode, bool *new)
{
	struct h2d_run_record *r = h2d_run_state_claim(s, 1, pid, 8, inode, new);

	if (r && *new)
		h2d_run_state_publish(r);
	return r;
}

static size_t count(const struct h2d_run_state *s)
{
	size_t index = 0, n = 0;

	while (h2d_run_state_next(s, &index))
		n++;
	return n;
}

static void one_record_per_process_and_file(void)
{
	const char *path = scratch_path("one");
	struct h2d_run_state *s, *again;
	struct h2d_run_record *r;
	bool new;

	REQUIRE(!h2d_run_state_create(path, &s));
	CHECK_EQ(count(s), 0);
	r = claim(s, 10, 77, &new);
	REQUIRE(r && new);
	CHECK(claim(s, 10, 77, &new) == r && !new);
	CHECK(claim(s, 11, 77, &new) != r && new);
	CHECK(claim(s, 10, 78, &new) != r && new);
	CHECK(h2d_run_state_claim(s, 2, 10, 8, 77, &new) != r && new);
	CHECK_EQ(count(s), 3); /* the last one is not published */
	CHECK_EQ(h2d_run_state_create(path, &again), -EEXIST);
	REQUIRE(!h2d_run_state_open(path, &again));
	CHECK_EQ(count(again), 3);
	atomic_fetch_add(&r->fault_count, 5);
	CHECK_EQ(again->records[r - s->records].fault_count, 5);
	h2d_run_state_close(again);
	h2d_run_state_close(s);
}

static void a_full_table_says_so(void)
{
	struct h2d_run_state *s;
	size_t made = 0;
	bool new;

	REQUIRE(!h2d_run_state_create(scratch_path("full"), &s));
	for (uint64_t i = 0; i < H2D_RUN_RECORDS; i++)
		made += claim(s, 1, i, &new) && new;
	CHECK_EQ(made, H2D_RUN_RECORDS);
	CHECK(!claim(s, 1, H2D_RUN_RECORDS, &new));
	CHECK(claim(s, 1, 5, &new) && !new);
	CHECK_EQ(count(s), H2D_RUN_RECORDS);
	h2d_run_state_close(s);
}

static void processes_share_it_and_lose_nothing(void)
{
	struct h2d_run_state *s;
	size_t index = 0;
	const struct h2d_run_record *r;
	uint64_t sum = 0;

	REQUIRE(!h2d_run_state_create(scratch_path("shared"), &s));
	for (int child = 0; child < 4; child++)
		if (!fork()) {
			bool new;

			for (uint64_t i = 0; i < 500; i++) {
				struct h2d_run_record *mine = claim(s, getpid(), i, &new);

				atomic_fetch_add(&mine->mapping_bytes, i);
			}
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	while ((r = h2d_run_state_next(s, &index)))
		sum += r->mapping_bytes;
	CHECK_EQ(count(s), 4 * 500);
	CHECK_EQ(sum, 4 * 500 * 499 / 2);
	h2d_run_state_close(s);
}

static void another_file_is_refused(void)
{
	struct h2d_run_state *s;

	CHECK_EQ(h2d_run_state_open(scratch_file("small", 4096), &s), -EINVAL);
	CHECK_EQ(h2d_run_state_open(scratch_file("size", sizeof(*s)), &s), -EINVAL);
	CHECK_EQ(h2d_run_state_open(scratch_path("absent"), &s), -ENOENT);
	CHECK_EQ(h2d_run_state_open("/dev/null", &s), -EINVAL);
}

static void a_long_path_keeps_its_end(void)
{
	static struct h2d_run_record r;
	char path[1000];

	h2d_run_record_path(&r, "/models/a.safetensors");
	CHECK_STR(r.path, "/models/a.safetensors");
	CHECK_EQ(r.flags, 0);
	memset(path, 'a', sizeof(path));
	memcpy(path + sizeof(path) - 5, "/end", 5);
	h2d_run_record_path(&r, path);
	CHECK_EQ(strlen(r.path), sizeof(r.path) - 1);
	CHECK_STR(r.path + sizeof(r.path) - 5, "/end");
	CHECK_EQ(r.flags, H2D_RUN_PATH_CUT);
}

static void of_memory_it_cannot_be_cut_short(void)
{
	struct h2d_run_state *s, *again;
	char paths[128];
	bool new;
	int fd;

	REQUIRE(!h2d_run_state_create_memory(&fd, &s));
	CHECK(ftruncate(fd, 0) == -1 && errno == EPERM);
	CHECK(claim(s, 10, 77, &new) && new);
	snprintf(paths, sizeof(paths), "/nonexistent::/dev/null:/proc/%d/fd/%d:/tmp", getpid(),
		 fd);
	REQUIRE(!h2d_run_state_open_any(paths, &again));
	CHECK_EQ(count(again), 1);
	h2d_run_state_close(again);
	CHECK_EQ(h2d_run_state_open_any("", &again), -ENOENT);
	close(fd);
	h2d_run_state_close(s);
}

static void one_is_added_to_another(void)
{
	struct h2d_run_state *s, *to, *copy;
	struct h2d_run_record *r;
	const struct h2d_run_record *sum;
	size_t index = 0;
	uint64_t bytes = 0;
	bool new;
	int fd, to_fd;

	REQUIRE(!h2d_run_state_create_memory(&to_fd, &to));
	REQUIRE(!h2d_run_state_create(scratch_path("added"), &s));
	atomic_store(&to->image_count, 1);
	atomic_store(&s->image_count, 1);
	r = claim(to, 10, 77, &new);
	atomic_store(&r->mapping_bytes, 5);
	r = claim(s, 10, 77, &new);
	atomic_store(&r->mapping_bytes, 7);
	memset(r->path, 'x', sizeof(r->path)); /* from elsewhere: it need not end */
	fd = open(scratch_path("added"), O_RDWR);
	REQUIRE(fd >= 0 && !h2d_run_state_read(fd, &copy));
	h2d_run_state_add(to, copy);
	h2d_run_state_close(copy);
	CHECK_EQ(count(to), 2);
	CHECK_EQ(to->image_count, 2);
	while ((sum = h2d_run_state_next(to, &index))) {
		bytes += sum->mapping_bytes;
		CHECK_EQ(sum->path[sizeof(sum->path) - 1], 0);
	}
	CHECK_EQ(bytes, 12);
	/* Cut short, the copy has what is left; of nothing there is no copy. */
	CHECK(!ftruncate(fd, 5000) && !h2d_run_state_read(fd, &copy));
	h2d_run_state_close(copy);
	CHECK(!ftruncate(fd, 0));
	CHECK_EQ(h2d_run_state_read(fd, &copy), -EINVAL);
	close(fd);
	close(to_fd);
	h2d_run_state_close(to);
	h2d_run_state_close(s);
}

int main(void)
{
	RUN(one_record_per_process_and_file);
	RUN(a_full_table_says_so);
	RUN(processes_share_it_and_lose_nothing);
	RUN(another_file_is_refused);
	RUN(a_long_path_keeps_its_end);
	RUN(of_memory_it_cannot_be_cut_short);
	RUN(one_is_added_to_another);
	return TEST_DONE();
}

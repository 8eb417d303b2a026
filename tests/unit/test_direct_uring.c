/* SPDX-License-Identifier: Apache-2.0 */
/* The reads-only ring: attribution, faults of the ring and of completions, orderly end. */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "file/file.h"
#include "file/io.h"
#include "file/uring.h"
#include "refuse_syscall.h"
#include "scratch.h"
#include "test.h"

enum { DEPTH = 8, BLOCK = 4096, BLOCKS = 64 };

static struct h2d_io_ops ops;
static int init_error, exits, waits, submits, interruptions, busy, wait_error, fail_result;

static int init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	return init_error ? init_error : h2d_io_system.uring_init(entries, ring, flags);
}

static void done(struct io_uring *ring)
{
	exits++;
	h2d_io_system.uring_exit(ring);
}

static int submit(struct io_uring *ring)
{
	submits++;
	if (busy) {
		busy--;
		return submits % 2 ? -EBUSY : -EINTR;
	}
	return h2d_io_system.uring_submit(ring);
}

static int wait_one(struct io_uring *ring, struct io_uring_cqe **cqe)
{
	int rc;

	waits++;
	if (interruptions) {
		interruptions--;
		return -EINTR;
	}
	if (wait_error)
		return wait_error;
	rc = h2d_io_system.uring_wait(ring, cqe);
	if (!rc && fail_result && (*cqe)->user_data == 3)
		(*cqe)->res = fail_result;
	return rc;
}

static void reset(void)
{
	ops = h2d_io_system;
	ops.uring_init = init;
	ops.uring_exit = done;
	ops.uring_submit = submit;
	ops.uring_wait = wait_one;
	init_error = exits = waits = submits = interruptions = busy = wait_error = fail_result =
		0;
	h2d_io = &ops;
}

static unsigned char buf[DEPTH][BLOCK];

/* Read the whole file, DEPTH blocks at a time. @return number of wrong blocks */
static int read_file(struct h2d_uring *u, int fd)
{
	unsigned next = 0, finished = 0, wrong = 0, block_of[DEPTH];
	struct h2d_uring_done d;

	while (finished < BLOCKS) {
		while (u->in_flight < DEPTH && next < BLOCKS) {
			unsigned slot =
				next; /* a free one: the first DEPTH, then the last done */

			if (next >= DEPTH)
				slot = (unsigned)d.user;
			block_of[slot] = next;
			if (h2d_uring_read(u, fd, buf[slot], BLOCK, (uint64_t)next * BLOCK,
					   slot))
				return -1;
			next++;
		}
		if (h2d_uring_wait(u, &d, &scratch_log))
			return -1;
		if (d.user >= DEPTH || d.result != BLOCK ||
		    !scratch_same(buf[d.user], BLOCK, (uint64_t)block_of[d.user] * BLOCK))
			wrong++;
		finished++;
	}
	return (int)wrong;
}

static int open_ring(struct h2d_uring *u)
{
	const char *why;
	int rc = h2d_uring_open(u, DEPTH, &why, &scratch_log);

	CHECK((rc == H2D_E_UNSUPPORTED) == (why != NULL));
	return rc;
}

static void attribution(void)
{
	int fd = open(scratch_file("ring", BLOCKS * BLOCK), O_RDONLY);
	struct h2d_uring_done d;
	struct h2d_uring u;

	reset();
	REQUIRE(!open_ring(&u));
	CHECK_EQ(read_file(&u, fd), 0);
	CHECK_EQ(u.in_flight, 0);
	CHECK_EQ(h2d_uring_wait(&u, &d, &scratch_log), H2D_E_INVALID);
	CHECK_EQ(h2d_uring_peek(&u, &d, &scratch_log), 0);

	/* Interrupted and busy rings only take longer. */
	interruptions = 100;
	busy = 6;
	CHECK_EQ(read_file(&u, fd), 0);
	CHECK(!interruptions && !busy);

	/* Short and past the end, with its own user data. */
	REQUIRE(!h2d_uring_read(&u, fd, buf[0], BLOCK, BLOCKS * BLOCK - 10, 77));
	REQUIRE(!h2d_uring_wait(&u, &d, &scratch_log));
	CHECK(d.user == 77 && d.result == 10);
	REQUIRE(!h2d_uring_read(&u, fd, buf[0], BLOCK, BLOCKS * BLOCK, UINT64_MAX - 1));
	REQUIRE(!h2d_uring_wait(&u, &d, &scratch_log));
	CHECK(d.user == UINT64_MAX - 1 && d.result == 0);

	/* A failed read fails alone. */
	for (uint64_t i = 0; i < DEPTH; i++)
		REQUIRE(!h2d_uring_read(&u, i == 5 ? -1 : fd, buf[i], BLOCK, i * BLOCK, i));
	CHECK_EQ(h2d_uring_read(&u, fd, buf[0], BLOCK, 0, 0), H2D_E_INVALID); /* full */
	fail_result = -EIO;
	for (int i = 0; i < DEPTH; i++) {
		REQUIRE(!h2d_uring_wait(&u, &d, &scratch_log));
		CHECK_EQ(d.result, d.user == 5 ? -EBADF : d.user == 3 ? -EIO : BLOCK);
	}
	CHECK_EQ(h2d_uring_close(&u), 0);
	CHECK_EQ(exits, 1);
	CHECK_EQ(h2d_uring_close(&u), 0); /* again: nothing */
	CHECK_EQ(exits, 1);
	h2d_io = &h2d_io_system;
	close(fd);
}

static void peeking(void)
{
	int fd = open(scratch_file("peek", BLOCK), O_RDONLY), rc = 0;
	struct h2d_uring_done d = {0};
	struct h2d_uring u;

	reset();
	REQUIRE(!open_ring(&u));
	REQUIRE(!h2d_uring_read(&u, fd, buf[0], BLOCK, 0, 42));
	REQUIRE(!h2d_uring_submit(&u, &scratch_log));
	while (!rc)
		rc = h2d_uring_peek(&u, &d, &scratch_log);
	CHECK_EQ(rc, 1);
	CHECK(d.user == 42 && d.result == BLOCK);
	CHECK_EQ(h2d_uring_close(&u), 0);
	h2d_io = &h2d_io_system;
	close(fd);
}

/* Closing waits for what is in flight, and not for what was never submitted. */
static void closing(void)
{
	int fd = open(scratch_file("close", BLOCKS * BLOCK), O_RDONLY);
	struct h2d_uring u;

	reset();
	REQUIRE(!open_ring(&u));
	for (uint64_t i = 0; i < 5; i++)
		REQUIRE(!h2d_uring_read(&u, fd, buf[i], BLOCK, i * BLOCK, i));
	REQUIRE(!h2d_uring_submit(&u, &scratch_log));
	REQUIRE(!h2d_uring_read(&u, fd, buf[6], BLOCK, 0, 6));
	memset(buf[6], 9, BLOCK);
	interruptions = 2;
	CHECK_EQ(h2d_uring_close(&u), 0);
	CHECK_EQ(waits, 7);
	for (uint64_t i = 0; i < 5; i++)
		CHECK(scratch_same(buf[i], BLOCK, i * BLOCK));
	CHECK(buf[6][0] == 9 && buf[6][BLOCK - 1] == 9);

	/* A ring that fails leaves its reads behind, and says how many. */
	reset();
	REQUIRE(!open_ring(&u));
	for (uint64_t i = 0; i < 3; i++)
		REQUIRE(!h2d_uring_read(&u, fd, buf[i], BLOCK, i * BLOCK, i));
	wait_error = -EBADF;
	{
		struct h2d_uring_done d;

		CHECK_EQ(h2d_uring_wait(&u, &d, &scratch_log), H2D_E_IO);
	}
	CHECK_EQ(h2d_uring_close(&u), 3);
	CHECK_EQ(exits, 1);

	/* Neither a ring that refuses for ever nor one that is interrupted for ever hangs. */
	reset();
	REQUIRE(!open_ring(&u));
	REQUIRE(!h2d_uring_read(&u, fd, buf[0], BLOCK, 0, 0));
	busy = 1 << 30;
	CHECK_EQ(h2d_uring_submit(&u, &scratch_log), H2D_E_IO);
	CHECK_EQ(h2d_uring_close(&u), 0);
	h2d_io = &h2d_io_system;
	close(fd);
}

static void reasons(void)
{
	static const struct {
		int err;
		const char *why;
	} cases[] = {
		{-ENOSYS, "no io_uring"}, {-EPERM, "io_uring_disabled"},
		{-EACCES, "seccomp"},	  {-ENOMEM, "memlock"},
		{-EMFILE, "open files"},  {-EINVAL, "cannot be set up"},
	};
	struct h2d_uring u;
	const char *why;

	reset();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		init_error = cases[i].err;
		CHECK_EQ(h2d_uring_open(&u, DEPTH, &why, &scratch_log), H2D_E_UNSUPPORTED);
		CHECK(why && strstr(why, cases[i].why));
		CHECK_EQ(h2d_uring_close(&u), 0);
	}
	CHECK_EQ(exits, 0);
	init_error = 0;
	CHECK_EQ(h2d_uring_open(&u, 0, &why, &scratch_log), H2D_E_INVALID);
	CHECK_EQ(h2d_uring_open(&u, 32769, &why, &scratch_log), H2D_E_INVALID);
	h2d_io = &h2d_io_system;
}

/* The real refusals of container runtimes. */
static void seccomp(void)
{
	static const struct {
		int err;
		const char *why;
	} cases[] = {{EPERM, "refused"}, {ENOSYS, "no io_uring"}};

	for (size_t i = 0; i < 2; i++) {
		int status = -1;
		pid_t pid = fork();

		if (!pid) {
			const char *why = NULL;
			struct h2d_uring u;

			if (refuse_syscall(SYS_io_uring_setup, cases[i].err))
				_exit(77);
			if (h2d_uring_open(&u, DEPTH, &why, &scratch_log) != H2D_E_UNSUPPORTED)
				_exit(1);
			_exit(why && strstr(why, cases[i].why) ? 0 : 2);
		}
		waitpid(pid, &status, 0);
		CHECK(WIFEXITED(status));
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			printf("seccomp: no filters here\n");
		else
			CHECK_EQ(WEXITSTATUS(status), 0);
	}
}

int main(void)
{
	struct h2d_uring u;
	const char *why;

	RUN(reasons);
	RUN(seccomp);
	if (h2d_uring_open(&u, DEPTH, &why, &scratch_log)) {
		printf("the rest needs io_uring: %s\n", why ? why : "?");
		return TEST_DONE();
	}
	h2d_uring_close(&u);
	RUN(attribution);
	RUN(peeking);
	RUN(closing);
	return TEST_DONE();
}

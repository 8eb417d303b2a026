/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept read-only, and every way to write there: the program's own code, the kernel for
 * it, and the program's children. */
#include <pthread.h>
#include <poll.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "under.h"

static void kept_and_left(void)
{
	int fd = open(under_file, O_RDWR);
	unsigned char *kept = under_map(under_file, UNDER_FILE_BYTES), *p;

	REQUIRE(kept && fd >= 0);
	CHECK_STR(under_permissions(kept), "r--p");
	CHECK(under_same(kept, 0, UNDER_FILE_BYTES));
	/* Too small, shared, anonymous, not a checkpoint, executable, read-only: as asked. */
	p = under_map(under_file, MIB - 4096);
	CHECK_STR(under_permissions(p), "rw-p");
	p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK_STR(under_permissions(p), "rw-s");
	p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_STR(under_permissions(p), "rw-p");
	p = under_map(under_plain, UNDER_FILE_BYTES);
	CHECK_STR(under_permissions(p), "rw-p");
	p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, fd, 0);
	CHECK_STR(under_permissions(p), "rwxp");
	p = mmap(NULL, 4 * MIB, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK_STR(under_permissions(p), "r--p");
	/* From the middle of the file, and the large-file name of the call. */
	p = mmap64(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 3 * MIB);
	CHECK_STR(under_permissions(p), "r--p");
	CHECK(p[5] == under_byte(3 * MIB + 5));
	close(fd);
}

static void look_kept_and_left(struct h2d_run_state *s)
{
	CHECK_EQ(UNDER_SUM(s, mapping_count), 2);
	CHECK_EQ(UNDER_SUM(s, mapping_bytes), UNDER_FILE_BYTES + 2 * MIB);
	CHECK_EQ(UNDER_SUM(s, opened_bytes), 0);
	CHECK(atomic_load(&s->added_syscall_count) > 0);
}

static void by_pattern(void)
{
	CHECK_STR(under_permissions(under_map(under_plain, UNDER_FILE_BYTES)), "r--p");
}

static void look_by_pattern(struct h2d_run_state *s)
{
	CHECK_EQ(UNDER_SUM(s, mapping_count), 1);
	CHECK_EQ(UNDER_SUM(s, flags), H2D_RUN_BY_PATTERN);
}

static void one_write_opens_one_block(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);

	REQUIRE(p);
	p[5 * MIB] = 1;
	CHECK_STR(under_permissions(p), "r--p");
	CHECK_STR(under_permissions(p + 5 * MIB), "rw-p");
	CHECK(p[5 * MIB] == 1 && under_same(p, 0, 5 * MIB));
	CHECK(under_same(p, 5 * MIB + 1, 7 * MIB - 1));
}

static void look_one(struct h2d_run_state *s)
{
	CHECK_EQ(UNDER_SUM(s, fault_count), 1);
	CHECK_EQ(UNDER_SUM(s, written_page_count), 1);
	CHECK(UNDER_SUM(s, opened_bytes) <= 2 * MIB);
	CHECK_EQ(UNDER_SUM(s, counted_bytes), UNDER_SUM(s, opened_bytes));
}

static void whole(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);

	REQUIRE(p);
	memset(p, 0x5a, UNDER_FILE_BYTES);
	for (size_t i = 0; i < UNDER_FILE_BYTES; i++)
		if (p[i] != 0x5a) {
			CHECK(0);
			break;
		}
	CHECK(!munmap(p, UNDER_FILE_BYTES));
}

static void look_whole(struct h2d_run_state *s)
{
	CHECK_EQ(UNDER_SUM(s, written_page_count) * s->page_bytes, UNDER_FILE_BYTES);
	CHECK_EQ(UNDER_SUM(s, opened_bytes), UNDER_FILE_BYTES);
	CHECK(UNDER_SUM(s, fault_count) <= UNDER_FILE_BYTES / (2 * MIB) + 1);
}

static void strided(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);
	size_t wrong = 0;

	REQUIRE(p);
	for (size_t i = 0; i < UNDER_FILE_BYTES; i += 8192 + 64)
		p[i] ^= 0xff;
	for (size_t i = 0; i < UNDER_FILE_BYTES; i++)
		wrong += p[i] != (under_byte(i) ^ (i % (8192 + 64) ? 0 : 0xff));
	CHECK_EQ(wrong, 0);
}

static unsigned char *shared;
static pthread_barrier_t start;

static void *write_mine(void *user)
{
	size_t me = (size_t)user;

	pthread_barrier_wait(&start);
	/* All threads in the same blocks, each in bytes of its own. */
	for (size_t i = me; i < UNDER_FILE_BYTES; i += 8 * 509)
		__atomic_store_n(&shared[i], (unsigned char)me, __ATOMIC_RELAXED);
	return NULL;
}

static void from_several_threads(void)
{
	pthread_t threads[8];

	for (int round = 0; round < 20; round++) {
		shared = under_map(under_file, UNDER_FILE_BYTES);
		REQUIRE(shared);
		pthread_barrier_init(&start, NULL, 8);
		for (size_t i = 0; i < 8; i++)
			pthread_create(&threads[i], NULL, write_mine, (void *)i);
		for (size_t i = 0; i < 8; i++)
			pthread_join(threads[i], NULL);
		for (size_t me = 0; me < 8; me++)
			for (size_t i = me; i < UNDER_FILE_BYTES; i += 8 * 509)
				if (shared[i] != me) {
					CHECK(0);
					return;
				}
		munmap(shared, UNDER_FILE_BYTES);
	}
}

static void after_fork(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);
	int status = -1;
	pid_t pid;

	REQUIRE(p);
	p[100] = 1;
	pid = fork();
	if (!pid) {
		p[100]++;
		p[4 * MIB] = 9;
		memset(p + 8 * MIB, 3, MIB);
		_exit(p[100] == 2 && p[4 * MIB] == 9 && p[9 * MIB - 1] == 3 ? 0 : 1);
	}
	p[6 * MIB] = 7;
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(p[100] == 1 && p[6 * MIB] == 7);
	CHECK(under_same(p, 4 * MIB, MIB) && under_same(p, 8 * MIB, MIB));
	p[4 * MIB] = 5;
	CHECK(p[4 * MIB] == 5);
}

static void look_after_fork(struct h2d_run_state *s)
{
	size_t index = 0, records = 0, inherited = 0;
	const struct h2d_run_record *r;

	while ((r = h2d_run_state_next(s, &index))) {
		records++;
		inherited += atomic_load(&r->flags) & H2D_RUN_INHERITED ? 1 : 0;
		CHECK_EQ(atomic_load(&r->mapping_count), 1);
		CHECK_EQ(atomic_load(&r->counted_bytes), atomic_load(&r->opened_bytes));
	}
	CHECK_EQ(records, 2);
	CHECK_EQ(inherited, 1);
}

static void threads_while_forking(void)
{
	pthread_t thread;

	pthread_barrier_init(&start, NULL, 2);
	for (int round = 0; round < 30; round++) {
		int status = -1;
		pid_t pid;

		shared = under_map(under_file, UNDER_FILE_BYTES);
		REQUIRE(shared);
		pthread_create(&thread, NULL, write_mine, (void *)3);
		pthread_barrier_wait(&start);
		pid = fork();
		if (!pid) {
			alarm(20);
			memset(shared, 1, UNDER_FILE_BYTES);
			_exit(munmap(shared, UNDER_FILE_BYTES));
		}
		CHECK(waitpid(pid, &status, 0) == pid && !status);
		pthread_join(thread, NULL);
		CHECK(shared[3] == 3 && !munmap(shared, UNDER_FILE_BYTES));
	}
}

static unsigned char *in_handlers;

static void map_and_write(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);

	in_handlers[(size_t)(1 + getpid() % 2) * 3 * MIB] = 1;
	p[5 * MIB] = 1;
	CHECK(p[5 * MIB] == 1 && !munmap(p, UNDER_FILE_BYTES));
}

static void other_handlers_of_fork(void)
{
	int status = -1;
	pid_t pid;

	alarm(20);
	in_handlers = under_map(under_file, UNDER_FILE_BYTES);
	REQUIRE(in_handlers && !pthread_atfork(map_and_write, map_and_write, map_and_write));
	pid = fork();
	if (!pid)
		_exit(test_failures);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	pid = _Fork();
	if (!pid) {
		map_and_write();
		_exit(test_failures);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

static void vfork_and_exec(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);
	int status = -1;
	pid_t pid;

	REQUIRE(p);
	p[1] = 1;
	pid = vfork();
	if (!pid) {
		execl("/bin/sh", "sh", "-c", "exit 3", NULL);
		_exit(1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
	pid = vfork();
	if (!pid)
		_exit(4);
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 4);
	p[4 * MIB] = 1;
	CHECK(p[1] == 1 && p[4 * MIB] == 1);
}

static void look_vfork(struct h2d_run_state *s)
{
	CHECK_EQ(UNDER_SUM(s, written_page_count), 2);
	CHECK_EQ(UNDER_SUM(s, fault_count), 2);
}

/* What came from the file at 1 MiB now lies at `at`. */
static void arrived(const unsigned char *p, size_t at, size_t bytes, const char *how)
{
	int same = 1;

	for (size_t i = 0; i < bytes; i++)
		same = same && p[at + i] == under_byte(MIB + i);
	if (!same)
		fprintf(stderr, "by %s\n", how);
	CHECK(same);
}

static void by_the_kernel(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);
	struct iovec two[2];
	int fd = open(under_file, O_RDONLY), pair[2], small = 0;
	struct msghdr m = {.msg_iov = two, .msg_iovlen = 2};
	FILE *f = fopen(under_file, "r");

	REQUIRE(p && fd >= 0 && f && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	CHECK_EQ(pread(fd, p + 2 * MIB - 5000, 10000, MIB), 10000);
	arrived(p, 2 * MIB - 5000, 10000, "pread");
	lseek(fd, MIB, SEEK_SET);
	CHECK_EQ(read(fd, p + 3 * MIB, 100000), 100000);
	arrived(p, 3 * MIB, 100000, "read");
	two[0] = (struct iovec){p + 4 * MIB, 4096};
	two[1] = (struct iovec){p + 7 * MIB, 4096};
	CHECK_EQ(preadv(fd, two, 2, MIB), 8192);
	arrived(p, 4 * MIB, 4096, "preadv");
	fseek(f, MIB, SEEK_SET);
	CHECK_EQ(fread(p + 8 * MIB, 1000, 500, f), 500);
	fclose(f);
	f = fopen(under_file, "r");
	setvbuf(f, (char *)p + 11 * MIB + 8192, _IOFBF, 65536);
	CHECK(!fseek(f, MIB, SEEK_SET) && fgetc(f) == under_byte(MIB));
	setbuf(f, NULL);
	arrived(p, 8 * MIB, 500000, "fread");
	CHECK_EQ(write(pair[0], p + MIB, 30000), 30000);
	CHECK_EQ(recv(pair[1], p + 9 * MIB, 10000, MSG_WAITALL), 10000);
	arrived(p, 9 * MIB, 10000, "recv");
	two[0].iov_base = p + 10 * MIB;
	two[1].iov_base = p + 10 * MIB + 4096;
	CHECK_EQ(recvmsg(pair[1], &m, MSG_WAITALL), 8192);
	CHECK(p[10 * MIB] == under_byte(MIB + 10000));
	CHECK_EQ(getrandom(p + 11 * MIB, 64, 0), 64);
	for (int i = 0; i < 64; i++)
		small += p[11 * MIB + i] == under_byte(11 * MIB + (size_t)i);
	CHECK(small < 16);
	/* Nothing else changed. */
	CHECK(under_same(p, 0, 2 * MIB - 5000) && under_same(p, 5 * MIB, 2 * MIB));
	close(fd);
	fclose(f);
}

static void look_by_the_kernel(struct h2d_run_state *s)
{
	CHECK(UNDER_SUM(s, kernel_open_count) >= 4);
	/* Only the program's own code faults; socket and getrandom wrote through calls. */
	CHECK_EQ(UNDER_SUM(s, fault_count), 0);
}

/* What a message brings besides its bytes: who sent it, lengths and flags. */
static void heads_of_messages(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);
	struct sockaddr_un name = {.sun_family = AF_UNIX}, *from = (void *)(p + 2 * MIB);
	struct mmsghdr *both = (void *)(p + 8 * MIB);
	socklen_t *length = (void *)(p + 5 * MIB);
	struct msghdr *m = (void *)(p + 11 * MIB);
	int to = socket(AF_UNIX, SOCK_DGRAM, 0), by = socket(AF_UNIX, SOCK_DGRAM, 0);
	char text[8];
	struct iovec v = {text, sizeof(text)};
	size_t bytes;

	REQUIRE(p && to >= 0 && by >= 0);
	bytes = sizeof(sa_family_t) + 1 +
		(size_t)snprintf(name.sun_path + 1, 60, "h2d-run-to-%d", getpid());
	REQUIRE(!bind(to, (void *)&name, (socklen_t)bytes));
	REQUIRE(!connect(by, (void *)&name, (socklen_t)bytes));
	name.sun_path[sizeof("h2d-run") + 1] = 'b';
	REQUIRE(!bind(by, (void *)&name, (socklen_t)bytes));
	for (int i = 0; i < 4; i++)
		REQUIRE(send(by, "word", 4, 0) == 4);
	*length = sizeof(*from);
	CHECK_EQ(recvfrom(to, text, sizeof(text), 0, (void *)from, length), 4);
	CHECK(*length == bytes && !memcmp(from, &name, bytes));
	memset(m, 0, sizeof(*m));
	m->msg_iov = &v;
	m->msg_iovlen = 1;
	CHECK_EQ(recvmsg(to, m, 0), 4);
	memset(both, 0, 2 * sizeof(*both));
	both[0].msg_hdr = both[1].msg_hdr = *m;
	CHECK_EQ(recvmmsg(to, both, 2, 0, NULL), 2);
	CHECK(both[0].msg_len == 4 && both[1].msg_len == 4 && !memcmp(text, "word", 4));
	close(to);
	close(by);
}

/* A pointer that leads nowhere is EFAULT, as without us. */
static void bad_pointers(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);
	unsigned char *room =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *bad[] = {(void *)8, room + 4096, room + 4096 - 4};
	const struct timespec now = {0};
	int fd = open(under_file, O_RDONLY), pair[2], poll_fd = epoll_create1(0);
	struct epoll_event event;

	REQUIRE(p && room != MAP_FAILED && fd >= 0);
	REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && write(pair[1], "x", 1) == 1);
	REQUIRE(!munmap(room + 4096, 4096));
#define REFUSED(call) CHECK((errno = 0, (call) == -1 && errno == EFAULT))
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		REFUSED(readv(fd, bad[i], 3));
		REFUSED(preadv(fd, bad[i], 3, 0));
		REFUSED(recvmsg(pair[0], bad[i], 0));
		REFUSED(ppoll(NULL, 0, &now, bad[i]));
		REFUSED(pselect(0, NULL, NULL, NULL, &now, bad[i]));
		REFUSED(epoll_pwait(poll_fd, &event, 1, 0, bad[i]));
		REFUSED(sigsuspend(bad[i]));
	}
	/* The last mask that can be read is read. */
	CHECK_EQ(ppoll(NULL, 0, &now, (void *)(room + 4096 - 8)), 0);
	CHECK_STR(under_permissions(p), "r--p");
}

extern char **environ;

static void by_posix_spawn(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);
	char *argv[] = {(char[]){"true"}, NULL};
	pid_t *pid = (pid_t *)(p + 4096);
	int status = -1;

	REQUIRE(p);
	CHECK_EQ(posix_spawn(pid, "/bin/true", NULL, NULL, argv, environ), 0);
	CHECK(waitpid(*pid, &status, 0) == *pid && !status);
	pid = (pid_t *)(p + 8 * MIB);
	CHECK_EQ(posix_spawnp(pid, "true", NULL, NULL, argv, environ), 0);
	CHECK(waitpid(*pid, &status, 0) == *pid && !status);
}

static void at_the_end_of_exec(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);

	REQUIRE(p);
	p[0] = 1;
	execl("/bin/true", "true", NULL);
	CHECK(0);
}

static void look_exec(struct h2d_run_state *s)
{
	CHECK_EQ(UNDER_SUM(s, fault_count), 1);
	CHECK_EQ(atomic_load(&s->image_count), 2);
}

static void by_exit_without_destructors(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);

	REQUIRE(p);
	p[0] = 1;
	_exit(0);
}

static const struct under_case cases[] = {
	{"kept_and_left", kept_and_left, look_kept_and_left, 0, NULL},
	{"by_pattern", by_pattern, look_by_pattern, 0, "*.safetensors:under-*.plain"},
	{"one_write_opens_one_block", one_write_opens_one_block, look_one, 0, NULL},
	{"whole", whole, look_whole, 0, NULL},
	{"strided", strided, NULL, 0, NULL},
	{"from_several_threads", from_several_threads, NULL, 0, NULL},
	{"after_fork", after_fork, look_after_fork, 0, NULL},
	{"threads_while_forking", threads_while_forking, NULL, 0, NULL},
	{"other_handlers_of_fork", other_handlers_of_fork, NULL, 0, NULL},
	{"vfork_and_exec", vfork_and_exec, look_vfork, 0, NULL},
	{"by_the_kernel", by_the_kernel, look_by_the_kernel, 0, NULL},
	{"heads_of_messages", heads_of_messages, NULL, 0, NULL},
	{"bad_pointers", bad_pointers, NULL, 0, NULL},
	{"by_posix_spawn", by_posix_spawn, NULL, 0, NULL},
	{"at_the_end_of_exec", at_the_end_of_exec, look_exec, 0, NULL},
	{"by_exit_without_destructors", by_exit_without_destructors, look_one, 0, NULL},
};

UNDER_MAIN(cases)

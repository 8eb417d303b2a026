/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators that map for themselves and define malloc, as programs load them: before us,
 * behind us, and opened while the program runs, for all symbols or for their own only. */
#include <dlfcn.h>
#include <pthread.h>

#include "under.h"

static void *(*take)(size_t);
static void (*give)(void *);

/* Sizes from small to such that are mapped. */
static void churn(unsigned seed)
{
	enum { SLOTS = 64 };
	unsigned char *slot[SLOTS] = {0};
	size_t bytes[SLOTS];

	for (unsigned i = 0; i < 3000; i++) {
		unsigned at = (seed = seed * 1103515245u + 12345u) >> 16 & (SLOTS - 1);

		if (slot[at]) {
			CHECK(slot[at][0] == (unsigned char)at &&
			      slot[at][bytes[at] - 1] == (unsigned char)at);
			give(slot[at]);
			slot[at] = NULL;
			continue;
		}
		bytes[at] = i % 50 ? 1 + seed % 5000 : MIB + seed % (8 * MIB);
		slot[at] = take(bytes[at]);
		REQUIRE(slot[at]);
		slot[at][0] = slot[at][bytes[at] - 1] = (unsigned char)at;
	}
	for (unsigned at = 0; at < SLOTS; at++)
		give(slot[at]);
}

static unsigned char *map;
static int kept = 1; /* somebody before us may map past us: then nothing is kept, nor wrong */

static void *churn_and_write(void *user)
{
	size_t me = (size_t)user;

	churn((unsigned)me);
	for (size_t at = me; at < UNDER_FILE_BYTES; at += 65536)
		map[at] = (unsigned char)me;
	churn((unsigned)me + 7);
	return NULL;
}

/* Kept mappings come and go between the allocator's own, are written to by threads and by a
 * child, and freed memory is used for what follows. */
static void use(void)
{
	pthread_t threads[3];
	int status = -1;
	pid_t pid;

	for (int round = 0; round < 3; round++) {
		map = under_map(under_file, UNDER_FILE_BYTES);
		REQUIRE(map);
		CHECK_STR(under_permissions(map), kept ? "r--p" : "rw-p");
		for (size_t i = 0; i < 3; i++)
			pthread_create(&threads[i], NULL, churn_and_write, (void *)(i + 20));
		pid = fork();
		if (!pid) {
			churn(3);
			map[5 * MIB + 1] = 9;
			churn(4);
			_exit(test_failures || map[5 * MIB + 1] != 9);
		}
		CHECK(waitpid(pid, &status, 0) == pid && !status);
		for (size_t i = 0; i < 3; i++)
			pthread_join(threads[i], NULL);
		for (size_t i = 20; i < 23; i++)
			CHECK(map[i] == i && map[11 * MIB + i] == i);
		CHECK(map[5 * MIB + 1] == under_byte(5 * MIB + 1));
		CHECK(!munmap(map, UNDER_FILE_BYTES));
		churn(99);
	}
}

static int is_loaded(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int found = 0;

	/* The file may have a longer name: without its last number. */
	while (f && fgets(line, sizeof(line), f))
		found = found || strstr(line, name);
	if (f)
		fclose(f);
	return found;
}

static void preloaded(void)
{
	const char *name = getenv("TEST_ALLOCATOR");

	if (!is_loaded(name))
		SKIP("not installed");
	take = malloc;
	give = free;
	use();
}

/* tcmalloc before 2.16 has an mmap() of its own, which makes the system call. */
static void preloaded_before(void)
{
	void *p = dlsym(RTLD_DEFAULT, "mmap");
	Dl_info where;

	kept = dladdr(p, &where) && strstr(where.dli_fname, "h2d-readonly");
	if (!kept)
		CHECK(strstr(where.dli_fname, "tcmalloc"));
	preloaded();
}

static void opened(int flags)
{
	void *object = dlopen(getenv("TEST_ALLOCATOR"), RTLD_NOW | flags);
	void *p;

	/* An allocator may want its thread data in a space that is small. */
	if (!object)
		SKIP(dlerror());
	p = dlsym(object, "malloc");
	memcpy(&take, &p, sizeof(p));
	p = dlsym(object, "free");
	memcpy(&give, &p, sizeof(p));
	REQUIRE(take && give);
	use();
}

static void opened_global(void)
{
	opened(RTLD_GLOBAL);
}

static void opened_deep(void)
{
	opened(RTLD_LOCAL | RTLD_DEEPBIND);
}

static const struct {
	const char *name;
	void (*run)(void);
	int place; /* of the allocator in LD_PRELOAD: 0 not there */
} kinds[] = {
	{"preloaded before", preloaded_before, -1},
	{"preloaded behind", preloaded, 1},
	{"opened for all", opened_global, 0},
	{"opened for itself", opened_deep, 0},
};

static const char *const allocators[] = {"libjemalloc.so.2", "libtcmalloc_minimal.so.4",
					 "libmimalloc.so.2", "libmimalloc.so.3"};

static int one(const char *self, const char *allocator, size_t kind)
{
	const int unkept = kinds[kind].place < 0 && strstr(allocator, "tcmalloc");
	const char *ours = getenv("H2D_TEST_READONLY");
	char preload[1024], number[8];
	struct h2d_run_state *s;
	int status = 0;
	pid_t pid;

	unlink(under_state);
	if (h2d_run_state_create(under_state, &s))
		return -1;
	snprintf(preload, sizeof(preload), "%s%s%s%s%s", kinds[kind].place < 0 ? allocator : "",
		 kinds[kind].place < 0 ? ":" : "", ours, kinds[kind].place > 0 ? ":" : "",
		 kinds[kind].place > 0 ? allocator : "");
	snprintf(number, sizeof(number), "%zu", kind);
	pid = fork();
	if (!pid) {
		setenv("LD_PRELOAD", preload, 1);
		setenv("TEST_ALLOCATOR", allocator, 1);
		/* Room for thread data of what is opened late: jemalloc wants more than there
		 * is. */
		setenv("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=16384", 1);
		setenv(H2D_RUN_STATE_ENV, under_state, 1);
		alarm(60);
		execl(self, self, number, under_file, NULL);
		_exit(126);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		h2d_run_state_close(s);
		return 77;
	}
	CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), 0);
	CHECK(unkept || UNDER_SUM(s, mapping_count) >= 3);
	CHECK(unkept || UNDER_SUM(s, fault_count) >= 3 * 6);
	h2d_run_state_close(s);
	return 0;
}

int main(int argc, char **argv)
{
	char self[512];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	size_t found = 0;

	if (argc == 3) {
		snprintf(under_file, sizeof(under_file), "%s", argv[2]);
		kinds[atoi(argv[1])].run();
		return test_failures ? 1 : 0;
	}
	if (!getenv("H2D_TEST_READONLY") || length < 0)
		SKIP("H2D_TEST_READONLY is not set");
	self[length] = 0;
	snprintf(under_file, sizeof(under_file), "allocators-%d.bin", getpid());
	snprintf(under_state, sizeof(under_state), "allocators-%d.state", getpid());
	atexit(under_remove);
	under_make(under_file, 1);
	for (size_t i = 0; i < sizeof(allocators) / sizeof(allocators[0]); i++) {
		for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
			int before = test_failures, rc;

			/* Opened, mimalloc 3 itself hangs in a child of a process with
			 * threads: 6 of 30 times without us. */
			if (!kinds[kind].place && strstr(allocators[i], "mimalloc.so.3"))
				continue;
			rc = one(self, allocators[i], kind);
			found += rc != 77;
			printf("%s %s, %s\n",
			       rc == 77				? "skip"
			       : test_failures == before && !rc ? "ok  "
								: "FAIL",
			       allocators[i], kinds[kind].name);
		}
	}
	if (!found)
		SKIP("neither jemalloc nor tcmalloc nor mimalloc is installed");
	return TEST_DONE();
}

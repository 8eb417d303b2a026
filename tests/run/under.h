/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file under.h
 * A program that starts itself under the preloaded library, once per case, and looks at what
 * the library told about it. In a case, CHECK and REQUIRE work as elsewhere.
 */
#ifndef H2D_TEST_UNDER_H
#define H2D_TEST_UNDER_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/state.h"
#include "test.h"

#define MIB (1024 * 1024)

enum { UNDER_FILE_BYTES = 12 * MIB };

/* Where the file with a checkpoint's head lies, and its state. */
static char under_file[64], under_plain[64], under_state[64];

struct under_case {
	const char *name;
	void (*run)(void);		       /* in the child */
	void (*look)(struct h2d_run_state *s); /* in the parent, afterwards; may be NULL */
	int signal;			       /* that must end it; 0: it exits with 0 */
	const char *pattern;		       /* for H2D_RUN_PATTERN; may be NULL */
};

static inline unsigned char under_byte(size_t i)
{
	return i < 16 ? (unsigned char)"\10\0\0\0\0\0\0\0{}      "[i]
		      : (unsigned char)((i * 2654435761u) >> 13 ^ i >> 12 ^ i);
}

static inline void under_make(const char *path, int with_head)
{
	unsigned char *buf = malloc(UNDER_FILE_BYTES);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	for (size_t i = 0; i < UNDER_FILE_BYTES; i++)
		buf[i] = under_byte(i + (with_head ? 0 : 16));
	if (fd < 0 || write(fd, buf, UNDER_FILE_BYTES) != UNDER_FILE_BYTES) {
		perror(path);
		exit(1);
	}
	close(fd);
	free(buf);
}

/** Map a file as frameworks do; the caller's to unmap. */
static inline unsigned char *under_map(const char *path, size_t bytes)
{
	int fd = open(path, O_RDONLY);
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

/** Permissions of the page at `p` as /proc/self/maps has them, in a static buffer. */
static inline const char *under_permissions(const void *p)
{
	static char perms[8];
	unsigned long from, to;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");

	strcpy(perms, "none");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %4s", &from, &to, perms) == 3 &&
		    from <= (unsigned long)p && (unsigned long)p < to)
			break;
		else
			strcpy(perms, "none");
	if (f)
		fclose(f);
	return perms;
}

/** Whether [at, at + bytes) of a mapping of the whole file is as in the file. */
static inline int under_same(const unsigned char *map, size_t at, size_t bytes)
{
	for (size_t i = at; i < at + bytes; i++)
		if (map[i] != under_byte(i))
			return 0;
	return 1;
}

/** The sum over all records of one counter. */
#define UNDER_SUM(s, member)                                                                   \
	({                                                                                     \
		uint64_t under_sum = 0;                                                        \
		size_t under_index = 0;                                                        \
		const struct h2d_run_record *under_r;                                          \
		while ((under_r = h2d_run_state_next(s, &under_index)))                        \
			under_sum += atomic_load(&under_r->member);                            \
		under_sum;                                                                     \
	})

static inline void under_remove(void)
{
	unlink(under_file);
	unlink(under_plain);
	unlink(under_state);
}

static inline void under_one(const struct under_case *c, const char *self)
{
	struct h2d_run_state *s;
	int status = 0;
	pid_t pid;

	unlink(under_state);
	REQUIRE(!h2d_run_state_create(under_state, &s));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		setenv("LD_PRELOAD", getenv("H2D_TEST_READONLY"), 1);
		setenv(H2D_RUN_STATE_ENV, under_state, 1);
		setenv(H2D_RUN_REPORT_ENV, "/dev/null", 1);
		if (c->pattern)
			setenv(H2D_RUN_PATTERN_ENV, c->pattern, 1);
		execl(self, self, c->name, under_file, under_plain, NULL);
		_exit(126);
	}
	REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (c->signal)
		CHECK_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : -1, c->signal);
	else
		CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), 0);
	CHECK(atomic_load(&s->image_count) >= 1);
	if (c->look)
		c->look(s);
	h2d_run_state_close(s);
}

static inline int under_main(int argc, char **argv, const struct under_case *cases, size_t n)
{
	char self[512];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (argc == 4) {
		snprintf(under_file, sizeof(under_file), "%s", argv[2]);
		snprintf(under_plain, sizeof(under_plain), "%s", argv[3]);
		/* A child of a child is no case of its own. */
		for (size_t i = 0; i < n; i++)
			if (!strcmp(cases[i].name, argv[1]))
				cases[i].run();
		return test_failures ? 1 : 0;
	}
	if (!getenv("H2D_TEST_READONLY") || length < 0)
		SKIP("H2D_TEST_READONLY is not set");
	self[length] = 0;
	/* In the working directory: /tmp may be a tmpfs. */
	snprintf(under_file, sizeof(under_file), "under-%d.bin", getpid());
	snprintf(under_plain, sizeof(under_plain), "under-%d.plain", getpid());
	snprintf(under_state, sizeof(under_state), "under-%d.state", getpid());
	atexit(under_remove);
	under_make(under_file, 1);
	under_make(under_plain, 0);
	for (size_t i = 0; i < n; i++) {
		int before = test_failures;

		under_one(&cases[i], self);
		printf("%s %s\n", test_failures == before ? "ok  " : "FAIL", cases[i].name);
	}
	return TEST_DONE();
}

#define UNDER_MAIN(cases)                                                                      \
	int main(int argc, char **argv)                                                        \
	{                                                                                      \
		return under_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));        \
	}

#endif

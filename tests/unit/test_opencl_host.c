/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts on which drivers abort, wait for ever or fault: they are told of, and survived. */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/opencl_api.h"
#include "device/topology.h"
#include "refuse_syscall.h"
#include "test.h"

enum { NOT_HERE = 77, PATIENCE_S = 60 };

static int no_sys(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -1;
	return mount("none", "/sys", "tmpfs", 0, NULL);
}

static int no_affinity(void)
{
	return refuse_syscall(SYS_sched_getaffinity, EPERM);
}

static int small_stack(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_STACK, &r))
		return -1;
	r.rlim_cur = 64 << 10;
	return setrlimit(RLIMIT_STACK, &r);
}

/* 0: not loaded, for that reason. */
static int loads(const char *reason)
{
	struct h2d_opencl_api api;
	char why[256] = "";

	if (!h2d_opencl_load(&api, why, sizeof(why)))
		return 1;
	if (strstr(why, reason) || strstr(why, "no runtime is installed"))
		return 0;
	fprintf(stderr, "%s\n", why);
	return 2;
}

static void on(int (*spoil)(void), const char *reason)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		char model[64];
		int32_t node;

		alarm(PATIENCE_S);
		if (spoil())
			_exit(NOT_HERE);
		h2d_topology_host(&node, model, sizeof(model));
		_exit(loads(reason));
	}
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status)); /* neither by a signal, nor by the alarm's */
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
		printf("note: cannot be brought about here\n");
	else
		CHECK_EQ(WEXITSTATUS(status), 0);
}

static void without_sysfs(void)
{
	on(no_sys, "cpu0/topology cannot be read (No such file or directory)");
}

static void affinity_refused(void)
{
	on(no_affinity, "sched_getaffinity() is refused (Operation not permitted)");
}

static void stack_too_small(void)
{
	on(small_stack, "a stack of 64 KiB (RLIMIT_STACK) is too small");
}

static void as_it_is(void)
{
	char why[256] = "";

	if (!h2d_opencl_host_serves(why, sizeof(why)))
		printf("note: %s\n", why);
	else
		CHECK_STR(why, "");
}

int main(void)
{
	RUN(without_sysfs);
	RUN(affinity_refused);
	RUN(stack_too_small);
	RUN(as_it_is);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_trace */
/* Names and ranks of processes, from what /proc says of them. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"
#include "trace/who.h"

static char root[] = "/tmp/h2d-who-XXXXXX";

static void put(int pid, const char *file, const char *data, size_t bytes)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/proc", root);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/proc/%d", root, pid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/proc/%d/%s", root, pid, file);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	REQUIRE(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
	close(fd);
}

#define PUT(pid, file, text) put(pid, file, text, sizeof(text) - 1)

static void ranks(void)
{
	struct h2d_trace_process p = {.pid = 1};

	PUT(1, "comm", "python3\n");
	PUT(1, "environ", "A=1\0XRANK=9\0RANK=12\0LOCAL_RANK=4\0RANK=13\0");
	h2d_trace_who(root, &p);
	CHECK(p.asked && p.environment_read);
	CHECK_STR(p.name, "python3");
	CHECK_EQ(p.rank, 12);
	CHECK_EQ(p.local_rank, 4);
	PUT(1, "environ", "SLURM_PROCID=7\0OMPI_COMM_WORLD_RANK=6\0SLURM_LOCALID=0");
	h2d_trace_who(root, &p);
	CHECK_EQ(p.rank, 6);
	CHECK_EQ(p.local_rank, 0);
}

static void none(void)
{
	static const char *const bad[] = {"RANK=", "RANK=-1", "RANK=1x",
					  "RANK=99999999999999999", "RANK"};
	struct h2d_trace_process p = {.pid = 2};

	PUT(2, "comm", "a name that is much longer than thirty-two bytes\n");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put(2, "environ", bad[i], strlen(bad[i]));
		h2d_trace_who(root, &p);
		CHECK(p.environment_read);
		CHECK_EQ(p.rank, -1);
		CHECK_EQ(p.local_rank, -1);
	}
	put(2, "environ", "", 0);
	h2d_trace_who(root, &p);
	CHECK_EQ(p.rank, -1);
	p = (struct h2d_trace_process){.pid = 3};
	h2d_trace_who(root, &p);
	CHECK(p.asked && !p.environment_read);
	CHECK_STR(p.name, "");
	CHECK_EQ(p.rank, -1);
}

/* Of an environment that is too long the last variable is used only if it is whole. */
static void cut(void)
{
	enum { MAX = 1 << 20 };
	static char text[MAX + 64];
	struct h2d_trace_process p = {.pid = 4};
	static const char tail[] = "LOCAL_RANK=3\0RANK=12";

	PUT(4, "comm", "python3\n");
	for (size_t past = 0; past <= sizeof(tail); past++) {
		size_t at = MAX + past - sizeof(tail);

		memset(text, 'x', sizeof(text));
		text[at - 1] = 0;
		memcpy(text + at, tail, sizeof(tail));
		put(4, "environ", text, at + sizeof(tail));
		h2d_trace_who(root, &p);
		CHECK(p.environment_read);
		CHECK_EQ(p.rank, past ? -1 : 12);
		CHECK_EQ(p.local_rank, past <= sizeof("RANK=12") ? 3 : -1);
	}
}

int main(void)
{
	char command[64];

	if (!mkdtemp(root))
		return 1;
	RUN(ranks);
	RUN(none);
	RUN(cut);
	snprintf(command, sizeof(command), "rm -r %s", root);
	CHECK_EQ(system(command), 0);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Room for memory as machines and containers account it, on trees of files made here. */
#include "device/room.h"
#include "scratch.h"
#include "test.h"

#define GIB (1ull << 30)

static void put(const char *path, const char *text)
{
	char full[512], *slash;
	FILE *out;

	snprintf(full, sizeof(full), "%s/%s", scratch_path(""), path);
	for (slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(full, 0755);
		*slash = '/';
	}
	out = fopen(full, "w");
	if (!out) {
		perror(full);
		exit(1);
	}
	fputs(text, out);
	fclose(out);
}

static struct h2d_room read_tree(const char *tree)
{
	struct h2d_room room;
	char root[512];

	snprintf(root, sizeof(root), "%s%s", scratch_path(""), tree);
	h2d_room_read_at(&room, root);
	return room;
}

static const char meminfo[] = "MemTotal:       16777216 kB\n"
			      "MemFree:         1048576 kB\n"
			      "MemAvailable:    8388608 kB\n"
			      "SwapTotal:       2097152 kB\n"
			      "SwapFree:        1048576 kB\n";

static void plain_machine(void)
{
	struct h2d_room room;

	put("plain/proc/meminfo", meminfo);
	room = read_tree("plain");
	CHECK_EQ(room.total_bytes, 16 * GIB);
	CHECK_EQ(room.available_bytes, 9 * GIB);
	CHECK_STR(room.bound, "system memory");
}

static void version_2(void)
{
	struct h2d_room room;

	put("v2/proc/meminfo", meminfo);
	put("v2/proc/self/cgroup", "0::/user.slice/job.scope\n");
	put("v2/proc/self/mountinfo",
	    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
	    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
	put("v2/sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n");
	put("v2/sys/fs/cgroup/user.slice/job.scope/memory.current", "1073741824\n");
	room = read_tree("v2");
	CHECK_EQ(room.available_bytes, 9 * GIB);

	/* The parent bounds; file pages that it holds can be given back. */
	put("v2/sys/fs/cgroup/user.slice/memory.max", "4294967296\n");
	put("v2/sys/fs/cgroup/user.slice/memory.current", "3221225472\n");
	put("v2/sys/fs/cgroup/user.slice/memory.stat",
	    "anon 5\nfile 9\nactive_file 536870912\ninactive_file 536870912\n");
	room = read_tree("v2");
	CHECK_EQ(room.total_bytes, 4 * GIB);
	CHECK_EQ(room.available_bytes, 2 * GIB + GIB); /* and the swap */
	CHECK_STR(room.bound, "the memory cgroup's limit");

	/* Full, and with nonsense in it. */
	put("v2/sys/fs/cgroup/user.slice/memory.current", "99999999999999\n");
	put("v2/sys/fs/cgroup/user.slice/memory.stat", "active_file 18446744073709551615\n");
	room = read_tree("v2");
	CHECK(room.available_bytes <= 5 * GIB);
}

static void version_1(void)
{
	struct h2d_room room;

	put("v1/proc/meminfo", meminfo);
	put("v1/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n");
	put("v1/proc/self/mountinfo",
	    "31 22 0:27 / /cg/systemd rw - cgroup cgroup rw,name=systemd\n"
	    "32 22 0:28 / /cg/memory rw - cgroup cgroup rw,memory\n");
	put("v1/cg/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
	put("v1/cg/memory/a/b/memory.usage_in_bytes", "1\n");
	put("v1/cg/memory/a/memory.limit_in_bytes", "1073741824\n");
	put("v1/cg/memory/a/memory.usage_in_bytes", "1073741824\n");
	put("v1/cg/memory/a/memory.stat",
	    "active_file 1\ntotal_active_file 0\ntotal_inactive_file 268435456\n");
	room = read_tree("v1");
	CHECK_EQ(room.total_bytes, GIB);
	CHECK_EQ(room.available_bytes, GIB / 4 + GIB);
}

/* A container's mount shows only its own part of the tree, at the top. */
static void container(void)
{
	struct h2d_room room;

	put("ct/proc/meminfo", meminfo);
	put("ct/proc/self/cgroup", "4:memory:/docker/0123/inner\n");
	put("ct/proc/self/mountinfo",
	    "32 22 0:28 /docker/0123 /cg/memory ro - cgroup cgroup ro,memory\n");
	put("ct/cg/memory/memory.limit_in_bytes", "2147483648\n");
	put("ct/cg/memory/memory.usage_in_bytes", "1073741824\n");
	put("ct/cg/memory/inner/memory.limit_in_bytes", "1610612736\n");
	put("ct/cg/memory/inner/memory.usage_in_bytes", "1073741824\n");
	room = read_tree("ct");
	CHECK_EQ(room.total_bytes, 3 * GIB / 2);
	CHECK_EQ(room.available_bytes, GIB / 2 + GIB);
}

static void nothing_readable(void)
{
	struct h2d_room room = read_tree("none");

	CHECK_EQ(room.total_bytes, 0);
	CHECK_EQ(room.available_bytes, UINT64_MAX);
	put("odd/proc/meminfo", "MemTotal: many\n");
	put("odd/proc/self/cgroup", "\n:\n0:\n::\n4:memory\n0::/../..\n");
	put("odd/proc/self/mountinfo", "\n - \n1 2 3 4\n1 2 3 / /cg rw - cgroup2 x rw\n");
	room = read_tree("odd");
	CHECK_EQ(room.available_bytes, UINT64_MAX);
}

static void this_machine(void)
{
	struct h2d_room room;

	h2d_room_read(&room);
	CHECK(room.total_bytes > 0 && room.bound);
	CHECK(h2d_room_anonymous_bytes() > 0);
}

int main(void)
{
	RUN(plain_machine);
	RUN(version_2);
	RUN(version_1);
	RUN(container);
	RUN(nothing_readable);
	RUN(this_machine);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The envelope and its environment block, on this machine and on a made-up capture. */
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cgroup.h"
#include "core/envelope.h"
#include "core/hostfs.h"
#include "test.h"

static char root[] = "/tmp/h2d-environment-XXXXXX";

static void make(const char *path, const char *text)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(full, 0700);
		*p = '/';
	}
	f = fopen(full, "w");
	if (!f || fputs(text, f) < 0 || fclose(f)) {
		perror(full);
		exit(1);
	}
}

static void make_link(const char *path, const char *target)
{
	char full[512];

	snprintf(full, sizeof(full), "%s%s", root, path);
	if (symlink(target, full)) {
		perror(full);
		exit(1);
	}
}

static void make_capture(void)
{
	make("/proc/sys/kernel/osrelease", "7.0.0-28-generic\n");
	make("/proc/sys/kernel/hostname", "secret-host\n");
	make("/proc/cmdline", "root=/dev/secret-disk quiet\n");
	make("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu sse\n");
	make("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3,8\n");
	make("/proc/self/limits", "Limit   Soft Limit Hard Limit Units\n"
				  "Max locked memory   8388608   8388608   bytes\n"
				  "Max address space   unlimited unlimited bytes\n");
	make("/proc/self/cgroup", "0::/user.slice/app.scope\n");
	make("/sys/fs/cgroup/user.slice/app.scope/memory.max", "max\n");
	make("/sys/fs/cgroup/user.slice/memory.max", "1073741824\n");
	make("/proc/meminfo", "MemTotal:   32768 kB\nMemAvailable: 1024 kB\n");
	make("/etc/os-release", "NAME=\"U\"\nID=ubuntu\nVERSION_ID=\"24.04\"\n"
				"PRETTY_NAME='Ubuntu 24.04 LTS'\n");
	make("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
	make("/sys/module/amdgpu/version", "6.16.13\n");
	make("/sys/module/amdgpu/srcversion", "ABCDEF0123456789\n");
	make("/sys/module/amdgpu/parameters/noretry", "-1\n");
	make("/sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n");
	make("/sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002\n");
	make("/sys/bus/pci/devices/0000:03:00.0/current_link_speed", "16.0 GT/s PCIe\n");
	make("/sys/bus/pci/devices/0000:03:00.0/max_link_speed", "Unknown\n");
	make("/sys/bus/pci/devices/0000:03:00.0/current_link_width", "8\n");
	make("/sys/bus/pci/devices/0000:03:00.0/numa_node", "-1\n");
	make("/sys/bus/pci/devices/0000:03:00.0/resource",
	     "0x0000000800000000 0x0000000bffffffff 0x000000000014220c\n"
	     "0x0000000000000000 0x0000000000000000 0x0000000000000000\n");
	make_link("/sys/bus/pci/devices/0000:03:00.0/driver", "../../../drivers/amdgpu");
	make("/sys/bus/pci/devices/0000:00:1f.0/class", "0x060100\n");
	make("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "4242\n");
	make("/sys/class/kfd/kfd/topology/nodes/1/properties",
	     "simd_count 64\ngfx_target_version 110000\ncapability 1\n");
	make("/sys/devices/system/node/node0/cpulist", "0-3\n");
	make("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:    2048 kB\n");
}

static json_t *document(const char *from, bool redact, const char *file)
{
	static const char *argv[] = {"h2d",
				     "load",
				     "/home/secret-user/model.gguf",
				     "--trace=/home/secret-user/t.json",
				     "--path",
				     "mmap"};
	struct h2d_tool tool = {
		.command = "load",
		.argc = 6,
		.argv = (char **)(uintptr_t)argv,
		.redact = redact,
		.root = from,
		.file = file,
	};
	struct h2d_json j;
	json_error_t e;
	json_t *doc;
	char *text;

	h2d_json_init_memory(&j, true);
	h2d_envelope_begin(&j, "h2d.test", 1, 2, &tool);
	h2d_json_object_end(&j);
	CHECK_EQ(h2d_json_finish(&j), 0);
	text = h2d_json_take(&j);
	CHECK(!redact || !strstr(text, "secret"));
	doc = json_loads(text, JSON_REJECT_DUPLICATES, &e);
	if (!doc)
		fprintf(stderr, "%s at line %d\n", e.text, e.line);
	free(text);
	return doc;
}

/* No null without a reason beside it, no reason without a null. */
static void nulls_have_reasons(json_t *v, const char *where)
{
	const char *key;
	json_t *member;
	size_t i;

	json_array_foreach(v, i, member) nulls_have_reasons(member, where);
	json_object_foreach(v, key, member)
	{
		char name[256];
		size_t n = strlen(key);
		json_t *why;

		if (n > 4 && !strcmp(key + n - 4, "_why")) {
			snprintf(name, sizeof(name), "%.*s", (int)n - 4, key);
			CHECK(json_is_null(json_object_get(v, name)));
			continue;
		}
		snprintf(name, sizeof(name), "%s_why", key);
		why = json_object_get(v, name);
		CHECK(json_is_null(member) == json_is_string(why));
		if (json_is_null(member) != json_is_string(why))
			fprintf(stderr, "%s: %s\n", where, key);
		nulls_have_reasons(member, key);
	}
}

static json_t *get(json_t *v, const char *a, const char *b)
{
	v = json_object_get(json_object_get(v, "environment"), a);
	return b ? json_object_get(v, b) : v;
}

#define TEXT(a, b)   json_string_value(get(doc, a, b))
#define NUMBER(a, b) json_integer_value(get(doc, a, b))

static void this_machine(void)
{
	json_t *doc = document(NULL, false, "/proc/self/exe");

	REQUIRE(doc);
	nulls_have_reasons(doc, "document");
	CHECK(TEXT("kernel", "release") != NULL);
	CHECK(NUMBER("memory", "total_bytes") > 1 << 20);
	CHECK(NUMBER("cpu", "allowed_count") > 0);
	CHECK(TEXT("storage", "filesystem") != NULL);
	CHECK_STR(json_string_value(json_object_get(doc, "schema")), "h2d.test");
	json_decref(doc);
}

static void nothing_there(void)
{
	json_t *doc = document("/nonexistent", false, NULL);

	REQUIRE(doc);
	nulls_have_reasons(doc, "document");
	CHECK(json_is_null(get(doc, "kernel", "release")));
	CHECK(json_is_null(get(doc, "gpus", NULL)));
	json_decref(doc);
}

static void capture(void)
{
	json_t *doc = document(root, false, NULL), *gpu;

	REQUIRE(doc);
	nulls_have_reasons(doc, "document");
	CHECK_STR(TEXT("kernel", "release"), "7.0.0-28-generic");
	CHECK_STR(TEXT("host_name", NULL), "secret-host");
	CHECK_STR(TEXT("distribution", "id"), "ubuntu");
	CHECK_STR(TEXT("distribution", "version_id"), "24.04");
	CHECK_STR(TEXT("distribution", "name"), "Ubuntu 24.04 LTS");
	CHECK_STR(TEXT("cpu", "model"), "Some CPU");
	CHECK_EQ(NUMBER("cpu", "allowed_count"), 5);
	CHECK(json_is_false(get(doc, "virtualisation", "guest")));
	CHECK_EQ(NUMBER("memory", "total_bytes"), 32 << 20);
	CHECK_EQ(NUMBER("limits", "locked_memory_bytes"), 8388608);
	CHECK_STR(TEXT("limits", "address_space_bytes_why"), "unlimited");
	/* The limit in force is that of the parent. */
	CHECK_EQ(NUMBER("cgroup", "memory_max_bytes"), 1 << 30);
	CHECK_STR(TEXT("transparent_huge_pages", "enabled"), "madvise");
	CHECK_STR(TEXT("amdgpu", "srcversion"), "ABCDEF0123456789");
	CHECK_STR(
		json_string_value(json_object_get(get(doc, "amdgpu", "parameters"), "noretry")),
		"-1");
	CHECK_EQ(json_array_size(get(doc, "gpus", NULL)), 1);
	gpu = json_array_get(get(doc, "gpus", NULL), 0);
	CHECK_STR(json_string_value(json_object_get(gpu, "driver")), "amdgpu");
	CHECK(json_real_value(json_object_get(gpu, "link_speed_gt_per_s")) == 16.0 ||
	      json_integer_value(json_object_get(gpu, "link_speed_gt_per_s")) == 16);
	CHECK(json_is_null(json_object_get(gpu, "link_speed_max_gt_per_s")));
	CHECK_EQ(json_integer_value(json_object_get(gpu, "link_lane_count")), 8);
	CHECK_EQ(json_integer_value(json_object_get(gpu, "largest_bar_bytes")), 16LL << 30);
	CHECK(json_is_null(json_object_get(gpu, "numa_node")));
	CHECK_EQ(json_integer_value(json_object_get(
			 json_array_get(get(doc, "kfd_nodes", NULL), 0), "gfx_target_version")),
		 110000);
	CHECK_EQ(json_integer_value(json_object_get(
			 json_array_get(get(doc, "numa", "nodes"), 0), "memory_bytes")),
		 2048 * 1024);
	json_decref(doc);
}

static void redaction(void)
{
	json_t *doc = document(root, true, NULL), *argv;

	REQUIRE(doc);
	nulls_have_reasons(doc, "document");
	argv = json_object_get(json_object_get(doc, "tool"), "argv");
	CHECK_STR(json_string_value(json_array_get(argv, 2)), "model.gguf");
	CHECK_STR(json_string_value(json_array_get(argv, 3)), "--trace=t.json");
	CHECK_STR(json_string_value(json_array_get(argv, 5)), "mmap");
	json_decref(doc);
	doc = document(NULL, true, "/proc/self/exe");
	REQUIRE(doc);
	nulls_have_reasons(doc, "document");
	json_decref(doc);
	CHECK_STR(h2d_redacted_path("/a/b/", true), "(redacted)");
	CHECK_STR(h2d_redacted_path("/a/b/", false), "/a/b/");
}

static void text_fields(void)
{
	char v[32];

	CHECK_EQ(h2d_text_field("AB: 1\nB: 2\n", "B", v, sizeof(v)), 1);
	CHECK_STR(v, "2");
	CHECK_EQ(h2d_text_field("B:\nC: 3", "B", v, sizeof(v)), 0);
	CHECK_EQ(h2d_text_field("BC: 1", "B", v, sizeof(v)), -2);
	CHECK_EQ(h2d_text_field("", "B", v, sizeof(v)), -2);
}

static void control_groups(void)
{
	static const char text[] =
		"\n:\n0:\n4:memory\n9:name=systemd:/\n4:cpu,memory:/a/b\n0::/c";
	char path[8];

	CHECK(h2d_text_cgroup(text, "memory", path, sizeof(path)));
	CHECK_STR(path, "/a/b");
	CHECK(h2d_text_cgroup(text, "", path, sizeof(path)));
	CHECK_STR(path, "/c");
	CHECK(!h2d_text_cgroup(text, "mem", path, sizeof(path)));
	CHECK(!h2d_text_cgroup("", "", path, sizeof(path)));
	CHECK(h2d_text_cgroup("0::/0123456789", "", path, sizeof(path)));
	CHECK_STR(path, "/012345"); /* cut */
}

static void note_group(void *user, const char *group)
{
	char *text = user;

	snprintf(text + strlen(text), 64, "[%s]", group);
}

static void groups_upward(void)
{
	struct h2d_cgroup_limit limit;
	char seen[256];

#define SEEN(group, expected)                                                                  \
	do {                                                                                   \
		seen[0] = 0;                                                                   \
		h2d_cgroup_up(group, note_group, seen);                                        \
		CHECK_STR(seen, expected);                                                     \
	} while (0)
	SEEN("/a/b", "[/a/b][/a][]");
	SEEN("/", "[]");
	SEEN("", "[]");
	SEEN("/../x", "[]");
	make("/cg/memory.max", "3000\n");
	make("/cg/a/memory.max", "1000\n");
	make("/cg/a/b/memory.max", "2000\n");
	make("/cg/a/b/c/memory.max", "max\n");
	make("/cg/legacy/memory.max", "9223372036854771712\n");
	h2d_cgroup_limit(root, "/cg", "/a/b/c", "memory.max", &limit);
	CHECK(limit.read && limit.limited);
	CHECK_EQ(limit.bytes, 1000);
	CHECK_STR(limit.group, "/a");
	h2d_cgroup_limit(root, "/cg", "/gone", "memory.max", &limit);
	CHECK(limit.limited);
	CHECK_EQ(limit.bytes, 3000);
	CHECK_STR(limit.group, "");
	h2d_cgroup_limit(root, "/cg/legacy", "/", "memory.max", &limit);
	CHECK(limit.read && !limit.limited);
	h2d_cgroup_limit(root, "/cg", "/a", "memory.high", &limit);
	CHECK(!limit.read && !limit.limited);
	CHECK_EQ(limit.error, -ENOENT);
}

int main(void)
{
	char command[64];

	if (!mkdtemp(root))
		return 1;
	make_capture();
	RUN(control_groups);
	RUN(this_machine);
	RUN(nothing_there);
	RUN(capture);
	RUN(redaction);
	RUN(text_fields);
	RUN(groups_upward);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	if (system(command))
		return 1;
	return TEST_DONE();
}

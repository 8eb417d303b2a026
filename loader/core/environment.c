/* SPDX-License-Identifier: Apache-2.0 */
#include "core/environment.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_BYTES = 4096, BIG_TEXT_BYTES = 16384 };

static const char redacted[] = "redacted";

void h2d_env_why(struct h2d_json *j, const char *key, const char *why)
{
	char name[128];

	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

void h2d_env_unknown(struct h2d_json *j, const char *key, const char *what, int err)
{
	char why[512], text[128] = "no such entry";

	if (err)
		snprintf(text, sizeof(text), "%s", strerrordesc_np(-err));
	snprintf(why, sizeof(why), "%s: %s", what, text);
	h2d_env_why(j, key, why);
}

void h2d_env_text(struct h2d_json *j, const char *root, const char *key, const char *path)
{
	char text[TEXT_BYTES];
	int n = h2d_hostfs_read(root, path, text, sizeof(text));

	if (n < 0)
		h2d_env_unknown(j, key, path, n);
	else
		h2d_json_bytes(j, key, text, (size_t)n);
}

void h2d_env_number(struct h2d_json *j, const char *root, const char *key, const char *path,
		    uint64_t unit)
{
	uint64_t value;
	int err = h2d_hostfs_u64(root, path, &value);

	if (err)
		h2d_env_unknown(j, key, path, err);
	else
		h2d_json_u64(j, key, value * unit);
}

void h2d_env_chosen(struct h2d_json *j, const char *root, const char *key, const char *path)
{
	char text[TEXT_BYTES], *begin, *end;
	int n = h2d_hostfs_read(root, path, text, sizeof(text));

	if (n < 0) {
		h2d_env_unknown(j, key, path, n);
		return;
	}
	begin = strchr(text, '[');
	end = begin ? strchr(begin, ']') : NULL;
	if (end)
		h2d_json_bytes(j, key, begin + 1, (size_t)(end - begin - 1));
	else
		h2d_json_string(j, key, text);
}

/* A field of an already read text; `unit` 0: it stays a string. */
static void field(struct h2d_json *j, const char *key, const char *text, const char *name,
		  uint64_t unit, const char *file)
{
	char value[TEXT_BYTES], what[256];
	int n = h2d_text_field(text, name, value, sizeof(value));

	snprintf(what, sizeof(what), "%s, %s", file, name);
	if (n < 0)
		h2d_env_unknown(j, key, what, 0);
	else if (unit)
		h2d_json_u64(j, key, strtoull(value, NULL, 10) * unit);
	else
		h2d_json_string(j, key, value);
}

static void write_time(struct h2d_json *j)
{
	char text[40] = "";
	time_t now = time(NULL);
	struct tm tm;

	if (gmtime_r(&now, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	h2d_json_string(j, "time_utc", text);
}

static void write_names(struct h2d_json *j, const struct h2d_environment *env)
{
	struct passwd pw, *found = NULL;
	char buf[4096];

	if (env->redact) {
		h2d_env_why(j, "host_name", redacted);
		h2d_env_why(j, "user_name", redacted);
		return;
	}
	h2d_env_text(j, env->root, "host_name", "/proc/sys/kernel/hostname");
	if (env->root)
		h2d_env_why(j, "user_name", "not part of a capture");
	else if (getpwuid_r(geteuid(), &pw, buf, sizeof(buf), &found) || !found)
		h2d_json_stringf(j, "user_name", "%u", (unsigned)geteuid());
	else
		h2d_json_string(j, "user_name", found->pw_name);
}

static void write_kernel(struct h2d_json *j, const struct h2d_environment *env)
{
	const char *root = env->root;

	h2d_json_object_begin(j, "kernel");
	h2d_env_text(j, root, "release", "/proc/sys/kernel/osrelease");
	h2d_env_text(j, root, "version", "/proc/sys/kernel/version");
	h2d_env_text(j, root, "version_signature", "/proc/version_signature");
	h2d_env_text(j, root, "machine", "/proc/sys/kernel/arch");
	if (env->redact)
		h2d_env_why(j, "cmdline", redacted);
	else
		h2d_env_text(j, root, "cmdline", "/proc/cmdline");
	h2d_env_number(j, root, "taint_flags", "/proc/sys/kernel/tainted", 1);
	h2d_env_number(j, root, "io_uring_disabled", "/proc/sys/kernel/io_uring_disabled", 1);
	h2d_json_object_end(j);
}

static void write_distribution(struct h2d_json *j, const char *root)
{
	static const char *const files[] = {"/etc/os-release", "/usr/lib/os-release"};
	char text[TEXT_BYTES];
	int n = -1;

	for (size_t i = 0; n < 0 && i < 2; i++)
		n = h2d_hostfs_read(root, files[i], text, sizeof(text));
	if (n < 0) {
		h2d_env_unknown(j, "distribution", files[0], n);
		return;
	}
	h2d_json_object_begin(j, "distribution");
	field(j, "id", text, "ID", 0, files[0]);
	field(j, "version_id", text, "VERSION_ID", 0, files[0]);
	field(j, "name", text, "PRETTY_NAME", 0, files[0]);
	h2d_json_object_end(j);
}

/* "0-3,8" -> 5 */
static uint64_t count_list(const char *list)
{
	uint64_t count = 0;

	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		count += last >= first ? last - first + 1 : 0;
		list = end + (*end == ',');
	}
	return count;
}

static void write_list(struct h2d_json *j, const char *key, const char *count_key,
		       const char *list)
{
	h2d_json_string(j, key, list);
	h2d_json_u64(j, count_key, count_list(list));
}

static void write_cpu(struct h2d_json *j, const char *root)
{
	static const char cpuinfo[] = "/proc/cpuinfo", status[] = "/proc/self/status",
			  online[] = "/sys/devices/system/cpu/online",
			  cpufreq[] = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
	char text[BIG_TEXT_BYTES], list[TEXT_BYTES];
	int n = h2d_hostfs_read(root, cpuinfo, text, sizeof(text));

	h2d_json_object_begin(j, "cpu");
	if (n < 0)
		h2d_env_unknown(j, "model", cpuinfo, n);
	else
		field(j, "model", text, "model name", 0, cpuinfo);
	n = h2d_hostfs_read(root, online, list, sizeof(list));
	if (n < 0)
		h2d_env_unknown(j, "online_list", online, n);
	else
		write_list(j, "online_list", "online_count", list);
	n = h2d_hostfs_read(root, status, text, sizeof(text));
	if (n >= 0)
		n = h2d_text_field(text, "Cpus_allowed_list", list, sizeof(list));
	if (n < 0)
		h2d_env_unknown(j, "allowed_list", status, n);
	else
		write_list(j, "allowed_list", "allowed_count", list);
	h2d_env_text(j, root, "governor", cpufreq);
	h2d_env_number(j, root, "boost", "/sys/devices/system/cpu/cpufreq/boost", 1);
	h2d_json_object_end(j);
}

static void write_memory(struct h2d_json *j, const char *root)
{
	static const char meminfo[] = "/proc/meminfo";
	char text[BIG_TEXT_BYTES];
	int n = h2d_hostfs_read(root, meminfo, text, sizeof(text));

	if (n < 0) {
		h2d_env_unknown(j, "memory", meminfo, n);
		return;
	}
	h2d_json_object_begin(j, "memory");
	field(j, "total_bytes", text, "MemTotal", 1024, meminfo);
	field(j, "available_bytes", text, "MemAvailable", 1024, meminfo);
	h2d_json_u64(j, "page_size_bytes", (uint64_t)sysconf(_SC_PAGESIZE));
	field(j, "huge_page_size_bytes", text, "Hugepagesize", 1024, meminfo);
	field(j, "huge_page_total_count", text, "HugePages_Total", 1, meminfo);
	field(j, "huge_page_free_count", text, "HugePages_Free", 1, meminfo);
	field(j, "swap_total_bytes", text, "SwapTotal", 1024, meminfo);
	field(j, "swap_free_bytes", text, "SwapFree", 1024, meminfo);
	field(j, "dirty_bytes", text, "Dirty", 1024, meminfo);
	h2d_json_object_end(j);

	h2d_json_object_begin(j, "transparent_huge_pages");
	h2d_env_chosen(j, root, "enabled", "/sys/kernel/mm/transparent_hugepage/enabled");
	h2d_env_chosen(j, root, "defrag", "/sys/kernel/mm/transparent_hugepage/defrag");
	h2d_env_chosen(j, root, "shmem", "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
	h2d_json_object_end(j);

	h2d_json_object_begin(j, "vm");
	h2d_env_number(j, root, "overcommit_mode", "/proc/sys/vm/overcommit_memory", 1);
	h2d_env_number(j, root, "swappiness", "/proc/sys/vm/swappiness", 1);
	h2d_env_number(j, root, "dirty_ratio_pct", "/proc/sys/vm/dirty_ratio", 1);
	h2d_env_number(j, root, "dirty_background_ratio_pct",
		       "/proc/sys/vm/dirty_background_ratio", 1);
	h2d_env_number(j, root, "map_max_count", "/proc/sys/vm/max_map_count", 1);
	h2d_json_object_end(j);
}

/* Soft limit of a line "Max locked memory   8388608   8388608   bytes". */
static void limit(struct h2d_json *j, const char *key, const char *text, const char *name)
{
	const char *at = strstr(text, name);
	char word[32] = "";

	if (!at || sscanf(at + strlen(name), "%31s", word) != 1)
		h2d_env_unknown(j, key, name, 0);
	else if (!strcmp(word, "unlimited"))
		h2d_env_why(j, key, "unlimited");
	else
		h2d_json_u64(j, key, strtoull(word, NULL, 10));
}

static void write_limits(struct h2d_json *j, const char *root)
{
	static const char path[] = "/proc/self/limits";
	char text[TEXT_BYTES];
	int n = h2d_hostfs_read(root, path, text, sizeof(text));

	if (n < 0) {
		h2d_env_unknown(j, "limits", path, n);
		return;
	}
	h2d_json_object_begin(j, "limits");
	limit(j, "locked_memory_bytes", text, "Max locked memory");
	limit(j, "address_space_bytes", text, "Max address space");
	limit(j, "open_file_count", text, "Max open files");
	h2d_json_object_end(j);
}

static void write_virtualisation(struct h2d_json *j, const char *root)
{
	char text[BIG_TEXT_BYTES], flags[TEXT_BYTES], padded[TEXT_BYTES + 2];
	int n = h2d_hostfs_read(root, "/proc/cpuinfo", text, sizeof(text));

	h2d_json_object_begin(j, "virtualisation");
	if (n >= 0)
		n = h2d_text_field(text, "flags", flags, sizeof(flags));
	if (n < 0) {
		h2d_env_unknown(j, "guest", "/proc/cpuinfo, flags", 0);
	} else {
		snprintf(padded, sizeof(padded), " %.*s ", (int)sizeof(padded) - 3, flags);
		h2d_json_bool(j, "guest", strstr(padded, " hypervisor "));
	}
	h2d_env_text(j, root, "system_vendor", "/sys/class/dmi/id/sys_vendor");
	h2d_env_text(j, root, "product_name", "/sys/class/dmi/id/product_name");
	h2d_env_text(j, root, "hypervisor", "/sys/hypervisor/type");
	h2d_json_object_end(j);
}

static void write_numa(struct h2d_json *j, const char *root)
{
	static const char base[] = "/sys/devices/system/node";
	char **names, path[512], text[BIG_TEXT_BYTES];
	int n = h2d_hostfs_list(root, base, &names);

	if (n < 0) {
		h2d_env_unknown(j, "numa", base, n);
		return;
	}
	h2d_json_object_begin(j, "numa");
	h2d_env_number(j, root, "balancing", "/proc/sys/kernel/numa_balancing", 1);
	h2d_json_array_begin(j, "nodes");
	for (int i = 0; i < n; i++) {
		char *at;
		unsigned node;

		if (sscanf(names[i], "node%u", &node) != 1)
			continue;
		h2d_json_object_begin(j, NULL);
		h2d_json_u64(j, "node", node);
		snprintf(path, sizeof(path), "%s/%.32s/cpulist", base, names[i]);
		h2d_env_text(j, root, "cpu_list", path);
		snprintf(path, sizeof(path), "%s/%.32s/meminfo", base, names[i]);
		h2d_hostfs_read(root, path, text, sizeof(text));
		at = strstr(text, "MemTotal");
		if (at)
			field(j, "memory_bytes", at, "MemTotal", 1024, path);
		else
			h2d_env_unknown(j, "memory_bytes", path, 0);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
	h2d_json_object_end(j);
	h2d_hostfs_list_free(names);
}

static void write_iommu(struct h2d_json *j, const char *root)
{
	static const char groups[] = "/sys/kernel/iommu_groups";
	char **names;
	int n = h2d_hostfs_list(root, groups, &names);

	h2d_json_object_begin(j, "iommu");
	if (n < 0) {
		h2d_env_unknown(j, "group_count", groups, n);
	} else {
		h2d_json_u64(j, "group_count", (uint64_t)n);
		h2d_hostfs_list_free(names);
	}
	h2d_env_text(j, root, "group_0_type", "/sys/kernel/iommu_groups/0/type");
	h2d_json_object_end(j);
}

void h2d_environment_write(struct h2d_json *j, const char *key,
			   const struct h2d_environment *env)
{
	const char *root = env->root;

	h2d_json_object_begin(j, key);
	write_time(j);
	write_names(j, env);
	write_kernel(j, env);
	write_distribution(j, root);
	write_cpu(j, root);
	write_memory(j, root);
	write_limits(j, root);
	h2d_env_cgroup(j, root, env->redact);
	write_virtualisation(j, root);
	write_numa(j, root);
	write_iommu(j, root);
	h2d_env_gpus(j, root);
	h2d_env_storage(j, env);
	h2d_json_object_end(j);
}

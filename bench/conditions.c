/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/conditions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/hostfs.h"

enum { TEXT_BYTES = 16384 };

void h2d_bench_time_text(char out[32])
{
	const time_t now = time(NULL);
	struct tm tm;

	out[0] = 0;
	if (gmtime_r(&now, &tm))
		strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static void write_null(struct h2d_json *j, const char *key, const char *why)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

static int load_average(const char *root, double *out)
{
	char text[128], *end;
	const int n = h2d_hostfs_read(root, "/proc/loadavg", text, sizeof(text));

	*out = n > 0 ? strtod(text, &end) : 0;
	return n > 0 && end != text ? 0 : -1;
}

/* The largest of NAME*_SUFFIX in every folder below `base`. */
static int largest(const char *root, const char *base, const char *prefix, const char *suffix,
		   double *out)
{
	char **dirs, **files, path[600];
	const int n = h2d_hostfs_list(root, base, &dirs);
	int found = -1;

	for (int i = 0; i < n; i++) {
		int m;

		snprintf(path, sizeof(path), "%s/%.64s", base, dirs[i]);
		m = h2d_hostfs_list(root, path, &files);
		for (int k = 0; k < m; k++) {
			const size_t length = strlen(files[k]);
			uint64_t value;

			if (strncmp(files[k], prefix, strlen(prefix)) ||
			    length < strlen(suffix) ||
			    strcmp(files[k] + length - strlen(suffix), suffix))
				continue;
			snprintf(path, sizeof(path), "%s/%.64s/%.64s", base, dirs[i], files[k]);
			if (h2d_hostfs_u64(root, path, &value))
				continue;
			if (found || (double)value > *out)
				*out = (double)value;
			found = 0;
		}
		if (m >= 0)
			h2d_hostfs_list_free(files);
	}
	if (n >= 0)
		h2d_hostfs_list_free(dirs);
	return found;
}

static int temperature(const char *root, double *celsius)
{
	double zone = 0, sensor = 0;
	const int a = largest(root, "/sys/class/thermal", "temp", "", &zone);
	const int b = largest(root, "/sys/class/hwmon", "temp", "_input", &sensor);

	*celsius = (zone > sensor ? zone : sensor) / 1000;
	return a && b ? -1 : 0;
}

static int frequency(const char *root, double *hz)
{
	double sum = 0;
	unsigned count = 0;
	uint64_t khz;
	char path[128];

	for (unsigned cpu = 0; cpu < 4096; cpu++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_cur_freq", cpu);
		if (h2d_hostfs_u64(root, path, &khz))
			break;
		sum += (double)khz * 1000;
		count++;
	}
	*hz = count ? sum / count : 0;
	return count ? 0 : -1;
}

static int meminfo(const char *text, const char *key, uint64_t *bytes)
{
	char value[64];

	if (h2d_text_field(text, key, value, sizeof(value)) < 0)
		return -1;
	*bytes = strtoull(value, NULL, 10) * 1024;
	return 0;
}

static void write_memory(struct h2d_json *j, const char *root)
{
	char text[TEXT_BYTES];
	uint64_t available, total, unused, dirty;
	const bool known = h2d_hostfs_read(root, "/proc/meminfo", text, sizeof(text)) > 0;

	if (known && !meminfo(text, "MemAvailable", &available))
		h2d_json_u64(j, "memory_available_bytes", available);
	else
		write_null(j, "memory_available_bytes", "/proc/meminfo does not tell");
	if (known && !meminfo(text, "SwapTotal", &total) && !meminfo(text, "SwapFree", &unused))
		h2d_json_u64(j, "swap_used_bytes", total > unused ? total - unused : 0);
	else
		write_null(j, "swap_used_bytes", "/proc/meminfo does not tell");
	if (known && !meminfo(text, "Dirty", &dirty))
		h2d_json_u64(j, "dirty_bytes", dirty);
	else
		write_null(j, "dirty_bytes", "/proc/meminfo does not tell");
}

/* Processes that hold the KFD open. */
static int gpu_processes(const char *root)
{
	char **names;
	const int n = h2d_hostfs_list(root, "/sys/class/kfd/kfd/proc", &names);

	if (n >= 0)
		h2d_hostfs_list_free(names);
	return n;
}

void h2d_bench_conditions_write(struct h2d_json *j, const char *key, const char *root)
{
	char now[32];
	double value;
	int count;

	h2d_bench_time_text(now);
	h2d_json_object_begin(j, key);
	h2d_json_string(j, "time_utc", now);
	if (!load_average(root, &value))
		h2d_json_double(j, "load_average_1min", value);
	else
		write_null(j, "load_average_1min", "/proc/loadavg does not tell");
	if (!temperature(root, &value))
		h2d_json_double(j, "temperature_max_celsius", value);
	else
		write_null(j, "temperature_max_celsius", "no sensor is visible");
	if (!frequency(root, &value))
		h2d_json_double(j, "cpu_frequency_mean_hz", value);
	else
		write_null(j, "cpu_frequency_mean_hz", "cpufreq shows nothing");
	write_memory(j, root);
	count = gpu_processes(root);
	if (count >= 0)
		h2d_json_u64(j, "gpu_process_count", (uint64_t)count);
	else
		write_null(j, "gpu_process_count", "no KFD here");
	h2d_json_object_end(j);
}

static bool file_says(const char *root, const char *path, const char *word)
{
	char text[TEXT_BYTES];

	return h2d_hostfs_read(root, path, text, sizeof(text)) > 0 && strstr(text, word);
}

static void warn_links(struct h2d_json *j, const char *root)
{
	static const char base[] = "/sys/class/drm";
	char **names, path[256], now[64], most[64];
	const int n = h2d_hostfs_list(root, base, &names);

	for (int i = 0; i < n; i++) {
		if (strncmp(names[i], "card", 4) || strchr(names[i], '-'))
			continue;
		snprintf(path, sizeof(path), "%s/%.32s/device/current_link_speed", base,
			 names[i]);
		if (h2d_hostfs_read(root, path, now, sizeof(now)) <= 0)
			continue;
		snprintf(path, sizeof(path), "%s/%.32s/device/max_link_speed", base, names[i]);
		if (h2d_hostfs_read(root, path, most, sizeof(most)) > 0 && strcmp(now, most))
			h2d_json_stringf(j, NULL, "the link of %s runs at %s, it could at %s",
					 names[i], now, most);
	}
	if (n >= 0)
		h2d_hostfs_list_free(names);
}

void h2d_bench_warnings_write(struct h2d_json *j, const char *key, const char *root,
			      const char *sanitizers, const char *build_type)
{
	static const char governor[] = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char text[TEXT_BYTES];
	uint64_t total, unused;
	double load;

	h2d_json_array_begin(j, key);
	if (sanitizers[0])
		h2d_json_stringf(j, NULL, "h2d was built with sanitizers (%s)", sanitizers);
	if (!strcmp(build_type, "Debug"))
		h2d_json_string(j, NULL, "h2d was built without optimisation");
	/* Below one per CPU there was, on average, one to spare for what is measured. */
	if (!load_average(root, &load) && load >= (double)(cpus > 0 ? cpus : 1))
		h2d_json_stringf(j, NULL, "the machine is busy: load average %.2f on %ld CPUs",
				 load, cpus);
	if (h2d_hostfs_read(root, governor, text, sizeof(text)) > 0 &&
	    strcmp(text, "performance"))
		h2d_json_stringf(j, NULL, "CPU frequency scaling is on (governor %s)", text);
	if (h2d_hostfs_read(root, "/proc/meminfo", text, sizeof(text)) > 0 &&
	    !meminfo(text, "SwapTotal", &total) && !meminfo(text, "SwapFree", &unused) &&
	    total > unused)
		h2d_json_stringf(j, NULL, "swap is in use (%.0f MiB)",
				 (double)(total - unused) / (1 << 20));
	if (file_says(root, "/proc/cpuinfo", " hypervisor"))
		h2d_json_string(j, NULL,
				"this is a guest: cold means cold here, its host may cache");
	if (file_says(root, "/sys/kernel/mm/transparent_hugepage/enabled", "[never]"))
		h2d_json_string(j, NULL, "transparent huge pages are off");
	if (gpu_processes(root) > 0)
		h2d_json_string(j, NULL, "other processes use the GPU");
	warn_links(j, root);
	h2d_json_array_end(j);
}

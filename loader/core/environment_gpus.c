/* SPDX-License-Identifier: Apache-2.0 */
/* Accelerators as the kernel sees them: drivers, PCI functions with their links, KFD nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"

/* Class codes of PCI (PCI Code and ID Assignment Specification): 03 display, 12 accelerator. */
static bool is_accelerator(uint64_t class_code)
{
	return class_code >> 16 == 0x03 || class_code >> 16 == 0x12;
}

/* "16.0 GT/s PCIe" */
static void link_speed(struct h2d_json *j, const char *root, const char *key, const char *path)
{
	char text[64], *end;
	int n = h2d_hostfs_read(root, path, text, sizeof(text));
	double value = strtod(text, &end);

	if (n < 0)
		h2d_env_unknown(j, key, path, n);
	else if (end == text)
		h2d_env_why(j, key, text);
	else
		h2d_json_double(j, key, value);
}

/* Largest region of "begin end flags" lines: the aperture to device memory. */
static void largest_region(struct h2d_json *j, const char *root, const char *path)
{
	char text[4096];
	unsigned long long begin, end, most = 0;
	int n = h2d_hostfs_read(root, path, text, sizeof(text));

	for (const char *line = text; n > 0 && line; line = strchr(line, '\n')) {
		line += strspn(line, "\n");
		if (sscanf(line, "%llx %llx", &begin, &end) != 2)
			break;
		if (end > begin && end - begin + 1 > most)
			most = end - begin + 1;
	}
	if (n < 0)
		h2d_env_unknown(j, "largest_bar_bytes", path, n);
	else
		h2d_json_u64(j, "largest_bar_bytes", most);
}

static void numa_node(struct h2d_json *j, const char *root, const char *path)
{
	char text[32];
	int n = h2d_hostfs_read(root, path, text, sizeof(text));

	if (n < 0)
		h2d_env_unknown(j, "numa_node", path, n);
	else if (text[0] == '-')
		h2d_env_why(j, "numa_node", "the kernel knows none");
	else
		h2d_json_u64(j, "numa_node", strtoull(text, NULL, 10));
}

static void write_function(struct h2d_json *j, const char *root, const char *base,
			   const char *address)
{
	static const struct {
		const char *key, *file;
		void (*write)(struct h2d_json *, const char *, const char *, const char *);
	} members[] = {
		{"vendor_id", "vendor", h2d_env_text},
		{"device_id", "device", h2d_env_text},
		{"subsystem_vendor_id", "subsystem_vendor", h2d_env_text},
		{"subsystem_device_id", "subsystem_device", h2d_env_text},
		{"vbios_version", "vbios_version", h2d_env_text},
		{"link_speed_gt_per_s", "current_link_speed", link_speed},
		{"link_speed_max_gt_per_s", "max_link_speed", link_speed},
	};
	char path[512], name[128];
	int err;

	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "pci_address", address);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		snprintf(path, sizeof(path), "%s/%.64s/%s", base, address, members[i].file);
		members[i].write(j, root, members[i].key, path);
	}
	snprintf(path, sizeof(path), "%s/%.64s/current_link_width", base, address);
	h2d_env_number(j, root, "link_lane_count", path, 1);
	snprintf(path, sizeof(path), "%s/%.64s/max_link_width", base, address);
	h2d_env_number(j, root, "link_lane_max_count", path, 1);
	snprintf(path, sizeof(path), "%s/%.64s/numa_node", base, address);
	numa_node(j, root, path);
	snprintf(path, sizeof(path), "%s/%.64s/resource", base, address);
	largest_region(j, root, path);
	snprintf(path, sizeof(path), "%s/%.64s/driver", base, address);
	err = h2d_hostfs_link_name(root, path, name, sizeof(name));
	if (err)
		h2d_env_unknown(j, "driver", path, err);
	else
		h2d_json_string(j, "driver", name);
	snprintf(path, sizeof(path), "%s/%.64s/iommu_group", base, address);
	err = h2d_hostfs_link_name(root, path, name, sizeof(name));
	if (err)
		h2d_env_unknown(j, "iommu_group", path, err);
	else
		h2d_json_string(j, "iommu_group", name);
	h2d_json_object_end(j);
}

static void write_functions(struct h2d_json *j, const char *root)
{
	static const char base[] = "/sys/bus/pci/devices";
	char **names, path[512];
	uint64_t code;
	int n = h2d_hostfs_list(root, base, &names);

	if (n < 0) {
		h2d_env_unknown(j, "gpus", base, n);
		return;
	}
	h2d_json_array_begin(j, "gpus");
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%.64s/class", base, names[i]);
		if (!h2d_hostfs_u64(root, path, &code) && is_accelerator(code))
			write_function(j, root, base, names[i]);
	}
	h2d_json_array_end(j);
	h2d_hostfs_list_free(names);
}

static void write_parameters(struct h2d_json *j, const char *root, const char *module)
{
	char **names, path[512], dir[256], value[1024];
	int n;

	snprintf(dir, sizeof(dir), "/sys/module/%s/parameters", module);
	n = h2d_hostfs_list(root, dir, &names);
	if (n < 0) {
		h2d_env_unknown(j, "parameters", dir, n);
		return;
	}
	h2d_json_object_begin(j, "parameters");
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%.128s", dir, names[i]);
		/* Some can be written only; they say nothing about the machine. */
		if (h2d_hostfs_read(root, path, value, sizeof(value)) >= 0)
			h2d_json_string(j, names[i], value);
	}
	h2d_json_object_end(j);
	h2d_hostfs_list_free(names);
}

static void write_driver(struct h2d_json *j, const char *root, const char *module)
{
	char **names, path[256];
	int n;

	snprintf(path, sizeof(path), "/sys/module/%s", module);
	n = h2d_hostfs_list(root, path, &names);
	if (n < 0) {
		h2d_env_why(j, module, "the module is not loaded");
		return;
	}
	h2d_hostfs_list_free(names);
	h2d_json_object_begin(j, module);
	snprintf(path, sizeof(path), "/sys/module/%s/version", module);
	h2d_env_text(j, root, "version", path);
	snprintf(path, sizeof(path), "/sys/module/%s/srcversion", module);
	h2d_env_text(j, root, "srcversion", path);
	snprintf(path, sizeof(path), "/sys/module/%s/taint", module);
	h2d_env_text(j, root, "taint", path);
	write_parameters(j, root, module);
	h2d_json_object_end(j);
}

static void write_kfd(struct h2d_json *j, const char *root)
{
	static const char base[] = "/sys/class/kfd/kfd/topology/nodes";
	static const char *const fields[][2] = {
		{"gfx_target_version", "gfx_target_version"},
		{"simd_count", "simd_count"},
		{"capability_flags", "capability"},
	};
	char **names, path[512], text[4096], value[64];
	int n = h2d_hostfs_list(root, base, &names);

	if (n < 0) {
		h2d_env_unknown(j, "kfd_nodes", base, n);
		return;
	}
	h2d_json_array_begin(j, "kfd_nodes");
	for (int i = 0; i < n; i++) {
		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "node", names[i]);
		snprintf(path, sizeof(path), "%s/%.32s/gpu_id", base, names[i]);
		h2d_env_number(j, root, "gpu_id", path, 1);
		snprintf(path, sizeof(path), "%s/%.32s/name", base, names[i]);
		h2d_env_text(j, root, "name", path);
		snprintf(path, sizeof(path), "%s/%.32s/properties", base, names[i]);
		if (h2d_hostfs_read(root, path, text, sizeof(text)) < 0)
			text[0] = 0;
		for (size_t k = 0; k < 3; k++) {
			const char *at = strstr(text, fields[k][1]);

			if (at && sscanf(at + strlen(fields[k][1]), " %63[0-9]", value) == 1)
				h2d_json_u64(j, fields[k][0], strtoull(value, NULL, 10));
			else
				h2d_env_unknown(j, fields[k][0], path, 0);
		}
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
	h2d_hostfs_list_free(names);
}

void h2d_env_gpus(struct h2d_json *j, const char *root)
{
	write_driver(j, root, "amdgpu");
	write_driver(j, root, "nvidia");
	write_functions(j, root);
	write_kfd(j, root);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pci.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hostfs.h"
#include "h2d/h2d.h"

#define DEVICES "/sys/bus/pci/devices"

static bool read_file(const char *root, const char *address, const char *file, char *out,
		      size_t bytes)
{
	char path[256];

	snprintf(path, sizeof(path), DEVICES "/%s/%s", address, file);
	return h2d_hostfs_read(root, path, out, bytes) > 0;
}

/* "16.0 GT/s PCIe", or "Unknown". */
static double speed(const char *root, const char *address, const char *file)
{
	char text[64];
	double v;

	if (!read_file(root, address, file, text, sizeof(text)))
		return 0;
	v = strtod(text, NULL);
	return v > 0 && v < 1e6 ? v : 0;
}

/* A width of 255 is "unknown" too. */
static uint32_t lanes(const char *root, const char *address, const char *file)
{
	char text[64];
	unsigned long v;

	if (!read_file(root, address, file, text, sizeof(text)))
		return 0;
	v = strtoul(text, NULL, 10);
	return v <= 32 ? (uint32_t)v : 0;
}

static void read_iommu(const char *root, const char *address, struct h2d_pci *out)
{
	char path[256], group[32];

	snprintf(path, sizeof(path), DEVICES "/%s/iommu_group", address);
	if (h2d_hostfs_link_name(root, path, group, sizeof(group)))
		return;
	out->iommu_group = (int32_t)strtol(group, NULL, 10);
	snprintf(path, sizeof(path), "/sys/kernel/iommu_groups/%s/type", group);
	if (h2d_hostfs_read(root, path, out->iommu_type, sizeof(out->iommu_type)) < 0)
		out->iommu_type[0] = 0;
}

int h2d_pci_read(const char *root, const char *address, struct h2d_pci *out)
{
	char text[64];

	*out = (struct h2d_pci){.numa_node = -1, .iommu_group = -1};
	/* An address is the runtime's word: it must not lead anywhere else. */
	if (!address[0] || strspn(address, "0123456789abcdef:.") != strlen(address) ||
	    strstr(address, "..") || !read_file(root, address, "vendor", text, sizeof(text)))
		return H2D_E_NOT_FOUND;
	if (read_file(root, address, "numa_node", text, sizeof(text)))
		out->numa_node = (int32_t)strtol(text, NULL, 10);
	out->speed_gt_per_s = speed(root, address, "current_link_speed");
	out->speed_max_gt_per_s = speed(root, address, "max_link_speed");
	out->lane_count = lanes(root, address, "current_link_width");
	out->lane_max_count = lanes(root, address, "max_link_width");
	read_iommu(root, address, out);
	return 0;
}

uint64_t h2d_pci_bytes_per_s(double speed_gt_per_s, uint32_t lane_count)
{
	double share = speed_gt_per_s <= 5    ? 0.8
		       : speed_gt_per_s <= 32 ? 128. / 130
					      : 242. / 256;

	return (uint64_t)(speed_gt_per_s * 1e9 / 8 * share * lane_count);
}

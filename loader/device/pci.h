/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file pci.h
 * What the kernel says of a PCI device: its NUMA node, its link, its IOMMU.
 *
 * @source Documentation/ABI/testing/sysfs-bus-pci (numa_node, *_link_speed, *_link_width),
 *         Documentation/ABI/testing/sysfs-kernel-iommu_groups
 * @since 0.1
 */
#ifndef H2D_DEVICE_PCI_H
#define H2D_DEVICE_PCI_H

#include <stdbool.h>
#include <stdint.h>

struct h2d_pci {
	int32_t numa_node; /**< -1: none, or the kernel does not tell (common in guests) */
	double speed_gt_per_s, speed_max_gt_per_s; /**< 0: unknown */
	uint32_t lane_count, lane_max_count;	   /**< 0: unknown */
	int32_t iommu_group;			   /**< -1: none */
	char iommu_type[24]; /**< "DMA", "DMA-FQ", "identity" …, "" when unknown */
};

/** @param root     as in core/hostfs.h
 *  @param address  "0000:65:00.0", in lower case
 *  @return 0, or H2D_E_NOT_FOUND when there is no such device; `out` is filled anyway */
int h2d_pci_read(const char *root, const char *address, struct h2d_pci *out);
/** What a link carries at most in one direction, its encoding taken off and its packets'
 *  headers not; 0: unknown.
 *  @source PCI Express Base Specification, 4.2: 8b/10b up to 5 GT/s, 128b/130b up to 32,
 *          242 of 256 bytes of a flit at 64 */
uint64_t h2d_pci_bytes_per_s(double speed_gt_per_s, uint32_t lane_count);

#endif

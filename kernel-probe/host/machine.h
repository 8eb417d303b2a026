/* SPDX-License-Identifier: Apache-2.0 */
/** @file machine.h  What a diagnosis needs to know of the machine. Since 0.1. */
#ifndef H2D_HOST_MACHINE_H
#define H2D_HOST_MACHINE_H

#include "host/memory.h"

enum { H2D_GPUS_MAX = 16 };

struct h2d_gpu {
	char address[16]; /**< of PCI */
	unsigned vendor, device;
	char driver[32]; /**< kernel driver, or "" */
	char name[96];	 /**< as the driver says, or "" */
};

struct h2d_machine {
	char release[128], architecture[32];
	char distribution[128]; /**< PRETTY_NAME, or "" */
	struct h2d_gpu gpus[H2D_GPUS_MAX];
	size_t gpu_count;
	bool gpus_visible; /**< whether PCI could be listed */
	bool amd, nvidia, other_gpu;
	bool amdgpu_loaded, nvidia_loaded, kfd; /**< drivers that run; /dev/kfd is there */
	char gfx[64];				/**< first AMD target, "gfx1151", or "" */
	bool unified;				/**< the GPU uses the machine's own memory */
	char unified_by[128];			/**< who said so */
	bool guest;
	char product[192]; /**< vendor and product of the machine, or "" */
	bool container;
	char container_by[48];
	bool log_read;	     /**< whether the kernel's log could be read */
	char log_why[96];    /**< why not */
	char svm_limit[256]; /**< last line of the log that says the SVM limit was reached */
	struct h2d_known_u64 ttm_limit_bytes; /**< system memory that the GPU may use */
};

void h2d_machine_read(const char *root, struct h2d_machine *out);
void h2d_machine_write(struct h2d_json *j, const char *key, const struct h2d_machine *m);

#endif

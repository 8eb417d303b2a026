/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file device.h
 * The runtimes' calls after which a device writes into host memory, or pins it for writing: our
 * definitions stand before theirs and open the range first. Written against the documented
 * signatures of HIP 5 to 7 and CUDA 11 to 13, tested with fakes.
 */
#ifndef H2D_RUN_DEVICE_H
#define H2D_RUN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/** One function that we stand before. */
struct ro_device_call {
	const char *name;
	void *ours;
	void *_Atomic real; /**< found when first needed */
};

/** Our entry for a name, or NULL. */
struct ro_device_call *ro_device_call(const char *name);

/** The vendor's function, wherever it is loaded; NULL if it is not. */
void *ro_device_real(struct ro_device_call *call);

/**
 * What dlsym() and its like should return instead of `real`, which the program would get.
 * @return ours, or `real` itself when ours already stands before another copy of the runtime
 */
void *ro_device_instead(struct ro_device_call *call, void *real);

/** For the GetProcAddress family, which takes names without version suffixes. */
void *ro_device_by_address(const char *symbol, void *real);

#endif

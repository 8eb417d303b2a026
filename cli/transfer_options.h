/* SPDX-License-Identifier: Apache-2.0 */
/** @file transfer_options.h  Options of every command that moves weights to a device. */
#ifndef H2D_CLI_TRANSFER_OPTIONS_H
#define H2D_CLI_TRANSFER_OPTIONS_H

#include "input.h"

struct h2d_transfer_values {
	const char *device, *path, *cache, *present, *calibrate;
	uint64_t threads, chunk_bytes, staging_bytes;
	struct h2d_selection selection;
	/* load and verify only */
	bool verify, per_tensor;
	uint64_t repeat;
	const char *trace;
};

extern const struct h2d_option_table h2d_transfer_options;  /**< device, path, staging … */
extern const struct h2d_option_table h2d_selection_options; /**< which tensors */

/** The library's options for these values, with progress left to the caller. */
void h2d_transfer_opts(struct h2d_cli *cli, struct h2d_transfer_values *v,
		       struct h2d_load_opts *opts);

/**
 * Open the device that --device names or, without it, the first of hip, cuda, an OpenCL GPU
 * and host that is here.
 * @param readable  bytes are to be read back: a device that cannot is a usage error
 * @return H2D_EXIT_OK, or the status of the error that was told
 */
int h2d_transfer_device(struct h2d_cli *cli, const struct h2d_transfer_values *v, bool readable,
			struct h2d_device **dev, struct h2d_device_info *info);
/** The spec that a command without --device uses, as h2d_transfer_device() finds it; a static
 *  text. Opens devices to see, once. */
const char *h2d_default_device(void);
/** Why the ones that come before it are not used, in one line; "" when it is the first. */
const char *h2d_default_device_why(void);

#endif

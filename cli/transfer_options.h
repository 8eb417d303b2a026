/* SPDX-License-Identifier: Apache-2.0 */
/** @file transfer_options.h  Options of every command that moves weights to a device. */
#ifndef H2D_CLI_TRANSFER_OPTIONS_H
#define H2D_CLI_TRANSFER_OPTIONS_H

#include "input.h"

enum { H2D_DEVICES_MAX = 16, H2D_DEVICE_SPEC_BYTES = 64 };

struct h2d_transfer_values {
	const char *device, *path, *cache, *present, *calibrate, *kernel_policy;
	const char *retry_policy; /**< what h2d_kernel_policy() made of it */
	uint64_t threads, chunk_bytes, staging_bytes;
	struct h2d_selection selection;
	/* load and verify only */
	bool verify, per_tensor;
	uint64_t repeat;
	const char *trace;
	struct h2d_texts split;
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
/** As h2d_transfer_device(), for all that --device names. Two handles of one GPU are a usage
 *  error: they would only share its memory.
 *  @param devs, infos  H2D_DEVICES_MAX of each; on failure none is open */
int h2d_transfer_devices(struct h2d_cli *cli, const struct h2d_transfer_values *v,
			 bool readable, struct h2d_device **devs, struct h2d_device_info *infos,
			 uint32_t *count);
/**
 * What is known of the kernel for path auto: the word of --kernel-policy, or, for devices whose
 * copies may go through amdgpu, the verdict of `h2d probe kernel`, cheaply: its module file is
 * only read when the driver is loaded.
 * @return "refresh", "stale", "no_retry", or NULL: unknown, or it does not matter; static text
 */
const char *h2d_kernel_policy(struct h2d_cli *cli, const struct h2d_transfer_values *v,
			      struct h2d_device *const *devs, uint32_t count);
/** The next device of a list such as "cuda:0,cuda:1" or "cuda:0,1".
 *  @param at    (in, out) what is left, NULL at the end
 *  @param spec  (in, out) the one before, "" at the beginning; the next one
 *  @return 1; 0 at the end; -1: longer than `cap` */
int h2d_device_list_next(const char **at, char *spec, size_t cap);
/** The spec that a command without --device uses, as h2d_transfer_device() finds it; a static
 *  text. Opens devices to see, once. */
const char *h2d_default_device(void);
/** Why the ones that come before it are not used, in one line; "" when it is the first. */
const char *h2d_default_device_why(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file measure.h
 * Loads that are measured: one or several in a row, each with times, faults, cache state and,
 * when asked, verification; and their report as JSON and as text.
 */
#ifndef H2D_CLI_MEASURE_H
#define H2D_CLI_MEASURE_H

#include "device/device.h"
#include "memory.h"
#include "split.h"
#include "transfer_options.h"

enum { H2D_EXTENT_KINDS = 8 };

/** What one of the devices got of a load. */
struct h2d_sample_part {
	uint64_t loaded_bytes, tensor_count;
	bool verified;
	struct h2d_verify_result verify;
	uint64_t verify_ns;
};

/** One load. Strings are copies. Of several devices, sums; `verify` is then that of the first
 *  device that differed, else the sum. */
struct h2d_sample {
	uint64_t plan_ns, allocate_ns, transfer_ns, total_ns, free_ns;
	uint64_t loaded_bytes, read_bytes, tensor_count, chunk_count, copy_count;
	uint64_t chunk_bytes, staging_bytes, max_in_flight_count, quarantined_bytes;
	uint32_t thread_count;
	char *path_requested, *path_used, *reason;
	const char *sizes_from; /**< NULL: nothing went through a ring */
	char *extent_path[H2D_EXTENT_KINDS];
	uint64_t extent_bytes[H2D_EXTENT_KINDS];
	uint32_t extent_count;
	uint64_t major_faults, minor_faults;
	bool hmm_visible; /**< the device counts what the kernel's HMM code did */
	struct h2d_hmm_total hmm;
	struct h2d_cache_state cache_before, cache_after;
	bool verified;
	struct h2d_verify_result verify;
	uint64_t verify_ns;
	struct h2d_sample_part *parts; /* by device */
	/* --per-tensor: one entry for each of tensor_count */
	struct h2d_tensor_report *tensors;
	uint64_t *tensor_indexes;
};

struct h2d_measurement {
	struct h2d_input in;
	struct h2d_device *devs[H2D_DEVICES_MAX];
	struct h2d_device_info devices[H2D_DEVICES_MAX];
	uint32_t device_count;
	struct h2d_split split; /**< of several devices */
	uint64_t device_open_ns;
	struct h2d_memory_sampler memory;
	struct h2d_sample *samples;
	size_t sample_count;
	bool mismatch; /**< some sample did not verify */
};

/**
 * Open checkpoint and device, load as often as asked, verify as asked.
 * @return H2D_EXIT_OK, H2D_EXIT_NEGATIVE (a mismatch: the measurement is complete), or the
 *         status of an error that was told. The caller releases it in every case.
 */
int h2d_measure(struct h2d_cli *cli, struct h2d_transfer_values *v, const char *checkpoint,
		struct h2d_measurement *m);
void h2d_measurement_release(struct h2d_measurement *m);
/** The sample a report speaks of: the first one that did not verify, else the one whose time is
 *  the (lower) median. */
const struct h2d_sample *h2d_measurement_reported(const struct h2d_measurement *m);

/** Why the kernel's HMM code can or cannot make copies of this sample's path wait; static text.
 */
const char *h2d_measurement_exposure(const struct h2d_sample *s);

/** Measure and report: all of the commands load and verify. @return exit status */
int h2d_measure_command(struct h2d_cli *cli, struct h2d_transfer_values *v,
			const char *checkpoint, const char *schema);

/** Write the document of that schema. @return exit status */
int h2d_measurement_document(struct h2d_cli *cli, const struct h2d_transfer_values *v,
			     const struct h2d_measurement *m, const char *schema);
void h2d_measurement_print(struct h2d_cli *cli, const struct h2d_transfer_values *v,
			   const struct h2d_measurement *m);

#endif

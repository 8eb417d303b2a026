/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file hmm_client.h
 * User-space side of /dev/h2d_hmm: open, ask, request. The counters stay in the kernel's own
 * structures, see module/uapi/h2d_hmm.h.
 *
 * Thread-safety: one `struct h2d_hmm` may be used by several threads; the kernel serialises
 * the attempts made through it, as KFD does for one process. For attempts that run at the same
 * time, and in a child after fork(), open it once more.
 */
#ifndef H2D_ABI_HMM_CLIENT_H
#define H2D_ABI_HMM_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "../module/uapi/h2d_hmm.h"
#include "core/log.h"

/** An open device. */
struct h2d_hmm {
	int fd; /**< -1 when closed */
	struct h2d_hmm_query facts;
};

/**
 * Open the device and query it.
 *
 * @param path  device node; NULL: H2D_HMM_DEVICE_PATH
 * @param hmm   (out) closed by h2d_hmm_close(); left closed on failure
 * @return 0; H2D_E_UNAVAILABLE (no such node, or another ABI version behind it),
 *         H2D_E_PERMISSION, H2D_E_IO. @since 0.1
 */
int h2d_hmm_open(const char *path, const struct h2d_log *log, struct h2d_hmm *hmm);
/** Close; a closed one is allowed. @since 0.1 */
void h2d_hmm_close(struct h2d_hmm *hmm);

/**
 * Fill a request for the pages that hold [address, address + bytes): emulated driver, policy
 * `stale`, permission rule `vma`, read access, the kernel's own timeout, 100 000 restarts, no
 * attempt log. `bytes` 0 counts as one byte. Change what differs afterwards. @since 0.1
 */
void h2d_hmm_request_init(struct h2d_hmm_copy_source *request, const void *address,
			  size_t bytes);

/** Address the shipped driver instead: it has its own policy and timeout. @since 0.1 */
void h2d_hmm_request_shipped(struct h2d_hmm_copy_source *request);

/**
 * Make the request. Success means that it was carried out: `request->last_code` tells what the
 * driver said last, `request->ended` whether the caller's restart bound was met.
 *
 * @return 0; H2D_E_CANCELLED when a signal ended it (the counters so far are set; issue it
 *         again to go on); H2D_E_INVALID, H2D_E_UNAVAILABLE (shipped driver not ready),
 *         H2D_E_NOMEM, H2D_E_IO. @since 0.1
 */
int h2d_hmm_copy_source(const struct h2d_hmm *hmm, const struct h2d_log *log,
			struct h2d_hmm_copy_source *request);

/**
 * Windows of a finished request: those the kernel counted, or, where it could not look inside
 * the driver, the logged restarts that reached at most one new span and were idle for half of
 * `timeout_ms` or more. (Of a whole timeout the copying of a span takes some; a host so slow
 * that it takes half hides the window.) Entries beyond the log's capacity are not seen: give it
 * one per expected restart, and some.
 *
 * @param log  what request->attempt_log points to; NULL without one
 * @since 0.1
 */
uint64_t h2d_hmm_windows(const struct h2d_hmm_copy_source *request,
			 const struct h2d_hmm_attempt *log, uint32_t timeout_ms);

/** One word for a value of enum h2d_hmm_driver_state, never NULL. @since 0.1 */
const char *h2d_hmm_driver_state_string(uint32_t state);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file calibration.h
 * What a calibration chose, kept for later loads in the user's cache directory:
 * $XDG_CACHE_HOME/h2d, else $HOME/.cache/h2d. One small JSON text per machine and device, with
 * the identity under which it holds; anything in it that is not as this library writes it for
 * this machine makes it ignored. Nothing here fails a load.
 */
#ifndef H2D_PATH_CALIBRATION_H
#define H2D_PATH_CALIBRATION_H

#include "transfer/calibrate.h"

enum {
	H2D_IDENTITY_COUNT = 8,
	H2D_IDENTITY_PLACE_COUNT = 5, /**< of them name the file; a change of the others makes
				       *   what is in it stale */
};

/** Machine, device and software that a calibration speaks of, in printable ASCII. */
struct h2d_identity {
	char values[H2D_IDENTITY_COUNT][136]; /**< by h2d_identity_keys */
};
extern const char *const h2d_identity_keys[H2D_IDENTITY_COUNT];

/** Where this machine and device are known from. May ask the device's runtime. */
void h2d_identity_read(struct h2d_identity *id, struct h2d_device *dev);

/** What the cache holds for this identity. What is there and not taken is told in one line of
 *  level info. @return whether `chunk_bytes` and `slots` were set */
bool h2d_calibration_read(const struct h2d_identity *id, const struct h2d_log *log,
			  uint64_t *chunk_bytes, uint32_t *slots);
/** Put a result there, whole or not at all. Why not is told in one line of level info. */
void h2d_calibration_write(const struct h2d_identity *id, const struct h2d_log *log,
			   const struct h2d_calibrate_result *result);

#endif

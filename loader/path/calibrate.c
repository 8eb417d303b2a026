/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a load asks a calibration for the sizes of its ring, and which one. */
#include "path/calibration.h"
#include "path/load.h"

/* Copies through a ring by a runtime, sized by nobody else. What is read by O_DIRECT is sized
 * for the disk. */
static bool concerned(const struct h2d_load *l, bool direct)
{
	const struct h2d_load_opts *o = &l->opts;

	return l->path->staging == H2D_STAGING_RING && !direct && !l->in_place &&
	       l->path->source != H2D_SOURCE_DEVICE && o->calibrate != H2D_CALIBRATE_NEVER &&
	       !o->chunk_bytes && !o->staging_bytes && l->dev->backend->runtime &&
	       !(l->dev->caps & (H2D_DEV_FILL | H2D_DEV_HMM));
}

/* A load of less than a calibration copies is over before it pays. */
static bool worth_measuring(const struct h2d_load *l)
{
	uint64_t left = H2D_CALIBRATE_BYTES;

	if (l->opts.calibrate == H2D_CALIBRATE_AGAIN)
		return true;
	for (uint64_t i = 0; i < l->plan.target_count; i++) {
		if (l->plan.targets[i].bytes >= left)
			return true;
		left -= l->plan.targets[i].bytes;
	}
	return false;
}

static struct h2d_calibrated remembered(struct h2d_device *dev)
{
	struct h2d_calibrated c;

	pthread_mutex_lock(&dev->facts_lock);
	c = dev->calibrated;
	pthread_mutex_unlock(&dev->facts_lock);
	return c;
}

static void remember(struct h2d_device *dev, const struct h2d_calibrated *c)
{
	pthread_mutex_lock(&dev->facts_lock);
	dev->calibrated = *c;
	pthread_mutex_unlock(&dev->facts_lock);
}

/* @return 0, also when nothing came of it; H2D_E_DEVICE_LOST */
static int measure(struct h2d_load *l, const struct h2d_identity *id, struct h2d_calibrated *c)
{
	struct h2d_calibrate_result r;
	int rc = h2d_calibrate(l->dev, &r);

	if (rc == H2D_E_DEVICE_LOST)
		return h2d_fail(&l->log, rc,
				"device %s: lost under a copy that was to find its sizes",
				l->dev->facts.name);
	if (rc) {
		h2d_log_line(&l->log, H2D_LOG_INFO, "device %s: not calibrated: %s",
			     l->dev->facts.name, h2d_status_string(rc));
		return 0;
	}
	c->chunk_bytes = r.tries[r.chosen].chunk_bytes;
	c->slots = r.tries[r.chosen].slots;
	h2d_log_line(&l->log, H2D_LOG_INFO,
		     "device %s: calibrated in %.1f ms with %llu MiB: %llu KiB × %u slots, "
		     "%.2f GB/s",
		     l->dev->facts.name, (double)r.elapsed_ns / 1e6,
		     (unsigned long long)(r.copied_bytes >> 20),
		     (unsigned long long)(c->chunk_bytes >> 10), c->slots,
		     (double)r.tries[r.chosen].bytes_per_s / 1e9);
	h2d_calibration_write(id, &l->log, &r);
	return 0;
}

int h2d_load_calibrate(struct h2d_load *l, bool direct, struct h2d_calibrated *c)
{
	bool again = l->opts.calibrate == H2D_CALIBRATE_AGAIN;
	struct h2d_identity id;
	int rc = 0;

	*c = (struct h2d_calibrated){0};
	if (!concerned(l, direct))
		return 0;
	if (!again)
		*c = remembered(l->dev);
	if (!c->chunk_bytes) {
		h2d_identity_read(&id, l->dev);
		c->cached = !again &&
			    h2d_calibration_read(&id, &l->log, &c->chunk_bytes, &c->slots);
		if (!c->cached && worth_measuring(l))
			rc = measure(l, &id, c);
		if (!rc && c->chunk_bytes)
			remember(l->dev, c);
	}
	if (c->chunk_bytes)
		h2d_load_because(l, "chunks of %llu KiB and %u slots a reader %s",
				 (unsigned long long)(c->chunk_bytes >> 10), c->slots,
				 c->cached ? "by an earlier calibration that was kept"
					   : "by calibration");
	return rc;
}

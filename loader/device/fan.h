/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file fan.h
 * Several devices behind one: a copy goes to the device whose memory it writes to, and an event
 * has happened when it has on each of them. So one engine run, with one ring and one set of
 * readers, fills all of them, and what several want of a file is read once.
 *
 * It allocates nothing on them: destinations are announced with h2d_fan_add(). Staging memory
 * is that of the first device that pins it, else of the first.
 */
#ifndef H2D_DEVICE_FAN_H
#define H2D_DEVICE_FAN_H

#include "device/device.h"

enum { H2D_FAN_MAX = 64 };

/**
 * @param devs  1 to H2D_FAN_MAX devices, which must outlive it
 * @param out   (out) released by h2d_fan_close(); `caps` are those that all of them have
 * @return 0; H2D_E_INVALID; H2D_E_DEVICE_LOST when one of them is lost; H2D_E_NOMEM
 */
int h2d_fan_open(struct h2d_device *const *devs, uint32_t count, const struct h2d_log *log,
		 struct h2d_device **out);
/** Memory of device number `device` that copies may write to. @return 0 or H2D_E_NOMEM */
int h2d_fan_add(struct h2d_device *fan, uint32_t device, const struct h2d_devmem *mem);
/** What was found out about the devices (lost, quarantined) is theirs from now on. */
void h2d_fan_close(struct h2d_device *fan);

#endif

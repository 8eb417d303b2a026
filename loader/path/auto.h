/* SPDX-License-Identifier: Apache-2.0 */
/** @file auto.h  Where path `auto` looks for facts that tests replace. */
#ifndef H2D_PATH_AUTO_H
#define H2D_PATH_AUTO_H

#include "device/pci.h"
#include "device/room.h"

/** h2d_room_read(); only tests point it elsewhere, before any other thread runs. */
extern void (*h2d_auto_room)(struct h2d_room *room);
/** h2d_pci_read() of this machine; likewise. */
extern int (*h2d_auto_link)(const char *address, struct h2d_pci *out);

#endif

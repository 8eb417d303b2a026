/* SPDX-License-Identifier: Apache-2.0 */
/** @file auto.h  Where path `auto` looks for facts that tests replace. */
#ifndef H2D_PATH_AUTO_H
#define H2D_PATH_AUTO_H

#include "device/room.h"

/** h2d_room_read(); only tests point it elsewhere, before any other thread runs. */
extern void (*h2d_auto_room)(struct h2d_room *room);

#endif

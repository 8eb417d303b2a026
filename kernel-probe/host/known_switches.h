/* SPDX-License-Identifier: Apache-2.0 */
/** @file known_switches.h  known-switches.json as it was when this was built. */
#ifndef H2D_HOST_KNOWN_SWITCHES_H
#define H2D_HOST_KNOWN_SWITCHES_H

#include <stddef.h>

extern const unsigned char h2d_known_switches[];
extern const size_t h2d_known_switches_bytes;

#endif

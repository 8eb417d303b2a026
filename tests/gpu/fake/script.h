/* SPDX-License-Identifier: Apache-2.0 */
/** @file script.h  Counting calls, and what a script says of them; see fake.h. */
#ifndef H2D_FAKE_SCRIPT_H
#define H2D_FAKE_SCRIPT_H

#include <stdint.h>

void fake_script_set(const char *text);
/** Count a call of `name`, a constant. @return the rule's value (-1 for a rule without one)
 *  when a rule concerns this call, else 0 */
int64_t fake_script_hit(const char *name);
int64_t fake_script_parameter(const char *name, int64_t otherwise);
uint64_t fake_script_calls(const char *name);

#endif

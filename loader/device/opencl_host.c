/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers are loaded into our process, and some do not return from a host they did not expect.
 * Seen of PoCL 3.1 with hwloc 2.9. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "device/opencl_api.h"
#include "device/topology.h"

enum { STACK_MIN_BYTES = 256 << 10 };

bool h2d_opencl_host_serves(char *why, size_t why_bytes)
{
	struct rlimit stack;
	cpu_set_t set;
	int err = h2d_topology_error();

	if (err) {
		snprintf(why, why_bytes,
			 "drivers were not asked: /sys/devices/system/cpu/cpu0/topology cannot "
			 "be read (%s), and PoCL would end the process",
			 strerror(err));
		return false;
	}
	/* EINVAL: more processors than `set` holds. */
	if (sched_getaffinity(0, sizeof(set), &set) && errno != EINVAL) {
		snprintf(
			why, why_bytes,
			"drivers were not asked: sched_getaffinity() is refused (%s), and PoCL "
			"would wait for ever",
			strerror(errno));
		return false;
	}
	/* Also what the drivers' threads get. */
	if (!getrlimit(RLIMIT_STACK, &stack) && stack.rlim_cur < STACK_MIN_BYTES) {
		snprintf(why, why_bytes,
			 "drivers were not asked: a stack of %llu KiB (RLIMIT_STACK) is too "
			 "small for them, %d KiB would do",
			 (unsigned long long)stack.rlim_cur >> 10, STACK_MIN_BYTES >> 10);
		return false;
	}
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which processors are near a device, on a made-up machine with two nodes. */
#include "test.h"
#include "transfer/near.h"

static void nodes(void)
{
	cpu_set_t allowed, near;
	int zero, one;

	REQUIRE(!sched_getaffinity(0, sizeof(allowed), &allowed));
	if (!CPU_ISSET(0, &allowed) || !CPU_ISSET(1, &allowed))
		SKIP("needs processors 0 and 1");
	CHECK(!h2d_near_cpus(-1, &near));
	CHECK(!h2d_near_cpus(7, &near));
	CHECK(h2d_near_cpus(0, &near));
	zero = CPU_ISSET(0, &near);
	one = CPU_ISSET(1, &near);
	CHECK(zero && !one);
	CHECK(h2d_near_cpus(1, &near));
	CHECK(!CPU_ISSET(0, &near) && CPU_ISSET(1, &near));
	/* Nothing of the node may be used: not worth it. */
	CPU_ZERO(&allowed);
	CPU_SET(0, &allowed);
	REQUIRE(!sched_setaffinity(0, sizeof(allowed), &allowed));
	CHECK(!h2d_near_cpus(1, &near));
	CHECK(!h2d_near_cpus(0, &near)); /* we are there already */
}

int main(void)
{
	setenv("HWLOC_SYNTHETIC", "node:2 core:1 pu:1", 1);
	RUN(nodes);
	return TEST_DONE();
}

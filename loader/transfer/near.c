/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/near.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <string.h>

#include "core/hostfs.h"
#include "device/topology.h"

bool h2d_near_matters(void)
{
	char online[256];

	return h2d_hostfs_read(NULL, "/sys/devices/system/node/online", online,
			       sizeof(online)) > 0 &&
	       strpbrk(online, "-,");
}

static bool cpus_of(hwloc_topology_t topo, int32_t node, cpu_set_t *out)
{
	hwloc_obj_t obj = NULL;

	while ((obj = hwloc_get_next_obj_by_type(topo, HWLOC_OBJ_NUMANODE, obj)))
		if (obj->os_index == (unsigned)node)
			return !hwloc_cpuset_to_glibc_sched_affinity(topo, obj->cpuset, out,
								     sizeof(*out));
	return false;
}

bool h2d_near_cpus(int32_t node, cpu_set_t *out)
{
	hwloc_topology_t topo;
	cpu_set_t allowed, of_node;
	bool found = false;

	CPU_ZERO(out);
	CPU_ZERO(&of_node);
	if (node < 0 || sched_getaffinity(0, sizeof(allowed), &allowed) ||
	    h2d_topology_error() || hwloc_topology_init(&topo))
		return false;
	/* The kernel's files say it all; the x86 component would visit every processor. */
	hwloc_topology_set_components(topo, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
	if (!hwloc_topology_load(topo))
		found = cpus_of(topo, node, &of_node);
	hwloc_topology_destroy(topo);
	if (!found)
		return false;
	CPU_AND(out, &of_node, &allowed);
	return CPU_COUNT(out) && !CPU_EQUAL(out, &allowed);
}

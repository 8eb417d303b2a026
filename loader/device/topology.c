/* SPDX-License-Identifier: Apache-2.0 */
#include "device/topology.h"

#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <stdio.h>

#include "core/hostfs.h"

/* One of these is what hwloc goes by. */
int h2d_topology_error(void)
{
	static const char *const paths[] = {"/sys/devices/system/cpu/cpu0/topology",
					    "/sys/bus/cpu/devices/cpu0/topology"};
	char **names;
	int first = 0;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		int n = h2d_hostfs_list(NULL, paths[i], &names);

		if (n >= 0) {
			h2d_hostfs_list_free(names);
			return 0;
		}
		first = first ? first : -n;
	}
	return first;
}

static int load(hwloc_topology_t *topo)
{
	if (h2d_topology_error() || hwloc_topology_init(topo))
		return -1;
	/* Only what is asked below, and by the kernel's files alone: the x86 component visits
	 * every processor, which takes longer than all the rest (10 ms and more on two of
	 * them). */
	hwloc_topology_set_components(*topo, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
	hwloc_topology_set_all_types_filter(*topo, HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_type_filter(*topo, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
	if (!hwloc_topology_load(*topo))
		return 0;
	hwloc_topology_destroy(*topo);
	return -1;
}

static int32_t node_of_thread(hwloc_topology_t topo)
{
	hwloc_bitmap_t cpus = hwloc_bitmap_alloc(), nodes = hwloc_bitmap_alloc();
	int32_t node = -1;
	cpu_set_t set;

	/* Where the call is refused (EPERM, by a filter) hwloc asks for ever. EINVAL is of a
	 * kernel with more processors than `set` holds, for which hwloc makes room. */
	if (sched_getaffinity(0, sizeof(set), &set) && errno != EINVAL)
		goto out;
	if (cpus && nodes && !hwloc_get_cpubind(topo, cpus, HWLOC_CPUBIND_THREAD)) {
		hwloc_cpuset_to_nodeset(topo, cpus, nodes);
		if (hwloc_bitmap_weight(nodes) == 1)
			node = hwloc_bitmap_first(nodes);
	}
out:
	hwloc_bitmap_free(cpus);
	hwloc_bitmap_free(nodes);
	return node;
}

void h2d_topology_host(int32_t *numa_node, char *model, size_t model_bytes)
{
	hwloc_topology_t topo;
	hwloc_obj_t package;
	const char *name;

	*numa_node = -1;
	model[0] = 0;
	if (load(&topo))
		return;
	*numa_node = node_of_thread(topo);
	package = hwloc_get_obj_by_type(topo, HWLOC_OBJ_PACKAGE, 0);
	name = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
	if (name)
		snprintf(model, model_bytes, "%s", name);
	hwloc_topology_destroy(topo);
}

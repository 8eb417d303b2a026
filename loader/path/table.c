/* SPDX-License-Identifier: Apache-2.0 */
#include "path/table.h"

#include <string.h>

#include "device/device.h"
#include "h2d/h2d.h"

const struct h2d_path *const h2d_paths[] = {
	&h2d_path_auto,	    &h2d_path_pinned, &h2d_path_direct, &h2d_path_mmap,
	&h2d_path_mmap_rw,  &h2d_path_clone,  &h2d_path_eager,	&h2d_path_pread,
	&h2d_path_register, &h2d_path_gds,    &h2d_path_view,	NULL,
};

const struct h2d_path *h2d_path_find(const char *name)
{
	for (const struct h2d_path *const *p = h2d_paths; *p; p++)
		if (!strcmp((*p)->name, name))
			return *p;
	return NULL;
}

bool h2d_path_supported(const struct h2d_path *p, unsigned device_caps, bool has_fd,
			const char **why)
{
	*why = NULL;
	if ((p->flags & H2D_PATH_HOST_ONLY) && !(device_caps & H2D_DEV_FILL))
		*why = "its tensors stay in host memory, which this device is not";
	else if ((p->flags & H2D_PATH_NEEDS_FD) && !has_fd)
		*why = "the checkpoint is memory of the caller, not a file";
	else if (p->needs & ~device_caps & H2D_DEV_REGISTER)
		*why = "the device cannot register host memory";
	else if (p->needs & ~device_caps & H2D_DEV_READ_FILE)
		*why = "the device cannot read files itself";
	else if ((device_caps & p->needs) != p->needs)
		*why = "the device lacks a capability that it needs";
	return !*why;
}

bool h2d_path_one_device(const struct h2d_path *p)
{
	return p->source == H2D_SOURCE_VIEW || p->source == H2D_SOURCE_MAP_SHARED ||
	       p->source == H2D_SOURCE_DEVICE;
}

int h2d_path_describe(uint32_t i, const char **name, const char **summary)
{
	if (i >= sizeof(h2d_paths) / sizeof(h2d_paths[0]) - 1)
		return H2D_E_NOT_FOUND;
	if (name)
		*name = h2d_paths[i]->name;
	if (summary)
		*summary = h2d_paths[i]->summary;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "h2d/h2d.h"

int h2d_device_open(const char *spec, const struct h2d_device_opts *opts,
		    struct h2d_device **out)
{
	(void)spec;
	(void)opts;
	(void)out;
	return H2D_E_UNSUPPORTED;
}

void h2d_device_close(struct h2d_device *dev)
{
	(void)dev;
}

int h2d_device_info(const struct h2d_device *dev, struct h2d_device_info *info)
{
	(void)dev;
	(void)info;
	return H2D_E_UNSUPPORTED;
}

int h2d_backend_describe(uint32_t i, const char **name, const char **summary)
{
	(void)i;
	(void)name;
	(void)summary;
	return H2D_E_UNSUPPORTED;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The device of commands without --device: hip, else cuda, else an OpenCL GPU, else host. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "transfer_options.h"

enum { OPENCL_MAX = 16 };

static struct {
	char spec[32], why[640]; /* spec "": not decided yet */
} chosen;

static void because(const char *name, const char *why)
{
	size_t used = strlen(chosen.why);

	snprintf(chosen.why + used, sizeof(chosen.why) - used, "%s%s: %s", used ? "; " : "",
		 name, why);
}

static const struct h2d_backend *find(const char *name)
{
	for (size_t i = 0; h2d_backends[i]; i++)
		if (!strcmp(h2d_backends[i]->name, name))
			return h2d_backends[i];
	return NULL;
}

struct said {
	char line[256];
};

static void keep_line(void *user, enum h2d_log_level level, const char *line)
{
	struct said *s = user;

	if (level == H2D_LOG_ERROR && !s->line[0])
		snprintf(s->line, sizeof(s->line), "%s", line);
}

/* Open it to see; an OpenCL device counts when it lies on a bus, as GPUs do and processors do
 * not. @return whether it is the one */
static bool try_device(const char *name, unsigned i, bool on_bus)
{
	struct h2d_device_opts opts = H2D_OPTS(opts);
	struct h2d_device_info info = H2D_OPTS(info);
	struct said said = {""};
	struct h2d_device *dev;
	char spec[32];
	bool ok;

	snprintf(spec, sizeof(spec), "%s:%u", name, i);
	opts.log = keep_line;
	opts.log_user = &said;
	if (h2d_device_open(spec, &opts, &dev)) {
		because(spec, said.line[0] ? said.line : "it cannot be opened");
		return false;
	}
	ok = !on_bus || (!h2d_device_info(dev, &info) && info.pci_address[0]);
	if (!ok)
		because(spec, "not a GPU");
	h2d_device_close(dev);
	if (ok)
		snprintf(chosen.spec, sizeof(chosen.spec), "%s", spec);
	return ok;
}

static bool try_backend(const char *name, bool on_bus)
{
	const struct h2d_backend *b = find(name);
	unsigned count = 0;
	char why[256] = "";

	if (!b) {
		because(name, "not part of this build");
		return false;
	}
	/* ROCm's library is large (0.1 s and 70 MB to load), and of no use without these. */
	if (!strcmp(name, "hip") && access("/dev/kfd", F_OK) && access("/dev/dxg", F_OK)) {
		because(name, "there is no /dev/kfd");
		return false;
	}
	if (!b->probe || b->probe(&count, why, sizeof(why)) || !count) {
		because(name, why[0] ? why : "no device");
		return false;
	}
	if (!on_bus)
		return try_device(name, 0, false);
	for (unsigned i = 0; i < count && i < OPENCL_MAX; i++)
		if (try_device(name, i, true))
			return true;
	return false;
}

const char *h2d_default_device(void)
{
	if (!chosen.spec[0] && !try_backend("hip", false) && !try_backend("cuda", false) &&
	    !try_backend("opencl", true))
		snprintf(chosen.spec, sizeof(chosen.spec), "host");
	return chosen.spec;
}

const char *h2d_default_device_why(void)
{
	h2d_default_device();
	return chosen.why;
}

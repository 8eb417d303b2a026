/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer_options.h"

#include <string.h>

#include "device/device.h"

#define AT(member) offsetof(struct h2d_transfer_values, member)

static const struct h2d_option transfer[] = {
	{"device", 0, H2D_OPTION_TEXT, "DEVICE",
	 "Device that the weights go to. For example host, null or hip:0. Without it: hip, "
	 "else cuda, else an OpenCL GPU, else host.",
	 NULL, H2D_WORD_DEVICE, AT(device), 0, 0},
	{"path", 0, H2D_OPTION_TEXT, "PATH",
	 "Transfer path by which the bytes travel. The default is auto.", NULL, H2D_WORD_PATH,
	 AT(path), 0, 0},
	{"threads", 0, H2D_OPTION_NUMBER, "N", "Number of readers.", NULL, 0, AT(threads), 1,
	 1024},
	{"chunk", 0, H2D_OPTION_SIZE, "SIZE", "Unit of reading and copying.", NULL, 0,
	 AT(chunk_bytes), 1, 0},
	{"staging", 0, H2D_OPTION_SIZE, "SIZE",
	 "Bound on the host memory that bytes wait in between file and device. Each reader has "
	 "slots in it, of a chunk each; direct reads need some bytes more per slot, for their "
	 "alignment. One slot must fit.",
	 NULL, 0, AT(staging_bytes), 1, 0},
	{"calibrate", 0, H2D_OPTION_CHOICE, "MODE",
	 "Whether sizes of the staging ring that are not asked for are measured on a GPU. With "
	 "auto, the default, once for each device and machine, before a load of 64 MiB or "
	 "more; "
	 "what was found is kept in $XDG_CACHE_HOME/h2d, else in ~/.cache/h2d. With never, "
	 "nothing is measured, read or kept; with again, it is measured anew.",
	 (const char *const[]){"auto", "never", "again", NULL}, 0, AT(calibrate), 0, 0},
	{"kernel-policy", 0, H2D_OPTION_CHOICE, "POLICY",
	 "What the kernel's GPU driver does when pages of a copy's source change under it, for "
	 "path auto. With auto, the default, it is what h2d probe kernel finds; name it where "
	 "h2d repro has measured it.",
	 (const char *const[]){"auto", "refresh", "stale", "no_retry", "unknown", NULL}, 0,
	 AT(kernel_policy), 0, 0},
	{"cache", 0, H2D_OPTION_CHOICE, "MODE",
	 "What happens to the page cache. With drop, pages are given back as the load goes on; "
	 "the default is keep.",
	 (const char *const[]){"keep", "drop", NULL}, 0, AT(cache), 0, 0},
	{"present", 0, H2D_OPTION_CHOICE, "MODE",
	 "What of a mapped file is made present in this process before it is copied. For "
	 "measuring: nothing, every page, or one byte of each 2 MiB span.",
	 (const char *const[]){"none", "read", "sparse", NULL}, 0, AT(present), 0, 0},
	{0},
};
const struct h2d_option_table h2d_transfer_options = {"Transfer options", transfer};

static const struct h2d_option selection[] = {
	{"include", 0, H2D_OPTION_TEXTS, "GLOB",
	 "Take only tensors whose name matches. See glob(7); * also matches dots and slashes.",
	 NULL, 0, AT(selection.include), 0, 0},
	{"exclude", 0, H2D_OPTION_TEXTS, "GLOB", "Leave out tensors whose name matches.", NULL,
	 0, AT(selection.exclude), 0, 0},
	{0},
};
const struct h2d_option_table h2d_selection_options = {"Choice of tensors", selection};

void h2d_transfer_opts(struct h2d_cli *cli, struct h2d_transfer_values *v,
		       struct h2d_load_opts *opts)
{
	*opts = (struct h2d_load_opts)H2D_OPTS(*opts);
	opts->log = h2d_cli_log;
	opts->log_user = cli;
	opts->path = v->path;
	opts->threads = (uint32_t)v->threads;
	opts->chunk_bytes = v->chunk_bytes;
	opts->staging_bytes = v->staging_bytes;
	opts->cache = v->cache && !strcmp(v->cache, "drop") ? H2D_CACHE_DROP : H2D_CACHE_KEEP;
	opts->present = !v->present || !strcmp(v->present, "none") ? H2D_PRESENT_NONE
			: !strcmp(v->present, "read")		   ? H2D_PRESENT_READ
								   : H2D_PRESENT_SPARSE;
	opts->calibrate = !v->calibrate || !strcmp(v->calibrate, "auto") ? H2D_CALIBRATE_AUTO
			  : !strcmp(v->calibrate, "again")		 ? H2D_CALIBRATE_AGAIN
									 : H2D_CALIBRATE_NEVER;
	if (v->selection.include.count || v->selection.exclude.count) {
		opts->select = h2d_selection_keeps;
		opts->select_user = &v->selection;
	}
	opts->kernel_retry_policy = v->retry_policy;
	opts->per_tensor = v->per_tensor;
	opts->trace_path = v->trace;
}

static int open_one(struct h2d_cli *cli, const char *spec, bool readable,
		    struct h2d_device **dev, struct h2d_device_info *info)
{
	struct h2d_device_opts opts = H2D_OPTS(opts);
	int rc;

	*dev = NULL;
	if (!h2d_word_in(h2d_backend_names(), spec, strcspn(spec, ":,")))
		return h2d_cli_error(cli, H2D_EXIT_DEVICE,
				     "device %s: not available: not part of this build", spec);
	*info = (struct h2d_device_info)H2D_OPTS(*info);
	opts.log = h2d_cli_log;
	opts.log_user = cli;
	rc = h2d_device_open(spec, &opts, dev);
	if (!rc)
		rc = h2d_device_info(*dev, info);
	if (rc)
		return h2d_cli_fail(cli, H2D_STAGE_DEVICE, rc, "device %s", spec);
	if (readable && !info->readable)
		return h2d_cli_usage(cli,
				     "device %s discards what it is given: nothing can be read "
				     "back and compared",
				     spec);
	return H2D_EXIT_OK;
}

static unsigned index_of(const struct h2d_device *dev)
{
	const char *name = dev->facts.name, *rest;
	unsigned index = 0;

	h2d_device_index(name + strcspn(name, ":,"), &index, &rest);
	return index;
}

/* What a runtime numbers is there once. */
static int check_twice(struct h2d_cli *cli, struct h2d_device *const *devs, uint32_t count)
{
	const struct h2d_device *last = devs[count - 1];

	for (uint32_t i = 0; i < count - 1; i++)
		if (last->backend->runtime && last->backend == devs[i]->backend &&
		    index_of(last) == index_of(devs[i]))
			return h2d_cli_usage(cli, "--device: %s and %s are the same device",
					     devs[i]->facts.name, last->facts.name);
	return H2D_EXIT_OK;
}

int h2d_transfer_devices(struct h2d_cli *cli, const struct h2d_transfer_values *v,
			 bool readable, struct h2d_device **devs, struct h2d_device_info *infos,
			 uint32_t *count)
{
	const char *at = v->device ? v->device : h2d_default_device();
	char spec[H2D_DEVICE_SPEC_BYTES] = "";
	int exit = H2D_EXIT_OK, got;

	*count = 0;
	if (!v->device && h2d_default_device_why()[0]) {
		char line[768];

		snprintf(line, sizeof(line), "device %s, since: %s", at,
			 h2d_default_device_why());
		h2d_cli_log(cli, H2D_LOG_INFO, line);
	}
	while (!exit && (got = h2d_device_list_next(&at, spec, sizeof(spec)))) {
		if (got < 0)
			exit = h2d_cli_usage(cli, "--device: too long: %s", v->device);
		else if (*count == H2D_DEVICES_MAX)
			exit = h2d_cli_usage(cli, "--device: more than %d devices",
					     H2D_DEVICES_MAX);
		else
			exit = open_one(cli, spec, readable, &devs[*count], &infos[*count]);
		*count += got > 0 && *count < H2D_DEVICES_MAX;
		if (!exit)
			exit = check_twice(cli, devs, *count);
	}
	for (; exit && *count; --*count) {
		h2d_device_close(devs[*count - 1]);
		devs[*count - 1] = NULL;
	}
	return exit;
}

int h2d_transfer_device(struct h2d_cli *cli, const struct h2d_transfer_values *v, bool readable,
			struct h2d_device **dev, struct h2d_device_info *info)
{
	struct h2d_device_info infos[H2D_DEVICES_MAX];
	struct h2d_device *devs[H2D_DEVICES_MAX];
	uint32_t count;
	int exit;

	*dev = NULL;
	exit = h2d_transfer_devices(cli, v, readable, devs, infos, &count);
	if (exit)
		return exit;
	if (count > 1) {
		while (count)
			h2d_device_close(devs[--count]);
		return h2d_cli_usage(cli, "--device: this command takes one device at a time");
	}
	*dev = devs[0];
	*info = infos[0];
	return H2D_EXIT_OK;
}

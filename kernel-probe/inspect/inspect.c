/* SPDX-License-Identifier: Apache-2.0 */
#include "inspect.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hostfs.h"
#include "core/mem.h"
#include "file.h"
#include "internal.h"

/* Of instructions looked at. Debian's modules take less than ten thousand. */
enum { STEPS_MAX = 8 << 20 };

static void other_machine(struct h2d_module_report *r)
{
	snprintf(r->retry_why, sizeof(r->retry_why), "machine code of %s is not read",
		 r->machine);
	for (unsigned i = 0; i < H2D_CALLER_COUNT; i++)
		memcpy(r->callers[i].why, r->retry_why, sizeof(r->callers[i].why));
}

static int analyse(const struct ins_image *image, const struct h2d_log *log,
		   struct h2d_module_report *report)
{
	struct ins_analysis a = {
		.image = image, .log = log, .report = report, .steps_left = STEPS_MAX};
	int err;

	ins_info_read(image, report);
	if (image->machine != EM_X86_64) {
		other_machine(report);
		return 0;
	}
	err = ins_decoder_open(image, &a.decoder);
	if (!err)
		err = ins_policy(&a);
	if (!err)
		err = ins_permission(&a);
	ins_decoder_close(a.decoder);
	free(a.sites);
	return err ? h2d_fail(log, err, "%s: out of memory", report->path) : 0;
}

int h2d_inspect_bytes(const char *name, const void *data, size_t bytes,
		      const struct h2d_log *log, struct h2d_module_report **out)
{
	struct h2d_module_report *report = h2d_mem->calloc(1, sizeof(*report));
	const char *compression;
	struct ins_image image;
	void *unpacked = NULL;
	size_t unpacked_bytes;
	int err;

	*out = NULL;
	if (!report)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", name);
	snprintf(report->path, sizeof(report->path), "%s", name);
	err = ins_unpack(name, data, bytes, log, &unpacked, &unpacked_bytes, &compression);
	if (err)
		goto out;
	snprintf(report->compression, sizeof(report->compression), "%s", compression);
	err = ins_image_open(name, unpacked ? unpacked : data,
			     unpacked ? unpacked_bytes : bytes, log, &image);
	if (err)
		goto out;
	err = analyse(&image, log, report);
	ins_image_close(&image);
out:
	free(unpacked);
	if (err) {
		h2d_module_report_free(report);
		return err;
	}
	*out = report;
	return 0;
}

int h2d_inspect_file(const char *path, const struct h2d_log *log,
		     struct h2d_module_report **report)
{
	size_t bytes;
	void *data;
	int err = ins_read_file(path, log, &data, &bytes);

	*report = NULL;
	if (!err)
		err = h2d_inspect_bytes(path, data, bytes, log, report);
	free(data);
	return err;
}

void h2d_module_report_free(struct h2d_module_report *report)
{
	if (!report)
		return;
	free(report->evidence);
	free(report);
}

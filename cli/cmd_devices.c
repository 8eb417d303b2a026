/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "core/hostfs.h"
#include "device/device.h"
#include "text.h"
#include "transfer_options.h"

enum { DEVICES_MAX = 64 };

/* One line: a device that can be used, or a back-end with the reason why it has none. */
struct row {
	char name[72], why[256];
	const char *backend, *summary;
	bool available;
	struct h2d_device_info info;
	char hardware[128], pci_address[32];
};

static const struct h2d_backend *find_backend(const char *name)
{
	for (size_t i = 0; h2d_backends[i]; i++)
		if (!strcmp(h2d_backends[i]->name, name))
			return h2d_backends[i];
	return NULL;
}

static void keep_line(void *user, enum h2d_log_level level, const char *line)
{
	struct row *r = user;

	if (level == H2D_LOG_ERROR && !r->why[0])
		snprintf(r->why, sizeof(r->why), "%s", line);
}

static void open_row(struct row *r)
{
	struct h2d_device_opts opts = H2D_OPTS(opts);
	struct h2d_device *dev = NULL;
	int rc;

	opts.log = keep_line;
	opts.log_user = r;
	r->info = (struct h2d_device_info)H2D_OPTS(r->info);
	rc = h2d_device_open(r->name, &opts, &dev);
	if (!rc)
		rc = h2d_device_info(dev, &r->info);
	if (rc) {
		if (!r->why[0])
			snprintf(r->why, sizeof(r->why), "%s", h2d_status_string(rc));
	} else {
		r->available = true;
		snprintf(r->hardware, sizeof(r->hardware), "%s", r->info.hardware);
		snprintf(r->pci_address, sizeof(r->pci_address), "%s", r->info.pci_address);
	}
	h2d_device_close(dev);
}

static size_t fill(struct row *rows, const char *name)
{
	const struct h2d_backend *b = find_backend(name);
	unsigned count = 1;
	int rc = 0;

	memset(rows, 0, sizeof(*rows));
	rows[0].backend = name;
	snprintf(rows[0].name, sizeof(rows[0].name), "%s", name);
	if (!b) {
		snprintf(rows[0].why, sizeof(rows[0].why), "not part of this build");
		return 1;
	}
	rows[0].summary = b->summary;
	if (b->probe)
		rc = b->probe(&count, rows[0].why, sizeof(rows[0].why));
	if (rc || !count) {
		if (!rows[0].why[0])
			snprintf(rows[0].why, sizeof(rows[0].why), "%s",
				 rc ? h2d_status_string(rc) : "no device");
		return 1;
	}
	count = count < 16 ? count : 16;
	for (unsigned i = 0; i < count; i++) {
		rows[i] = (struct row){.backend = name, .summary = b->summary};
		if (count == 1 && !b->probe)
			snprintf(rows[i].name, sizeof(rows[i].name), "%s", name);
		else
			snprintf(rows[i].name, sizeof(rows[i].name), "%s:%u", name, i);
		open_row(&rows[i]);
	}
	return count;
}

static size_t collect(struct row *rows)
{
	size_t n = 0;

	for (size_t i = 0; h2d_known_backends[i] && n + 16 < DEVICES_MAX; i++)
		n += fill(rows + n, h2d_known_backends[i]);
	return n;
}

static void sysfs_text(char *out, size_t cap, const char *address, const char *file)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", address, file);
	if (h2d_hostfs_read(NULL, path, out, cap) < 0)
		out[0] = 0;
}

static void link_json(struct h2d_json *j, const struct row *r)
{
	char speed[64], top[64], width[64], widest[64];

	if (!r->pci_address[0]) {
		h2d_cli_null(j, "link", "not on a PCI bus");
		return;
	}
	sysfs_text(speed, sizeof(speed), r->pci_address, "current_link_speed");
	sysfs_text(top, sizeof(top), r->pci_address, "max_link_speed");
	sysfs_text(width, sizeof(width), r->pci_address, "current_link_width");
	sysfs_text(widest, sizeof(widest), r->pci_address, "max_link_width");
	if (!speed[0] || !width[0]) {
		h2d_cli_null(j, "link", "the kernel does not tell");
		return;
	}
	h2d_json_object_begin(j, "link");
	h2d_json_double(j, "speed_gt_per_s", strtod(speed, NULL));
	h2d_json_double(j, "speed_max_gt_per_s", strtod(top, NULL));
	h2d_json_u64(j, "lane_count", strtoull(width, NULL, 10));
	h2d_json_u64(j, "lane_max_count", strtoull(widest, NULL, 10));
	h2d_json_object_end(j);
}

static void row_json(struct h2d_json *j, const struct row *r)
{
	const char *gone = "the device is not available";

	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "name", r->name);
	h2d_json_string(j, "backend", r->backend);
	h2d_json_bool(j, "available", r->available);
	if (!r->available)
		h2d_json_string(j, "reason", r->why);
	if (r->summary)
		h2d_json_string(j, "summary", r->summary);
	else
		h2d_cli_null(j, "summary", "not part of this build");
	if (r->hardware[0])
		h2d_json_string(j, "hardware", r->hardware);
	else
		h2d_cli_null(j, "hardware", r->available ? "it has no name of its own" : gone);
	if (r->available && r->info.memory_bytes)
		h2d_json_u64(j, "memory_bytes", r->info.memory_bytes);
	else
		h2d_cli_null(j, "memory_bytes", r->available ? "unknown" : gone);
	if (r->available && r->info.memory_free_bytes)
		h2d_json_u64(j, "memory_free_bytes", r->info.memory_free_bytes);
	else
		h2d_cli_null(j, "memory_free_bytes", r->available ? "unknown" : gone);
	if (r->available && r->info.numa_node >= 0)
		h2d_json_i64(j, "numa_node", r->info.numa_node);
	else
		h2d_cli_null(j, "numa_node", r->available ? "unknown" : gone);
	if (r->pci_address[0])
		h2d_json_string(j, "pci_address", r->pci_address);
	else
		h2d_cli_null(j, "pci_address", r->available ? "not on a PCI bus" : gone);
	if (r->available && r->info.unified < 2)
		h2d_json_bool(j, "unified", r->info.unified);
	else
		h2d_cli_null(j, "unified", r->available ? "unknown" : gone);
	link_json(j, r);
	h2d_json_object_end(j);
}

static int document(struct h2d_cli *cli, const struct row *rows, size_t count)
{
	struct h2d_json j;

	h2d_cli_document(cli, &j, "h2d.devices", 1, 0);
	h2d_json_string(&j, "default", h2d_default_device());
	h2d_json_array_begin(&j, "devices");
	for (size_t i = 0; i < count; i++)
		row_json(&j, &rows[i]);
	h2d_json_array_end(&j);
	return h2d_cli_document_end(cli, &j);
}

static void print(FILE *out, const struct row *rows, size_t count)
{
	char size[32];

	for (size_t i = 0; i < count; i++) {
		const struct row *r = &rows[i];

		fprintf(out, "%-10s ", r->name);
		if (!r->available) {
			fputs("not available: ", out);
			h2d_text_safe(out, r->why, strlen(r->why));
			fputc('\n', out);
			continue;
		}
		fputs(r->hardware[0] ? r->hardware : r->summary, out);
		if (r->info.memory_bytes) {
			h2d_text_bytes(size, sizeof(size), r->info.memory_bytes);
			fprintf(out, ", %s", size);
		}
		if (r->info.numa_node >= 0)
			fprintf(out, ", NUMA node %d", r->info.numa_node);
		if (r->pci_address[0]) {
			char speed[64], width[64];

			sysfs_text(speed, sizeof(speed), r->pci_address, "current_link_speed");
			sysfs_text(width, sizeof(width), r->pci_address, "current_link_width");
			fprintf(out, ", PCI %s", r->pci_address);
			if (speed[0])
				fprintf(out, " (%s x%s)", speed, width);
		}
		fputc('\n', out);
	}
	fprintf(out, "\nWithout --device: %s\n", h2d_default_device());
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	struct row *rows = calloc(DEVICES_MAX, sizeof(*rows));
	size_t n;
	int exit = H2D_EXIT_OK;

	(void)values;
	(void)count;
	(void)words;
	if (!rows)
		return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "out of memory");
	n = collect(rows);
	if (cli->common.json)
		exit = document(cli, rows, n);
	else
		print(cli->out, rows, n);
	free(rows);
	return exit;
}

const struct h2d_command h2d_command_devices = {
	.name = "devices",
	.summary = "list devices, and why others are not available",
	.arguments = "",
	.description =
		(const char *const[]){
			"Lists the devices that weights can be loaded onto, with memory, NUMA "
			"node "
			"and bus link. Back-ends without a device are listed with the reason.",
			NULL,
		},
	.run = run,
};

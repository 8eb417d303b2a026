/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "device/device.h"
#include "device/pci.h"
#include "host/root.h"
#include "text.h"
#include "transfer_options.h"

enum { DEVICES_MAX = 64, RUNTIMES_MAX = 8 };

struct values {
	const char *root;
};

static const struct h2d_option options[] = {
	{"root", 0, H2D_OPTION_TEXT, "ARCHIVE|DIR",
	 "Read what the kernel says of the bus in a capture or below a directory. Runtimes and "
	 "devices are still this machine's.",
	 NULL, H2D_WORD_FILE, offsetof(struct values, root), 0, 0},
	{0},
};
static const struct h2d_option_table device_options = {"Options", options};

/* A run-time library that a back-end looked for. */
struct runtime_row {
	const char *backend;
	struct h2d_runtime found;
};

/* One line: a device that can be used, or a back-end with the reason why it has none. */
struct row {
	char name[72], why[256];
	const char *backend, *summary;
	bool available;
	struct h2d_device_info info;
	char hardware[128], pci_address[32];
	bool on_bus; /* `pci` holds what the kernel says of it */
	struct h2d_pci pci;
	bool asked_storage, storage; /* whether storage-to-device works, else why not */
	char storage_why[256];
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

static void open_row(struct row *r, const char *root)
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
		r->on_bus = r->pci_address[0] && !h2d_pci_read(root, r->pci_address, &r->pci);
		if (r->on_bus && r->pci.numa_node >= 0)
			r->info.numa_node = r->pci.numa_node;
		r->asked_storage = dev->caps & H2D_DEV_READ_FILE;
		r->storage = r->asked_storage &&
			     !dev->backend->read_file_check(dev, r->storage_why,
							    sizeof(r->storage_why));
	}
	h2d_device_close(dev);
}

static size_t fill(struct row *rows, const char *name, const char *root)
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
		open_row(&rows[i], root);
	}
	return count;
}

static size_t collect(struct row *rows, const char *root)
{
	size_t n = 0;

	for (size_t i = 0; h2d_known_backends[i] && n + 16 < DEVICES_MAX; i++)
		n += fill(rows + n, h2d_known_backends[i], root);
	return n;
}

static size_t collect_runtimes(struct runtime_row *rows)
{
	size_t n = 0;

	for (size_t i = 0; h2d_backends[i] && n < RUNTIMES_MAX; i++) {
		if (!h2d_backends[i]->runtime)
			continue;
		rows[n].backend = h2d_backends[i]->name;
		h2d_backends[i]->runtime(&rows[n++].found);
	}
	return n;
}

static void text_or_null(struct h2d_json *j, const char *key, const char *value,
			 const char *why)
{
	if (value[0])
		h2d_json_string(j, key, value);
	else
		h2d_cli_null(j, key, why);
}

static void runtime_json(struct h2d_json *j, const struct runtime_row *row)
{
	const struct h2d_runtime *r = &row->found;

	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "backend", row->backend);
	text_or_null(j, "library", r->library, "none was loaded");
	text_or_null(j, "path", r->path, r->library[0] ? "unknown" : "none was loaded");
	text_or_null(j, "version", r->version, r->library[0] ? "unknown" : "none was loaded");
	h2d_json_u64(j, "device_count", r->device_count);
	if (r->error_code) {
		h2d_json_object_begin(j, "error");
		h2d_json_string(j, "name", r->error_name);
		h2d_json_i64(j, "code", r->error_code);
		h2d_json_object_end(j);
	} else {
		h2d_cli_null(j, "error", "no call of it failed");
	}
	text_or_null(j, "reason", r->why, "it has devices");
	h2d_json_object_end(j);
}

static void number_or_null(struct h2d_json *j, const char *key, double value)
{
	if (value > 0)
		h2d_json_double(j, key, value);
	else
		h2d_cli_null(j, key, "the kernel does not tell");
}

static void count_or_null(struct h2d_json *j, const char *key, uint32_t value)
{
	if (value)
		h2d_json_u64(j, key, value);
	else
		h2d_cli_null(j, key, "the kernel does not tell");
}

static void bus_json(struct h2d_json *j, const struct row *r)
{
	const char *why =
		r->pci_address[0] ? "the kernel does not list it" : "not on a PCI bus";

	if (r->on_bus) {
		h2d_json_object_begin(j, "link");
		number_or_null(j, "speed_gt_per_s", r->pci.speed_gt_per_s);
		number_or_null(j, "speed_max_gt_per_s", r->pci.speed_max_gt_per_s);
		count_or_null(j, "lane_count", r->pci.lane_count);
		count_or_null(j, "lane_max_count", r->pci.lane_max_count);
		h2d_json_object_end(j);
	} else {
		h2d_cli_null(j, "link", why);
	}
	if (r->on_bus && r->pci.iommu_group >= 0) {
		h2d_json_object_begin(j, "iommu");
		h2d_json_i64(j, "group", r->pci.iommu_group);
		text_or_null(j, "type", r->pci.iommu_type, "the kernel does not tell");
		h2d_json_object_end(j);
	} else {
		h2d_cli_null(j, "iommu", r->on_bus ? "it is behind none" : why);
	}
}

static void storage_json(struct h2d_json *j, const struct row *r)
{
	if (r->storage || r->asked_storage) {
		h2d_json_bool(j, "storage_to_device", r->storage);
		if (!r->storage)
			h2d_json_string(j, "storage_to_device_why", r->storage_why);
	} else {
		h2d_cli_null(j, "storage_to_device",
			     r->available ? "its back-end has no such thing"
					  : "the device is not available");
	}
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
	bus_json(j, r);
	storage_json(j, r);
	h2d_json_object_end(j);
}

static int document(struct h2d_cli *cli, const struct row *rows, size_t count,
		    const struct runtime_row *runtimes, size_t runtime_count)
{
	struct h2d_json j;

	h2d_cli_document(cli, &j, "h2d.devices", 1, 0);
	h2d_json_string(&j, "default", h2d_default_device());
	text_or_null(&j, "default_reason", h2d_default_device_why(), "it is the first choice");
	h2d_json_array_begin(&j, "runtimes");
	for (size_t i = 0; i < runtime_count; i++)
		runtime_json(&j, &runtimes[i]);
	h2d_json_array_end(&j);
	h2d_json_array_begin(&j, "devices");
	for (size_t i = 0; i < count; i++)
		row_json(&j, &rows[i]);
	h2d_json_array_end(&j);
	return h2d_cli_document_end(cli, &j);
}

static void print_bus(FILE *out, const struct row *r)
{
	const struct h2d_pci *p = &r->pci;

	fprintf(out, ", PCI %s", r->pci_address);
	if (!r->on_bus)
		return;
	if (p->speed_gt_per_s > 0 && p->lane_count)
		fprintf(out, " (%g GT/s x%u", p->speed_gt_per_s, p->lane_count);
	if (p->speed_gt_per_s > 0 && p->lane_count && p->speed_max_gt_per_s > 0 &&
	    p->lane_max_count)
		fprintf(out, " of %g GT/s x%u", p->speed_max_gt_per_s, p->lane_max_count);
	if (p->speed_gt_per_s > 0 && p->lane_count)
		fputc(')', out);
	if (p->iommu_group >= 0)
		fprintf(out, ", IOMMU %s", p->iommu_type[0] ? p->iommu_type : "on");
}

static void print_row(FILE *out, const struct row *r)
{
	char size[32];

	fprintf(out, "%-10s ", r->name);
	if (!r->available) {
		fputs("not available: ", out);
		h2d_text_safe(out, r->why, strlen(r->why));
		fputc('\n', out);
		return;
	}
	fputs(r->hardware[0] ? r->hardware : r->summary, out);
	if (r->info.memory_bytes) {
		h2d_text_bytes(size, sizeof(size), r->info.memory_bytes);
		fprintf(out, ", %s", size);
	}
	if (r->info.unified == 1 && r->pci_address[0])
		fputs(" shared with the host", out);
	if (r->info.numa_node >= 0)
		fprintf(out, ", NUMA node %d", r->info.numa_node);
	if (r->pci_address[0])
		print_bus(out, r);
	fputc('\n', out);
	if (r->asked_storage) {
		fprintf(out, "%-10s storage to device: %s", "", r->storage ? "yes" : "no: ");
		h2d_text_safe(out, r->storage_why, r->storage ? 0 : strlen(r->storage_why));
		fputc('\n', out);
	}
}

static void print(FILE *out, const struct row *rows, size_t count,
		  const struct runtime_row *runtimes, size_t runtime_count)
{
	for (size_t i = 0; i < count; i++)
		print_row(out, &rows[i]);
	fputs("\nRuntimes\n", out);
	for (size_t i = 0; i < runtime_count; i++) {
		const struct h2d_runtime *r = &runtimes[i].found;

		fprintf(out, "%-10s %s", runtimes[i].backend,
			r->library[0] ? r->library : "none");
		if (r->path[0])
			fprintf(out, ", %s", r->path);
		if (r->version[0])
			fprintf(out, ", version %s", r->version);
		fputc('\n', out);
	}
	fprintf(out, "\nWithout --device: %s\n", h2d_default_device());
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	struct row *rows = calloc(DEVICES_MAX, sizeof(*rows));
	struct runtime_row *runtimes = calloc(RUNTIMES_MAX, sizeof(*runtimes));
	const struct h2d_log log = {h2d_cli_log, cli};
	const struct values *v = values;
	struct h2d_root root = {0};
	int exit = H2D_EXIT_OK, rc;
	size_t n, runtime_count;

	(void)count;
	(void)words;
	if (!rows || !runtimes) {
		exit = h2d_cli_error(cli, H2D_EXIT_SYSTEM, "out of memory");
		goto out;
	}
	rc = h2d_root_open(v->root, &log, &root);
	if (rc) {
		exit = h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "devices");
		goto out;
	}
	cli->root = root.path;
	n = collect(rows, root.path);
	runtime_count = collect_runtimes(runtimes);
	if (cli->common.json)
		exit = document(cli, rows, n, runtimes, runtime_count);
	else
		print(cli->out, rows, n, runtimes, runtime_count);
	if (root.path && !cli->common.json)
		fputs("\nOnly what the kernel says of the bus was read below --root: runtimes and "
		      "devices are\nthis machine's.\n",
		      cli->out);
out:
	cli->root = NULL;
	h2d_root_close(&root);
	free(rows);
	free(runtimes);
	return exit;
}

const struct h2d_command h2d_command_devices = {
	.name = "devices",
	.summary = "list devices, and why others are not available",
	.arguments = "",
	.description =
		(const char *const[]){
			"Lists the devices that weights can be loaded onto: memory, NUMA node, "
			"bus link as it is and at most, IOMMU, and whether storage-to-device "
			"works. Back-ends without a device are listed with the reason.",
			"Then the run-time libraries that were found, and which device is used "
			"without --device.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&device_options, NULL},
	.values_bytes = sizeof(struct values),
	.run = run,
};

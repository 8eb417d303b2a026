/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>

#include "core/hostfs.h"
#include "core/mem.h"

enum { TEXT_BYTES = 16 << 10, LOG_BYTES = 4 << 20 };

enum { VENDOR_AMD = 0x1002, VENDOR_NVIDIA = 0x10de };

static void text_of(const char *root, const char *path, char *out, size_t cap)
{
	if (h2d_hostfs_read(root, path, out, cap) < 0)
		out[0] = 0;
}

static bool exists(const char *root, const char *path)
{
	char text[8];

	return h2d_hostfs_read(root, path, text, sizeof(text)) >= 0;
}

static bool is_directory(const char *root, const char *path)
{
	char **names;
	int n = h2d_hostfs_list(root, path, &names);

	if (n >= 0)
		h2d_hostfs_list_free(names);
	return n >= 0;
}

/* ---- accelerators ---- */

static void read_gpu(const char *root, const char *address, struct h2d_machine *m)
{
	struct h2d_gpu *g = &m->gpus[m->gpu_count];
	char path[256], text[TEXT_BYTES];
	uint64_t class_code, value;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.64s/class", address);
	/* PCI Code and ID Assignment Specification: 03 display, 12 accelerator. */
	if (h2d_hostfs_u64(root, path, &class_code) ||
	    (class_code >> 16 != 0x03 && class_code >> 16 != 0x12))
		return;
	memset(g, 0, sizeof(*g));
	snprintf(g->address, sizeof(g->address), "%.15s", address);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.64s/vendor", address);
	/* PCI numbers have 16 bits. */
	if (!h2d_hostfs_u64(root, path, &value) && value <= UINT16_MAX)
		g->vendor = (unsigned)value;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.64s/device", address);
	if (!h2d_hostfs_u64(root, path, &value) && value <= UINT16_MAX)
		g->device = (unsigned)value;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.64s/driver", address);
	if (h2d_hostfs_link_name(root, path, g->driver, sizeof(g->driver)))
		g->driver[0] = 0;
	if (g->vendor == VENDOR_NVIDIA) {
		snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%.64s/information",
			 address);
		if (h2d_hostfs_read(root, path, text, sizeof(text)) < 0 ||
		    h2d_text_field(text, "Model", g->name, sizeof(g->name)) < 0)
			g->name[0] = 0;
	}
	m->amd |= g->vendor == VENDOR_AMD;
	m->nvidia |= g->vendor == VENDOR_NVIDIA;
	/* Emulated display adapters compute nothing. */
	m->other_gpu |= g->vendor == 0x8086;
	m->gpu_count++;
}

static void read_gpus(const char *root, struct h2d_machine *m)
{
	char **names;
	int n = h2d_hostfs_list(root, "/sys/bus/pci/devices", &names);

	m->gpus_visible = n >= 0;
	for (int i = 0; i < n && m->gpu_count < H2D_GPUS_MAX; i++)
		read_gpu(root, names[i], m);
	if (n >= 0)
		h2d_hostfs_list_free(names);
}

/* Nodes of amdkfd: one that has processors and compute units is an APU, whose memory is the
 * machine's. */
static void read_nodes(const char *root, struct h2d_machine *m)
{
	static const char base[] = "/sys/class/kfd/kfd/topology/nodes";
	char path[256], text[TEXT_BYTES], **names;
	int n = h2d_hostfs_list(root, base, &names);

	for (int i = 0; i < n; i++) {
		unsigned long simd = 0, cpus = 0, gfx = 0, value;
		char key[64];

		snprintf(path, sizeof(path), "%s/%.20s/properties", base, names[i]);
		if (h2d_hostfs_read(root, path, text, sizeof(text)) < 0)
			continue;
		for (const char *line = text; line; line = strchr(line, '\n')) {
			line += strspn(line, "\n");
			if (sscanf(line, "%63s %lu", key, &value) != 2)
				break;
			if (!strcmp(key, "simd_count"))
				simd = value;
			else if (!strcmp(key, "cpu_cores_count"))
				cpus = value;
			else if (!strcmp(key, "gfx_target_version"))
				gfx = value;
		}
		if (!simd)
			continue;
		m->amd = true;
		/* 110501: gfx1151; the stepping is hexadecimal. */
		if (!m->gfx[0] && gfx)
			snprintf(m->gfx, sizeof(m->gfx), "gfx%lu%lu%lx", gfx / 10000,
				 gfx / 100 % 100, gfx % 100);
		if (cpus) {
			m->unified = true;
			snprintf(m->unified_by, sizeof(m->unified_by),
				 "an AMD APU, %s, node %.8s of amdkfd", m->gfx, names[i]);
		}
	}
	if (n >= 0)
		h2d_hostfs_list_free(names);
}

static void find_unified(struct h2d_machine *m)
{
	/* NVIDIA systems whose GPU and processors share coherent memory. */
	static const char *const coherent[] = {"GB10", "GH200", "GB200", "GB300",
					       "Thor", "Orin",	NULL};
	/* APUs whose memory is that of the processors, where amdkfd is not visible. */
	static const char *const apus[] = {"gfx1151", "gfx1150", "gfx1103", NULL};

	for (size_t i = 0; i < m->gpu_count; i++)
		for (size_t k = 0; coherent[k]; k++)
			if (m->gpus[i].vendor == VENDOR_NVIDIA &&
			    strstr(m->gpus[i].name, coherent[k])) {
				m->unified = true;
				snprintf(m->unified_by, sizeof(m->unified_by), "%.60s",
					 m->gpus[i].name);
			}
	for (size_t k = 0; !m->unified && apus[k]; k++)
		if (!strcmp(m->gfx, apus[k])) {
			m->unified = true;
			snprintf(m->unified_by, sizeof(m->unified_by), "an AMD APU, %s",
				 m->gfx);
		}
}

/* ---- where we are ---- */

static void find_container(const char *root, struct h2d_machine *m)
{
	static const char *const words[] = {"docker",	  "kubepods", "libpod", "lxc",
					    "containerd", "garden",   NULL};
	char text[TEXT_BYTES];

	if (exists(root, "/.dockerenv"))
		snprintf(m->container_by, sizeof(m->container_by), "/.dockerenv");
	else if (exists(root, "/run/.containerenv"))
		snprintf(m->container_by, sizeof(m->container_by), "/run/.containerenv");
	else if (h2d_hostfs_read(root, "/run/systemd/container", text, 32) > 0)
		snprintf(m->container_by, sizeof(m->container_by),
			 "/run/systemd/container: %.16s", text);
	else if (h2d_hostfs_read(root, "/proc/self/cgroup", text, sizeof(text)) > 0)
		for (size_t i = 0; words[i] && !m->container_by[0]; i++)
			if (strstr(text, words[i]))
				snprintf(m->container_by, sizeof(m->container_by),
					 "/proc/self/cgroup: %s", words[i]);
	m->container = m->container_by[0];
}

static void find_guest(const char *root, struct h2d_machine *m)
{
	char vendor[96], product[96], cpuinfo[TEXT_BYTES];

	text_of(root, "/sys/class/dmi/id/sys_vendor", vendor, sizeof(vendor));
	text_of(root, "/sys/class/dmi/id/product_name", product, sizeof(product));
	if (vendor[0] || product[0])
		snprintf(m->product, sizeof(m->product), "%s%s%s", vendor,
			 vendor[0] && product[0] ? " " : "", product);
	text_of(root, "/proc/cpuinfo", cpuinfo, sizeof(cpuinfo));
	m->guest = strstr(cpuinfo, " hypervisor") != NULL;
}

static void read_identity(const char *root, struct h2d_machine *m)
{
	char text[4096];

	text_of(root, "/proc/sys/kernel/osrelease", m->release, sizeof(m->release));
	text_of(root, "/proc/sys/kernel/arch", m->architecture, sizeof(m->architecture));
	if (h2d_hostfs_read(root, "/etc/os-release", text, sizeof(text)) >= 0 ||
	    h2d_hostfs_read(root, "/usr/lib/os-release", text, sizeof(text)) >= 0)
		h2d_text_field(text, "PRETTY_NAME", m->distribution, sizeof(m->distribution));
}

/* ---- the kernel's log ---- */

/* Lines that say something of these defects; a capture keeps no others. */
static bool of_interest(const char *line, size_t n)
{
	static const char *const words[] = {"SVM mapping failed",
					    "resident system memory limit", NULL};

	for (size_t i = 0; words[i]; i++)
		if (memmem(line, n, words[i], strlen(words[i])))
			return true;
	return false;
}

static char *live_log(struct h2d_machine *m)
{
	char *raw = h2d_mem->malloc(LOG_BYTES + 1), *kept = NULL;
	size_t bytes = 0;
	/* SYSLOG_ACTION_READ_ALL, syslog(2) */
	int n = raw ? klogctl(3, raw, LOG_BYTES) : -1;
	FILE *out;

	if (n < 0) {
		snprintf(m->log_why, sizeof(m->log_why), "%s",
			 raw ? strerrordesc_np(errno) : "out of memory");
		h2d_hostfs_note(H2D_HOSTFS_TEXT, "/h2d/kernel_log", NULL, 0,
				raw ? -errno : -ENOMEM);
		free(raw);
		return NULL;
	}
	raw[n] = 0;
	out = open_memstream(&kept, &bytes);
	for (const char *line = raw, *end; out && *line; line = *end ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		if (of_interest(line, (size_t)(end - line)))
			fprintf(out, "%.*s\n", (int)(end - line), line);
	}
	if (out && fclose(out)) {
		free(kept);
		kept = NULL;
	}
	free(raw);
	if (kept)
		h2d_hostfs_note(H2D_HOSTFS_TEXT, "/h2d/kernel_log", kept, bytes, 0);
	return kept;
}

static void read_log(const char *root, struct h2d_machine *m)
{
	char *text = NULL, *last = NULL;
	size_t bytes;
	int err = 0;

	if (root)
		err = h2d_hostfs_read_all(root, "/h2d/kernel_log", LOG_BYTES, &text, &bytes);
	else
		text = live_log(m);
	if (!text) {
		if (root)
			snprintf(m->log_why, sizeof(m->log_why), "%s",
				 err == -ENOENT ? "not part of the capture"
						: strerrordesc_np(-err));
		return;
	}
	m->log_read = true;
	for (char *line = text; *line;) {
		size_t n = strcspn(line, "\n");

		if (of_interest(line, n))
			last = line;
		line += n + (line[n] == '\n');
	}
	if (last) {
		/* "<6>[ 12.345678] amdgpu: …" */
		last[strcspn(last, "\n")] = 0;
		if (last[0] == '<' && strchr(last, ']'))
			last = strchr(last, ']') + 1;
		last += strspn(last, " ");
		snprintf(m->svm_limit, sizeof(m->svm_limit), "%.250s", last);
	}
	free(text);
}

void h2d_machine_read(const char *root, struct h2d_machine *out)
{
	uint64_t pages;

	memset(out, 0, sizeof(*out));
	if (root && !root[0])
		root = NULL;
	read_identity(root, out);
	read_gpus(root, out);
	read_nodes(root, out);
	find_unified(out);
	out->amdgpu_loaded = is_directory(root, "/sys/module/amdgpu");
	out->nvidia_loaded = is_directory(root, "/sys/module/nvidia");
	out->kfd = is_directory(root, "/sys/class/kfd/kfd");
	find_container(root, out);
	find_guest(root, out);
	read_log(root, out);
	if (!h2d_hostfs_u64(root, "/sys/module/ttm/parameters/pages_limit", &pages) &&
	    pages < UINT64_MAX >> 12) {
		out->ttm_limit_bytes.known = true;
		out->ttm_limit_bytes.value = pages << 12;
	}
}

void h2d_machine_write(struct h2d_json *j, const char *key, const struct h2d_machine *m)
{
	h2d_json_object_begin(j, key);
	h2d_json_string(j, "release", m->release);
	h2d_json_string(j, "architecture", m->architecture);
	h2d_json_string(j, "distribution", m->distribution);
	h2d_json_array_begin(j, "gpus");
	for (size_t i = 0; i < m->gpu_count; i++) {
		const struct h2d_gpu *g = &m->gpus[i];

		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "pci_address", g->address);
		h2d_json_stringf(j, "id", "%04x:%04x", g->vendor, g->device);
		h2d_json_string(j, "driver", g->driver);
		h2d_json_string(j, "name", g->name);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
	h2d_json_string(j, "gfx", m->gfx);
	h2d_json_bool(j, "unified_memory", m->unified);
	h2d_json_string(j, "unified_memory_by", m->unified_by);
	h2d_json_bool(j, "guest", m->guest);
	h2d_json_string(j, "product", m->product);
	h2d_json_bool(j, "container", m->container);
	h2d_json_string(j, "container_by", m->container_by);
	h2d_json_bool(j, "kernel_log_read", m->log_read);
	h2d_json_string(j, "svm_limit_line", m->svm_limit);
	h2d_json_object_end(j);
}

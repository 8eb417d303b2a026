/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/opts.h"

#define COPY_TIMEOUT_DEFAULT_NS 30000000000ull

static const struct h2d_backend *find_backend(const char *name, size_t name_bytes)
{
	for (size_t i = 0; h2d_backends[i]; i++)
		if (strlen(h2d_backends[i]->name) == name_bytes &&
		    !memcmp(h2d_backends[i]->name, name, name_bytes))
			return h2d_backends[i];
	return NULL;
}

int h2d_backend_validate(const struct h2d_backend *b, const struct h2d_log *log)
{
#define NEED(member)                                                                           \
	{                                                                                      \
		!!b->member, 0, #member                                                        \
	}
#define NEED_IF(cap, member)                                                                   \
	{                                                                                      \
		!!b->member, cap, #member                                                      \
	}
	const struct {
		bool have;
		unsigned cap; /* 0: always needed */
		const char *member;
	} needs[] = {
		NEED(summary),
		NEED(open),
		NEED(close),
		NEED(alloc),
		NEED(free),
		NEED(host_alloc),
		NEED(host_free),
		NEED(stream_create),
		NEED(stream_destroy),
		NEED(copy_to_device),
		NEED(event_create),
		NEED(event_destroy),
		NEED(event_record),
		NEED(event_query),
		NEED(event_wait),
		NEED_IF(H2D_DEV_READABLE, copy_to_host),
		NEED_IF(H2D_DEV_COPY_2D, copy_to_device_2d),
		NEED_IF(H2D_DEV_REGISTER, host_register),
		NEED_IF(H2D_DEV_REGISTER, host_unregister),
		NEED_IF(H2D_DEV_READ_FILE, read_file),
		NEED_IF(H2D_DEV_READ_FILE, read_file_check),
		NEED_IF(H2D_DEV_CALLER_STREAM, stream_wrap),
		NEED_IF(H2D_DEV_HMM, hmm_count),
	};
#undef NEED
#undef NEED_IF
	const char *name = b->name ? b->name : "(unnamed)";

	if (!b->name || !b->name[0] || strchr(b->name, ':'))
		return h2d_fail(log, H2D_E_INTERNAL, "back-end %s: no usable name", name);
	if (b->abi != H2D_BACKEND_ABI)
		return h2d_fail(log, H2D_E_INTERNAL, "back-end %s: ABI %u, expected %d", name,
				b->abi, H2D_BACKEND_ABI);
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (!needs[i].have && (!needs[i].cap || (b->caps & needs[i].cap)))
			return h2d_fail(log, H2D_E_INTERNAL, "back-end %s: %s is missing", name,
					needs[i].member);
	if ((b->caps & H2D_DEV_REGISTER_READ_ONLY) && !(b->caps & H2D_DEV_REGISTER))
		return h2d_fail(log, H2D_E_INTERNAL,
				"back-end %s: registers read-only ranges but none at all",
				name);
	if ((b->caps & H2D_DEV_FILL) && !(b->caps & H2D_DEV_READABLE))
		return h2d_fail(log, H2D_E_INTERNAL,
				"back-end %s: plain memory that cannot be read back", name);
	return 0;
}

int h2d_device_index(const char *args, unsigned *index, const char **rest)
{
	uint64_t n = 0;
	const char *p;

	*index = 0;
	*rest = args;
	if (args[0] != ':' || args[1] < '0' || args[1] > '9')
		return 0;
	for (p = args + 1; *p >= '0' && *p <= '9'; p++) {
		n = n * 10 + (uint64_t)(*p - '0');
		if (n > 65535)
			return H2D_E_INVALID;
	}
	if (*p && *p != ':' && *p != ',')
		return H2D_E_INVALID;
	*index = (unsigned)n;
	*rest = p;
	return 0;
}

static int fail_unknown(const struct h2d_log *log, const char *spec)
{
	char known[256] = "";
	size_t n = 0;

	for (size_t i = 0; h2d_backends[i] && n < sizeof(known); i++)
		n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", i ? ", " : "",
				      h2d_backends[i]->name);
	return h2d_fail(log, H2D_E_INVALID, "device \"%s\" is not known: there are %s", spec,
			known);
}

static int check_present(const struct h2d_backend *b, const struct h2d_log *log)
{
	unsigned count = 1;
	char why[256] = "";
	int rc;

	if (!b->probe)
		return 0;
	rc = b->probe(&count, why, sizeof(why));
	if (rc)
		return h2d_fail(log, rc, "%s: %s", b->name,
				why[0] ? why : h2d_status_string(rc));
	if (!count)
		return h2d_fail(log, H2D_E_UNAVAILABLE, "%s: no device: %s", b->name,
				why[0] ? why : "none was found");
	return 0;
}

int h2d_device_open(const char *spec, const struct h2d_device_opts *opts,
		    struct h2d_device **out)
{
	const struct h2d_backend *b;
	struct h2d_device_opts o;
	struct h2d_device *dev;
	struct h2d_log log;
	size_t name_bytes;
	int rc;

	if (!out)
		return H2D_E_INVALID;
	*out = NULL;
	if (h2d_opts_read(&o, sizeof(o), opts))
		return H2D_E_INVALID;
	log = (struct h2d_log){o.log, o.log_user};
	if (!spec)
		return h2d_fail(&log, H2D_E_INVALID, "device: no name given");
	name_bytes = strcspn(spec, ":,");
	b = find_backend(spec, name_bytes);
	if (!b)
		return fail_unknown(&log, spec);
	if (strlen(spec) >= sizeof(dev->facts.name))
		return h2d_fail(&log, H2D_E_INVALID, "device \"%s\": too long", spec);
	rc = h2d_backend_validate(b, &log);
	if (!rc)
		rc = check_present(b, &log);
	if (rc)
		return rc;
	dev = h2d_mem->calloc(1, sizeof(*dev));
	if (!dev)
		return h2d_fail(&log, H2D_E_NOMEM, "device \"%s\": out of memory", spec);
	dev->backend = b;
	dev->caps = b->caps;
	dev->log = log;
	dev->copy_timeout_ns = o.copy_timeout_ns ? o.copy_timeout_ns : COPY_TIMEOUT_DEFAULT_NS;
	dev->native_context = o.context;
	dev->facts.numa_node = -1;
	dev->facts.unified = 2;
	memcpy(dev->facts.name, spec, strlen(spec) + 1);
	pthread_mutex_init(&dev->facts_lock, NULL);
	pthread_mutex_init(&dev->spare_lock, NULL);
	rc = b->open(dev, spec + name_bytes);
	if (!rc && (dev->caps & ~b->caps)) {
		b->close(dev);
		rc = h2d_fail(&log, H2D_E_INTERNAL, "%s: the device can more than its back-end",
			      spec);
	}
	if (rc) {
		pthread_mutex_destroy(&dev->spare_lock);
		pthread_mutex_destroy(&dev->facts_lock);
		free(dev);
		return rc;
	}
	*out = dev;
	return 0;
}

void h2d_device_close(struct h2d_device *dev)
{
	if (!dev)
		return;
	h2d_device_host_trim(dev);
	dev->backend->close(dev);
	pthread_mutex_destroy(&dev->spare_lock);
	pthread_mutex_destroy(&dev->facts_lock);
	free(dev);
}

/* Take a spare out of its place. Under the lock. */
static struct h2d_spare take_spare(struct h2d_device *dev, size_t i)
{
	struct h2d_spare s = dev->spares[i];

	dev->spares[i] = (struct h2d_spare){NULL, 0};
	return s;
}

static void release_spare(struct h2d_device *dev, const struct h2d_spare *s)
{
	if (s->p && atomic_load(&dev->lost))
		atomic_fetch_add(&dev->quarantined_bytes, s->bytes);
	else if (s->p)
		dev->backend->host_free(dev, s->p, s->bytes);
}

int h2d_device_host_get(struct h2d_device *dev, uint64_t *bytes, uint64_t most, void **out)
{
	struct h2d_spare found = {NULL, 0}, misfits[H2D_SPARE_MAX];
	size_t misfit_count = 0;

	pthread_mutex_lock(&dev->spare_lock);
	for (size_t i = 0; i < H2D_SPARE_MAX; i++) {
		const struct h2d_spare *s = &dev->spares[i];

		if (s->p && !found.p && s->bytes >= *bytes && s->bytes <= most)
			found = take_spare(dev, i);
		else if (s->p && (s->bytes < *bytes || s->bytes > most))
			misfits[misfit_count++] = take_spare(dev, i);
	}
	pthread_mutex_unlock(&dev->spare_lock);
	while (misfit_count)
		release_spare(dev, &misfits[--misfit_count]);
	*out = found.p;
	if (!found.p)
		return dev->backend->host_alloc(dev, *bytes, out);
	*bytes = found.bytes;
	return 0;
}

void h2d_device_host_put(struct h2d_device *dev, void *p, uint64_t bytes)
{
	struct h2d_spare s = {p, bytes};

	pthread_mutex_lock(&dev->spare_lock);
	for (size_t i = 0; s.p && i < H2D_SPARE_MAX; i++) {
		if (dev->spares[i].p)
			continue;
		dev->spares[i] = s;
		s.p = NULL;
	}
	pthread_mutex_unlock(&dev->spare_lock);
	release_spare(dev, &s);
}

void h2d_device_host_trim(struct h2d_device *dev)
{
	for (size_t i = 0; i < H2D_SPARE_MAX; i++) {
		struct h2d_spare s;

		pthread_mutex_lock(&dev->spare_lock);
		s = take_spare(dev, i);
		pthread_mutex_unlock(&dev->spare_lock);
		release_spare(dev, &s);
	}
}

static void describe(struct h2d_device *dev)
{
	pthread_mutex_lock(&dev->facts_lock);
	if (!dev->described && dev->backend->describe)
		dev->backend->describe(dev);
	dev->described = true;
	pthread_mutex_unlock(&dev->facts_lock);
}

int h2d_device_info(const struct h2d_device *dev, struct h2d_device_info *info)
{
	struct h2d_device_info ours;

	if (!dev || !info)
		return H2D_E_INVALID;
	describe((struct h2d_device *)(uintptr_t)dev); /* a cache: the caller sees no change */
	ours = (struct h2d_device_info){
		.size = sizeof(ours),
		.name = dev->facts.name,
		.backend = dev->backend->name,
		.hardware = dev->facts.hardware,
		.memory_bytes = dev->facts.memory_bytes,
		.memory_free_bytes = dev->facts.memory_free_bytes,
		.numa_node = dev->facts.numa_node,
		.pci_address = dev->facts.pci_address,
		.unified = dev->facts.unified,
		.readable = !!(dev->caps & H2D_DEV_READABLE),
	};
	return h2d_info_write(info, &ours, sizeof(ours)) ? H2D_E_INVALID : 0;
}

int h2d_backend_describe(uint32_t i, const char **name, const char **summary)
{
	for (uint32_t n = 0; h2d_backends[n]; n++) {
		if (n != i)
			continue;
		if (name)
			*name = h2d_backends[n]->name;
		if (summary)
			*summary = h2d_backends[n]->summary;
		return 0;
	}
	return H2D_E_NOT_FOUND;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Plain host memory as a device: the embedded default, and the engine's test bench. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "core/checked.h"
#include "device/engine_thread.h"
#include "device/hostmem.h"
#include "device/room.h"
#include "device/topology.h"

static int host_move(void *ctx, void *dst, const void *src, uint64_t bytes)
{
	(void)ctx;
	memcpy(dst, src, bytes);
	return 0;
}

static int host_open(struct h2d_device *dev, const char *args)
{
	struct h2d_soft *soft;
	struct h2d_room room;
	int rc;

	if (args[0])
		return h2d_fail(
			&dev->log, H2D_E_INVALID,
			"host: takes no arguments: \"%s\" (two such devices: host,host)", args);
	rc = h2d_soft_create(&dev->log, host_move, NULL, NULL, &soft);
	if (rc)
		return rc;
	dev->priv = soft;
	h2d_room_read(&room);
	dev->facts.memory_bytes = room.total_bytes;
	dev->facts.memory_free_bytes =
		room.available_bytes == UINT64_MAX ? 0 : room.available_bytes;
	dev->facts.unified = 1;
	return 0;
}

static void host_close(struct h2d_device *dev)
{
	h2d_soft_release(dev->priv);
}

static void host_describe(struct h2d_device *dev)
{
	h2d_topology_host(&dev->facts.numa_node, dev->facts.hardware,
			  sizeof(dev->facts.hardware));
}

/* What was handed out here and has certainly not been touched yet: it will still be taken from
 * the room that is left. */
static uint64_t promised_bytes(struct h2d_soft *soft)
{
	uint64_t touched = h2d_room_anonymous_bytes();
	struct h2d_soft_counts counts;

	h2d_soft_count(soft, &counts);
	return counts.alloc_bytes > touched ? counts.alloc_bytes - touched : 0;
}

/* Refuse what cannot be had, before the OOM killer does it in the middle of the load. */
static int check_room(struct h2d_device *dev, uint64_t bytes)
{
	uint64_t promised = promised_bytes(dev->priv), need;
	struct h2d_room room;
	char number[24];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)promised);
	h2d_room_read(&room);
	if (h2d_add_u64(bytes, promised, &need) && need <= room.available_bytes)
		return 0;
	return h2d_fail(
		&dev->log, H2D_E_NOMEM,
		"host: %llu bytes cannot be had: %llu bytes are available (%s)%s%s",
		(unsigned long long)bytes, (unsigned long long)room.available_bytes, room.bound,
		promised ? ", promised already of them: " : "", promised ? number : "");
}

static int refused(struct h2d_device *dev, uint64_t bytes, int err)
{
	struct rlimit as = {0}, data = {0};

	getrlimit(RLIMIT_AS, &as);
	getrlimit(RLIMIT_DATA, &data);
	if (as.rlim_cur == RLIM_INFINITY && data.rlim_cur == RLIM_INFINITY)
		return h2d_fail_errno(&dev->log, err,
				      "host: %llu bytes of memory (vm.overcommit_memory or "
				      "vm.max_map_count may be the reason)",
				      (unsigned long long)bytes);
	return h2d_fail_errno(
		&dev->log, err,
		"host: %llu bytes of memory (limits of this process: RLIMIT_AS %lld, "
		"RLIMIT_DATA %lld, -1 is none)",
		(unsigned long long)bytes, (long long)as.rlim_cur, (long long)data.rlim_cur);
}

static int host_alloc(struct h2d_device *dev, uint64_t bytes, struct h2d_devmem *out)
{
	int rc;

	memset(out, 0, sizeof(*out));
	if (!bytes)
		return h2d_fail(&dev->log, H2D_E_INVALID, "host: an allocation of 0 bytes");
	rc = check_room(dev, bytes);
	if (rc)
		return rc;
	out->ptr = h2d_hostmem_alloc(bytes);
	if (!out->ptr)
		return refused(dev, bytes, errno);
	out->bytes = bytes;
	h2d_soft_account(dev->priv, false, 1, bytes);
	return 0;
}

static void host_free(struct h2d_device *dev, struct h2d_devmem *mem)
{
	if (!mem->ptr)
		return;
	h2d_hostmem_free(mem->ptr, mem->bytes);
	h2d_soft_account(dev->priv, false, -1, mem->bytes);
	memset(mem, 0, sizeof(*mem));
}

const struct h2d_backend h2d_backend_host = {
	.name = "host",
	.summary = "plain host memory",
	.abi = H2D_BACKEND_ABI,
	.caps = H2D_DEV_READABLE | H2D_DEV_FILL | H2D_DEV_COPY_2D | H2D_DEV_CALLER_STREAM |
		H2D_DEV_UNIFIED,
	.open = host_open,
	.close = host_close,
	.describe = host_describe,
	.alloc = host_alloc,
	.free = host_free,
	.host_alloc = h2d_soft_host_alloc,
	.host_free = h2d_soft_host_free,
	.stream_create = h2d_soft_stream_create,
	.stream_destroy = h2d_soft_stream_destroy,
	.stream_wrap = h2d_soft_stream_wrap,
	.copy_to_device = h2d_soft_copy,
	.copy_to_device_2d = h2d_soft_copy_2d,
	.copy_to_host = h2d_soft_copy,
	.event_create = h2d_soft_event_create,
	.event_destroy = h2d_soft_event_destroy,
	.event_record = h2d_soft_event_record,
	.event_query = h2d_soft_event_query,
	.event_wait = h2d_soft_event_wait,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of OpenCL devices, and host memory that they copy from. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/checked.h"
#include "core/mem.h"
#include "device/hostmem.h"
#include "device/opencl.h"
#include "device/room.h"

/* More than any driver aligns by itself, and what the placement of tensors counts on. */
enum { ALIGN_BYTES = 4096 };

static unsigned char *aligned(void *p)
{
	return (unsigned char *)(((uintptr_t)p + ALIGN_BYTES - 1) &
				 ~(uintptr_t)(ALIGN_BYTES - 1));
}

static int add_range(struct h2d_opencl *ocl, const struct h2d_opencl_range *r)
{
	int rc = 0;

	pthread_mutex_lock(&ocl->lock);
	if (ocl->range_count == ocl->range_cap) {
		size_t cap = ocl->range_cap ? ocl->range_cap * 2 : 16;
		void *p = h2d_mem->realloc(ocl->ranges, cap * sizeof(*ocl->ranges));

		if (p) {
			ocl->ranges = p;
			ocl->range_cap = cap;
		} else {
			rc = H2D_E_NOMEM;
		}
	}
	if (!rc)
		ocl->ranges[ocl->range_count++] = *r;
	pthread_mutex_unlock(&ocl->lock);
	return rc;
}

/* Forget the range that begins at `p`. @return whether there was one */
static bool take_range(struct h2d_opencl *ocl, const void *p, struct h2d_opencl_range *out)
{
	bool found = false;

	pthread_mutex_lock(&ocl->lock);
	for (size_t i = 0; !found && i < ocl->range_count; i++) {
		if (ocl->ranges[i].base != p)
			continue;
		*out = ocl->ranges[i];
		ocl->ranges[i] = ocl->ranges[--ocl->range_count];
		found = true;
	}
	pthread_mutex_unlock(&ocl->lock);
	return found;
}

int h2d_opencl_find(struct h2d_opencl *ocl, const void *p, uint64_t bytes,
		    struct h2d_opencl_range *out)
{
	int rc = H2D_E_INVALID;

	pthread_mutex_lock(&ocl->lock);
	for (size_t i = 0; rc && i < ocl->range_count; i++) {
		const struct h2d_opencl_range *r = &ocl->ranges[i];
		uint64_t at = (uintptr_t)p - (uintptr_t)r->base;

		if ((uintptr_t)p < (uintptr_t)r->base || at > r->bytes || bytes > r->bytes - at)
			continue;
		*out = *r;
		rc = 0;
	}
	pthread_mutex_unlock(&ocl->lock);
	return rc;
}

int h2d_opencl_find_buffer(struct h2d_opencl *ocl, const void *p, uint64_t bytes,
			   struct h2d_opencl_range *out)
{
	int rc = h2d_opencl_find(ocl, p, bytes, out);
	int32_t code;

	if (rc || out->mem)
		return rc;
	/* Shared memory gets a buffer object over it when somebody first wants one. */
	pthread_mutex_lock(&ocl->lock);
	rc = H2D_E_UNSUPPORTED;
	for (size_t i = 0; i < ocl->range_count; i++) {
		struct h2d_opencl_range *r = &ocl->ranges[i];

		if (r->base != out->base)
			continue;
		if (!r->mem)
			r->mem = ocl->api.clCreateBuffer(
				ocl->context, OCL_MEM_READ_WRITE | OCL_MEM_USE_HOST_PTR,
				r->bytes, r->base, &code);
		out->mem = r->mem;
		rc = r->mem ? 0 : H2D_E_UNSUPPORTED;
		break;
	}
	pthread_mutex_unlock(&ocl->lock);
	return rc;
}

static int no_memory(const struct h2d_device *dev, uint64_t bytes, const char *why)
{
	const struct h2d_opencl *ocl = dev->priv;

	return h2d_fail(&dev->log, H2D_E_DEVICE_MEMORY,
			"%s: %llu bytes of device memory: %s (the device has %llu, at most "
			"%llu in one allocation; %llu are allocated here)",
			dev->facts.name, (unsigned long long)bytes, why,
			(unsigned long long)dev->facts.memory_bytes,
			(unsigned long long)ocl->alloc_max_bytes,
			(unsigned long long)atomic_load(&ocl->alloc_bytes));
}

/* A processor's memory is the host's: refuse what cannot be had before the OOM killer does. */
static int check_room(const struct h2d_device *dev, uint64_t bytes)
{
	const struct h2d_opencl *ocl = dev->priv;
	uint64_t have = atomic_load(&ocl->alloc_bytes), touched, need;
	struct h2d_room room;

	if (bytes > ocl->alloc_max_bytes)
		return no_memory(dev, bytes, "more than one allocation may have");
	if (!ocl->processor)
		return 0;
	touched = h2d_room_anonymous_bytes();
	h2d_room_read(&room);
	if (h2d_add_u64(bytes, have > touched ? have - touched : 0, &need) &&
	    need <= room.available_bytes)
		return 0;
	return no_memory(dev, bytes, room.bound);
}

static int alloc_svm(struct h2d_device *dev, uint64_t bytes, struct h2d_opencl_range *r)
{
	struct h2d_opencl *ocl = dev->priv;

	r->raw = ocl->api.clSVMAlloc(ocl->context, OCL_MEM_READ_WRITE, bytes + ALIGN_BYTES, 0);
	if (!r->raw)
		return no_memory(dev, bytes, "clSVMAlloc refused");
	r->base = aligned(r->raw);
	/* Ordinary memory, whose first touch costs less in huge pages. A wish. */
	if (ocl->processor && h2d_hostmem_huge_page_bytes())
		madvise(r->base, bytes & ~(uint64_t)(ALIGN_BYTES - 1), MADV_HUGEPAGE);
	return 0;
}

static int alloc_buffer(struct h2d_device *dev, uint64_t bytes, struct h2d_opencl_range *r)
{
	struct h2d_opencl *ocl = dev->priv;
	int32_t code;

	r->mem = ocl->api.clCreateBuffer(ocl->context, OCL_MEM_READ_WRITE, bytes, NULL, &code);
	if (!r->mem)
		return no_memory(dev, bytes, h2d_opencl_error_name(code));
	r->base = h2d_hostmem_reserve(bytes);
	if (r->base)
		return 0;
	ocl->api.clReleaseMemObject(r->mem);
	return h2d_fail_errno(&dev->log, errno, "%s: %llu bytes of addresses", dev->facts.name,
			      (unsigned long long)bytes);
}

static void release(struct h2d_opencl *ocl, struct h2d_opencl_range *r)
{
	if (r->mem)
		ocl->api.clReleaseMemObject(r->mem);
	if (r->raw)
		ocl->api.clSVMFree(ocl->context, r->raw);
	else
		h2d_hostmem_free(r->base, r->bytes);
}

int h2d_opencl_alloc(struct h2d_device *dev, uint64_t bytes, struct h2d_devmem *out)
{
	struct h2d_opencl *ocl = dev->priv;
	struct h2d_opencl_range r = {.bytes = bytes};
	int rc;

	memset(out, 0, sizeof(*out));
	if (!bytes || bytes > SIZE_MAX / 2)
		return h2d_fail(&dev->log, H2D_E_INVALID, "%s: an allocation of %llu bytes",
				dev->facts.name, (unsigned long long)bytes);
	rc = check_room(dev, bytes);
	if (!rc)
		rc = ocl->svm ? alloc_svm(dev, bytes, &r) : alloc_buffer(dev, bytes, &r);
	if (rc)
		return rc;
	rc = add_range(ocl, &r);
	if (rc) {
		release(ocl, &r);
		return h2d_fail(&dev->log, rc, "%s: out of memory", dev->facts.name);
	}
	atomic_fetch_add(&ocl->alloc_bytes, bytes);
	*out = (struct h2d_devmem){.ptr = r.base, .bytes = bytes, .handle = r.mem};
	return 0;
}

void h2d_opencl_free(struct h2d_device *dev, struct h2d_devmem *mem)
{
	struct h2d_opencl *ocl = dev->priv;
	struct h2d_opencl_range r;

	if (!mem->ptr || !take_range(ocl, mem->ptr, &r))
		return;
	release(ocl, &r);
	atomic_fetch_sub(&ocl->alloc_bytes, r.bytes);
	memset(mem, 0, sizeof(*mem));
}

/* ---------------------------------------------------------------- host memory */

int h2d_opencl_host_alloc(struct h2d_device *dev, uint64_t bytes, void **out)
{
	struct h2d_opencl *ocl = dev->priv;
	struct h2d_opencl_range r = {.bytes = bytes};
	int32_t code;
	int rc;

	*out = NULL;
	if (ocl->plain_host) {
		*out = h2d_hostmem_alloc(bytes);
		if (*out) {
			h2d_hostmem_bind(*out, bytes, dev->facts.numa_node);
			return 0;
		}
		return h2d_fail_errno(&dev->log, errno, "%s: %llu bytes of staging memory",
				      dev->facts.name, (unsigned long long)bytes);
	}
	if (!bytes || bytes > SIZE_MAX / 2)
		return h2d_fail(&dev->log, H2D_E_INVALID, "%s: %llu bytes of staging memory",
				dev->facts.name, (unsigned long long)bytes);
	r.mem = ocl->api.clCreateBuffer(ocl->context,
					OCL_MEM_READ_WRITE | OCL_MEM_ALLOC_HOST_PTR,
					bytes + ALIGN_BYTES, NULL, &code);
	if (!r.mem)
		return h2d_opencl_fail(dev, code, "clCreateBuffer of staging memory");
	r.raw = ocl->api.clEnqueueMapBuffer(ocl->queue, r.mem, 1, OCL_MAP_READ | OCL_MAP_WRITE,
					    0, bytes + ALIGN_BYTES, 0, NULL, NULL, &code);
	if (!r.raw) {
		ocl->api.clReleaseMemObject(r.mem);
		return h2d_opencl_fail(dev, code, "clEnqueueMapBuffer");
	}
	r.base = aligned(r.raw);
	rc = add_range(ocl, &r);
	if (rc) {
		ocl->api.clEnqueueUnmapMemObject(ocl->queue, r.mem, r.raw, 0, NULL, NULL);
		ocl->api.clReleaseMemObject(r.mem);
		return h2d_fail(&dev->log, rc, "%s: out of memory", dev->facts.name);
	}
	*out = r.base;
	return 0;
}

void h2d_opencl_host_free(struct h2d_device *dev, void *p, uint64_t bytes)
{
	struct h2d_opencl *ocl = dev->priv;
	struct h2d_opencl_range r;

	if (!p)
		return;
	if (ocl->plain_host) {
		h2d_hostmem_free(p, bytes);
		return;
	}
	if (!take_range(ocl, p, &r))
		return;
	ocl->api.clEnqueueUnmapMemObject(ocl->queue, r.mem, r.raw, 0, NULL, NULL);
	ocl->api.clFinish(ocl->queue);
	ocl->api.clReleaseMemObject(r.mem);
}

/* A buffer object over the caller's memory: what drivers pin. The device only reads it, so that
 * a read-only mapping will do as far as the API is concerned; a driver that wants more says so.
 */
int h2d_opencl_host_register(struct h2d_device *dev, void *p, uint64_t bytes, bool read_only)
{
	struct h2d_opencl *ocl = dev->priv;
	struct h2d_opencl_range r = {.base = p, .bytes = bytes};
	int32_t code;
	int rc;

	(void)read_only;
	r.mem = ocl->api.clCreateBuffer(ocl->context, OCL_MEM_READ_ONLY | OCL_MEM_USE_HOST_PTR,
					bytes, p, &code);
	if (!r.mem) {
		/* Not an error yet: who registers has other ways. */
		h2d_log_line(&dev->log, H2D_LOG_INFO,
			     "%s: clCreateBuffer over host memory: %s (%d)", dev->facts.name,
			     h2d_opencl_error_name(code), code);
		return h2d_opencl_status(code);
	}
	rc = add_range(ocl, &r);
	if (rc) {
		ocl->api.clReleaseMemObject(r.mem);
		return h2d_fail(&dev->log, rc, "%s: out of memory", dev->facts.name);
	}
	return 0;
}

int h2d_opencl_host_unregister(struct h2d_device *dev, void *p, uint64_t bytes)
{
	struct h2d_opencl *ocl = dev->priv;
	struct h2d_opencl_range r;
	int32_t code;

	(void)bytes;
	if (!take_range(ocl, p, &r))
		return h2d_fail(&dev->log, H2D_E_INVALID, "%s: no such registered range",
				dev->facts.name);
	code = ocl->api.clReleaseMemObject(r.mem);
	return code ? h2d_opencl_fail(dev, code, "clReleaseMemObject") : 0;
}

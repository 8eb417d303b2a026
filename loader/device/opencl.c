/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any OpenCL device, by libOpenCL.so.1 found at run time.
 *
 * Spec: opencl[:N][,memory=svm|buffer]. Devices of all platforms are counted together, graphics
 * processors first and host processors last, so that `opencl` alone is the best of them.
 */
#include "device/opencl.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "device/pci.h"

enum { PLATFORMS_MAX = 16, DEVICES_MAX = 64 };

struct found {
	h2d_cl_device device;
	int rank; /* what is wanted first is lowest */
};

struct list {
	struct found devices[DEVICES_MAX];
	unsigned count, platform_count;
	h2d_cl_platform first_platform;
	int32_t code; /* of the first call that failed, where no device was found */
	const char *call;
};

int h2d_opencl_fail(const struct h2d_device *dev, int32_t code, const char *call)
{
	return h2d_fail(&dev->log, h2d_opencl_status(code), "%s: %s: %s (%d)", dev->facts.name,
			call, h2d_opencl_error_name(code), code);
}

/* Drivers start threads of their own. These shall take no signal that is meant for the program,
 * and must not block those that their own instructions raise: see h2d_mem->thread_create(). */
static void quiet_begin(sigset_t *old)
{
	static const int own[] = {SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
	sigset_t mask;

	sigfillset(&mask);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&mask, own[i]);
	pthread_sigmask(SIG_SETMASK, &mask, old);
}

static void quiet_end(const sigset_t *old)
{
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

static int rank_of(const struct h2d_opencl_api *api, h2d_cl_device d)
{
	uint64_t type = 0;

	api->clGetDeviceInfo(d, OCL_DEVICE_TYPE, sizeof(type), &type, NULL);
	if (type & OCL_DEVICE_TYPE_GPU)
		return 0;
	if (type & OCL_DEVICE_TYPE_ACCELERATOR)
		return 1;
	return type & OCL_DEVICE_TYPE_CPU ? 3 : 2;
}

static void add_platform(const struct h2d_opencl_api *api, h2d_cl_platform platform,
			 struct list *l)
{
	h2d_cl_device devices[DEVICES_MAX];
	uint32_t n = 0;
	int32_t code;

	code = api->clGetDeviceIDs(platform, OCL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &n);
	if (code) {
		if (!l->code) {
			l->code = code;
			l->call = "clGetDeviceIDs";
		}
		return;
	}
	for (uint32_t i = 0; i < n && i < DEVICES_MAX && l->count < DEVICES_MAX; i++) {
		struct found f = {devices[i], rank_of(api, devices[i])};
		unsigned at = l->count++;

		for (; at && l->devices[at - 1].rank > f.rank; at--)
			l->devices[at] = l->devices[at - 1];
		l->devices[at] = f;
	}
}

static void enumerate(const struct h2d_opencl_api *api, struct list *l)
{
	h2d_cl_platform platforms[PLATFORMS_MAX];
	uint32_t n = 0;
	sigset_t old;
	int32_t code;

	memset(l, 0, sizeof(*l));
	quiet_begin(&old);
	code = api->clGetPlatformIDs(PLATFORMS_MAX, platforms, &n);
	if (code) {
		l->code = code;
		l->call = "clGetPlatformIDs";
		n = 0;
	}
	l->platform_count = n < PLATFORMS_MAX ? n : PLATFORMS_MAX;
	l->first_platform = n ? platforms[0] : NULL;
	for (uint32_t i = 0; i < l->platform_count; i++)
		add_platform(api, platforms[i], l);
	quiet_end(&old);
}

static void opencl_runtime(struct h2d_runtime *out)
{
	struct h2d_opencl_api api;
	struct list l = {0};

	memset(out, 0, sizeof(*out));
	if (!h2d_opencl_load(&api, out->why, sizeof(out->why))) {
		enumerate(&api, &l);
		if (l.platform_count)
			api.clGetPlatformInfo(l.first_platform, OCL_PLATFORM_VERSION,
					      sizeof(out->version) - 1, out->version, NULL);
		h2d_opencl_unload(&api);
	}
	snprintf(out->library, sizeof(out->library), "%s", api.dl.soname);
	snprintf(out->path, sizeof(out->path), "%s", api.dl.path);
	out->device_count = l.count;
	if (l.count || out->why[0])
		return;
	if (!l.code) {
		snprintf(out->why, sizeof(out->why), "%u platforms, none with a device",
			 l.platform_count);
		return;
	}
	out->error_code = l.code;
	snprintf(out->error_name, sizeof(out->error_name), "%s", h2d_opencl_error_name(l.code));
	snprintf(out->why, sizeof(out->why), "%s: %s (%d)", l.call, out->error_name, l.code);
}

static int opencl_probe(unsigned *count, char *why, size_t why_bytes)
{
	struct h2d_runtime r;

	opencl_runtime(&r);
	*count = r.device_count;
	snprintf(why, why_bytes, "%s", r.why);
	return 0;
}

/* ---------------------------------------------------------------- facts */

static uint64_t number(const struct h2d_opencl *ocl, uint32_t what, size_t bytes)
{
	uint64_t v = 0;
	uint32_t v32 = 0;

	if (bytes == sizeof(v32))
		return ocl->api.clGetDeviceInfo(ocl->device, what, bytes, &v32, NULL) ? 0 : v32;
	return ocl->api.clGetDeviceInfo(ocl->device, what, bytes, &v, NULL) ? 0 : v;
}

static bool extends(const struct h2d_opencl *ocl, const char *extension)
{
	size_t bytes = 0, n = strlen(extension);
	bool found = false;
	char *text;

	if (ocl->api.clGetDeviceInfo(ocl->device, OCL_DEVICE_EXTENSIONS, 0, NULL, &bytes) ||
	    !bytes)
		return false;
	text = h2d_mem->calloc(1, bytes + 1);
	if (text &&
	    !ocl->api.clGetDeviceInfo(ocl->device, OCL_DEVICE_EXTENSIONS, bytes, text, NULL))
		for (char *p = text; !found && (p = strstr(p, extension)); p += n)
			found = (p == text || p[-1] == ' ') && (!p[n] || p[n] == ' ');
	free(text);
	return found;
}

static void read_pci(const struct h2d_opencl *ocl, char *out, size_t cap)
{
	struct h2d_cl_pci_khr at;
	unsigned char amd[24];
	uint32_t bus, slot;

	if (extends(ocl, "cl_khr_pci_bus_info") &&
	    !ocl->api.clGetDeviceInfo(ocl->device, OCL_DEVICE_PCI_BUS_INFO_KHR, sizeof(at), &at,
				      NULL)) {
		snprintf(out, cap, "%04x:%02x:%02x.%x", at.domain, at.bus, at.device,
			 at.function);
	} else if (extends(ocl, "cl_nv_device_attribute_query") &&
		   !ocl->api.clGetDeviceInfo(ocl->device, OCL_DEVICE_PCI_BUS_ID_NV, sizeof(bus),
					     &bus, NULL) &&
		   !ocl->api.clGetDeviceInfo(ocl->device, OCL_DEVICE_PCI_SLOT_ID_NV,
					     sizeof(slot), &slot, NULL)) {
		snprintf(out, cap, "%04x:%02x:%02x.%x",
			 (unsigned)number(ocl, OCL_DEVICE_PCI_DOMAIN_ID_NV, sizeof(uint32_t)),
			 bus, slot >> 3, slot & 7);
	} else if (extends(ocl, "cl_amd_device_attribute_query") &&
		   !ocl->api.clGetDeviceInfo(ocl->device, OCL_DEVICE_TOPOLOGY_AMD, sizeof(amd),
					     amd, NULL) &&
		   amd[0] == 1) {
		/* A type, 17 unused bytes, then bus, device, function (cl_ext.h). */
		snprintf(out, cap, "0000:%02x:%02x.%x", amd[21], amd[22], amd[23]);
	}
}

static void read_facts(struct h2d_device *dev)
{
	const struct h2d_opencl *ocl = dev->priv;
	struct h2d_device_facts *f = &dev->facts;
	uint64_t free_kib[2] = {0, 0};
	struct h2d_pci pci;

	if (ocl->api.clGetDeviceInfo(ocl->device, OCL_DEVICE_NAME, sizeof(f->hardware),
				     f->hardware, NULL))
		f->hardware[0] = 0;
	f->hardware[sizeof(f->hardware) - 1] = 0;
	f->memory_bytes = number(ocl, OCL_DEVICE_GLOBAL_MEM_SIZE, sizeof(uint64_t));
	f->unified = !!number(ocl, OCL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(uint32_t));
	read_pci(ocl, f->pci_address, sizeof(f->pci_address));
	if (f->pci_address[0] && !h2d_pci_read(NULL, f->pci_address, &pci))
		f->numa_node = pci.numa_node;
	if (extends(ocl, "cl_amd_device_attribute_query") &&
	    !ocl->api.clGetDeviceInfo(ocl->device, OCL_DEVICE_GLOBAL_FREE_MEMORY_AMD,
				      sizeof(free_kib), free_kib, NULL))
		f->memory_free_bytes = free_kib[0] << 10;
}

/* ---------------------------------------------------------------- open and close */

/* The index, and whether shared virtual memory is wanted: 1, 0, or -1 for "where there is". */
static int parse(const struct h2d_device *dev, const char *args, unsigned *index, int *svm)
{
	const char *rest;
	int rc = h2d_device_index(args, index, &rest);

	*svm = -1;
	if (!rc && !strcmp(rest, ",memory=svm"))
		*svm = 1;
	else if (!rc && !strcmp(rest, ",memory=buffer"))
		*svm = 0;
	else if (!rc && rest[0])
		rc = H2D_E_INVALID;
	return rc ? h2d_fail(&dev->log, rc, "opencl%s: expected opencl[:N][,memory=svm|buffer]",
			     args)
		  : 0;
}

/* The caller's context, if there is one and the device is in it; else one of our own. */
static int make_context(struct h2d_device *dev, const struct found *f)
{
	struct h2d_opencl *ocl = dev->priv;
	h2d_cl_device in[DEVICES_MAX];
	size_t bytes = 0;
	int32_t code;

	if (!dev->native_context) {
		ocl->context = ocl->api.clCreateContext(NULL, 1, &f->device, NULL, NULL, &code);
		return ocl->context ? 0 : h2d_opencl_fail(dev, code, "clCreateContext");
	}
	code = ocl->api.clGetContextInfo(dev->native_context, OCL_CONTEXT_DEVICES, sizeof(in),
					 in, &bytes);
	if (code)
		return h2d_opencl_fail(dev, code, "clGetContextInfo of the caller's context");
	for (size_t i = 0; i < bytes / sizeof(in[0]); i++) {
		if (in[i] != f->device)
			continue;
		ocl->context = dev->native_context;
		code = ocl->api.clRetainContext(ocl->context);
		return code ? h2d_opencl_fail(dev, code, "clRetainContext") : 0;
	}
	return h2d_fail(&dev->log, H2D_E_INVALID,
			"%s: the caller's context is of another device", dev->facts.name);
}

static int choose_memory(struct h2d_device *dev, int svm)
{
	struct h2d_opencl *ocl = dev->priv;
	bool have = ocl->api.clSVMAlloc && ocl->api.clSVMFree && ocl->api.clEnqueueSVMMemcpy &&
		    (number(ocl, OCL_DEVICE_SVM_CAPABILITIES, sizeof(uint64_t)) &
		     OCL_SVM_COARSE_GRAIN_BUFFER);

	if (svm == 1 && !have)
		return h2d_fail(&dev->log, H2D_E_UNSUPPORTED,
				"%s: the driver has no shared virtual memory", dev->facts.name);
	ocl->svm = svm ? have : false;
	ocl->alloc_max_bytes = number(ocl, OCL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(uint64_t));
	return 0;
}

static void tear_down(struct h2d_opencl *ocl)
{
	for (size_t i = 0; i < ocl->failed_count; i++)
		ocl->api.clReleaseEvent(ocl->failed[i]);
	if (ocl->queue)
		ocl->api.clReleaseCommandQueue(ocl->queue);
	if (ocl->context)
		ocl->api.clReleaseContext(ocl->context);
	h2d_opencl_unload(&ocl->api);
	pthread_mutex_destroy(&ocl->lock);
	free(ocl->ranges);
	free(ocl->failed);
	free(ocl);
}

static int set_up(struct h2d_device *dev, const struct found *f, int svm)
{
	struct h2d_opencl *ocl = dev->priv;
	sigset_t old;
	int32_t code;
	int rc;

	ocl->device = f->device;
	if (!number(ocl, OCL_DEVICE_AVAILABLE, sizeof(uint32_t)))
		return h2d_fail(&dev->log, H2D_E_UNAVAILABLE,
				"%s: the driver says it is not available", dev->facts.name);
	quiet_begin(&old);
	rc = make_context(dev, f);
	if (!rc) {
		ocl->queue = ocl->api.clCreateCommandQueue(ocl->context, ocl->device, 0, &code);
		rc = ocl->queue ? 0 : h2d_opencl_fail(dev, code, "clCreateCommandQueue");
	}
	quiet_end(&old);
	if (!rc)
		rc = choose_memory(dev, svm);
	if (rc)
		return rc;
	read_facts(dev);
	ocl->processor = f->rank == 3;
	ocl->plain_host = ocl->processor || dev->facts.unified == 1;
	if (ocl->plain_host)
		dev->caps &= ~(unsigned)H2D_DEV_PINNED;
	if (dev->facts.unified != 1)
		dev->caps &= ~(unsigned)H2D_DEV_UNIFIED;
	return 0;
}

static int opencl_open(struct h2d_device *dev, const char *args)
{
	struct h2d_opencl *ocl;
	char why[256] = "";
	struct list l;
	unsigned index;
	int svm, rc;

	rc = parse(dev, args, &index, &svm);
	if (rc)
		return rc;
	ocl = h2d_mem->calloc(1, sizeof(*ocl));
	if (!ocl)
		return h2d_fail(&dev->log, H2D_E_NOMEM, "opencl: out of memory");
	pthread_mutex_init(&ocl->lock, NULL);
	dev->priv = ocl;
	rc = h2d_opencl_load(&ocl->api, why, sizeof(why));
	if (rc) {
		h2d_fail(&dev->log, rc, "opencl: %s", why);
		goto out;
	}
	enumerate(&ocl->api, &l);
	if (index >= l.count)
		rc = h2d_fail(&dev->log, H2D_E_UNAVAILABLE,
			      "%s: there %s %u OpenCL device%s, counted from 0",
			      dev->facts.name, l.count == 1 ? "is" : "are", l.count,
			      l.count == 1 ? "" : "s");
	else
		rc = set_up(dev, &l.devices[index], svm);
out:
	if (rc) {
		tear_down(ocl);
		dev->priv = NULL;
	}
	return rc;
}

static void opencl_close(struct h2d_device *dev)
{
	/* Under a lost device everything stays: its driver may still use it. */
	if (!atomic_load(&dev->lost))
		tear_down(dev->priv);
}

const struct h2d_backend h2d_backend_opencl = {
	.name = "opencl",
	.summary = "any OpenCL device",
	.abi = H2D_BACKEND_ABI,
	.caps = H2D_DEV_READABLE | H2D_DEV_PINNED | H2D_DEV_REGISTER |
		H2D_DEV_REGISTER_READ_ONLY | H2D_DEV_COPY_2D | H2D_DEV_CALLER_STREAM |
		H2D_DEV_UNIFIED,
	.probe = opencl_probe,
	.runtime = opencl_runtime,
	.open = opencl_open,
	.close = opencl_close,
	.alloc = h2d_opencl_alloc,
	.free = h2d_opencl_free,
	.host_alloc = h2d_opencl_host_alloc,
	.host_free = h2d_opencl_host_free,
	.host_register = h2d_opencl_host_register,
	.host_unregister = h2d_opencl_host_unregister,
	.stream_create = h2d_opencl_stream_create,
	.stream_destroy = h2d_opencl_stream_destroy,
	.stream_wrap = h2d_opencl_stream_wrap,
	.copy_to_device = h2d_opencl_copy_to_device,
	.copy_to_device_2d = h2d_opencl_copy_to_device_2d,
	.copy_to_host = h2d_opencl_copy_to_host,
	.event_create = h2d_opencl_event_create,
	.event_destroy = h2d_opencl_event_destroy,
	.event_record = h2d_opencl_event_record,
	.event_query = h2d_opencl_event_query,
	.event_wait = h2d_opencl_event_wait,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* A device's writes into pageable memory without a call of these (unified memory, kernels that
 * write through a host pointer) are not seen, and unsafe. */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "run/device.h"
#include "run/interpose.h"
#include "run/keep.h"

/* HIP, CUDA's runtime and its driver interface all say "not initialised" with it. */
enum { NOT_INITIALISED = 3 };

/* CUDA: the pages are pinned for reading only. HIP's flag of that value meant something else
 * once. */
enum { CUDA_REGISTER_READ_ONLY = 8 };

typedef uintptr_t word; /* pointer, handle, size or enumerator: one register each */

static void opens(word to, size_t bytes)
{
	ro_open((void *)to, bytes, RO_DEVICE_WRITE);
}

static void opens_2d(word to, size_t pitch, size_t width, size_t height)
{
	size_t bytes;

	if (!height || __builtin_mul_overflow(pitch, height - 1, &bytes) ||
	    __builtin_add_overflow(bytes, width, &bytes))
		return;
	opens(to, bytes);
}

/* Shapes: parameters, what is opened, arguments. */
#define COPY_3(X, n) X(n, (word a, word b, word c), opens(a, c), (a, b, c))
#define COPY_4(X, n) X(n, (word a, word b, word c, word d), opens(a, c), (a, b, c, d))
#define COPY_5(X, n)                                                                           \
	X(n, (word a, word b, word c, word d, word e), opens(a, c), (a, b, c, d, e))
#define COPY_2D(X, n)                                                                          \
	X(n, (word a, word b, word c, word d, word e, word f, word g), opens_2d(a, b, e, f),   \
	  (a, b, c, d, e, f, g))
#define COPY_2D_ASYNC(X, n)                                                                    \
	X(n, (word a, word b, word c, word d, word e, word f, word g, word h),                 \
	  opens_2d(a, b, e, f), (a, b, c, d, e, f, g, h))
#define PIN(X, n) X(n, (word a, word b, word c), opens(a, b), (a, b, c))
#define PIN_CUDA(X, n)                                                                         \
	X(n, (word a, word b, word c), opens(a, (unsigned)c &CUDA_REGISTER_READ_ONLY ? 0 : b), \
	  (a, b, c))
#define LOOKUP_4(X, n) X(n, (word a, word b, word c, word d), (void)0, (a, b, c, d))
#define LOOKUP_5(X, n) X(n, (word a, word b, word c, word d, word e), (void)0, (a, b, c, d, e))

/* For variants that GetProcAddress knows and no name exports. */
#define SPARE(X)                                                                               \
	COPY_4(X, hipMemcpy_h2d)                                                               \
	COPY_5(X, hipMemcpyAsync_h2d)                                                          \
	COPY_3(X, hipMemcpyDtoH_h2d)                                                           \
	COPY_4(X, hipMemcpyDtoHAsync_h2d)                                                      \
	PIN(X, hipHostRegister_h2d)                                                            \
	COPY_3(X, cuMemcpy_h2d)                                                                \
	COPY_4(X, cuMemcpyAsync_h2d)                                                           \
	COPY_3(X, cuMemcpyDtoH_h2d)                                                            \
	COPY_4(X, cuMemcpyDtoHAsync_h2d)                                                       \
	PIN_CUDA(X, cuMemHostRegister_h2d)

#define COPIES(X)                                                                              \
	COPY_4(X, hipMemcpy)                                                                   \
	COPY_4(X, hipMemcpy_spt)                                                               \
	COPY_5(X, hipMemcpyAsync)                                                              \
	COPY_5(X, hipMemcpyAsync_spt)                                                          \
	COPY_5(X, hipMemcpyWithStream)                                                         \
	COPY_3(X, hipMemcpyDtoH)                                                               \
	COPY_4(X, hipMemcpyDtoHAsync)                                                          \
	COPY_2D(X, hipMemcpy2D)                                                                \
	COPY_2D_ASYNC(X, hipMemcpy2DAsync)                                                     \
	PIN(X, hipHostRegister)                                                                \
	COPY_4(X, cudaMemcpy)                                                                  \
	COPY_4(X, cudaMemcpy_ptds)                                                             \
	COPY_5(X, cudaMemcpyAsync)                                                             \
	COPY_5(X, cudaMemcpyAsync_ptsz)                                                        \
	COPY_2D(X, cudaMemcpy2D)                                                               \
	COPY_2D(X, cudaMemcpy2D_ptds)                                                          \
	COPY_2D_ASYNC(X, cudaMemcpy2DAsync)                                                    \
	COPY_2D_ASYNC(X, cudaMemcpy2DAsync_ptsz)                                               \
	PIN_CUDA(X, cudaHostRegister)                                                          \
	COPY_3(X, cuMemcpy)                                                                    \
	COPY_3(X, cuMemcpy_ptds)                                                               \
	COPY_4(X, cuMemcpyAsync)                                                               \
	COPY_4(X, cuMemcpyAsync_ptsz)                                                          \
	COPY_3(X, cuMemcpyDtoH)                                                                \
	COPY_3(X, cuMemcpyDtoH_v2)                                                             \
	COPY_3(X, cuMemcpyDtoH_v2_ptds)                                                        \
	COPY_4(X, cuMemcpyDtoHAsync)                                                           \
	COPY_4(X, cuMemcpyDtoHAsync_v2)                                                        \
	COPY_4(X, cuMemcpyDtoHAsync_v2_ptsz)                                                   \
	PIN_CUDA(X, cuMemHostRegister)                                                         \
	PIN_CUDA(X, cuMemHostRegister_v2)                                                      \
	SPARE(X)

/* (symbol, where the function's address goes, …); CUDA 11 passes one argument less to the
 * third. */
#define LOOKUPS(X)                                                                             \
	LOOKUP_4(X, cuGetProcAddress)                                                          \
	LOOKUP_5(X, cuGetProcAddress_v2)                                                       \
	LOOKUP_4(X, cudaGetDriverEntryPoint)                                                   \
	LOOKUP_4(X, cudaGetDriverEntryPoint_ptsz)                                              \
	LOOKUP_5(X, cudaGetDriverEntryPointByVersion)                                          \
	LOOKUP_5(X, cudaGetDriverEntryPointByVersion_ptsz)                                     \
	LOOKUP_5(X, hipGetProcAddress)

#define INDEX(n, parameters, before, arguments) AT_##n,
enum { COPIES(INDEX) LOOKUPS(INDEX) CALLS };

static struct ro_device_call calls[CALLS];

static void *real_or_none(int at)
{
	return ro_device_real(&calls[at]);
}

#define COPY(n, parameters, before, arguments)                                                 \
	RO_PUBLIC int n parameters;                                                            \
	RO_PUBLIC int n parameters                                                             \
	{                                                                                      \
		int(*real) parameters;                                                         \
		void *p = real_or_none(AT_##n);                                                \
                                                                                               \
		if (!p)                                                                        \
			return NOT_INITIALISED;                                                \
		before;                                                                        \
		memcpy(&real, &p, sizeof(p));                                                  \
		return real arguments;                                                         \
	}

#define LOOKUP(n, parameters, before, arguments)                                               \
	RO_PUBLIC int n parameters;                                                            \
	RO_PUBLIC int n parameters                                                             \
	{                                                                                      \
		int(*real) parameters;                                                         \
		void *p = real_or_none(AT_##n);                                                \
		int rc;                                                                        \
                                                                                               \
		if (!p)                                                                        \
			return NOT_INITIALISED;                                                \
		memcpy(&real, &p, sizeof(p));                                                  \
		rc = real arguments;                                                           \
		if (!rc && a && b && *(void **)b)                                              \
			*(void **)b = ro_device_by_address((const char *)a, *(void **)b);      \
		return rc;                                                                     \
	}

COPIES(COPY)
LOOKUPS(LOOKUP)

#define ENTRY(n, parameters, before, arguments) [AT_##n] = {#n, (void *)n, NULL},

static struct ro_device_call calls[CALLS] = {COPIES(ENTRY) LOOKUPS(ENTRY)};

struct ro_device_call *ro_device_call(const char *name)
{
	if (strncmp(name, "hip", 3) && strncmp(name, "cu", 2))
		return NULL;
	for (size_t i = 0; i < CALLS; i++)
		if (!strcmp(calls[i].name, name))
			return &calls[i];
	return NULL;
}

/* A runtime that a plug-in brought along is in nobody's global scope: look through all that is
 * loaded. Wheels rename what they bundle ("libcudart-d0da41ae.so.11.0"). */
struct search {
	const char *name;
	void *ours, *found;
};

static bool is_runtime(const char *path)
{
	static const char *const prefixes[] = {"libamdhip64", "libcudart", "libcuda.so",
					       "libcuda-"};
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(base, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static int search_object(struct dl_phdr_info *info, size_t bytes, void *user)
{
	struct search *s = user;
	void *object;

	(void)bytes;
	if (!info->dlpi_name || !is_runtime(info->dlpi_name))
		return 0;
	object = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
	if (!object)
		return 0;
	s->found = ro_in_object(object, s->name);
	dlclose(object); /* it was loaded before, and stays */
	if (s->found == s->ours)
		s->found = NULL;
	return s->found != NULL;
}

void *ro_device_real(struct ro_device_call *call)
{
	struct search s = {.name = call->name, .ours = call->ours};
	void *real = atomic_load(&call->real);

	if (real)
		return real;
	real = ro_next(call->name);
	if (!real) {
		dl_iterate_phdr(search_object, &s);
		real = s.found;
	}
	if (real)
		atomic_store(&call->real, real);
	return real;
}

void *ro_device_instead(struct ro_device_call *call, void *real)
{
	void *known = NULL;

	if (!real || real == call->ours)
		return ro_device_real(call) ? call->ours : NULL;
	if (atomic_compare_exchange_strong(&call->real, &known, real) || known == real)
		return call->ours;
	return real;
}

void *ro_device_by_address(const char *symbol, void *real)
{
	size_t n = strlen(symbol);
	struct ro_device_call *free = NULL;

	for (size_t i = 0; i < CALLS; i++) {
		if (strncmp(calls[i].name, symbol, n) ||
		    (calls[i].name[n] && calls[i].name[n] != '_'))
			continue;
		if (ro_device_real(&calls[i]) == real)
			return calls[i].ours;
		if (!atomic_load(&calls[i].real))
			free = &calls[i];
	}
	/* A variant that is not exported by name: an entry that nothing else uses stands in. */
	return free ? ro_device_instead(free, real) : real;
}

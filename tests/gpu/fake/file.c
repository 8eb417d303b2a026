/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake libcufile, or with FAKE_HIPFILE a fake libhipfile: reads into the memory of the fake
 * runtime. Parameters of the script: compat=0|1 (what the configuration allows; 1), and
 * compat_fixed=1 (it cannot be changed by a call).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>

#include "device/storage_api.h"
#include "fake.h"
#include "script.h"

#ifdef FAKE_HIPFILE
#define NAME(call) hipFile##call
#define RUNTIME	   "libamdhip64.so.6"
#define CLOSE	   hipFileDriverClose
#else
#define NAME(call) cuFile##call
#define RUNTIME	   "libcuda.so.1"
#define CLOSE	   cuFileDriverClose_v2
#endif
#define QUOTE(x)  #x
#define STRING(x) QUOTE(x)

typedef struct h2d_storage_error error_t_;

FAKE_API error_t_ NAME(DriverOpen)(void);
FAKE_API error_t_ CLOSE(void);
FAKE_API error_t_ NAME(DriverGetProperties)(struct h2d_storage_properties *out);
FAKE_API error_t_ NAME(SetParameterBool)(int parameter, bool value);
FAKE_API error_t_ NAME(HandleRegister)(void **handle, struct h2d_storage_descr *descr);
FAKE_API void NAME(HandleDeregister)(void *handle);
FAKE_API error_t_ NAME(BufRegister)(const void *base, size_t bytes, int flags);
FAKE_API error_t_ NAME(BufDeregister)(const void *base);
FAKE_API ssize_t NAME(Read)(void *handle, void *base, size_t bytes, off_t file_offset,
			    off_t base_offset);

static const char *const names[] = {STRING(NAME(DriverOpen)),
				    STRING(CLOSE),
				    STRING(NAME(DriverGetProperties)),
				    STRING(NAME(SetParameterBool)),
				    STRING(NAME(HandleRegister)),
				    STRING(NAME(HandleDeregister)),
				    STRING(NAME(BufRegister)),
				    STRING(NAME(BufDeregister)),
				    STRING(NAME(Read)),
				    NULL};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_live account;
static int compat_set = -1;

#define ENTER()                                                                                \
	do {                                                                                   \
		int scripted = (int)fake_script_hit(__func__);                                 \
		if (scripted)                                                                  \
			return (error_t_){scripted, 0};                                        \
	} while (0)

static void count(uint64_t *what, int by)
{
	pthread_mutex_lock(&lock);
	*what += (uint64_t)(int64_t)by;
	pthread_mutex_unlock(&lock);
}

static const struct fake_control *runtime(void)
{
	void *lib = dlopen(RUNTIME, RTLD_NOW | RTLD_NOLOAD);
	void *symbol = lib ? dlsym(lib, "fake_control") : NULL;
	const struct fake_control *(*control)(void);

	if (!symbol)
		abort();
	dlclose(lib);
	memcpy(&control, &symbol, sizeof(control));
	return control();
}

error_t_ NAME(DriverOpen)(void)
{
	ENTER();
	count(&account.driver_count, 1);
	return (error_t_){0, 0};
}

error_t_ CLOSE(void)
{
	ENTER();
	count(&account.driver_count, -1);
	return (error_t_){0, 0};
}

error_t_ NAME(DriverGetProperties)(struct h2d_storage_properties *out)
{
	bool compat = fake_script_parameter("compat", 1);

	ENTER();
	if (compat_set >= 0 && !fake_script_parameter("compat_fixed", 0))
		compat = compat_set;
	/* Not more than the shortest of the vendor's. */
	memset(out, 0, 52);
	out->control_flags = compat ? 2 : 0;
	return (error_t_){0, 0};
}

error_t_ NAME(SetParameterBool)(int parameter, bool value)
{
	ENTER();
	if (parameter != H2D_STORAGE_PARAMETER_ALLOW_COMPAT ||
	    fake_script_parameter("compat_fixed", 0))
		return (error_t_){5022, 0};
	compat_set = value;
	return (error_t_){0, 0};
}

error_t_ NAME(HandleRegister)(void **handle, struct h2d_storage_descr *descr)
{
	int flags;

	ENTER();
	flags = fcntl(descr->handle.fd, F_GETFL);
	if (descr->type != H2D_STORAGE_HANDLE_FD || descr->fs_ops || flags < 0)
		return (error_t_){5022, 0};
	*handle = (void *)(intptr_t)(descr->handle.fd + 1);
	count(&account.file_count, 1);
	return (error_t_){0, 0};
}

void NAME(HandleDeregister)(void *handle)
{
	if (fcntl((int)(intptr_t)handle - 1, F_GETFL) < 0)
		count(&account.violation_count, 1); /* closed before */
	count(&account.file_count, -1);
}

error_t_ NAME(BufRegister)(const void *base, size_t bytes, int flags)
{
	ENTER();
	if (!runtime()->bytes(base, bytes) || flags)
		return (error_t_){5013, 0};
	count(&account.register_count, 1);
	return (error_t_){0, 0};
}

error_t_ NAME(BufDeregister)(const void *base)
{
	ENTER();
	if (!runtime()->bytes(base, 1))
		count(&account.violation_count, 1); /* freed before */
	count(&account.register_count, -1);
	return (error_t_){0, 0};
}

/* Short reads on request: half of what was asked for. */
ssize_t NAME(Read)(void *handle, void *base, size_t bytes, off_t file_offset, off_t base_offset)
{
	int fd = (int)(intptr_t)handle - 1, scripted = (int)fake_script_hit(__func__);
	unsigned char *to = runtime()->bytes((char *)base + base_offset, bytes), *block;
	off_t begin = file_offset & ~(off_t)4095;
	size_t span = (size_t)(file_offset - begin) + bytes;
	ssize_t got;

	if (scripted)
		return scripted > 0 ? -(ssize_t)scripted : -1;
	if (!to)
		return -5014;
	if (bytes > 8192 && fake_script_parameter("short_reads", 0))
		span -= bytes - bytes / 2;
	span = (span + 4095) & ~(size_t)4095;
	if (posix_memalign((void **)&block, 4096, span))
		return -1;
	got = pread(fd, block, span, begin) - (file_offset - begin);
	if (got > (ssize_t)bytes)
		got = (ssize_t)bytes;
	if (got > 0)
		memcpy(to, block + (file_offset - begin), (size_t)got);
	free(block);
	count(&account.copy_count, 1);
	return got < 0 ? 0 : got;
}

static void live(struct fake_live *out)
{
	pthread_mutex_lock(&lock);
	*out = account;
	pthread_mutex_unlock(&lock);
}

static void script(const char *text)
{
	fake_script_set(text);
	compat_set = -1;
	memset(&account, 0, sizeof(account));
}

FAKE_API const struct fake_control *fake_control(void)
{
	static const struct fake_control control = {
		.script = script, .live = live, .calls = fake_script_calls, .names = names};

	return &control;
}

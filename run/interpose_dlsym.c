/* SPDX-License-Identifier: Apache-2.0 */
/* dlsym() for the names of device.c. The real one looks at its caller's address to know what
 * RTLD_NEXT and RTLD_DEFAULT mean, so it is reached by a jump that leaves the caller's return
 * address where it was. Elsewhere than on x86-64 dlsym is not interposed: runtimes opened by
 * hand are not seen there. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "run/device.h"
#include "run/interpose.h"

typedef void *dlsym_fn(void *handle, const char *name);

/* Read by the jump below. */
dlsym_fn *ro_next_dlsym __attribute__((visibility("hidden")));

static void resolve(void)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17",
					       "GLIBC_2.27"};
	void *p = NULL;

	for (size_t i = 0; !p && i < sizeof(versions) / sizeof(versions[0]); i++)
		p = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	memcpy(&ro_next_dlsym, &p, sizeof(p));
}

void *ro_in_object(void *object, const char *name)
{
	if (!ro_next_dlsym)
		resolve();
	return ro_next_dlsym ? ro_next_dlsym(object, name) : NULL;
}

void *ro_next(const char *name)
{
	return ro_in_object(RTLD_NEXT, name);
}

void ro_next_all(const char *const *names, size_t count, void *table)
{
	for (size_t i = 0; i < count; i++) {
		void *p = ro_next(names[i]);

		memcpy((char *)table + i * sizeof(p), &p, sizeof(p));
	}
}

#if defined(__x86_64__)
enum { JUMP, ABSENT };

/* What dlsym shall return: JUMP for whatever the real one says, ABSENT for NULL. */
uintptr_t ro_dlsym_choose(void *handle, const char *name) __attribute__((visibility("hidden")));
uintptr_t ro_dlsym_choose(void *handle, const char *name)
{
	struct ro_device_call *call;
	void *real = NULL;

	if (!ro_next_dlsym)
		resolve();
	call = ro_device_call(name);
	if (!call)
		return JUMP;
	/* For the program itself, we are what comes next. */
	if (handle == RTLD_NEXT)
		return ro_device_real(call) ? JUMP : ABSENT;
	/* A failing look-up leaves the message for dlerror() behind. */
	if (handle != RTLD_DEFAULT) {
		real = ro_next_dlsym(handle, name);
		if (!real)
			return ABSENT;
	}
	real = ro_device_instead(call, real);
	return real ? (uintptr_t)real : ABSENT;
}

__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	push %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	sub $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call ro_dlsym_choose\n"
	"	add $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	test %rax, %rax\n"
	"	jne 1f\n"
	"	jmp *ro_next_dlsym(%rip)\n"
	"1:	cmp $1, %rax\n"
	"	jne 2f\n"
	"	xor %eax, %eax\n"
	"2:	ret\n"
	"	.cfi_endproc\n"
	".size dlsym, . - dlsym\n");
#endif

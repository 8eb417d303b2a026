/* SPDX-License-Identifier: Apache-2.0 */
/* A fake libcuda: device memory is host memory. */
#include <string.h>

#include "fake_copy.h"

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes);
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream);
int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags);
int cuGetProcAddress_v2(const char *symbol, void **fn, int version, unsigned long long flags,
			int *status);

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
	return fake_copy(to, (void *)from, bytes);
}

int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream)
{
	return stream ? FAKE_INVALID : fake_copy(to, (void *)from, bytes);
}

int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
	return flags & 8 ? FAKE_OK : fake_pin(at, bytes);
}

int cuGetProcAddress_v2(const char *symbol, void **fn, int version, unsigned long long flags,
			int *status)
{
	*fn = NULL;
	if (version < 2000 || flags)
		return FAKE_INVALID;
	if (!strcmp(symbol, "cuMemcpyDtoHAsync"))
		*fn = (void *)cuMemcpyDtoHAsync_v2;
	else if (!strcmp(symbol, "cuGetProcAddress"))
		*fn = (void *)cuGetProcAddress_v2;
	if (status)
		*status = *fn ? 0 : 1;
	return FAKE_OK;
}

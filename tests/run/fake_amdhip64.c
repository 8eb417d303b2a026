/* SPDX-License-Identifier: Apache-2.0 */
/* A fake libamdhip64: device memory is host memory. */
#include <string.h>

#include "fake_copy.h"

int hipMemcpy(void *to, const void *from, size_t bytes, int kind);
int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
int hipMemcpyDtoH(void *to, void *from, size_t bytes);
int hipMemcpyDtoHAsync(void *to, void *from, size_t bytes, void *stream);
int hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
		     size_t width, size_t height, int kind, void *stream);
int hipHostRegister(void *at, size_t bytes, unsigned flags);
int hipGetProcAddress(const char *symbol, void **fn, int version, unsigned long long flags,
		      int *status);

static int hidden_copy(void *to, void *from, size_t bytes)
{
	return fake_copy(to, from, bytes);
}

int hipMemcpy(void *to, const void *from, size_t bytes, int kind)
{
	return kind < 0 || kind > 4 ? FAKE_INVALID : fake_copy(to, from, bytes);
}

int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
	return stream ? FAKE_INVALID : hipMemcpy(to, from, bytes, kind);
}

int hipMemcpyDtoH(void *to, void *from, size_t bytes)
{
	return hidden_copy(to, from, bytes);
}

int hipMemcpyDtoHAsync(void *to, void *from, size_t bytes, void *stream)
{
	return stream ? FAKE_INVALID : fake_copy(to, from, bytes);
}

int hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
		     size_t width, size_t height, int kind, void *stream)
{
	int rc = kind < 0 || stream ? FAKE_INVALID : FAKE_OK;

	for (size_t i = 0; i < height && !rc; i++)
		rc = fake_copy((char *)to + i * to_pitch, (const char *)from + i * from_pitch,
			       width);
	return rc;
}

int hipHostRegister(void *at, size_t bytes, unsigned flags)
{
	return flags > 15 ? FAKE_INVALID : fake_pin(at, bytes);
}

int hipGetProcAddress(const char *symbol, void **fn, int version, unsigned long long flags,
		      int *status)
{
	if (version < 1 || flags || status)
		return FAKE_INVALID;
	/* A variant that is exported under no name. */
	*fn = strcmp(symbol, "hipMemcpyDtoH") ? NULL : (void *)hidden_copy;
	return *fn ? FAKE_OK : FAKE_INVALID;
}

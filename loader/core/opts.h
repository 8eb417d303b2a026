/* SPDX-License-Identifier: Apache-2.0 */
/** @file opts.h  Reading sized option structs of callers older or newer than the library. */
#ifndef H2D_CORE_OPTS_H
#define H2D_CORE_OPTS_H

#include <stddef.h>
#include <string.h>

/**
 * Copy a caller's sized struct into ours: missing members become zero; a larger struct is taken
 * when what we do not know of it is zero.
 * @return 0, or H2D_E_INVALID
 */
static inline int h2d_opts_read(void *ours, size_t our_size, const void *theirs)
{
	size_t size = our_size;

	memset(ours, 0, our_size);
	if (theirs) {
		const unsigned char *p = theirs;

		memcpy(&size, p, sizeof(size));
		if (size < sizeof(size))
			return -1;
		for (size_t i = our_size; i < size; i++)
			if (p[i])
				return -1;
		memcpy(ours, p, size < our_size ? size : our_size);
	}
	memcpy(ours, &our_size, sizeof(our_size));
	return 0;
}

/** Copy our filled struct out to a caller's sized one (size as the caller set it). */
static inline int h2d_info_write(void *theirs, const void *ours, size_t our_size)
{
	size_t size;

	memcpy(&size, theirs, sizeof(size));
	if (size < sizeof(size))
		return -1;
	if (size > our_size)
		memset((char *)theirs + our_size, 0, size - our_size);
	memcpy((char *)theirs + sizeof(size), (const char *)ours + sizeof(size),
	       (size < our_size ? size : our_size) - sizeof(size));
	return 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/settle.h"

#include <sys/mman.h>
#include <unistd.h>

#include <h2d/h2d.h>

#include "device/room.h"

enum { SPARE_DIVISOR = 8 }; /* an eighth more, for what a loader keeps beside the tensors */

int h2d_bench_settle(uint64_t size_bytes)
{
	const size_t step = (size_t)sysconf(_SC_PAGESIZE);
	volatile unsigned char *p;
	struct h2d_room room;
	size_t bytes;

	h2d_room_read(&room);
	if (size_bytes > room.available_bytes / 4 ||
	    size_bytes > SIZE_MAX / 2) /* the loader needs room too */
		return H2D_E_NOMEM;
	bytes = (size_t)(size_bytes + size_bytes / SPARE_DIVISOR);
	if (!bytes)
		return 0;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return H2D_E_NOMEM;
	madvise((void *)p, bytes, MADV_HUGEPAGE); /* without huge pages it is as good */
	for (size_t i = 0; i < bytes; i += step)
		p[i] = 1;
	munmap((void *)p, bytes);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static const char usage[] =
	"Usage: h2d-reference pread FILE [--threads N] [--block BYTES] "
	"[--pages huge|small] [--touched] [--repeat N]\n"
	"       h2d-reference direct FILE [--block BYTES] [--depth N] [--fresh] [--repeat N]\n"
	"       h2d-reference stages FILE [--device DEVICE] [--threads N] [--block BYTES] "
	"[--repeat N]\n"
	"       h2d-reference touch BYTES\n"
	"       h2d-reference open CHECKPOINT\n"
	"       h2d-reference view CHECKPOINT [--threads PROCESSES]\n";

uint64_t reference_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void reference_print(const uint64_t *samples_ns, unsigned count, uint64_t bytes)
{
	printf("{\"read_bytes\": %llu, \"samples_ns\": [", (unsigned long long)bytes);
	for (unsigned i = 0; i < count; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)samples_ns[i]);
	puts("]}");
}

unsigned char *reference_memory(uint64_t bytes, int huge, int touched)
{
	const uint64_t align = 2u << 20;
	unsigned char *p = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	p = (unsigned char *)(((uintptr_t)p + align - 1) & ~(uintptr_t)(align - 1));
	madvise(p, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	if (touched)
		for (uint64_t i = 0; i < bytes; i += 4096)
			p[i] = 1;
	return p;
}

static int number(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno || *end || !*text || *out == 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct reference_opts o = {.device = "opencl",
				   .threads = 1,
				   .block_bytes = 16u << 20,
				   .depth = 4,
				   .huge = 1,
				   .repeat = 1};
	static const struct {
		const char *name;
		int (*run)(const struct reference_opts *);
	} modes[] = {
		{"pread", reference_pread}, {"direct", reference_direct},
		{"touch", reference_touch}, {"open", reference_open},
		{"view", reference_view},   {"stages", reference_stages},
	};

	if (argc < 3)
		goto usage;
	o.file = argv[2];
	for (int i = 3; i < argc; i++) {
		uint64_t v = 0;

		if (!strcmp(argv[i], "--touched") || !strcmp(argv[i], "--fresh")) {
			*(argv[i][2] == 't' ? &o.touched : &o.fresh) = 1;
			continue;
		}
		if (i + 1 == argc)
			goto usage;
		if (!strcmp(argv[i], "--pages")) {
			o.huge = !strcmp(argv[++i], "huge");
			continue;
		}
		if (!strcmp(argv[i], "--device")) {
			o.device = argv[++i];
			continue;
		}
		if (number(argv[i + 1], &v))
			goto usage;
		if (!strcmp(argv[i], "--threads") && v <= 256)
			o.threads = (unsigned)v;
		else if (!strcmp(argv[i], "--block") && v <= 1u << 30)
			o.block_bytes = v;
		else if (!strcmp(argv[i], "--repeat") && v <= REFERENCE_REPEAT_MAX)
			o.repeat = (unsigned)v;
		else if (!strcmp(argv[i], "--depth") && v <= 256)
			o.depth = (unsigned)v;
		else
			goto usage;
		i++;
	}
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name))
			return modes[i].run(&o);
usage:
	fputs(usage, stderr);
	return 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "who.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hostfs.h"

enum { ENVIRON_BYTES_MAX = 1 << 20, RANK_MAX = 99999999 };

static const char *const ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID",
				    NULL};
static const char *const local_ranks[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
					  "SLURM_LOCALID", NULL};

/* Value of the first of these names, or -1. */
static int number_of(const char *environment, size_t bytes, const char *const *names)
{
	for (; *names; names++) {
		size_t n = strlen(*names);

		for (size_t at = 0; at < bytes; at += strlen(environment + at) + 1) {
			const char *text = environment + at;
			char *end;
			long value;

			if (strncmp(text, *names, n) || text[n] != '=')
				continue;
			value = strtol(text + n + 1, &end, 10);
			if (end != text + n + 1 && !*end && value >= 0 && value <= RANK_MAX)
				return (int)value;
		}
	}
	return -1;
}

/* Length without a variable that was cut in the middle: RANK=12 is not RANK=1. */
static size_t whole(const char *environment, size_t bytes)
{
	if (bytes < ENVIRON_BYTES_MAX)
		return bytes;
	while (bytes && environment[bytes - 1])
		bytes--;
	return bytes;
}

void h2d_trace_who(const char *root, struct h2d_trace_process *p)
{
	char path[64], *environment;
	size_t bytes;

	p->asked = true;
	p->rank = p->local_rank = -1;
	snprintf(path, sizeof(path), "/proc/%d/comm", p->pid);
	if (h2d_hostfs_read(root, path, p->name, sizeof(p->name)) < 0)
		p->name[0] = 0;
	snprintf(path, sizeof(path), "/proc/%d/environ", p->pid);
	p->environment_read =
		!h2d_hostfs_read_all(root, path, ENVIRON_BYTES_MAX, &environment, &bytes);
	if (!p->environment_read)
		return;
	bytes = whole(environment, bytes);
	p->rank = number_of(environment, bytes, ranks);
	p->local_rank = number_of(environment, bytes, local_ranks);
	free(environment);
}

void h2d_trace_who_all(struct h2d_trace_counts *c)
{
	for (size_t i = 0; i < c->process_count; i++) {
		struct h2d_trace_process *p = &c->processes[i];
		uint64_t calls = 0;

		for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++)
			calls += p->stats[f].call_count;
		if (!p->asked && calls)
			h2d_trace_who(NULL, p);
	}
}

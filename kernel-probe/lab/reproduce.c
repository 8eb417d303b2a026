/* SPDX-License-Identifier: Apache-2.0 */
/* Runs `h2d repro` itself in the guest, once per filesystem and policy, on the `hmm` device. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define RUN_MS	       180000u
#define SPAN_BYTES     (2u << 20)
#define WAITING_CELLS  8u /* of the reproducer's cells, those that may wait in windows */
#define WINDOW_MARGIN  100u
#define DEFAULT_WINDOW 1000u

static uint64_t timeout_ms(const struct lab *lab, const char *policy)
{
	uint64_t spans = lab->options.size_bytes / SPAN_BYTES + 2, window = DEFAULT_WINDOW;

	if (policy && strcmp(policy, "stale") != 0)
		window = 0;
	else if (policy && lab->options.timeout_ms)
		window = lab->options.timeout_ms;
	return RUN_MS + 3 * WAITING_CELLS * spans * (window + WINDOW_MARGIN);
}

/* "hmm:shipped", "hmm:stale,timeout_ms=40". */
static void name_device(const struct lab *lab, const char *policy, char *out, size_t size)
{
	if (!policy)
		snprintf(out, size, "hmm:shipped");
	else if (strcmp(policy, "stale") == 0 && lab->options.timeout_ms)
		snprintf(out, size, "hmm:stale,timeout_ms=%u", lab->options.timeout_ms);
	else if (strcmp(policy, "refresh") == 0)
		/* Its timeout covers the whole copy, and a guest may be slow. */
		snprintf(out, size, "hmm:refresh,timeout_ms=10000");
	else
		snprintf(out, size, "hmm:%s", policy);
}

static int add(struct lab *lab, struct lab_kernel_result *result, const char *filesystem,
	       const char *policy, struct lab_job *job)
{
	struct lab_reproduction *grown =
		realloc(result->reproductions,
			(result->reproduction_count + 1) * sizeof(*result->reproductions));
	struct lab_reproduction *r;
	char directory[64], size[32];
	const char *argv[] = {"/bin/h2d", "repro",  "--device", NULL,	  "--file",
			      directory,  "--size", size,	"--json", NULL};

	if (!grown)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	result->reproductions = grown;
	r = &grown[result->reproduction_count++];
	*r = (struct lab_reproduction){.filesystem = filesystem};
	name_device(lab, policy, r->device, sizeof(r->device));
	argv[3] = r->device;
	snprintf(directory, sizeof(directory), "/mnt/%s", filesystem);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)lab->options.size_bytes);
	r->step = lab_job_run(job, false, "repro", timeout_ms(lab, policy), argv);
	result->reproduction_ms += timeout_ms(lab, policy);
	return 0;
}

int lab_reproduce_plan(struct lab *lab, struct lab_kernel_result *result, struct lab_job *job)
{
	int err = 0;

	if (!lab->options.reproducer)
		return 0;
	/* The cells name each filesystem and policy; theirs are taken, each pair once. */
	for (size_t i = 0; !err && i < result->cell_count; i++) {
		const struct lab_cell *cell = &result->cells[i];
		bool first = true;

		for (size_t k = 0; first && k < i; k++)
			first = strcmp(result->cells[k].filesystem, cell->filesystem) != 0 ||
				strcmp(result->cells[k].policy, cell->policy) != 0;
		if (first)
			err = add(lab, result, cell->filesystem,
				  strcmp(cell->policy, "none") == 0 ? NULL : cell->policy, job);
	}
	return err;
}

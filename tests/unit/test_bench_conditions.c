/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_bench */
/* What is warned of before a measurement, by a folder that stands for the machine. */
#include <sys/stat.h>
#include <unistd.h>

#include "bench/conditions.h"
#include "scratch.h"
#include "test.h"

/* Whether a machine with that load per CPU is called busy. */
static int busy(double per_cpu)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct h2d_json j;
	FILE *loadavg;
	char *json;
	int found;

	mkdir(scratch_path("proc"), 0755);
	loadavg = fopen(scratch_path("proc/loadavg"), "w");
	fprintf(loadavg, "%.2f 9.00 9.00 1/100 1234\n", per_cpu * (double)cpus);
	fclose(loadavg);
	h2d_json_init_memory(&j, false);
	h2d_json_object_begin(&j, NULL);
	h2d_bench_warnings_write(&j, "warnings", scratch_path(""), "", "Release");
	h2d_json_object_end(&j);
	h2d_json_finish(&j);
	json = h2d_json_take(&j);
	found = json && strstr(json, "the machine is busy: load average ");
	free(json);
	return found;
}

/* From one runnable process per CPU on, not at the little that a desktop or CI runner always
 * has. */
static void a_busy_machine(void)
{
	CHECK(!busy(0));
	CHECK(!busy(0.31));
	CHECK(!busy(0.99));
	CHECK(busy(1));
	CHECK(busy(4.9));
}

int main(void)
{
	RUN(a_busy_machine);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_run_core */
/* Random sequences of memory calls against the system's own. The fuzz target `run` goes
 * further. */
#include "run_ops.h"
#include "test.h"

static void the_library_agrees_with_the_kernel(void)
{
	const char *wanted = getenv("H2D_RUN_OPS_SEEDS");
	uint64_t seeds = wanted ? strtoull(wanted, NULL, 10) : 30;
	static uint8_t data[1500];
	uint64_t kept = 0, faults = 0;
	const struct h2d_run_record *r;
	size_t index = 0;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		uint64_t x = seed * 0x9e3779b97f4a7c15ull;

		for (size_t i = 0; i < sizeof(data); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			data[i] = (uint8_t)(x >> 32);
		}
		if (!ops_run(data, 100 + seed * 37 % (sizeof(data) - 100))) {
			fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
			CHECK(0);
			return;
		}
	}
	while ((r = h2d_run_state_next(ro.state, &index))) {
		kept += atomic_load(&r->mapping_count);
		faults += atomic_load(&r->fault_count);
	}
	printf("%llu sequences, %llu mappings kept, %llu faults answered\n",
	       (unsigned long long)seeds, (unsigned long long)kept, (unsigned long long)faults);
	CHECK(kept > seeds && faults > seeds);
}

int main(void)
{
	RUN(the_library_agrees_with_the_kernel);
	return TEST_DONE();
}

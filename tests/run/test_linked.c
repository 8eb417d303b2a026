/* SPDX-License-Identifier: Apache-2.0 */
/* links: h2d_run_fake_amdhip64 */
/* A program linked with its runtime, as PyTorch's libraries are. */
#include "under.h"

int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);

static unsigned char device[5000];

static void a_copy(void)
{
	unsigned char *map = under_map(under_file, UNDER_FILE_BYTES);

	REQUIRE(map);
	memset(device, 0x77, sizeof(device));
	CHECK(!hipMemcpyAsync(map + 3 * MIB, device, sizeof(device), 2, NULL));
	CHECK(!memcmp(map + 3 * MIB, device, sizeof(device)));
	CHECK_STR(under_permissions(map), "r--p");
	/* To a device: what it reads stays as it is. */
	CHECK(!hipMemcpyAsync(device, map + 8 * MIB, sizeof(device), 1, NULL));
	CHECK(!memcmp(map + 8 * MIB, device, sizeof(device)));
	CHECK_STR(under_permissions(map + 8 * MIB), "r--p");
}

static void look(struct h2d_run_state *s)
{
	CHECK_EQ(UNDER_SUM(s, device_open_count), 1);
	CHECK_EQ(UNDER_SUM(s, fault_count), 0);
}

static const struct under_case cases[] = {{"a_copy", a_copy, look, 0, NULL}};

UNDER_MAIN(cases)

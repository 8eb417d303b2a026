/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "h2d/h2d.h"

int main(void)
{
	unsigned v = h2d_version();

	printf("h2d %u.%u.%u\n", v >> 16, v >> 8 & 0xff, v & 0xff);
	return 0;
}

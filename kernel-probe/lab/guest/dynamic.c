/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one program of the guests that is linked dynamically: shows that its loader and its C
 * library came along, as they must for a preloaded library or a program of the user's.
 */
#include <stdio.h>
#include <string.h>

int main(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	int libc = 0, loader = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		libc |= strstr(line, "/libc.") != NULL;
		loader |= strstr(line, "/ld-") != NULL;
	}
	if (maps)
		fclose(maps);
	printf("dynamic: libc %s, loader %s\n", libc ? "mapped" : "missing",
	       loader ? "mapped" : "missing");
	return libc && loader ? 0 : 1;
}

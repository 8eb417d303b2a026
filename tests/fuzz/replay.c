/* SPDX-License-Identifier: Apache-2.0 */
/* Gives every file of the folders and files named as arguments to a fuzz target, once. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static unsigned long count;

static int replay_file(const char *path, size_t bytes)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(bytes ? bytes : 1);
	int rc = -1;

	if (f && data && fread(data, 1, bytes, f) == bytes) {
		LLVMFuzzerTestOneInput(data, bytes);
		count++;
		rc = 0;
	}
	if (rc)
		fprintf(stderr, "%s: cannot be read\n", path);
	free(data);
	if (f)
		fclose(f);
	return rc;
}

static int replay(const char *path)
{
	char inside[4096];
	struct dirent *e;
	struct stat st;
	int rc = 0;
	DIR *d;

	if (stat(path, &st)) {
		perror(path);
		return -1;
	}
	if (!S_ISDIR(st.st_mode))
		return replay_file(path, (size_t)st.st_size);
	d = opendir(path);
	if (!d) {
		perror(path);
		return -1;
	}
	while (!rc && (e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(inside, sizeof(inside), "%s/%s", path, e->d_name);
		rc = replay(inside);
	}
	closedir(d);
	return rc;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (replay(argv[i]))
			return 1;
	printf("%lu inputs replayed\n", count);
	return count ? 0 : 1;
}

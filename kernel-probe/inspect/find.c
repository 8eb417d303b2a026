/* SPDX-License-Identifier: Apache-2.0 */
/* Which file a kernel would load as amdgpu. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hostfs.h"
#include "inspect.h"

enum { DEP_BYTES_MAX = 16 << 20 };

/* Neither the index nor what is only looked for is shown to an observer: a capture holds what
 * was read in the module, not these names.
 *
 * modules.dep(5): "updates/dkms/amdgpu.ko.xz: …", one line per module, the one that depmod
 * chose where there are several. */
static bool from_index(const char *root, const char *base, char *out, size_t cap)
{
	static const char name[] = "/amdgpu.ko";
	char path[H2D_HOSTFS_PATH_BYTES], line[H2D_HOSTFS_PATH_BYTES];
	size_t left = DEP_BYTES_MAX, n;
	bool found = false;
	FILE *in;

	snprintf(path, sizeof(path), "%s/modules.dep", base);
	if (h2d_hostfs_open(root, path, &in))
		return false;
	/* Of a line longer than that the rest, a list of other modules, has no colon. */
	while (!found && left && fgets(line, sizeof(line), in)) {
		char *colon = strchr(line, ':'), *at;

		n = strlen(line);
		left -= n < left ? n : left;
		if (!colon)
			continue;
		*colon = 0;
		at = strstr(line, name);
		if (!at || (at[sizeof(name) - 1] && at[sizeof(name) - 1] != '.'))
			continue;
		found = snprintf(out, cap, "%s%s%s", line[0] == '/' ? "" : base,
				 line[0] == '/' ? "" : "/", line) < (int)cap;
	}
	fclose(in);
	return found;
}

/* Where there is no index: the places in the order that depmod.d(5) has by default. */
static bool by_place(const char *root, const char *base, char *out, size_t cap)
{
	static const char *const places[] = {
		"updates/dkms", "updates",	"updates/drivers/gpu/drm/amd/amdgpu",
		"extra",	"weak-updates", "kernel/drivers/gpu/drm/amd/amdgpu"};
	static const char *const endings[] = {"", ".xz", ".zst", ".gz"};

	for (unsigned i = 0; i < sizeof(places) / sizeof(*places); i++)
		for (unsigned k = 0; k < sizeof(endings) / sizeof(*endings); k++)
			if (snprintf(out, cap, "%s/%s/amdgpu.ko%s", base, places[i],
				     endings[k]) < (int)cap &&
			    h2d_hostfs_exists(root, out))
				return true;
	return false;
}

int h2d_inspect_find(const char *root, const char *release, char *path, size_t path_bytes)
{
	static const char *const bases[] = {"/lib/modules", "/usr/lib/modules"};
	char base[512], found[H2D_HOSTFS_PATH_BYTES];

	if (!release[0] || strchr(release, '/') || release[0] == '.')
		return H2D_E_NOT_FOUND;
	for (unsigned i = 0; i < 2; i++) {
		snprintf(base, sizeof(base), "%s/%s", bases[i], release);
		if ((from_index(root, base, found, sizeof(found)) ||
		     by_place(root, base, found, sizeof(found))) &&
		    snprintf(path, path_bytes, "%s%s", root ? root : "", found) <
			    (int)path_bytes)
			return 0;
	}
	return H2D_E_NOT_FOUND;
}

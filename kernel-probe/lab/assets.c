/* SPDX-License-Identifier: Apache-2.0 */
/* Where the guest's programs, the module's sources and the cache are. */
#include "internal.h"
#include "assets.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Relative to the directory of the running program: as built, and as installed. */
static const char *const places[] = {"../kernel-probe/lab/assets", "../libexec/h2d/lab"};

static bool complete(const char *directory)
{
	static const char *const needed[] = {"lab-init", "lab-cell", "lab-dynamic",
					     "module/Kbuild"};
	bool all = true;

	for (size_t i = 0; all && i < sizeof(needed) / sizeof(needed[0]); i++) {
		char *path = lab_format("%s/%s", directory, needed[i]);

		all = path && lab_is_file(path);
		free(path);
	}
	return all;
}

int lab_assets_find(struct lab *lab)
{
	const char *given = lab->options.assets_dir;
	char program[PATH_MAX];
	ssize_t n;

	if (!given)
		given = getenv("H2D_LAB_DIR");
	if (given) {
		lab->assets = realpath(given, NULL);
		if (!lab->assets || !complete(lab->assets))
			return h2d_fail(&lab->log, H2D_E_NOT_FOUND,
					"%s does not hold the laboratory's guest programs",
					given);
		return 0;
	}
	n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (n <= 0)
		return h2d_fail_errno(&lab->log, errno, "/proc/self/exe");
	program[n] = 0;
	*strrchr(program, '/') = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char *path = lab_format("%s/%s", program, places[i]);

		lab->assets = path ? realpath(path, NULL) : NULL;
		free(path);
		if (lab->assets && complete(lab->assets))
			return 0;
		free(lab->assets);
		lab->assets = NULL;
	}
	return h2d_fail(&lab->log, H2D_E_UNAVAILABLE,
			"the laboratory's guest programs are not beside this program; in a "
			"build folder, build all targets: cmake --build BUILD");
}

int lab_cache_find(struct lab *lab)
{
	const char *given = lab->options.cache_dir, *base = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");

	if (given)
		lab->cache = strdup(given);
	else if (base && base[0] == '/')
		lab->cache = lab_format("%s/h2d", base);
	else if (home && home[0] == '/')
		lab->cache = lab_format("%s/.cache/h2d", home);
	else
		return 0;
	return lab->cache ? 0 : h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
}

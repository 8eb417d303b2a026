/* SPDX-License-Identifier: Apache-2.0 */
/* Where the preloaded library is, and the environment that makes a program load it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"

/* Below the folder of the running program: as built, as installed, and all in one folder. */
static const char *const places[] = {"../run/", H2D_RUN_LIBRARY_FROM_BIN "/", ""};

static bool is_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* Made absolute, since the command may change its working directory. */
static bool take(const char *path, char *out)
{
	return is_file(path) && realpath(path, out);
}

static bool find_library(char *out)
{
	char program[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash;

	program[n > 0 ? n : 0] = 0;
	slash = strrchr(program, '/');
	for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
		/* An absolute libdir is taken as it is. */
		bool absolute = places[i][0] == '/';

		snprintf(path, sizeof(path), "%.*s%s%s",
			 absolute ? 0 : (int)(slash + 1 - program), program, places[i],
			 H2D_RUN_LIBRARY_NAME);
		if (take(path, out))
			return true;
	}
	return false;
}

static int library(struct h2d_cli *cli, char *out)
{
	const char *given = getenv(H2D_RUN_LIBRARY_ENV);

	errno = 0;
	if (given && *given && !take(given, out))
		return h2d_cli_error(cli, H2D_RUN_FAILED, "$" H2D_RUN_LIBRARY_ENV ": %s: %s",
				     given, errno ? strerror(errno) : "not a regular file");
	if ((!given || !*given) && !find_library(out))
		return h2d_cli_error(cli, H2D_RUN_FAILED,
				     "%s is not beside this program; name it in "
				     "$" H2D_RUN_LIBRARY_ENV,
				     H2D_RUN_LIBRARY_NAME);
	if (strpbrk(out, " :$"))
		return h2d_cli_error(cli, H2D_RUN_FAILED,
				     "%s: LD_PRELOAD can name no path with a blank, a colon "
				     "or a dollar sign; copy the library elsewhere and name it "
				     "in $" H2D_RUN_LIBRARY_ENV,
				     out);
	return 0;
}

/* Put `first` before what the variable holds, with a colon between. */
static int prepend(struct h2d_cli *cli, const char *name, const char *first)
{
	const char *old = getenv(name);
	char *value = NULL;
	int rc;

	if (!old || !*old) {
		rc = setenv(name, first, 1);
	} else if ((rc = asprintf(&value, "%s:%s", first, old)) >= 0) {
		rc = setenv(name, value, 1);
		free(value);
	}
	return rc ? h2d_cli_error(cli, H2D_RUN_FAILED, "out of memory") : 0;
}

int h2d_run_setup(struct h2d_cli *cli, const struct h2d_texts *patterns,
		  struct h2d_run_setup *s)
{
	int rc;

	memset(s, 0, sizeof(*s));
	s->memory_fd = s->file_fd = -1;
	for (size_t i = 0; i < patterns->count; i++)
		if (!patterns->items[i][0] || strchr(patterns->items[i], ':'))
			return h2d_cli_usage(cli,
					     "--pattern: '%s' must not be empty nor hold a "
					     "colon, which separates patterns",
					     patterns->items[i]);
	rc = library(cli, s->library);
	if (!rc)
		rc = h2d_run_state_make(cli, s);
	/* The first one given comes first. */
	for (size_t i = patterns->count; !rc && i > 0; i--)
		rc = prepend(cli, H2D_RUN_PATTERN_ENV, patterns->items[i - 1]);
	if (!rc)
		rc = prepend(cli, "LD_PRELOAD", s->library);
	if (!rc && cli->common.verbose > 1 && setenv(H2D_RUN_VERBOSE_ENV, "1", 1))
		rc = h2d_cli_error(cli, H2D_RUN_FAILED, "out of memory");
	return rc;
}

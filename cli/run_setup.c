/* SPDX-License-Identifier: Apache-2.0 */
/* Where the preloaded library is, and the environment that makes a program load it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
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

/* A command that root started may change its user and must report even so: whoever knows the
 * name may write, and the name, which cannot be listed, is told to the command alone. */
static int let_others_in(const struct h2d_run_setup *s)
{
	return chmod(s->state_path, 0666) || chmod(s->folder, 0711) ? -errno : 0;
}

static int name_state(struct h2d_run_setup *s)
{
	uint64_t secret[2];

	if (getrandom(secret, sizeof(secret), GRND_NONBLOCK) != (ssize_t)sizeof(secret))
		return -errno;
	snprintf(s->state_path, sizeof(s->state_path), "%s/state-%016llx%016llx", s->folder,
		 (unsigned long long)secret[0], (unsigned long long)secret[1]);
	return 0;
}

static int make_state_file(struct h2d_run_setup *s)
{
	int rc = name_state(s);

	if (!rc)
		rc = h2d_run_state_create(s->state_path, &s->state);
	if (!rc && !geteuid())
		rc = let_others_in(s);
	return rc;
}

/* In memory where that is possible: the counters are written all the time. */
static int make_state(struct h2d_cli *cli, struct h2d_run_setup *s)
{
	const char *temporary = getenv("TMPDIR");
	const char *const bases[] = {"/dev/shm", temporary && *temporary ? temporary : "/tmp",
				     "/tmp"};
	int rc = -ENOENT;

	for (size_t i = 0; rc && i < sizeof(bases) / sizeof(bases[0]); i++) {
		if ((size_t)snprintf(s->folder, sizeof(s->folder), "%s/h2d-run-XXXXXX",
				     bases[i]) >= sizeof(s->folder) ||
		    !mkdtemp(s->folder)) {
			rc = -errno;
			s->folder[0] = 0;
			continue;
		}
		rc = make_state_file(s);
		if (rc)
			h2d_run_setup_release(s);
	}
	if (rc)
		return h2d_cli_error(cli, H2D_RUN_FAILED,
				     "cannot make a temporary file for the report: %s",
				     strerror(-rc));
	if (setenv(H2D_RUN_STATE_ENV, s->state_path, 1))
		return h2d_cli_error(cli, H2D_RUN_FAILED, "out of memory");
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
	for (size_t i = 0; i < patterns->count; i++)
		if (!patterns->items[i][0] || strchr(patterns->items[i], ':'))
			return h2d_cli_usage(cli,
					     "--pattern: '%s' must not be empty nor hold a "
					     "colon, which separates patterns",
					     patterns->items[i]);
	rc = library(cli, s->library);
	if (!rc)
		rc = make_state(cli, s);
	/* The first one given comes first. */
	for (size_t i = patterns->count; !rc && i > 0; i--)
		rc = prepend(cli, H2D_RUN_PATTERN_ENV, patterns->items[i - 1]);
	if (!rc)
		rc = prepend(cli, "LD_PRELOAD", s->library);
	if (!rc && cli->common.verbose > 1 && setenv(H2D_RUN_VERBOSE_ENV, "1", 1))
		rc = h2d_cli_error(cli, H2D_RUN_FAILED, "out of memory");
	return rc;
}

void h2d_run_setup_release(struct h2d_run_setup *s)
{
	h2d_run_state_close(s->state);
	s->state = NULL;
	if (!s->folder[0])
		return;
	unlink(s->state_path);
	rmdir(s->folder);
	s->folder[0] = 0;
}

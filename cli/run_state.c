/* SPDX-License-Identifier: Apache-2.0 */
/* The state that the command's processes report to. They open memory of ours through /proc,
 * which nobody can cut short and which goes with us. Who cannot look into that (a command that
 * gave up root's rights, or has another PID namespace) finds a file; it is only read, at the
 * end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

#define FOLDER_PREFIX "h2d-run-"
#define FILE_PREFIX   "state-"

enum {
	BASES = 3,
	YOUNG_S = 60, /* not swept: its maker may not have locked it yet */
};

static void bases(const char *base[BASES])
{
	const char *temporary = getenv("TMPDIR");

	base[0] = "/dev/shm";
	base[1] = temporary && *temporary ? temporary : "/tmp";
	base[2] = "/tmp";
}

/* ------------------------------------------------------------------ left by a killed h2d */

/* Remove what its maker no longer holds. */
static void sweep_folder(int base, const char *name)
{
	int folder = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = folder >= 0 ? fdopendir(folder) : NULL;
	struct dirent *entry;
	struct stat st;

	if (!dir && folder >= 0)
		close(folder);
	if (!dir)
		return;
	while (!fstat(folder, &st) && st.st_uid == geteuid() && (entry = readdir(dir))) {
		int fd;

		if (strncmp(entry->d_name, FILE_PREFIX, strlen(FILE_PREFIX)) != 0)
			continue;
		fd = openat(folder, entry->d_name,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
			unlinkat(folder, entry->d_name, 0);
		if (fd >= 0)
			close(fd);
	}
	closedir(dir);
	unlinkat(base, name, AT_REMOVEDIR); /* only if it is empty */
}

static void sweep(const char *path)
{
	DIR *dir = opendir(path);
	time_t now = time(NULL);
	struct dirent *entry;
	struct stat st;

	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, FOLDER_PREFIX, strlen(FOLDER_PREFIX)) &&
		    !fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
		    st.st_mtime < now - YOUNG_S)
			sweep_folder(dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
}

/* ------------------------------------------------------------------ the file */

static int name_file(struct h2d_run_setup *s)
{
	uint64_t secret[2];

	if (getrandom(secret, sizeof(secret), GRND_NONBLOCK) != (ssize_t)sizeof(secret))
		return -errno;
	snprintf(s->file, sizeof(s->file), "%s/" FILE_PREFIX "%016llx%016llx", s->folder,
		 (unsigned long long)secret[0], (unsigned long long)secret[1]);
	return 0;
}

/* A command that root started may change its user and must report even so: whoever knows the
 * name may write, and the name, which cannot be listed, is told to the command alone. */
static int let_others_in(const struct h2d_run_setup *s)
{
	return chmod(s->file, 0666) || chmod(s->folder, 0711) ? -errno : 0;
}

static int make_file(struct h2d_run_setup *s)
{
	struct h2d_run_state *state;
	int rc = name_file(s);

	if (!rc)
		rc = h2d_run_state_create(s->file, &state);
	if (rc)
		return rc;
	h2d_run_state_close(state);
	s->file_fd = open(s->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (s->file_fd < 0 || flock(s->file_fd, LOCK_EX | LOCK_NB))
		return -errno;
	return geteuid() ? 0 : let_others_in(s);
}

static void remove_file(struct h2d_run_setup *s)
{
	if (s->folder[0]) {
		unlink(s->file);
		rmdir(s->folder);
	}
	if (s->file_fd >= 0)
		close(s->file_fd);
	s->folder[0] = 0;
	s->file_fd = -1;
}

/* In memory where that is possible: the counters are written all the time. */
static int make_folder(struct h2d_run_setup *s)
{
	const char *base[BASES];
	int rc = -ENOENT;

	bases(base);
	for (size_t i = 0; rc && i < BASES; i++) {
		if (strchr(base[i], ':') ||
		    (size_t)snprintf(s->folder, sizeof(s->folder), "%s/" FOLDER_PREFIX "XXXXXX",
				     base[i]) >= sizeof(s->folder) ||
		    !mkdtemp(s->folder)) {
			s->folder[0] = 0;
			continue;
		}
		rc = make_file(s);
		if (rc)
			remove_file(s);
		sweep(base[i]);
	}
	return rc;
}

/* ------------------------------------------------------------------ both */

static int name_in_environment(const struct h2d_run_setup *s)
{
	char *value = NULL;
	int rc;

	if (asprintf(&value, "/proc/%d/fd/%d%s%s", getpid(), s->memory_fd,
		     s->folder[0] ? ":" : "", s->folder[0] ? s->file : "") < 0)
		return -1;
	rc = setenv(H2D_RUN_STATE_ENV, value, 1);
	free(value);
	return rc;
}

int h2d_run_state_make(struct h2d_cli *cli, struct h2d_run_setup *s)
{
	const char *outer = getenv(H2D_RUN_STATE_ENV);
	int rc = h2d_run_state_create_memory(&s->memory_fd, &s->state);

	if (rc)
		return h2d_cli_error(cli, H2D_RUN_FAILED,
				     "cannot make the memory for the report: %s",
				     strerror(-rc));
	if (outer && *outer && h2d_run_state_open_any(outer, &s->outer))
		s->outer = NULL;
	make_folder(s);
	if (name_in_environment(s))
		return h2d_cli_error(cli, H2D_RUN_FAILED, "out of memory");
	return 0;
}

void h2d_run_state_collect(struct h2d_run_setup *s)
{
	struct h2d_run_state *other;

	if (s->file_fd >= 0 && !h2d_run_state_read(s->file_fd, &other)) {
		h2d_run_state_add(s->state, other);
		h2d_run_state_close(other);
	}
	/* Under another `h2d run`: what is ours is its command's too. */
	if (s->outer)
		h2d_run_state_add(s->outer, s->state);
}

void h2d_run_setup_release(struct h2d_run_setup *s)
{
	h2d_run_state_close(s->state);
	h2d_run_state_close(s->outer);
	s->state = s->outer = NULL;
	remove_file(s);
	if (s->memory_fd >= 0)
		close(s->memory_fd);
	s->memory_fd = -1;
}

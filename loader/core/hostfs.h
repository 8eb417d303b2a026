/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file hostfs.h
 * Small files of /proc and /sys below a movable root, so that a capture of another machine can
 * be read as if it were this one. `root` NULL or "": this machine. Thread-safe. @since 0.1
 *
 * Below a root nothing outside it is reached: symbolic links are followed as if the root were
 * the whole file system (openat2(2), RESOLVE_IN_ROOT; not at all on kernels without it). A
 * file NAME.errno stands for a NAME that could not be read and holds the errno as a number.
 */
#ifndef H2D_CORE_HOSTFS_H
#define H2D_CORE_HOSTFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Room for any path below a root. */
enum { H2D_HOSTFS_PATH_BYTES = 4096 };

/**
 * Read a file into `buf` (NUL-terminated, trailing white space removed, cut at `cap` - 1).
 * @param path  absolute, for example "/proc/meminfo"
 * @return length, or a negative errno
 */
int h2d_hostfs_read(const char *root, const char *path, char *buf, size_t cap);
/**
 * Read a whole file of at most `max` bytes.
 * @param text  (out) malloc'd, NUL-terminated, cut at `max`; the caller frees it
 * @return 0, or a negative errno
 */
int h2d_hostfs_read_all(const char *root, const char *path, size_t max, char **text,
			size_t *bytes);
/** Open a text to read it line by line; close it with fclose(). What is read that way is not
 *  shown to an observer; see h2d_hostfs_note(). @return 0 or negative errno */
int h2d_hostfs_open(const char *root, const char *path, FILE **out);
/** Whether a regular file is there that may be read. An observer is not shown it: of what was
 * not read a capture holds nothing. */
bool h2d_hostfs_exists(const char *root, const char *path);
/** Read an unsigned number (decimal, or hexadecimal after "0x"). @return 0 or negative errno;
 *  -EINVAL when the file holds something else. */
int h2d_hostfs_u64(const char *root, const char *path, uint64_t *out);
/** Last component of what a symbolic link points to. @return 0 or negative errno */
int h2d_hostfs_link_name(const char *root, const char *path, char *buf, size_t cap);
/**
 * Names in a directory, sorted by number where they end in digits, else by bytes; "." and ".."
 * left out.
 * @param names  (out) malloc'd array ended by NULL; release with h2d_hostfs_list_free()
 * @return their count, or a negative errno
 */
int h2d_hostfs_list(const char *root, const char *path, char ***names);
void h2d_hostfs_list_free(char **names);

/** What an observer is shown. */
enum h2d_hostfs_kind {
	H2D_HOSTFS_TEXT, /**< a file and what was read of it */
	H2D_HOSTFS_LINK, /**< a symbolic link and the last component of its target */
	H2D_HOSTFS_LIST, /**< a directory and its names, one a line */
};
/** `err`: 0, or the negative errno of the attempt, and then `data` is NULL. */
typedef void (*h2d_hostfs_observer)(void *user, enum h2d_hostfs_kind kind, const char *path,
				    const char *data, size_t bytes, int err);
/** Show everything that this thread reads from now on to `fn`; NULL ends that. It is how a
 *  capture holds exactly what the probes read. */
void h2d_hostfs_observe(h2d_hostfs_observer fn, void *user);
/** Show something that was learnt in another way, under a path of its own. */
void h2d_hostfs_note(enum h2d_hostfs_kind kind, const char *path, const char *data,
		     size_t bytes, int err);
/** Whether this thread has an observer. */
bool h2d_hostfs_observed(void);

/** Value of "key: value" or "key=value" in a text of such lines, copied without quotes and
 *  white space around it; keys end at ':' or '='. @return length, or -ENOENT */
int h2d_text_field(const char *text, const char *key, char *buf, size_t cap);
/**
 * Path of a control group, from a text as /proc/PID/cgroup has it: "4:cpu,memory:/a/b",
 * "0::/a/b" (cgroups(7)).
 * @param controller  one of the hierarchy's, or "" for the unified one
 * @param out         (out) cut at `cap` - 1
 * @return whether there is such a line; damaged lines are passed over
 */
bool h2d_text_cgroup(const char *text, const char *controller, char *out, size_t cap);

#endif

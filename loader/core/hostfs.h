/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file hostfs.h
 * Small files of /proc and /sys below a movable root, so that a capture of another machine can
 * be read as if it were this one. `root` NULL or "": this machine. Thread-safe. @since 0.1
 */
#ifndef H2D_CORE_HOSTFS_H
#define H2D_CORE_HOSTFS_H

#include <stddef.h>
#include <stdint.h>

/** Room for any path below a root. */
enum { H2D_HOSTFS_PATH_BYTES = 4096 };

/**
 * Read a file into `buf` (NUL-terminated, trailing white space removed, cut at `cap` - 1).
 * @param path  absolute, for example "/proc/meminfo"
 * @return length, or a negative errno
 */
int h2d_hostfs_read(const char *root, const char *path, char *buf, size_t cap);
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

/** Value of "key: value" or "key=value" in a text of such lines, copied without quotes and
 *  white space around it; keys end at ':' or '='. @return length, or -ENOENT */
int h2d_text_field(const char *text, const char *key, char *buf, size_t cap);

#endif

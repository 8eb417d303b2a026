/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file storage.h
 * Storage to device: cuFile and hipFile, whose interfaces are alike, loaded at run time.
 *
 * Both can fall back to copies through host memory in silence ("compatibility mode"). That is
 * no faster than what the other paths do, and hides what a machine cannot do: it is forbidden
 * when the library is opened, and where that cannot be done, storage-to-device is refused,
 * unless the caller allowed it.
 *
 * A file is opened anew for direct reads (cuFile refuses other descriptors outside its
 * compatibility mode), registered once, and stays so as long as a stream refers to it.
 *
 * @source cufile.h 1.14 (nvidia-cufile), hipfile.h 0.2
 * @since 0.1
 */
#ifndef H2D_DEVICE_STORAGE_H
#define H2D_DEVICE_STORAGE_H

#include "core/log.h"
#include "device/dl.h"

#include <stdbool.h>
#include <stdint.h>

/** What differs between the two. */
struct h2d_storage_kind {
	const char *name; /**< "cuFile" */
	struct h2d_dl_spec library;
	/** Environment variable that forbids the compatibility mode when it is "false", where
	 *  the library has no other way; or NULL. */
	const char *compat_variable;
	/** Whether properties tell what is in force. */
	bool has_properties;
	const char *close_name, *register_name, *read_name; /**< for messages */
};
extern const struct h2d_storage_kind h2d_storage_cufile, h2d_storage_hipfile;

struct h2d_storage;
struct h2d_storage_file;

/** Files that one stream has used. */
struct h2d_storage_refs {
	struct h2d_storage_ref *first;
};

/** @param why  (out) one line when it fails
 *  @return 0 or H2D_E_UNSUPPORTED. The device must be current for the thread. */
int h2d_storage_open(struct h2d_storage **out, const struct h2d_storage_kind *kind,
		     bool allow_compat, const struct h2d_log *log, char *why, size_t why_bytes);
/** All refs must have been dropped. The device must be current. */
void h2d_storage_close(struct h2d_storage *s);

/** Make device memory known to it, which saves a copy within the device. Refusal is no error.
 *  @return true when it must be taken back by h2d_storage_forget() */
bool h2d_storage_know(struct h2d_storage *s, void *base, uint64_t bytes);
void h2d_storage_forget(struct h2d_storage *s, void *base);

/** Read into `base` + `at`. @return 0; H2D_E_IO; H2D_E_UNSUPPORTED for a file that it does not
 *  take; H2D_E_DEVICE; H2D_E_NOMEM */
int h2d_storage_read(struct h2d_storage *s, struct h2d_storage_refs *refs, int fd,
		     uint64_t offset, uint64_t bytes, void *base, uint64_t at);
/** @param abandon  of a lost device: leave the files as they are */
void h2d_storage_drop(struct h2d_storage *s, struct h2d_storage_refs *refs, bool abandon);

#endif

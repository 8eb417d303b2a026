/* SPDX-License-Identifier: Apache-2.0 */
/** @file storage_api.h  What cuFile and hipFile both declare, in words of our own; the tests
 *  compare it with their headers. */
#ifndef H2D_DEVICE_STORAGE_API_H
#define H2D_DEVICE_STORAGE_API_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
	H2D_STORAGE_BASE_ERROR = 5000,
	H2D_STORAGE_NOT_SUPPORTED = 5008, /* this file */
	H2D_STORAGE_ALREADY_OPEN = 5026,
	H2D_STORAGE_DISABLED = 5034, /* for this file, by configuration */
	H2D_STORAGE_HANDLE_FD = 1,
	H2D_STORAGE_PARAMETER_ALLOW_COMPAT = 1,
	H2D_STORAGE_CONTROL_ALLOW_COMPAT = 1, /* bit of the control flags */
};

struct h2d_storage_error {
	int code, driver_code;
};

struct h2d_storage_descr {
	int type;
	union {
		int fd;
		void *handle;
	} handle;
	const void *fs_ops;
};

/* The beginning of the driver's properties (of cuFile; hipFile does not fill its own). */
struct h2d_storage_properties {
	unsigned int major_version, minor_version;
	size_t poll_thresh_size, max_direct_io_size;
	unsigned int status_flags, control_flags;
	unsigned char rest[256];
};

struct h2d_storage_api {
	struct h2d_storage_error (*driver_open)(void);
	struct h2d_storage_error (*driver_close)(void);
	struct h2d_storage_error (*properties)(struct h2d_storage_properties *out);
	struct h2d_storage_error (*set_parameter)(int parameter, bool value); /* or NULL */
	struct h2d_storage_error (*handle_register)(void **handle,
						    struct h2d_storage_descr *descr);
	void (*handle_deregister)(void *handle);
	struct h2d_storage_error (*buffer_register)(const void *base, size_t bytes, int flags);
	struct h2d_storage_error (*buffer_deregister)(const void *base);
	ssize_t (*read)(void *handle, void *base, size_t bytes, off_t file_offset,
			off_t base_offset);
};

#endif

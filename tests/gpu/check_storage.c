/* SPDX-License-Identifier: Apache-2.0 */
/* Our one set of declarations for cuFile and hipFile against either header. It is a test that
 * it compiles. */
#include <stddef.h>

#include "device/storage_api.h"

#ifdef CHECK_HIPFILE
#define __HIP_PLATFORM_AMD__
#include <hipfile.h>
typedef hipFileError_t error_type;
typedef hipFileDescr_t descr_type;
typedef hipFileHandle_t handle_type;
#define DECLARED(call) hipFile##call
#else
#include <cufile.h>
typedef CUfileError_t error_type;
typedef CUfileDescr_t descr_type;
typedef CUfileHandle_t handle_type;
#define DECLARED(call) cuFile##call
#endif

/* The header's functions, with its types as ours are laid out. */
#define SAME_TYPE(call, type)                                                                  \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&DECLARED(call)), type), #call)
SAME_TYPE(DriverOpen, error_type (*)(void));
SAME_TYPE(HandleRegister, error_type (*)(handle_type *, descr_type *));
SAME_TYPE(HandleDeregister, void (*)(handle_type));
SAME_TYPE(BufRegister, error_type (*)(const void *, size_t, int));
SAME_TYPE(BufDeregister, error_type (*)(const void *));
SAME_TYPE(Read, ssize_t (*)(handle_type, void *, size_t, off_t, off_t));

_Static_assert(sizeof(handle_type) == sizeof(void *), "handle");
_Static_assert(sizeof(error_type) == sizeof(struct h2d_storage_error), "error");
_Static_assert(offsetof(error_type, err) == offsetof(struct h2d_storage_error, code), "code");
_Static_assert(sizeof(descr_type) == sizeof(struct h2d_storage_descr), "descr");
_Static_assert(offsetof(descr_type, type) == offsetof(struct h2d_storage_descr, type), "type");
_Static_assert(offsetof(descr_type, handle) == offsetof(struct h2d_storage_descr, handle),
	       "handle");
_Static_assert(offsetof(descr_type, fs_ops) == offsetof(struct h2d_storage_descr, fs_ops),
	       "fs_ops");

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
#ifdef CHECK_HIPFILE
SAME(H2D_STORAGE_NOT_SUPPORTED, hipFileIONotSupported);
SAME(H2D_STORAGE_ALREADY_OPEN, hipFileDriverAlreadyOpen);
SAME(H2D_STORAGE_DISABLED, hipFileIODisabled);
SAME(H2D_STORAGE_HANDLE_FD, hipFileHandleTypeOpaqueFD);
SAME(H2D_STORAGE_PARAMETER_ALLOW_COMPAT, hipFileParamPropertiesAllowCompatMode);
#else
SAME(H2D_STORAGE_NOT_SUPPORTED, CU_FILE_IO_NOT_SUPPORTED);
SAME(H2D_STORAGE_ALREADY_OPEN, CU_FILE_DRIVER_ALREADY_OPEN);
SAME(H2D_STORAGE_DISABLED, CU_FILE_IO_DISABLED);
SAME(H2D_STORAGE_HANDLE_FD, CU_FILE_HANDLE_TYPE_OPAQUE_FD);
SAME(H2D_STORAGE_PARAMETER_ALLOW_COMPAT, CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE);
SAME(H2D_STORAGE_CONTROL_ALLOW_COMPAT, CU_FILE_ALLOW_COMPAT_MODE);
_Static_assert(offsetof(CUfileDrvProps_t, nvfs.major_version) ==
		       offsetof(struct h2d_storage_properties, major_version),
	       "major_version");
_Static_assert(offsetof(CUfileDrvProps_t, nvfs.dcontrolflags) ==
		       offsetof(struct h2d_storage_properties, control_flags),
	       "dcontrolflags");
_Static_assert(sizeof(CUfileDrvProps_t) <= sizeof(struct h2d_storage_properties), "properties");
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The names of cuFile's and hipFile's functions. */
#include "device/storage.h"
#include "device/storage_api.h"

#define AT(member) offsetof(struct h2d_storage_api, member)

static const struct h2d_dl_symbol cufile_symbols[] = {
	{"cuFileDriverOpen", AT(driver_open), false},
	{"cuFileDriverClose_v2", AT(driver_close), false},
	{"cuFileDriverGetProperties", AT(properties), false},
	{"cuFileSetParameterBool", AT(set_parameter), true},
	{"cuFileHandleRegister", AT(handle_register), false},
	{"cuFileHandleDeregister", AT(handle_deregister), false},
	{"cuFileBufRegister", AT(buffer_register), false},
	{"cuFileBufDeregister", AT(buffer_deregister), false},
	{"cuFileRead", AT(read), false},
	{NULL, 0, false},
};

static const struct h2d_dl_symbol hipfile_symbols[] = {
	{"hipFileDriverOpen", AT(driver_open), false},
	{"hipFileDriverClose", AT(driver_close), false},
	{"hipFileDriverGetProperties", AT(properties), false},
	{"hipFileSetParameterBool", AT(set_parameter), true},
	{"hipFileHandleRegister", AT(handle_register), false},
	{"hipFileHandleDeregister", AT(handle_deregister), false},
	{"hipFileBufRegister", AT(buffer_register), false},
	{"hipFileBufDeregister", AT(buffer_deregister), false},
	{"hipFileRead", AT(read), false},
	{NULL, 0, false},
};

static const char *const cufile_names[] = {"libcufile.so.0", "libcufile.so", NULL};
static const char *const cufile_sonames[] = {"libcufile.so.0", NULL};
static const char *const hipfile_names[] = {"libhipfile.so.0", "libhipfile.so", NULL};
static const char *const hipfile_sonames[] = {"libhipfile.so.0", NULL};

const struct h2d_storage_kind h2d_storage_cufile = {
	.name = "cuFile",
	.library = {cufile_names, cufile_sonames, cufile_symbols},
	.has_properties = true,
	.close_name = "cuFileDriverClose_v2",
	.register_name = "cuFileHandleRegister",
	.read_name = "cuFileRead",
};

const struct h2d_storage_kind h2d_storage_hipfile = {
	.name = "hipFile",
	.library = {hipfile_names, hipfile_sonames, hipfile_symbols},
	.compat_variable = "HIPFILE_ALLOW_COMPAT_MODE",
	.close_name = "hipFileDriverClose",
	.register_name = "hipFileHandleRegister",
	.read_name = "hipFileRead",
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

const struct h2d_command h2d_command_probe = {
	.name = "probe",
	.summary = "find out whether a kernel's amdgpu driver stalls copies",
	.arguments = "capture|kernel|lab|module|process|trace …",
	.description =
		(const char *const[]){
			"Looks at kernels and processes from several sides. Each sub-command "
			"has its own "
			"help.",
			NULL,
		},
	.commands =
		(const struct h2d_command *const[]){
			&h2d_command_probe_capture,
			&h2d_command_probe_kernel,
			&h2d_command_probe_lab,
			&h2d_command_probe_module,
			&h2d_command_probe_process,
			&h2d_command_probe_trace,
			NULL,
		},
};

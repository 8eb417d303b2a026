/* SPDX-License-Identifier: Apache-2.0 */
/* The permission rule of the kernel's own amdgpu, as its code has it. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "inspect/inspect.h"

/* Copies of pageable memory ask for pages through the SVM caller. */
int lab_rule_read(struct lab *lab, const char *amdgpu, struct lab_kernel_result *result)
{
	struct h2d_module_report *report = NULL;
	const struct h2d_caller_report *svm;
	struct h2d_log silent = {0};
	int err = h2d_inspect_file(amdgpu, &silent, &report);

	if (err == H2D_E_NOMEM)
		return h2d_fail(&lab->log, err, "%s: out of memory", amdgpu);
	result->permission_rule = H2D_PERMISSION_UNKNOWN;
	if (err) {
		/* An inspector that is missing is no reason not to measure. */
		result->permission_why = lab_format("the module could not be inspected: %s",
						    h2d_status_string(err));
	} else {
		svm = &report->callers[H2D_CALLER_SVM];
		if (svm->is_present)
			result->permission_rule = svm->rule;
		if (result->permission_rule == H2D_PERMISSION_UNKNOWN)
			result->permission_why = lab_format("%s", svm->why);
	}
	h2d_module_report_free(report);
	if (result->permission_rule == H2D_PERMISSION_UNKNOWN && !result->permission_why)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	return 0;
}

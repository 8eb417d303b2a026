/* SPDX-License-Identifier: Apache-2.0 */
#include "inspect.h"

const char *h2d_permission_caller_name(enum h2d_permission_caller caller)
{
	static const char *const names[] = {"svm", "userptr"};

	return (unsigned)caller < H2D_CALLER_COUNT ? names[caller] : "unknown";
}

const char *h2d_module_origin_name(enum h2d_module_origin origin)
{
	static const char *const names[] = {"unknown", "in_tree", "updates", "dkms", "rebuilt"};

	return (unsigned)origin < 5 ? names[origin] : "unknown";
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/policy.h"

#include <string.h>

static const char *const policies[] = {"unknown", "refresh", "stale", "no_retry"};

const char *h2d_retry_policy_name(enum h2d_retry_policy p)
{
	return (unsigned)p < 4 ? policies[p] : "unknown";
}

enum h2d_retry_policy h2d_retry_policy_from_name(const char *name)
{
	for (unsigned i = 1; name && i < 4; i++)
		if (!strcmp(name, policies[i]))
			return (enum h2d_retry_policy)i;
	return H2D_RETRY_UNKNOWN;
}

const char *h2d_permission_rule_name(enum h2d_permission_rule r)
{
	static const char *const names[] = {"unknown", "vma", "access"};

	return (unsigned)r < 3 ? names[r] : "unknown";
}

const char *h2d_confidence_name(enum h2d_confidence c)
{
	static const char *const names[] = {"low", "medium", "high"};

	return (unsigned)c < 3 ? names[c] : "low";
}

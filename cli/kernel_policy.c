/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/policy.h"
#include "device/device.h"
#include "host/kernel_verdict.h"
#include "transfer_options.h"

/* Copies of these may be made by amdgpu, which is whom the question is about. */
static bool concerned(struct h2d_device *const *devs, uint32_t count)
{
	static const char *const by_amdgpu[] = {"hip", "opencl", "hmm", NULL};

	for (uint32_t i = 0; i < count; i++)
		if (h2d_word_in(by_amdgpu, devs[i]->backend->name,
				strlen(devs[i]->backend->name)))
			return true;
	return false;
}

static const char *ask(struct h2d_cli *cli)
{
	struct h2d_kernel_verdict_options o = H2D_OPTS(o);
	struct h2d_kernel_verdict *v;
	const char *policy;
	char line[512];

	o.no_module = access("/sys/module/amdgpu", F_OK) != 0;
	if (h2d_kernel_verdict_get(&o, &v))
		return NULL;
	policy = v->policy == H2D_RETRY_UNKNOWN ? NULL : h2d_retry_policy_name(v->policy);
	snprintf(line, sizeof(line), "kernel: %s (%s)", v->summary,
		 v->file.given	  ? "by the code of its amdgpu module"
		 : v->prior.given ? "by the table of known kernels"
				  : v->prior.why);
	h2d_cli_log(cli, H2D_LOG_INFO, line);
	h2d_kernel_verdict_free(v);
	return policy;
}

const char *h2d_kernel_policy(struct h2d_cli *cli, const struct h2d_transfer_values *v,
			      struct h2d_device *const *devs, uint32_t count)
{
	if (v->kernel_policy && strcmp(v->kernel_policy, "auto"))
		return strcmp(v->kernel_policy, "unknown") ? v->kernel_policy : NULL;
	if ((v->path && strcmp(v->path, "auto")) || !concerned(devs, count))
		return NULL;
	return ask(cli);
}

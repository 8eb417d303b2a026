// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the shipped driver's calls of hmm_range_fault() with a kretprobe, on demand (module
 * parameter `count_calls`): a probe makes every call some hundred times slower, so a window
 * holds fewer calls then, but there are as many windows.
 *
 * A call belongs to a request when its range carries that request's notifier. The emulated
 * driver counts for itself.
 */
#include <linux/kprobes.h>

#include "internal.h"

struct call {
	struct h2d_request *req;
};

static int enter_call(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const struct hmm_range *range = (const void *)regs_get_kernel_argument(regs, 0);
	struct call *call = (struct call *)instance->data;

	call->req = h2d_request_of(range->notifier);
	return !call->req || call->req->io.driver != H2D_HMM_DRIVER_SHIPPED;
}
NOKPROBE_SYMBOL(enter_call);

/* In the caller's own thread, which alone touches these counters. */
static int leave_call(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct call *call = (struct call *)instance->data;

	call->req->io.fault_calls++;
	if ((int)regs_return_value(regs) == -EBUSY)
		call->req->io.fault_ebusy++;
	return 0;
}
NOKPROBE_SYMBOL(leave_call);

static struct kretprobe probe = {
	.kp.symbol_name = "hmm_range_fault",
	.entry_handler = enter_call,
	.handler = leave_call,
	.data_size = sizeof(struct call),
	.maxactive = 64,
};
static bool counting;

int h2d_count_init(bool wanted)
{
	int err;

	if (!wanted)
		return 0;
	err = register_kretprobe(&probe);
	counting = !err;
	return err;
}

void h2d_count_exit(void)
{
	if (counting)
		unregister_kretprobe(&probe);
}

bool h2d_count_active(void)
{
	return counting;
}

int h2d_count_missed(void)
{
	return counting ? probe.nmissed + (int)probe.kp.nmissed : 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * h2d_hmm: /dev/h2d_hmm, its two ioctls and the checks of what user space hands in.
 *
 * The device is root's (mode 0600): a request holds the caller's mmap lock and a processor for
 * up to ten seconds without scheduling, which is the defect under study and nothing to offer to
 * everybody.
 */
#include <linux/bitmap.h>
#include <linux/compat.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "internal.h"

static int signature = H2D_HMM_SIGNATURE_NONE;
module_param(signature, int, 0444);
MODULE_PARM_DESC(
	signature,
	"prototype of amdgpu_hmm_range_get_pages, from amdgpu's BTF: 0, 1, 2; -1 none");

static bool count_calls;
module_param(count_calls, bool, 0444);
MODULE_PARM_DESC(count_calls, "count the shipped driver's calls of hmm_range_fault (slow)");

static bool within(u32 value, u32 first, u32 last)
{
	return value >= first && value <= last;
}

static long check_copy_source(const struct h2d_hmm_copy_source *io)
{
	bool shipped = io->driver == H2D_HMM_DRIVER_SHIPPED;

	if (io->size != sizeof(*io))
		return -EINVAL;
	if (io->abi_version != H2D_HMM_ABI_VERSION)
		return -EPROTONOSUPPORT;
	if (io->flags || memchr_inv(io->reserved_in, 0, sizeof(io->reserved_in)))
		return -EINVAL;
	if (!io->length || io->length > H2D_HMM_LENGTH_MAX || !PAGE_ALIGNED(io->length) ||
	    !PAGE_ALIGNED(io->address))
		return -EINVAL;
	if (!within(io->driver, H2D_HMM_DRIVER_EMULATED, H2D_HMM_DRIVER_SHIPPED) ||
	    !within(io->policy, H2D_HMM_POLICY_REFRESH, H2D_HMM_POLICY_NONE) ||
	    !within(io->permission, H2D_HMM_PERMISSION_VMA, H2D_HMM_PERMISSION_ACCESS) ||
	    !within(io->access, H2D_HMM_ACCESS_READ, H2D_HMM_ACCESS_WRITE))
		return -EINVAL;
	if (shipped != (io->policy == H2D_HMM_POLICY_NONE) || (shipped && io->timeout_ms))
		return -EINVAL;
	if (io->timeout_ms > H2D_HMM_TIMEOUT_MS_MAX || io->restart_max > H2D_HMM_RESTART_MAX ||
	    io->attempt_log_capacity > H2D_HMM_ATTEMPT_LOG_MAX ||
	    !io->attempt_log != !io->attempt_log_capacity)
		return -EINVAL;
	if (io->address > ULONG_MAX || io->attempt_log > ULONG_MAX ||
	    !access_ok((void __user *)(unsigned long)io->address, io->length))
		return -EFAULT;
	if (shipped && !h2d_shipped_ready())
		return -ENODEV;
	return 0;
}

static void clear_outputs(struct h2d_hmm_copy_source *io)
{
	const size_t first = offsetof(struct h2d_hmm_copy_source, attempt_log_count);

	memset((u8 *)io + first, 0, sizeof(*io) - first);
}

static void request_free(struct h2d_request *req)
{
	bitmap_free(req->span_map);
	kvfree(req->log);
	kfree(req);
}

/* A request with everything that it needs, or NULL. */
static struct h2d_request *request_alloc(const struct h2d_hmm_copy_source *io)
{
	struct h2d_request *req = kzalloc(sizeof(*req), GFP_KERNEL_ACCOUNT);

	if (!req)
		return NULL;
	req->io = *io;
	clear_outputs(&req->io);
	spin_lock_init(&req->lock);
	req->caller = current;
	req->start = io->address;
	req->end = io->address + io->length;
	req->timeout = msecs_to_jiffies(io->timeout_ms ?: HMM_RANGE_DEFAULT_TIMEOUT);
	req->span_map = bitmap_zalloc(io->length / H2D_HMM_SPAN_BYTES + 2, GFP_KERNEL_ACCOUNT);
	if (io->attempt_log_capacity)
		req->log = kvcalloc(io->attempt_log_capacity, sizeof(*req->log),
				    GFP_KERNEL_ACCOUNT);
	if (!req->span_map || (io->attempt_log_capacity && !req->log)) {
		request_free(req);
		return NULL;
	}
	return req;
}

static long copy_source(struct h2d_file *file, void __user *user)
{
	struct h2d_hmm_copy_source io;
	struct h2d_request *req;
	long err;

	if (copy_from_user(&io, user, sizeof(io)))
		return -EFAULT;
	err = check_copy_source(&io);
	if (err)
		return err;
	req = request_alloc(&io);
	if (!req)
		return -ENOMEM;

	err = h2d_request_run(req, file);
	if (err && err != -EINTR)
		goto out;
	/* Only now: these writes may fault, and may lie in the range itself. */
	if (copy_to_user((void __user *)(unsigned long)io.attempt_log, req->log,
			 req->io.attempt_log_count * sizeof(*req->log)) ||
	    copy_to_user(user, &req->io, sizeof(req->io)))
		err = -EFAULT;
out:
	request_free(req);
	return err;
}

static long query(void __user *user)
{
	struct h2d_hmm_query io;

	if (copy_from_user(&io, user, sizeof(io)))
		return -EFAULT;
	if (io.size != sizeof(io) || memchr_inv(io.reserved, 0, sizeof(io.reserved)))
		return -EINVAL;
	if (io.abi_version != H2D_HMM_ABI_VERSION)
		return -EPROTONOSUPPORT;
	io.features = H2D_HMM_FEATURE_EMULATED | H2D_HMM_FEATURE_SIGNATURE_MM |
		      H2D_HMM_FEATURE_SIGNATURE_PAGES | H2D_HMM_FEATURE_SIGNATURE_RANGE;
	if (h2d_count_active())
		io.features |= H2D_HMM_FEATURE_COUNT_CALLS;
	io.hz = HZ;
	io.default_timeout_ms = HMM_RANGE_DEFAULT_TIMEOUT;
	io.page_bytes = PAGE_SIZE;
	h2d_shipped_describe(&io);
	return copy_to_user(user, &io, sizeof(io)) ? -EFAULT : 0;
}

static long device_ioctl(struct file *filp, unsigned int command, unsigned long argument)
{
	void __user *user = (void __user *)argument;

	switch (command) {
	case H2D_HMM_IOCTL_QUERY:
		return query(user);
	case H2D_HMM_IOCTL_COPY_SOURCE:
		return copy_source(filp->private_data, user);
	default:
		return -ENOTTY;
	}
}

static int device_open(struct inode *inode, struct file *filp)
{
	struct h2d_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return -ENOMEM;
	mutex_init(&file->attempt_lock);
	filp->private_data = file;
	return nonseekable_open(inode, filp);
}

static int device_release(struct inode *inode, struct file *filp)
{
	struct h2d_file *file = filp->private_data;

	mutex_destroy(&file->attempt_lock);
	kfree(file);
	return 0;
}

static const struct file_operations device_fops = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.unlocked_ioctl = device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = H2D_HMM_MODULE_NAME,
	.fops = &device_fops,
	.mode = 0600,
};

static int __init h2d_hmm_init(void)
{
	int err;

	if (signature < H2D_HMM_SIGNATURE_NONE || signature > H2D_HMM_SIGNATURE_RANGE) {
		pr_err(H2D_HMM_MODULE_NAME ": signature=%d is not known\n", signature);
		return -EINVAL;
	}
	err = h2d_count_init(count_calls);
	if (err)
		return err;
	h2d_shipped_init(signature);
	err = misc_register(&device);
	if (err) {
		h2d_shipped_exit();
		h2d_count_exit();
	}
	return err;
}

static void __exit h2d_hmm_exit(void)
{
	misc_deregister(&device);
	h2d_shipped_exit();
	h2d_count_exit();
}

module_init(h2d_hmm_init);
module_exit(h2d_hmm_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("h2d");
MODULE_DESCRIPTION("Takes user memory through the HMM code of the AMD driver and counts");

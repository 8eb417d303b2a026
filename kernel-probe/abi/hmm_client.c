/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "hmm_client.h"

enum { RESTART_MAX_DEFAULT = 100000 };

static int query(int fd, const char *path, const struct h2d_log *log,
		 struct h2d_hmm_query *facts)
{
	int err;

	memset(facts, 0, sizeof(*facts));
	facts->size = sizeof(*facts);
	facts->abi_version = H2D_HMM_ABI_VERSION;
	if (!ioctl(fd, H2D_HMM_IOCTL_QUERY, facts))
		return 0;
	err = errno;
	if (err == ENOTTY || err == EINVAL || err == EPROTONOSUPPORT)
		return h2d_fail(log, H2D_E_UNAVAILABLE,
				"%s: not version %d of the h2d_hmm interface", path,
				H2D_HMM_ABI_VERSION);
	return h2d_fail_errno(log, err, "%s: query", path);
}

int h2d_hmm_open(const char *path, const struct h2d_log *log, struct h2d_hmm *hmm)
{
	int err;

	if (!path)
		path = H2D_HMM_DEVICE_PATH;
	hmm->fd = open(path, O_RDWR | O_CLOEXEC);
	if (hmm->fd < 0) {
		err = errno;
		if (err == ENOENT || err == ENODEV || err == ENXIO)
			return h2d_fail(log, H2D_E_UNAVAILABLE,
					"%s is not there: the module h2d_hmm is not loaded",
					path);
		return h2d_fail_errno(log, err, "%s", path);
	}
	err = query(hmm->fd, path, log, &hmm->facts);
	if (err)
		h2d_hmm_close(hmm);
	return err;
}

void h2d_hmm_close(struct h2d_hmm *hmm)
{
	if (hmm->fd >= 0)
		close(hmm->fd);
	hmm->fd = -1;
}

void h2d_hmm_request_init(struct h2d_hmm_copy_source *request, const void *address,
			  size_t bytes)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t begin = (uintptr_t)address / page * page;
	const uint64_t offset = (uintptr_t)address - begin;
	/* In pages first: the end of a wild range may not fit in 64 bits. */
	const uint64_t pages = bytes / page + (offset + bytes % page + page - 1) / page;

	memset(request, 0, sizeof(*request));
	request->size = sizeof(*request);
	request->abi_version = H2D_HMM_ABI_VERSION;
	request->address = begin;
	request->length = (pages ? pages : 1) * page;
	request->driver = H2D_HMM_DRIVER_EMULATED;
	request->policy = H2D_HMM_POLICY_STALE;
	request->permission = H2D_HMM_PERMISSION_VMA;
	request->access = H2D_HMM_ACCESS_READ;
	request->restart_max = RESTART_MAX_DEFAULT;
}

void h2d_hmm_request_shipped(struct h2d_hmm_copy_source *request)
{
	request->driver = H2D_HMM_DRIVER_SHIPPED;
	request->policy = H2D_HMM_POLICY_NONE;
	request->timeout_ms = 0;
}

int h2d_hmm_copy_source(const struct h2d_hmm *hmm, const struct h2d_log *log,
			struct h2d_hmm_copy_source *request)
{
	int err;

	if (!ioctl(hmm->fd, H2D_HMM_IOCTL_COPY_SOURCE, request))
		return 0;
	err = errno;
	switch (err) {
	case EINTR:
		return H2D_E_CANCELLED;
	case EINVAL:
	case EPROTONOSUPPORT:
	case EFAULT:
		return h2d_fail(log, H2D_E_INVALID,
				"h2d_hmm: range 0x%llx + 0x%llx or another field was refused",
				(unsigned long long)request->address,
				(unsigned long long)request->length);
	case ENODEV:
		return h2d_fail(log, H2D_E_UNAVAILABLE,
				"h2d_hmm: the shipped driver cannot be called (%s)",
				h2d_hmm_driver_state_string(hmm->facts.driver_state));
	default:
		return h2d_fail_errno(log, err, "h2d_hmm: copy source");
	}
}

uint64_t h2d_hmm_windows(const struct h2d_hmm_copy_source *request,
			 const struct h2d_hmm_attempt *log, uint32_t timeout_ms)
{
	const uint64_t shortest_ns = timeout_ms * UINT64_C(1000000) / 2;
	uint64_t windows = 0;

	if (request->valid & H2D_HMM_VALID_WINDOWS)
		return request->windows;
	for (uint32_t i = 0; log && i < request->attempt_log_count; i++)
		windows += (log[i].return_code == -EAGAIN || log[i].return_code == -EBUSY) &&
			   log[i].idle_ns >= shortest_ns && log[i].spans_new <= 1;
	return windows;
}

const char *h2d_hmm_driver_state_string(uint32_t state)
{
	switch (state) {
	case H2D_HMM_DRIVER_READY:
		return "ready";
	case H2D_HMM_DRIVER_ABSENT:
		return "absent";
	case H2D_HMM_DRIVER_NO_SIGNATURE:
		return "no_signature";
	case H2D_HMM_DRIVER_NO_SYMBOL:
		return "no_symbol";
	default:
		return "unknown";
	}
}

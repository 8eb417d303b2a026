/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KVM or emulation. That /dev/kvm opens proves nothing: under some hypervisors guests stop with
 * an internal error, or hang. So a guest that only switches itself off is tried first, and what
 * it showed is kept in the cache until the next boot of this machine.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROBE_MS	 10000u
#define PROBE_MEMORY_MIB 512u

/* "CACHE/kvm-BOOT", or NULL. */
static char *memory_path(const struct lab *lab)
{
	char *boot, *path = NULL;
	size_t size;

	if (!lab->cache ||
	    lab_read_file("/proc/sys/kernel/random/boot_id", 4096, &boot, &size) != 0)
		return NULL;
	boot[strcspn(boot, "\n")] = 0;
	if (!strchr(boot, '/'))
		path = lab_format("%s/kvm-%s", lab->cache, boot);
	free(boot);
	return path;
}

static int boot_probe(struct lab *lab, const char *kernel, bool *works)
{
	char *initramfs = lab_format("%s/probe.cpio", lab->tmp);
	char *init = lab_format("%s/lab-init", lab->assets);
	struct lab_guest guest = {
		.kernel = kernel,
		.initramfs = initramfs,
		.work_dir = lab->tmp,
		.memory_mib = PROBE_MEMORY_MIB,
		.timeout_ms = PROBE_MS,
		.accel = H2D_LAB_ACCEL_KVM,
	};
	struct lab_guest_outcome outcome = {0};
	struct lab_initramfs *fs = NULL;
	struct lab_job job;
	int err, end;

	lab_job_begin(&job);
	if (!initramfs || !init || job.failed) {
		err = h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
		goto out;
	}
	err = lab_initramfs_open(lab, initramfs, &fs);
	if (!err)
		err = lab_initramfs_add_file(fs, "init", init, 0755);
	if (!err)
		err = lab_initramfs_add(fs, "job", job.data, job.size, 0644);
	end = lab_initramfs_close(fs);
	if (!err)
		err = end;
	if (!err)
		err = lab_guest_boot(lab, &guest, &outcome);
	*works = !err && outcome.end == LAB_GUEST_OFF;
	lab_guest_outcome_free(&outcome);
	unlink(initramfs);
out:
	lab_job_free(&job);
	free(initramfs);
	free(init);
	return err;
}

int lab_accel_choose(struct lab *lab, const char *kernel, enum h2d_lab_accel *accel,
		     const char **reason)
{
	char *memory = NULL, *text = NULL;
	bool works = false;
	size_t size;
	int fd, err = 0;

	if (lab->options.accel != H2D_LAB_ACCEL_AUTO) {
		*accel = lab->options.accel;
		*reason = "asked for";
		return 0;
	}
	*accel = H2D_LAB_ACCEL_TCG;
	fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		*reason = "KVM cannot be opened";
		return 0;
	}
	close(fd);
	memory = memory_path(lab);
	if (memory && lab_read_file(memory, 64, &text, &size) == 0) {
		works = strcmp(text, "works\n") == 0;
	} else {
		h2d_log_line(&lab->log, H2D_LOG_INFO, "trying KVM");
		err = boot_probe(lab, kernel, &works);
		if (!err && memory && lab_make_dirs(lab->cache) == 0)
			lab_write_file(memory, works ? "works\n" : "broken\n", works ? 6 : 7);
	}
	if (works)
		*accel = H2D_LAB_ACCEL_KVM;
	*reason = works ? "a guest runs under KVM"
			: "KVM is there, but a guest does not run under it";
	free(memory);
	free(text);
	return err;
}

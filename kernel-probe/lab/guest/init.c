/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process 1 of the laboratory's guests: prepares /proc, /sys, /dev and /tmp, works through the
 * job that lies in the initramfs, writes the results to a raw disk and switches the guest off.
 */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define DEFAULT_LIMIT_BYTES (8u << 20)
#define DISK_WAIT_NS	    20000000000u

static void power_off(void)
{
	result_flush();
	sync();
	reboot(RB_POWER_OFF);
	/* A machine without a way to switch itself off: QEMU ends at a reboot as well. */
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}

static void fatal(const char *what)
{
	fprintf(stderr, "h2d-lab: fatal: %s: %s\n", what, strerror(errno));
	power_off();
}

static void mount_basics(void)
{
	static const struct {
		const char *type, *target, *options;
	} basics[] = {
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"devtmpfs", "/dev", ""},
		{"tmpfs", "/tmp", "mode=1777"},
		{"debugfs", "/sys/kernel/debug", ""},
		{"tracefs", "/sys/kernel/tracing", ""},
	};

	for (size_t i = 0; i < sizeof(basics) / sizeof(basics[0]); i++) {
		mkdir(basics[i].target, 0755);
		/* The last two are missing on some kernels, and only some commands want them.
		 */
		if (mount(basics[i].type, basics[i].target, basics[i].type, 0,
			  basics[i].options) != 0 &&
		    i < 4)
			fatal(basics[i].target);
	}
	mkdir("/dev/shm", 01777);
	mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777");
}

static void *read_job(size_t *size)
{
	struct stat st;
	uint8_t *data;
	size_t done = 0;
	int fd = open(GUEST_JOB_PATH, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) != 0)
		fatal(GUEST_JOB_PATH);
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		fatal("memory");
	while (done < (size_t)st.st_size) {
		ssize_t n = read(fd, data + done, (size_t)st.st_size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			fatal(GUEST_JOB_PATH);
		done += (size_t)n;
	}
	close(fd);
	*size = done;
	return data;
}

/* The driver makes its disks some time after it was loaded. */
static void wait_for_disk(void)
{
	uint64_t start = guest_now_ns();

	while (!result_is_open() && result_open_disk() != 0) {
		if (guest_now_ns() - start > DISK_WAIT_NS) {
			errno = ENODEV;
			fatal("the result disk does not appear");
		}
		usleep(20000);
	}
}

static uint64_t parse_limit(const struct lab_record *job)
{
	size_t offset = 0;
	const char *text = lab_record_string(job, &offset);

	return text ? strtoull(text, NULL, 10) : DEFAULT_LIMIT_BYTES;
}

/* Returns 0, or not 0 when the step failed. */
static int do_step(struct lab_record *job, uint32_t step, uint64_t *limit)
{
	struct lab_step_end end = {0};
	uint8_t wire[LAB_STEP_END_BYTES];
	uint64_t start = guest_now_ns();
	int err;

	job->step = step;
	if (job->type == LAB_JOB_RUN || job->type == LAB_JOB_MOUNT)
		wait_for_disk();
	result_put(LAB_RES_BEGIN, step, NULL, 0);
	switch (job->type) {
	case LAB_JOB_LOAD:
		err = step_load(job);
		break;
	case LAB_JOB_MOUNT:
		err = step_mount(job);
		break;
	case LAB_JOB_WRITE:
		err = step_write(job);
		break;
	case LAB_JOB_MKDIR:
		err = step_mkdir(job);
		break;
	case LAB_JOB_LIMIT:
		*limit = parse_limit(job);
		err = 0;
		break;
	case LAB_JOB_RUN:
		/* Known before it starts, so that a command that hangs the guest is found. */
		result_flush();
		err = command_run(job, *limit, &end);
		break;
	default:
		err = -EBADMSG;
	}
	if (job->type != LAB_JOB_RUN) {
		end.status = err;
		end.elapsed_ns = guest_now_ns() - start;
	}
	if (!result_is_open())
		result_open_disk();
	end.kmsg_lost = kmsg_collect(step);
	lab_step_end_encode(&end, wire);
	result_put(LAB_RES_END, step, wire, sizeof(wire));
	return err;
}

static void skip_step(uint32_t step)
{
	struct lab_step_end end = {.status = -ECANCELED, .flags = LAB_END_SKIPPED};
	uint8_t wire[LAB_STEP_END_BYTES];

	lab_step_end_encode(&end, wire);
	result_put(LAB_RES_END, step, wire, sizeof(wire));
}

static uint64_t job_key(const uint8_t *data, size_t size)
{
	uint64_t key = 0;

	if (size < LAB_STREAM_HEAD_BYTES)
		return 0;
	for (int i = 7; i >= 0; i--)
		key = key << 8 | data[8 + i];
	return key;
}

int main(void)
{
	uint64_t limit = DEFAULT_LIMIT_BYTES;
	struct lab_cursor cursor;
	struct lab_record job;
	struct utsname uts;
	char boot[256];
	uint32_t step = 0;
	int stop = 0, more, n;
	size_t size;
	uint8_t *data;

	if (getpid() != 1) {
		fprintf(stderr, "this is the init of the laboratory's guests\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	mount_basics();
	data = read_job(&size);
	errno = EBADMSG;
	if (lab_cursor_open(&cursor, data, size, job_key(data, size)) != 0)
		fatal(GUEST_JOB_PATH);
	result_init(job_key(data, size));
	kmsg_open();
	uname(&uts);
	n = snprintf(boot, sizeof(boot), "%s%c%s%c", uts.release, 0, uts.version, 0);
	result_put(LAB_RES_BOOT, 0, boot, (size_t)n);

	for (; (more = lab_cursor_next(&cursor, &job)) > 0; step++) {
		if (stop) {
			skip_step(step);
			continue;
		}
		if (do_step(&job, step, &limit) != 0 && (job.flags & LAB_FLAG_REQUIRED))
			stop = 1;
	}
	/* A job without steps asks only whether a guest runs at all. */
	if (more == 0 && step == 0)
		power_off();
	wait_for_disk();
	if (more < 0)
		result_note(step, "the job is damaged after step %u", step);
	else if (!stop)
		result_put(LAB_RES_DONE, step, NULL, 0);
	power_off();
	return 0;
}

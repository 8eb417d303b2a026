/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one guest under QEMU, always under a timeout, and says how it ended. */
#include "internal.h"
#include "klog.h"
#include "spawn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QEMU		   "qemu-system-x86_64"
#define CONSOLE_KEEP_BYTES (64u << 10)
/* A healthy guest writes a few lines; this is a loop. */
#define CONSOLE_FLOOD_BYTES (4u << 20)
#define KVM_PROBE_MS	    15000u
#define ARGUMENT_MAX	    64

/*
 * panic=-1: a panic reboots at once, and -no-reboot turns that into QEMU's end. The log buffer
 * is large enough that what a busy step logs is still there when init reads it.
 */
static const char command_line[] =
	"console=ttyS0 rdinit=/init panic=-1 quiet loglevel=4 log_buf_len=4M "
	/* An emulated processor that the host leaves waiting is not locked up. */
	"watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120";

const char *lab_accel_name(enum h2d_lab_accel accel)
{
	switch (accel) {
	case H2D_LAB_ACCEL_KVM:
		return "kvm";
	case H2D_LAB_ACCEL_TCG:
		return "tcg";
	case H2D_LAB_ACCEL_AUTO:
		break;
	}
	return "auto";
}

/* QEMU splits option values at commas; a doubled one stands for itself. */
static char *quote_commas(const char *path)
{
	char *quoted = malloc(strlen(path) * 2 + 1), *p = quoted;

	while (quoted && *path) {
		if (*path == ',')
			*p++ = ',';
		*p++ = *path++;
	}
	if (quoted)
		*p = 0;
	return quoted;
}

struct arguments {
	const char *argv[ARGUMENT_MAX];
	char *owned[ARGUMENT_MAX];
	size_t count, owned_count;
	bool failed;
};

static void add(struct arguments *a, const char *argument)
{
	if (a->count + 1 < ARGUMENT_MAX && argument)
		a->argv[a->count++] = argument;
	else
		a->failed = true;
}

static void add_owned(struct arguments *a, const char *option, char *value)
{
	if (!value || a->owned_count == ARGUMENT_MAX) {
		free(value);
		a->failed = true;
		return;
	}
	a->owned[a->owned_count++] = value;
	add(a, option);
	add(a, value);
}

static void add_disks(struct arguments *a, const struct lab_guest *guest)
{
	for (size_t i = 0; i < guest->disk_count; i++) {
		const struct lab_disk *disk = &guest->disks[i];
		char *path = quote_commas(disk->path);

		/* An error of the host's disk reaches the guest; QEMU's default is to stop it.
		 */
		add_owned(a, "-drive",
			  path ? lab_format("file=%s,format=raw,if=none,id=d%zu,cache=unsafe,"
					    "werror=report,rerror=report,readonly=%s",
					    path, i, disk->read_only ? "on" : "off")
			       : NULL);
		add_owned(a, "-device",
			  lab_format("virtio-blk-pci,drive=d%zu,serial=%s", i, disk->serial));
		free(path);
	}
}

static void make_arguments(struct arguments *a, const char *program,
			   const struct lab_guest *guest)
{
	bool kvm = guest->accel == H2D_LAB_ACCEL_KVM;

	add(a, program);
	add(a, "-nodefaults");
	add(a, "-no-user-config");
	add(a, "-nographic");
	add(a, "-no-reboot");
	add(a, "-monitor");
	add(a, "none");
	add(a, "-serial");
	add(a, "stdio");
	add(a, "-accel");
	add(a, kvm ? "kvm" : "tcg,thread=multi");
	add(a, "-cpu");
	add(a, kvm ? "host" : "max");
	add(a, "-smp");
	add(a, "2");
	add_owned(a, "-m", lab_format("%u", guest->memory_mib));
	add(a, "-kernel");
	add(a, guest->kernel);
	add(a, "-initrd");
	add(a, guest->initramfs);
	add(a, "-append");
	add(a, command_line);
	add_disks(a, guest);
}

/* Takes terminal control sequences out, the firmware's above all. */
static void clean_console(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		if (*p == 0x1b && p[1] == '[') {
			p += 2 + strspn(p + 2, "0123456789;?");
			if (!*p)
				break;
		} else if (*p == 0x1b) {
			p += p[1] != 0;
		} else if (*p == '\n' || *p == '\t' || (unsigned char)*p >= 0x20) {
			*to++ = *p;
		}
	}
	*to = 0;
}

static enum lab_guest_end how_it_ended(const struct lab_outcome *outcome, const char *console)
{
	if (lab_klog_is_panic(console))
		return LAB_GUEST_PANIC;
	if (outcome->timed_out)
		return LAB_GUEST_HUNG;
	if (outcome->flooded)
		return LAB_GUEST_FLOODED;
	return outcome->status == 0 ? LAB_GUEST_OFF : LAB_GUEST_DIED;
}

int lab_guest_possible(struct lab *lab)
{
	char program[256];

	if (lab_find_program(QEMU, program, sizeof(program)) == 0)
		return 0;
	return h2d_fail(&lab->log, H2D_E_UNAVAILABLE,
			QEMU " is not installed (package qemu-system-x86)");
}

int lab_guest_boot(struct lab *lab, const struct lab_guest *guest,
		   struct lab_guest_outcome *outcome)
{
	struct arguments arguments = {0};
	struct lab_command command = {
		.argv = arguments.argv,
		.cwd = guest->work_dir,
		.timeout_ms = guest->timeout_ms,
		.flood_bytes = CONSOLE_FLOOD_BYTES,
		.keep_bytes = CONSOLE_KEEP_BYTES,
		.cancel = &lab->cancel,
	};
	struct lab_outcome qemu = {0};
	char program[256];
	int err;

	memset(outcome, 0, sizeof(*outcome));
	err = lab_guest_possible(lab);
	if (err)
		return err;
	lab_find_program(QEMU, program, sizeof(program));
	make_arguments(&arguments, program, guest);
	if (arguments.failed) {
		err = h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
		goto out;
	}
	err = lab_spawn(&command, &qemu);
	if (err) {
		err = h2d_fail_errno(&lab->log, -err, "%s", program);
		goto out;
	}
	if (qemu.cancelled) {
		err = h2d_fail(&lab->log, H2D_E_CANCELLED, "cancelled");
		goto out;
	}
	outcome->console = lab_text_string(&qemu.out);
	outcome->errors = lab_text_string(&qemu.err);
	outcome->console_bytes = qemu.out.total_bytes;
	outcome->elapsed_ns = qemu.elapsed_ns;
	if (!outcome->console || !outcome->errors)
		err = h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	else {
		clean_console(outcome->console);
		outcome->end = how_it_ended(&qemu, outcome->console);
	}
out:
	for (size_t i = 0; i < arguments.owned_count; i++)
		free(arguments.owned[i]);
	lab_outcome_free(&qemu);
	return err;
}

void lab_guest_outcome_free(struct lab_guest_outcome *outcome)
{
	free(outcome->console);
	free(outcome->errors);
	memset(outcome, 0, sizeof(*outcome));
}

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_LAB_GUEST_H
#define H2D_LAB_GUEST_H

/*
 * What the guest's init is made of. It is one static program, process 1 of a guest that holds
 * nothing else; one thread, so nothing here is locked. Since 0.1.
 */

#include <stddef.h>
#include <stdint.h>

#include "../stream.h"

/* The job, in the initramfs, and the serial number of the disk that takes the results. */
#define GUEST_JOB_PATH	    "/job"
#define GUEST_RESULT_SERIAL "h2d-result"

uint64_t guest_now_ns(void);

/* ---- result.c: records go to memory until the disk is there, then to the disk ---- */

void result_init(uint64_t key);
/* Opens the disk once it has appeared and writes out what was kept. Returns 0 or -errno. */
int result_open_disk(void);
int result_is_open(void);
void result_put(uint16_t type, uint32_t step, const void *payload, size_t length);
void result_note(uint32_t step, const char *format, ...) __attribute__((format(printf, 2, 3)));
void result_flush(void);

/* Finds /dev/NAME of the virtio disk with this serial. Returns 0 or -ENOENT. */
int guest_disk_by_serial(const char *serial, char *path, size_t size);

/* ---- kmsg.c: the kernel's log, read between steps ---- */

int kmsg_open(void);
/* Reports every suspicious line since the last call as belonging to `step`; returns overruns.
 */
uint32_t kmsg_collect(uint32_t step);

/* ---- command.c ---- */

/* Runs a LAB_JOB_RUN record. Returns 0 when the command ran and exited with status 0. */
int command_run(const struct lab_record *job, uint64_t limit_bytes, struct lab_step_end *end);

/* ---- step.c: everything that is not a command; each returns 0 or -errno ---- */

int step_load(const struct lab_record *job);
int step_mount(const struct lab_record *job);
int step_write(const struct lab_record *job);
int step_mkdir(const struct lab_record *job);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file task.h
 * The threads of a process. Its first one may end by pthread_exit() while others go on: then
 * /proc/PID calls it a zombie without memory, and /proc/TID of another shows what it maps.
 * Thread-safe. Since 0.1.
 */
#ifndef H2D_HOST_TASK_H
#define H2D_HOST_TASK_H

#include <stdbool.h>

/** Threads of one process that are looked at. */
enum { H2D_TASKS_MAX = 1024 };

/** A state of proc(5) that a thread does not leave any more: Z or X. */
bool h2d_task_ended(char state);
/** State in a file stat, 0 when it cannot be read. */
char h2d_task_state(const char *root, const char *stat_path);
/**
 * A thread of the process that lives: its first one, else any.
 * @param state  (out) that thread's; of the first one when none lives, 0 unknown
 * @return its number, or 0
 */
int h2d_task_alive(const char *root, int pid, char *state);

#endif

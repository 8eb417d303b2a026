/* SPDX-License-Identifier: Apache-2.0 */
/** @file commands.h  Every command of the table in commands.c. */
#ifndef H2D_CLI_COMMANDS_H
#define H2D_CLI_COMMANDS_H

#include "cli.h"

extern const struct h2d_command h2d_command_bench;
extern const struct h2d_command h2d_command_bench_cell;
extern const struct h2d_command h2d_command_bench_compare;
extern const struct h2d_command h2d_command_bench_export;
extern const struct h2d_command h2d_command_bench_limits;
extern const struct h2d_command h2d_command_bench_run;
extern const struct h2d_command h2d_command_cache;
extern const struct h2d_command h2d_command_cat;
extern const struct h2d_command h2d_command_devices;
extern const struct h2d_command h2d_command_doctor;
extern const struct h2d_command h2d_command_help;
extern const struct h2d_command h2d_command_load;
extern const struct h2d_command h2d_command_ls;
extern const struct h2d_command h2d_command_probe;
extern const struct h2d_command h2d_command_probe_capture;
extern const struct h2d_command h2d_command_probe_kernel;
extern const struct h2d_command h2d_command_probe_lab;
extern const struct h2d_command h2d_command_probe_module;
extern const struct h2d_command h2d_command_probe_process;
extern const struct h2d_command h2d_command_probe_trace;
extern const struct h2d_command h2d_command_repro;
extern const struct h2d_command h2d_command_run;
extern const struct h2d_command h2d_command_verify;
extern const struct h2d_command h2d_command_version;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** @file package_module.h  The amdgpu module inside a kernel's packages, for the probes. */
#ifndef H2D_CLI_PACKAGE_MODULE_H
#define H2D_CLI_PACKAGE_MODULE_H

#include "cli.h"
#include "inspect/inspect.h"
#include "lab/lab.h"

/** Where packages are looked for. */
struct h2d_package_places {
	const char *kernel_dir; /**< NULL: $H2D_KERNEL_DIR */
	bool offline;		/**< do not ask the archive */
};

/**
 * The module in the first of a kernel's packages that has one.
 * @param report  (out) released by h2d_module_report_free(), or NULL with `*why` set
 * @param why     (out) why there is none; malloc'd
 * @return 0, or an exit status after the error was told
 */
int h2d_cli_packages_module(struct h2d_cli *cli, const struct h2d_lab_packages *packages,
			    struct h2d_module_report **report, char **why);

/** The same for a kernel by its release, which is looked for. */
int h2d_cli_release_module(struct h2d_cli *cli, const struct h2d_package_places *places,
			   const char *release, struct h2d_module_report **report, char **why);

#endif

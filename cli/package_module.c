/* SPDX-License-Identifier: Apache-2.0 */
#include "package_module.h"

#include <stdlib.h>
#include <string.h>

static int say_why(struct h2d_cli *cli, const char *text, char **why)
{
	*why = strdup(text);
	return *why ? 0 : h2d_cli_error(cli, H2D_EXIT_SYSTEM, "out of memory");
}

int h2d_cli_packages_module(struct h2d_cli *cli, const struct h2d_lab_packages *p,
			    struct h2d_module_report **report, char **why)
{
	const struct h2d_log log = {h2d_cli_log, cli};
	int err = H2D_E_NOT_FOUND;

	*report = NULL;
	*why = NULL;
	if (p->missing)
		return say_why(cli, p->missing, why);
	for (size_t i = 0; err == H2D_E_NOT_FOUND && i < p->path_count; i++)
		err = h2d_inspect_package(p->paths[i], &log, report);
	if (err == H2D_E_NOT_FOUND)
		return say_why(cli, "its packages have no amdgpu module", why);
	if (err == H2D_E_UNAVAILABLE)
		return h2d_cli_error(cli, H2D_EXIT_UNKNOWN, "%s", cli->message);
	return err ? h2d_cli_fail(cli, H2D_STAGE_INPUT, err, "%s", p->request) : 0;
}

int h2d_cli_release_module(struct h2d_cli *cli, const struct h2d_package_places *places,
			   const char *release, struct h2d_module_report **report, char **why)
{
	struct h2d_lab_options o = H2D_OPTS(o);
	struct h2d_lab_packages *found;
	size_t count;
	int err, exit;

	*report = NULL;
	*why = NULL;
	o.log = h2d_cli_log;
	o.log_user = cli;
	o.releases = &release;
	o.release_count = 1;
	o.kernel_dir = places->kernel_dir;
	o.offline = places->offline;
	err = h2d_lab_find_packages(&o, &found, &count);
	if (err == H2D_E_UNAVAILABLE)
		return say_why(cli, "this h2d was built without the part that reads packages",
			       why);
	if (err)
		return h2d_cli_fail(cli, H2D_STAGE_INPUT, err, "looking for packages");
	exit = count ? h2d_cli_packages_module(cli, &found[0], report, why)
		     : say_why(cli, "no package of it was found", why);
	h2d_lab_packages_free(found, count);
	return exit;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "build-info.h"
#include "cli.h"

void h2d_cli_document(struct h2d_cli *cli, struct h2d_json *j, const char *schema,
		      unsigned major, unsigned minor)
{
	struct h2d_tool tool = {
		.command = cli->command_name[0] ? cli->command_name : NULL,
		.argc = cli->argc,
		.argv = cli->argv,
		.redact = cli->common.redact,
		.git = H2D_BUILD_GIT,
		.git_dirty = H2D_BUILD_GIT_DIRTY,
		.file = cli->file,
		.root = cli->root,
	};

	cli->document_begun = true;
	h2d_json_init_file(j, cli->out, isatty(STDOUT_FILENO));
	h2d_envelope_begin(j, schema, major, minor, &tool);
}

int h2d_cli_document_end(struct h2d_cli *cli, struct h2d_json *j)
{
	int rc;

	h2d_json_object_end(j);
	rc = h2d_json_finish(j);
	/* What could not be written is told by the check of stdout, with its errno. */
	if (rc && rc != H2D_E_IO)
		return h2d_cli_fail(cli, H2D_STAGE_LOAD, rc, "writing the document");
	return H2D_EXIT_OK;
}

void h2d_cli_null(struct h2d_json *j, const char *key, const char *why)
{
	char name[128];

	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

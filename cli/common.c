/* SPDX-License-Identifier: Apache-2.0 */
/* The options that every command has. */
#include "cli.h"

static const struct h2d_option common_options[] = {
	{"json", 0, H2D_OPTION_FLAG, NULL,
	 "Write one JSON document to stdout and nothing else. An error is a document too.",
	 NULL, 0, offsetof(struct h2d_common, json), 0, 0},
	{"progress", 0, H2D_OPTION_CHOICE, "WHEN",
	 "Show progress on stderr. With auto, a bar when stderr is a terminal; jsonl writes "
	 "one "
	 "JSON event a line.",
	 (const char *const[]){"auto", "none", "jsonl", NULL}, 0,
	 offsetof(struct h2d_common, progress), 0, 0},
	{"verbose", 'v', H2D_OPTION_COUNT, NULL, "Say more on stderr. Twice: for debugging.",
	 NULL, 0, offsetof(struct h2d_common, verbose), 0, 0},
	{"quiet", 'q', H2D_OPTION_FLAG, NULL,
	 "Say nothing but errors. Reports for people, warnings and progress are left out; "
	 "documents and data are not.",
	 NULL, 0, offsetof(struct h2d_common, quiet), 0, 0},
	{"redact", 0, H2D_OPTION_FLAG, NULL,
	 "Leave names of this machine and user out of documents. Paths are cut down to their "
	 "last "
	 "component.",
	 NULL, 0, offsetof(struct h2d_common, redact), 0, 0},
	{"help", 'h', H2D_OPTION_FLAG, NULL, "Print help and exit.", NULL, 0,
	 offsetof(struct h2d_common, help), 0, 0},
	{0},
};
const struct h2d_option_table h2d_common_options = {"Common options", common_options};

const char *h2d_option_help(const struct h2d_command *command, const struct h2d_option *option)
{
	bool is_json = option == &common_options[0];

	return is_json && command && command->json_help ? command->json_help : option->help;
}

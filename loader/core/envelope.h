/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file envelope.h
 * How every document of h2d begins: schema, schema_version, tool, environment.
 * Keys are those of results/schema/envelope.schema.json.
 */
#ifndef H2D_CORE_ENVELOPE_H
#define H2D_CORE_ENVELOPE_H

#include "core/json.h"

/** Facts about this build and command line that go into `tool`. */
struct h2d_tool {
	const char *command; /**< for example "load" */
	int argc;
	char **argv; /**< may be NULL */
	bool redact; /**< leave host name, user and paths of the command line out */
};

/** Open the document's object and write the envelope; the caller adds members and ends it with
 *  h2d_json_object_end() and h2d_json_finish(). `schema` for example "h2d.load". */
void h2d_envelope_begin(struct h2d_json *j, const char *schema, unsigned major, unsigned minor,
			const struct h2d_tool *tool);
/** The `environment` object alone: unknown values are null, with the reason in `<key>_why`. */
void h2d_environment_write(struct h2d_json *j, const char *key, bool redact);

#endif

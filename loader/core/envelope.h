/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file envelope.h
 * How every document of h2d begins: schema, schema_version, tool, environment.
 * Keys are those of results/schema/envelope.schema.json.
 */
#ifndef H2D_CORE_ENVELOPE_H
#define H2D_CORE_ENVELOPE_H

#include "core/json.h"

/** What the environment block is to describe. @since 0.1 */
struct h2d_environment {
	const char *root; /**< capture of another machine to read instead; NULL: this machine */
	const char
		*file; /**< whose filesystem and disk are described as `storage`; NULL: none */
	bool redact;   /**< leave host name, user, kernel command line and paths out */
};

/** Facts about this build and command line that go into `tool`. @since 0.1 */
struct h2d_tool {
	const char *command; /**< for example "load" */
	int argc;
	char **argv;	  /**< may be NULL */
	bool redact;	  /**< leave host name, user and paths of the command line out */
	const char *git;  /**< commit the program was built from; NULL or "": unknown */
	bool git_dirty;	  /**< it was built with changes on top of that commit */
	const char *root; /**< see struct h2d_environment */
	const char *file; /**< see struct h2d_environment */
};

/** Open the document's object and write the envelope; the caller adds members and ends it with
 *  h2d_json_object_end() and h2d_json_finish(). `schema` for example "h2d.load". @since 0.1 */
void h2d_envelope_begin(struct h2d_json *j, const char *schema, unsigned major, unsigned minor,
			const struct h2d_tool *tool);
/** The `environment` object alone: unknown values are null, with the reason in `<key>_why`.
 *  @since 0.1 */
void h2d_environment_write(struct h2d_json *j, const char *key,
			   const struct h2d_environment *env);

/** A path as documents show it: `path` itself or, redacted, its last component. @since 0.1 */
const char *h2d_redacted_path(const char *path, bool redact);

/** Compiler, build type and sanitizers of this build, for `tool` and `h2d version`. */
const char *h2d_build_compiler(void);
const char *h2d_build_type(void);
const char *h2d_build_sanitizers(void); /**< comma-separated, "" when none */

#endif

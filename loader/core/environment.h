/* SPDX-License-Identifier: Apache-2.0 */
/** @file environment.h  Shared by the files that write the environment block. */
#ifndef H2D_CORE_ENVIRONMENT_H
#define H2D_CORE_ENVIRONMENT_H

#include "core/envelope.h"
#include "core/hostfs.h"

/** A null with its reason; `err` a negative errno or 0. */
void h2d_env_unknown(struct h2d_json *j, const char *key, const char *what, int err);
/** A null whose reason is a sentence of its own. */
void h2d_env_why(struct h2d_json *j, const char *key, const char *why);
/** The text of a file of proc or sys. */
void h2d_env_text(struct h2d_json *j, const char *root, const char *key, const char *path);
/** The number in a file of proc or sys, times `unit`. */
void h2d_env_number(struct h2d_json *j, const char *root, const char *key, const char *path,
		    uint64_t unit);
/** Of "always [madvise] never": the word in brackets. */
void h2d_env_chosen(struct h2d_json *j, const char *root, const char *key, const char *path);

/** The parts that have files of their own. */
void h2d_env_gpus(struct h2d_json *j, const char *root);
void h2d_env_cgroup(struct h2d_json *j, const char *root, bool redact);
void h2d_env_storage(struct h2d_json *j, const struct h2d_environment *env);

#endif

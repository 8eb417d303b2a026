/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for the laboratory where h2d was built without what it needs. */
#include "core/log.h"
#include "lab.h"

int h2d_lab_run(const struct h2d_lab_options *options, struct h2d_lab_result **result)
{
	const struct h2d_log log = {.fn = options->log, .user = options->log_user};

	*result = NULL;
	return h2d_fail(
		&log, H2D_E_UNAVAILABLE,
		"this h2d was built without the laboratory: it needs libarchive, libelf and "
		"a static C library");
}

int h2d_lab_find_packages(const struct h2d_lab_options *options,
			  struct h2d_lab_packages **found, size_t *count)
{
	const struct h2d_log log = {.fn = options->log, .user = options->log_user};

	*found = NULL;
	*count = 0;
	return h2d_fail(&log, H2D_E_UNAVAILABLE,
			"this h2d was built without the part that reads packages: it needs "
			"libarchive, libelf and a static C library");
}

void h2d_lab_packages_free(struct h2d_lab_packages *found, size_t count)
{
	(void)found;
	(void)count;
}

void h2d_lab_result_free(struct h2d_lab_result *result)
{
	(void)result;
}

const char *h2d_lab_verdict_name(enum h2d_lab_verdict verdict)
{
	(void)verdict;
	return "not_verified";
}

enum h2d_lab_verdict h2d_lab_result_verdict(const struct h2d_lab_result *result)
{
	(void)result;
	return H2D_LAB_NOT_VERIFIED;
}

void h2d_lab_result_write(struct h2d_json *json, const struct h2d_lab_result *result)
{
	(void)json;
	(void)result;
}

void h2d_lab_result_print(FILE *out, const struct h2d_lab_result *result)
{
	(void)out;
	(void)result;
}

void h2d_lab_result_reasons(FILE *out, const struct h2d_lab_result *result)
{
	(void)out;
	(void)result;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/known_kernels.h"

#include <jansson.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/whole_file.h"
#include "core/mem.h"

enum { FILE_BYTES_MAX = 4 << 20, PATH_BYTES = 4096, GROUPS = 2 };

extern const unsigned char h2d_known_kernels_json[];
extern const size_t h2d_known_kernels_json_bytes;

struct h2d_known_kernels {
	json_t *root;
	char origin[PATH_BYTES];
};

static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* ---- checked once, when it is opened ---- */

static bool regex_is_good(const char *pattern)
{
	regex_t compiled;

	if (regcomp(&compiled, pattern, REG_EXTENDED))
		return false;
	regfree(&compiled);
	return true;
}

static bool one_of(const char *word, const char *const *words)
{
	for (; word && *words; words++)
		if (!strcmp(word, *words))
			return true;
	return false;
}

/* What is wrong with an entry, or NULL. */
static const char *check_entry(const json_t *e)
{
	static const char *const policies[] = {"refresh", "stale", "no_retry", "unknown", NULL};
	static const char *const confidences[] = {"low", "medium", "high", NULL};
	static const char *const texts[] = {"id", "statement", "source", "date"};
	const json_t *affected = json_object_get(e, "affected");
	const json_t *distribution = json_object_get(e, "distribution");

	for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (!text(e, texts[i]))
			return texts[i];
	if (!text(e, "release") || !regex_is_good(text(e, "release")))
		return "release";
	if (!one_of(text(e, "policy"), policies))
		return "policy";
	if (!one_of(text(e, "confidence"), confidences))
		return "confidence";
	if (!json_is_boolean(affected) && !json_is_null(affected))
		return "affected";
	if (distribution && !json_is_array(distribution))
		return "distribution";
	/* A stale driver stalls, the others do not. */
	if (!strcmp(text(e, "policy"), "stale") && !json_is_true(affected))
		return "affected";
	if (strcmp(text(e, "policy"), "stale") && strcmp(text(e, "policy"), "unknown") &&
	    !json_is_false(affected))
		return "affected";
	return NULL;
}

static int check(const struct h2d_log *log, const char *name, const json_t *root)
{
	const json_t *kernels = json_object_get(root, "kernels");
	const json_t *packages = json_object_get(root, "packages"), *e;

	if (!json_is_array(kernels) || !json_is_array(packages) || !text(root, "updated"))
		return h2d_fail(log, H2D_E_FORMAT, "%s: no table of kernels", name);
	for (size_t i = 0; (e = json_array_get(kernels, i)); i++) {
		const char *wrong = check_entry(e);

		if (wrong)
			return h2d_fail(log, H2D_E_FORMAT, "%s: kernel %zu (%s): '%s' is wrong",
					name, i, text(e, "id") ? text(e, "id") : "no id",
					wrong);
	}
	for (size_t i = 0; (e = json_array_get(packages, i)); i++)
		if (!text(e, "package") || !text(e, "release") ||
		    !regex_is_good(text(e, "release")))
			return h2d_fail(log, H2D_E_FORMAT, "%s: package %zu is wrong", name, i);
	return 0;
}

/* ---- opening ---- */

/* The installed table, relative to the program's folder. */
static bool installed(char *out, size_t cap)
{
	char program[PATH_BYTES];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash;

	if (n <= 0)
		return false;
	program[n] = 0;
	slash = strrchr(program, '/');
	if (!slash)
		return false;
	*slash = 0;
	return snprintf(out, cap, "%s/../share/h2d/known-kernels.json", program) < (int)cap &&
	       !access(out, R_OK);
}

int h2d_known_kernels_open(const char *file, const struct h2d_log *log,
			   struct h2d_known_kernels **out)
{
	struct h2d_known_kernels *t = h2d_mem->calloc(1, sizeof(*t));
	json_error_t error = {0};
	void *data = NULL;
	size_t bytes;
	int err = 0;

	*out = NULL;
	if (!t)
		return h2d_fail(log, H2D_E_NOMEM, "the table of known kernels");
	if (file || installed(t->origin, sizeof(t->origin))) {
		if (file)
			snprintf(t->origin, sizeof(t->origin), "%s", file);
		err = h2d_whole_file_read(t->origin, FILE_BYTES_MAX, log, &data, &bytes);
		if (err)
			goto out;
		t->root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
		free(data);
	} else {
		snprintf(t->origin, sizeof(t->origin), "built in");
		t->root = json_loadb((const char *)h2d_known_kernels_json,
				     h2d_known_kernels_json_bytes, JSON_REJECT_DUPLICATES,
				     &error);
	}
	if (!t->root)
		err = h2d_fail(log, H2D_E_FORMAT, "%s: line %d: %s", t->origin, error.line,
			       error.text);
	else
		err = check(log, t->origin, t->root);
out:
	if (err) {
		h2d_known_kernels_close(t);
		return err;
	}
	*out = t;
	return 0;
}

void h2d_known_kernels_close(struct h2d_known_kernels *t)
{
	if (!t)
		return;
	json_decref(t->root);
	free(t);
}

const char *h2d_known_kernels_origin(const struct h2d_known_kernels *t)
{
	return t->origin;
}

const char *h2d_known_kernels_date(const struct h2d_known_kernels *t)
{
	return text(t->root, "updated");
}

/* ---- matching ---- */

static bool word_of(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ' ') && (!p[n] || p[n] == ' '))
			return n > 0;
	return false;
}

static bool distribution_fits(const json_t *e, const struct h2d_kernel_query *q)
{
	const json_t *list = json_object_get(e, "distribution");
	const char *id;

	if (!json_array_size(list))
		return true;
	for (size_t i = 0; i < json_array_size(list); i++) {
		id = json_string_value(json_array_get(list, i));
		if (id && (!strcmp(id, q->distribution) || word_of(q->distribution_like, id)))
			return true;
	}
	return false;
}

/* The regular expression's first group, or the whole of what it matched. */
static bool release_fits(const json_t *e, const char *release, char *version, size_t cap)
{
	regmatch_t groups[GROUPS];
	regex_t compiled;
	const regmatch_t *m;
	bool fits;

	if (regcomp(&compiled, text(e, "release"), REG_EXTENDED))
		return false;
	fits = !regexec(&compiled, release, GROUPS, groups, 0);
	regfree(&compiled);
	if (!fits)
		return false;
	m = groups[1].rm_so >= 0 ? &groups[1] : &groups[0];
	snprintf(version, cap, "%.*s", (int)(m->rm_eo - m->rm_so), release + m->rm_so);
	return true;
}

static bool fits(const json_t *e, const struct h2d_kernel_query *q)
{
	const char *from = text(e, "from"), *to = text(e, "to");
	char version[128];

	return distribution_fits(e, q) &&
	       release_fits(e, q->release, version, sizeof(version)) &&
	       (!from || strverscmp(version, from) >= 0) &&
	       (!to || strverscmp(version, to) <= 0);
}

static enum h2d_confidence confidence_of(const char *word)
{
	return !strcmp(word, "high")	 ? H2D_CONFIDENCE_HIGH
	       : !strcmp(word, "medium") ? H2D_CONFIDENCE_MEDIUM
					 : H2D_CONFIDENCE_LOW;
}

bool h2d_known_kernels_match(const struct h2d_known_kernels *t,
			     const struct h2d_kernel_query *q, struct h2d_known_kernel *out)
{
	const json_t *kernels = json_object_get(t->root, "kernels"), *e;

	for (size_t i = 0; (e = json_array_get(kernels, i)); i++) {
		const json_t *affected = json_object_get(e, "affected");

		if (!fits(e, q))
			continue;
		*out = (struct h2d_known_kernel){
			.id = text(e, "id"),
			.statement = text(e, "statement"),
			.source = text(e, "source"),
			.date = text(e, "date"),
			.upgrade_to = text(e, "upgrade_to"),
			.policy = h2d_retry_policy_from_name(text(e, "policy")),
			.stall = json_is_true(affected)	   ? H2D_STALL_YES
				 : json_is_false(affected) ? H2D_STALL_NO
							   : H2D_STALL_UNKNOWN,
			.confidence = confidence_of(text(e, "confidence")),
		};
		return true;
	}
	return false;
}

bool h2d_known_kernels_package(const struct h2d_known_kernels *t,
			       const struct h2d_kernel_query *q, char *out, size_t cap)
{
	static const char mark[] = "{release}";
	const json_t *packages = json_object_get(t->root, "packages"), *e;

	for (size_t i = 0; (e = json_array_get(packages, i)); i++) {
		char version[128];
		const char *name = text(e, "package"), *at = strstr(name, mark);

		if (!distribution_fits(e, q) ||
		    !release_fits(e, q->release, version, sizeof(version)))
			continue;
		if (at)
			snprintf(out, cap, "%.*s%s%s", (int)(at - name), name, q->release,
				 at + sizeof(mark) - 1);
		else
			snprintf(out, cap, "%s", name);
		return true;
	}
	return false;
}

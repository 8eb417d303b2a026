/* SPDX-License-Identifier: Apache-2.0 */
/* The cells of two documents, matched by their keys. What is read is not trusted. */
#include <stdlib.h>
#include <string.h>

#include "bench/compare.h"
#include "core/mem.h"

enum { CELL_MAX = 20000 };

/* Only whole words of the schema; the text lives with the document. */
static int read_status(const struct h2d_value *v, const char **out)
{
	static const char *const words[] = {"ok",      "skipped", "unsupported", "did_not_fit",
					    "timeout", "killed",  "failed",	 "invalid"};
	int rc = h2d_value_text(v, NULL, out);

	if (rc)
		return rc;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(*out, words[i]))
			return 0;
	return h2d_value_fail(v, "'%.32s' is no status", *out);
}

static bool known(const json_t *value)
{
	return value && !json_is_null(value);
}

/* A time that has to be there. */
static int read_time(const struct h2d_value *sample, const char *key, double *out)
{
	uint64_t ns = 0;
	const int rc = h2d_compare_number(sample, key, 1, &ns);

	*out = (double)ns;
	return rc;
}

/* ---- h2d.bench ---- */

/* All samples of a cell load the same bytes; how they were scheduled is told of each. */
static int read_circumstances(const struct h2d_value *sample, struct h2d_compare_side *side,
			      bool first)
{
	const struct h2d_value loaded = h2d_value_member(sample, "loaded_bytes");
	const json_t *how = json_object_get(sample->json, "scheduling");
	uint64_t bytes = 0;
	int rc = known(loaded.json) ? h2d_compare_number(sample, "loaded_bytes", 0, &bytes) : 0;

	if (!rc && bytes && side->bytes && bytes != side->bytes)
		return h2d_value_fail(&loaded, "other samples of the cell loaded %llu",
				      (unsigned long long)side->bytes);
	side->bytes = bytes ? bytes : side->bytes;
	how = json_is_object(how) ? how : NULL;
	if (first)
		side->scheduling = how;
	else if (how && side->scheduling ? !json_equal(how, side->scheduling)
					 : how != side->scheduling)
		side->mixed = true;
	return rc;
}

static int read_bench_side(const struct h2d_value *cell, struct h2d_compare_side *side)
{
	const struct h2d_value status = h2d_value_member(cell, "status");
	const struct h2d_value samples = h2d_value_member(cell, "samples");
	int rc = read_status(&status, &side->status);
	bool ok;

	side->windows = -1;
	if (!rc)
		rc = h2d_value_array(&samples, false);
	if (!rc)
		rc = h2d_compare_room(&samples, side);
	if (!rc)
		rc = h2d_compare_blocks(&samples);
	for (size_t i = 0; i < h2d_value_count(&samples) && !rc; i++) {
		const struct h2d_value s = h2d_value_element(&samples, i);
		const struct h2d_value of = h2d_value_member(&s, "status");
		const char *word;

		rc = read_status(&of, &word);
		ok = !rc && !strcmp(word, "ok");
		if (ok)
			rc = read_circumstances(&s, side, !side->count);
		if (ok && !rc)
			rc = h2d_compare_sample(cell, &s, &side->times[side->count++]);
		else if (!rc && !strcmp(side->status, "ok"))
			rc = h2d_value_fail(&of, "is '%s' in a cell that is ok", word);
	}
	if (!rc && !strcmp(side->status, "ok") && !side->count)
		rc = h2d_value_fail(&samples, "of a cell that is ok holds none that is");
	return rc;
}

static void name_bench(const json_t *key, char *out, size_t cap)
{
	const char *loader = h2d_get_text(key, "loader"), *path = h2d_get_text(key, "path");
	json_t *options = json_object_get(key, "options");
	char *text;

	snprintf(out, cap, "%s%s%s, %s, %s, %s", loader && strcmp(loader, "h2d") ? loader : "",
		 loader && strcmp(loader, "h2d") ? "/" : "", path ? path : "?",
		 h2d_get_text(key, "checkpoint"), h2d_get_text(key, "device"),
		 h2d_get_text(key, "cache"));
	if (h2d_get_text(key, "present"))
		snprintf(out + strlen(out), cap - strlen(out), ", present %s",
			 h2d_get_text(key, "present"));
	if (h2d_get_u64(key, "memory_max_bytes"))
		snprintf(out + strlen(out), cap - strlen(out), ", at most %.0f MiB",
			 (double)h2d_get_u64(key, "memory_max_bytes") / (1 << 20));
	text = json_object_size(options) ? json_dumps(options, JSON_COMPACT | JSON_SORT_KEYS)
					 : NULL;
	if (text)
		snprintf(out + strlen(out), cap - strlen(out), ", %s", text);
	free(text);
}

static int bench_key(const struct h2d_value *cell, json_t **key, const char **fingerprint)
{
	static const char *const texts[] = {"loader", "path",  "checkpoint", "fingerprint",
					    "device", "cache", NULL};
	const struct h2d_value v = h2d_value_member(cell, "key");
	const char *text;
	int rc = 0;

	if (!json_is_object(v.json))
		return h2d_value_fail(&v, v.json ? "must be an object" : "is missing");
	for (size_t i = 0; texts[i] && !rc; i++) {
		const struct h2d_value member = h2d_value_member(&v, texts[i]);

		rc = h2d_value_text(&member, NULL, &text);
	}
	if (rc)
		return rc;
	*fingerprint = h2d_get_text(v.json, "fingerprint");
	*key = json_deep_copy(v.json);
	json_object_del(*key, "fingerprint");
	return *key ? 0 : h2d_fail(v.log, H2D_E_NOMEM, "out of memory");
}

/* ---- h2d.repro ---- */

static int read_repro_side(const struct h2d_value *cell, struct h2d_compare_side *side)
{
	const struct h2d_value state = h2d_value_member(cell, "state");
	const struct h2d_value samples = h2d_value_member(cell, "samples");
	const char *word;
	int rc = h2d_value_text(&state, NULL, &word);

	side->windows = -1;
	if (rc)
		return rc;
	side->status = strcmp(word, "measured") ? "invalid" : "ok";
	rc = h2d_value_array(&samples, false);
	if (!rc)
		rc = h2d_compare_room(&samples, side);
	for (size_t i = 0; i < h2d_value_count(&samples) && !rc; i++) {
		const struct h2d_value s = h2d_value_element(&samples, i);
		const json_t *windows = json_object_get(s.json, "windows");

		rc = read_time(&s, "elapsed_ns", &side->times[side->count++]);
		side->uncounted |= !json_is_integer(windows);
		if (!rc && json_is_integer(windows) && json_integer_value(windows) < 0)
			rc = h2d_value_fail(&s, "windows is negative");
		if (json_is_integer(windows) && json_integer_value(windows) > side->windows)
			side->windows = json_integer_value(windows);
	}
	if (!rc && !strcmp(side->status, "ok") && !side->count)
		rc = h2d_value_fail(&samples, "of a measured cell is empty");
	return rc;
}

static int repro_key(const struct h2d_value *cell, const json_t *document, json_t **key)
{
	const struct h2d_value name = h2d_value_member(cell, "cell");
	const struct h2d_value size = h2d_value_member(cell, "size_bytes");
	const json_t *device = json_object_get(document, "device");
	const char *text, *backend = h2d_get_text(device, "backend");
	uint64_t bytes;
	int rc = h2d_value_text(&name, NULL, &text);

	if (!rc)
		rc = h2d_value_u64(&size, 1, UINT64_C(1) << 53, 0, &bytes);
	if (!rc)
		*key = json_pack("{s:s, s:I, s:s}", "cell", text, "size_bytes",
				 (json_int_t)bytes, "backend", backend ? backend : "unknown");
	return rc;
}

/* ---- h2d.lab ---- */

/* The one accelerator of all guests that the cell ran in, else NULL. */
static void read_guest(const json_t *kernel, struct h2d_compare_side *side)
{
	const char *accelerator = h2d_get_text(json_object_get(kernel, "guest"), "accelerator");

	if (!side->there)
		side->accelerator = accelerator;
	else if (side->accelerator && accelerator && strcmp(side->accelerator, accelerator))
		side->accelerator = NULL;
}

/* Repeats are cells of the same key: it is ok where all of them are. */
static int read_lab_side(const struct h2d_value *cell, const json_t *kernel,
			 struct h2d_compare_side *side)
{
	const struct h2d_value status = h2d_value_member(cell, "status");
	const json_t *windows = json_object_get(cell->json, "windows");
	const char *word;
	double *grown;
	int rc = read_status(&status, &word);

	if (rc)
		return rc;
	read_guest(kernel, side);
	if (!side->status || !strcmp(side->status, "ok"))
		side->status = word;
	if (strcmp(word, "ok"))
		return 0;
	grown = h2d_mem->realloc(side->times, (side->count + 1) * sizeof(*grown));
	if (!grown)
		return h2d_fail(cell->log, H2D_E_NOMEM, "out of memory");
	side->times = grown;
	rc = read_time(cell, "elapsed_ns", &side->times[side->count++]);
	side->uncounted |= !json_is_integer(windows);
	if (!rc && json_is_integer(windows) && json_integer_value(windows) < 0)
		rc = h2d_value_fail(cell, "windows is negative");
	if (json_is_integer(windows) && json_integer_value(windows) > side->windows)
		side->windows = json_integer_value(windows);
	return rc;
}

static int lab_key(const struct h2d_value *cell, const char *release, json_t **key)
{
	static const char *const texts[] = {"state", "filesystem", "driver", "permission",
					    NULL};
	const struct h2d_value size = h2d_value_member(cell, "size_bytes");
	const char *text, *policy = h2d_get_text(cell->json, "policy");
	uint64_t bytes;
	int rc = h2d_value_u64(&size, 1, UINT64_C(1) << 53, 0, &bytes);

	*key = json_object();
	for (size_t i = 0; texts[i] && !rc; i++) {
		const struct h2d_value member = h2d_value_member(cell, texts[i]);

		rc = h2d_value_text(&member, NULL, &text);
		if (!rc)
			json_object_set_new(*key, i ? texts[i] : "cell", json_string(text));
	}
	if (rc) {
		json_decref(*key);
		*key = NULL;
		return rc;
	}
	json_object_set_new(*key, "size_bytes", json_integer((json_int_t)bytes));
	if (policy)
		json_object_set_new(*key, "policy", json_string(policy));
	if (release)
		json_object_set_new(*key, "kernel", json_string(release));
	return 0;
}

static void name_guest(const json_t *key, char *out, size_t cap)
{
	static const char *const more[] = {"filesystem", "driver", "policy",
					   "permission", "kernel", NULL};

	snprintf(out, cap, "%s, %.6g MiB", h2d_get_text(key, "cell"),
		 (double)h2d_get_u64(key, "size_bytes") / (1 << 20));
	for (size_t i = 0; more[i]; i++)
		if (h2d_get_text(key, more[i]))
			snprintf(out + strlen(out), cap - strlen(out), ", %s",
				 h2d_get_text(key, more[i]));
}

/* ---- both ---- */

static struct h2d_compare_cell *find(struct h2d_compare *c, const json_t *key)
{
	for (size_t i = 0; i < c->cell_count; i++)
		if (json_equal(c->cells[i].key, key))
			return &c->cells[i];
	return NULL;
}

static struct h2d_compare_cell *add(struct h2d_compare *c, json_t *key)
{
	struct h2d_compare_cell *cell;

	if (c->cell_count == c->cell_room) {
		const size_t room = c->cell_room ? c->cell_room * 2 : 32;

		cell = h2d_mem->realloc(c->cells, room * sizeof(*cell));
		if (!cell)
			return NULL;
		c->cells = cell;
		c->cell_room = room;
	}
	cell = &c->cells[c->cell_count++];
	*cell = (struct h2d_compare_cell){.key = key};
	cell->a.windows = cell->b.windows = -1;
	return cell;
}

/* The cell of that key (taken over), made when it is new. */
static int take(struct h2d_compare *c, const struct h2d_value *v, json_t *key,
		struct h2d_compare_cell **out)
{
	*out = find(c, key);
	if (*out) {
		json_decref(key);
		return 0;
	}
	*out = add(c, key);
	if (!*out) {
		json_decref(key);
		return h2d_fail(v->log, H2D_E_NOMEM, "out of memory");
	}
	if (c->kind == H2D_COMPARE_BENCH)
		name_bench(key, (*out)->name, sizeof((*out)->name));
	else
		name_guest(key, (*out)->name, sizeof((*out)->name));
	return 0;
}

/* `of`: the document, or the kernel of one of the laboratory; `release`: the kernel's, where it
 * has several. */
static int read_cell(struct h2d_compare *c, const struct h2d_value *v, const json_t *of,
		     const char *release, bool is_b)
{
	const char *fingerprint = NULL;
	struct h2d_compare_cell *cell;
	struct h2d_compare_side *side;
	json_t *key = NULL;
	int rc = c->kind == H2D_COMPARE_BENCH	? bench_key(v, &key, &fingerprint)
		 : c->kind == H2D_COMPARE_REPRO ? repro_key(v, of, &key)
						: lab_key(v, release, &key);

	if (!rc)
		rc = take(c, v, key, &cell);
	if (rc)
		return rc;
	side = is_b ? &cell->b : &cell->a;
	if (side->there && c->kind != H2D_COMPARE_LAB)
		return h2d_value_fail(v, "is there twice: %s", cell->name);
	rc = c->kind == H2D_COMPARE_BENCH   ? read_bench_side(v, side)
	     : c->kind == H2D_COMPARE_REPRO ? read_repro_side(v, side)
					    : read_lab_side(v, of, side);
	side->there = true;
	/* Equal names of unequal files are to be told, not left unmatched. */
	side->fingerprint = fingerprint;
	return rc;
}

static int read_cells(struct h2d_compare *c, const struct h2d_value *of, const char *release,
		      bool is_b)
{
	const struct h2d_value cells = h2d_value_member(of, "cells");
	int rc = h2d_value_array(&cells, false);

	if (!rc && !h2d_value_count(&cells) && c->kind != H2D_COMPARE_LAB)
		rc = h2d_value_fail(&cells, "is empty");
	if (!rc && h2d_value_count(&cells) > CELL_MAX)
		rc = h2d_value_fail(&cells, "has too many");
	for (size_t i = 0; i < h2d_value_count(&cells) && !rc; i++) {
		const struct h2d_value cell = h2d_value_element(&cells, i);

		rc = read_cell(c, &cell, of->json, release, is_b);
	}
	return rc;
}

/* The verdict of a document, or of one of its kernels, as a cell of its own. */
static int read_verdict(struct h2d_compare *c, const struct h2d_value *of, const char *release,
			bool is_b)
{
	json_t *key = release ? json_pack("{s:s, s:s}", "cell", "verdict", "kernel", release)
			      : json_pack("{s:s}", "cell", "verdict");
	const char *value = h2d_get_text(json_object_get(of->json, "verdict"), "value");
	struct h2d_compare_cell *cell;
	int rc = take(c, of, key, &cell);

	if (rc)
		return rc;
	snprintf(cell->name, sizeof(cell->name), "verdict%s%s", release ? ", " : "",
		 release ? release : "");
	(is_b ? &cell->b : &cell->a)->there = true;
	(is_b ? &cell->b : &cell->a)->status = "ok";
	(is_b ? &cell->b : &cell->a)->verdict = value ? value : "none";
	return 0;
}

/* One kernel in each document is what is compared, whatever it is called. */
static bool by_release(const struct h2d_compare *c)
{
	return json_array_size(json_object_get(c->a, "kernels")) > 1 ||
	       json_array_size(json_object_get(c->b, "kernels")) > 1;
}

static int read_kernels(struct h2d_compare *c, const struct h2d_value *root, bool is_b)
{
	const struct h2d_value kernels = h2d_value_member(root, "kernels");
	int rc = h2d_value_array(&kernels, false);

	if (!rc && !h2d_value_count(&kernels))
		rc = h2d_value_fail(&kernels, "is empty");
	for (size_t i = 0; i < h2d_value_count(&kernels) && !rc; i++) {
		const struct h2d_value kernel = h2d_value_element(&kernels, i);
		const char *release = h2d_get_text(kernel.json, "release");

		if (!release)
			release = h2d_get_text(kernel.json, "request");
		release = by_release(c) ? release ? release : "unknown" : NULL;
		rc = read_cells(c, &kernel, release, is_b);
		if (!rc)
			rc = read_verdict(c, &kernel, release, is_b);
	}
	return rc;
}

static int read_document(struct h2d_compare *c, json_t *document, const char *path,
			 const char *schema, bool is_b, const struct h2d_log *log)
{
	const struct h2d_value root = {.log = log, .file = path, .json = document};
	int rc = h2d_value_schema(&root, schema, 1);

	if (!rc && c->kind == H2D_COMPARE_LAB)
		return read_kernels(c, &root, is_b);
	if (!rc)
		rc = read_cells(c, &root, NULL, is_b);
	if (!rc && c->kind == H2D_COMPARE_REPRO)
		rc = read_verdict(c, &root, NULL, is_b);
	return rc;
}

int h2d_compare_read(struct h2d_compare *c, const struct h2d_log *log)
{
	static const char *const schemas[] = {"h2d.bench", "h2d.repro", "h2d.lab"};
	const char *a = h2d_get_text(c->a, "schema"), *b = h2d_get_text(c->b, "schema");
	int rc;

	c->kind = H2D_COMPARE_BENCH;
	for (int i = 0; a && i < 3; i++)
		if (!strcmp(a, schemas[i]))
			c->kind = (enum h2d_compare_kind)i;
	if (a && b && strcmp(a, b))
		return h2d_fail(
			log, H2D_E_FORMAT,
			"%s is of schema %.40s and %s of %.40s: two of h2d.bench, two of "
			"h2d.repro or two of h2d.lab are compared",
			c->a_path, a, c->b_path, b);
	rc = read_document(c, c->a, c->a_path, schemas[c->kind], false, log);
	if (!rc)
		rc = read_document(c, c->b, c->b_path, schemas[c->kind], true, log);
	return rc;
}

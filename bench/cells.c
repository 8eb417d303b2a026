/* SPDX-License-Identifier: Apache-2.0 */
/* The cells of a matrix: the product of its lists, each with the key that identifies it. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "bench/matrix.h"
#include "core/checked.h"
#include "core/mem.h"

/* One way to load: a path of ours with its options and mapping presence, or another loader. */
struct way {
	const char *loader, *path, *present;
	json_t *options; /* borrowed; NULL: none */
	const json_t *command;
};

struct builder {
	struct h2d_bench_matrix *m;
	const struct h2d_value *root;
	struct way *ways;
	size_t way_count;
	bool *used; /* of each rule of `exclude`: it names some cell */
	bool baseline_used;
};

static const json_t *list_of(const struct builder *b, const char *key)
{
	return json_object_get(b->root->json, key);
}

static const char *text_at(const json_t *list, size_t i, const char *otherwise)
{
	return list ? json_string_value(json_array_get(list, i)) : otherwise;
}

static size_t count_of(const json_t *list)
{
	return list ? json_array_size(list) : 1;
}

static int make_ways(struct builder *b)
{
	const json_t *paths = list_of(b, "paths"), *options = list_of(b, "options");
	const json_t *present = list_of(b, "present"), *external = list_of(b, "external");
	const size_t path_count = json_array_size(paths);
	size_t count;

	if (!h2d_mul_size(path_count * count_of(present), count_of(options), &count) ||
	    count + json_array_size(external) > H2D_BENCH_CELL_MAX_COUNT)
		return h2d_value_fail(b->root, "makes more than %d cells",
				      H2D_BENCH_CELL_MAX_COUNT);
	b->ways = h2d_mem->calloc(count + json_array_size(external) + 1, sizeof(*b->ways));
	if (!b->ways)
		return h2d_fail(b->root->log, H2D_E_NOMEM, "out of memory");
	for (size_t p = 0; p < path_count; p++)
		for (size_t k = 0; k < count_of(present); k++)
			for (size_t o = 0; o < count_of(options); o++)
				b->ways[b->way_count++] = (struct way){
					.loader = "h2d",
					.path = text_at(paths, p, NULL),
					.present = text_at(present, k, NULL),
					.options = json_array_get(options, o),
				};
	for (size_t e = 0; e < json_array_size(external); e++) {
		const json_t *x = json_array_get(external, e);
		const char *path = h2d_get_text(x, "path");

		b->ways[b->way_count++] = (struct way){
			.loader = h2d_get_text(x, "name"),
			.path = path ? path : "external",
			.options = json_object_get(x, "options"),
			.command = json_object_get(x, "command"),
		};
	}
	return 0;
}

static json_t *make_key(const struct h2d_bench_checkpoint *c, const struct way *w,
			const char *device, const char *cache, uint64_t memory_max)
{
	json_t *key = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "loader", w->loader, "path",
				w->path, "checkpoint", c->name, "fingerprint", c->fingerprint,
				"device", device, "cache", cache);

	if (w->present)
		json_object_set_new(key, "present", json_string(w->present));
	if (memory_max)
		json_object_set_new(key, "memory_max_bytes",
				    json_integer((json_int_t)memory_max));
	json_object_set_new(key, "options",
			    w->options ? json_deep_copy(w->options) : json_object());
	return key;
}

/* Hash of a value's canonical text. @return false when memory ran out */
static bool hash_of(const json_t *value, uint64_t seed, char out[17])
{
	char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);

	if (!text)
		return false;
	snprintf(out, 17, "%016llx",
		 (unsigned long long)XXH3_64bits_withSeed(text, strlen(text), seed));
	free(text);
	return true;
}

/* Whether all members of a rule, or of the baseline, are the cell's. */
static bool names(const json_t *rule, const json_t *key, const char *memory)
{
	const char *name;
	json_t *wish;
	bool all = true;

	json_object_foreach((json_t *)(uintptr_t)rule, name, wish)
	{
		const char *is = !strcmp(name, "memory_max") ? memory : h2d_get_text(key, name);

		if (strcmp(name, "reason"))
			all = all && is && !strcmp(is, json_string_value(wish));
	}
	return all;
}

/* The reason of the first rule that names the cell, or NULL. All that do are used. */
static const char *excluded(struct builder *b, const json_t *key, const char *memory)
{
	const json_t *rules = list_of(b, "exclude");
	const char *reason = NULL;

	for (size_t i = 0; i < json_array_size(rules); i++) {
		const json_t *rule = json_array_get(rules, i);

		if (!names(rule, key, memory))
			continue;
		b->used[i] = true;
		reason = reason ? reason : h2d_get_text(rule, "reason");
	}
	b->baseline_used |= names(list_of(b, "baseline"), key, memory);
	return reason;
}

/* The command line puts other lists in the matrix's place: what a rule says of those may name
 * nothing now. */
static bool overridden(const struct h2d_bench_matrix *m, const json_t *rule)
{
	return (m->paths_given &&
		(json_object_get(rule, "path") || json_object_get(rule, "loader"))) ||
	       (m->checkpoints_given && json_object_get(rule, "checkpoint")) ||
	       (m->devices_given && json_object_get(rule, "device"));
}

/* A rule that names no cell is a slip of its author's. */
static int check_used(const struct builder *b)
{
	static const char none[] = "names no cell of this matrix";
	const struct h2d_value rules = h2d_value_member(b->root, "exclude");
	const struct h2d_value baseline = h2d_value_member(b->root, "baseline");

	for (size_t i = 0; i < h2d_value_count(&rules); i++) {
		const struct h2d_value rule = h2d_value_element(&rules, i);

		if (!b->used[i] && !overridden(b->m, rule.json))
			return h2d_value_fail(&rule, "%s", none);
	}
	if (baseline.json && !b->baseline_used && !overridden(b->m, baseline.json))
		return h2d_value_fail(&baseline, "%s", none);
	return 0;
}

static int add(struct builder *b, const struct h2d_bench_checkpoint *c, const struct way *w,
	       const char *device, const char *cache, const char *memory)
{
	struct h2d_bench_matrix *m = b->m;
	struct h2d_bench_cell *cell = &m->cells[m->cell_count];
	const char *why;
	uint64_t max;

	if (h2d_bench_memory_parse(memory, c->size_bytes, &max))
		return h2d_value_fail(b->root, "memory_max %s of %s is nothing", memory,
				      c->name);
	memset(cell, 0, sizeof(*cell));
	cell->checkpoint = c;
	cell->command = w->command;
	cell->memory_max_bytes = max;
	cell->key = make_key(c, w, device, cache, max);
	if (!cell->key)
		return h2d_fail(b->root->log, H2D_E_NOMEM, "out of memory");
	m->cell_count++;
	cell->loader = h2d_get_text(cell->key, "loader");
	cell->path = h2d_get_text(cell->key, "path");
	cell->device = h2d_get_text(cell->key, "device");
	cell->cache_name = h2d_get_text(cell->key, "cache");
	cell->present = h2d_get_text(cell->key, "present");
	cell->options = json_object_get(cell->key, "options");
	cell->repeat_count = h2d_get_u64(cell->options, "repeat");
	cell->repeat_count += !cell->repeat_count;
	h2d_bench_cache_parse(cache, &cell->cache, &cell->cache_pct);
	cell->done = h2d_mem->calloc(m->block_count, 1);
	if (!cell->done || !hash_of(cell->key, 0, cell->id))
		return h2d_fail(b->root->log, H2D_E_NOMEM, "out of memory");
	if (h2d_bench_cell_find(m, cell->id) != cell) {
		char name[256];

		h2d_bench_cell_name(cell, name, sizeof(name));
		return h2d_value_fail(b->root, "makes the cell %s twice", name);
	}
	why = excluded(b, cell->key, memory);
	if (!why && cell->repeat_count > 1 &&
	    (cell->cache == H2D_BENCH_COLD || cell->cache == H2D_BENCH_PARTIAL))
		why = "a load that is repeated finds the page cache warm";
	if (why) {
		cell->status = "skipped";
		cell->reason = strdup(why);
	}
	return 0;
}

static int make_all(struct builder *b)
{
	const json_t *devices = list_of(b, "devices"), *caches = list_of(b, "cache_states");
	const json_t *memory = list_of(b, "memory_max");
	struct h2d_bench_matrix *m = b->m;
	size_t count;
	int rc = 0;

	if (!h2d_mul_size(b->way_count, m->checkpoint_count, &count) ||
	    !h2d_mul_size(count, count_of(devices), &count) ||
	    !h2d_mul_size(count, count_of(memory), &count) ||
	    !h2d_mul_size(count, json_array_size(caches), &count) ||
	    count > H2D_BENCH_CELL_MAX_COUNT)
		return h2d_value_fail(b->root, "makes more than %d cells",
				      H2D_BENCH_CELL_MAX_COUNT);
	m->cells = h2d_mem->calloc(count + 1, sizeof(*m->cells));
	if (!m->cells)
		return h2d_fail(b->root->log, H2D_E_NOMEM, "out of memory");
	for (size_t c = 0; c < m->checkpoint_count; c++)
		for (size_t x = 0; x < count_of(memory); x++)
			for (size_t d = 0; d < count_of(devices); d++)
				for (size_t s = 0; s < json_array_size(caches); s++)
					for (size_t w = 0; w < b->way_count && !rc; w++)
						rc = add(b, &m->checkpoints[c], &b->ways[w],
							 text_at(devices, d, "host"),
							 text_at(caches, s, NULL),
							 text_at(memory, x, "none"));
	return rc;
}

/* Of everything that decides what is measured: the file names do not, the bytes' places do. */
static int hash_config(struct h2d_bench_matrix *m, const struct h2d_log *log)
{
	json_t *all = json_copy(m->json), *ids = json_array();
	int rc = 0;

	json_object_del(all, "about");
	json_object_del(all, "checkpoints");
	for (size_t i = 0; i < m->cell_count; i++)
		json_array_append_new(ids, json_string(m->cells[i].id));
	if (json_object_set_new(all, "ids", ids) || !hash_of(all, 1, m->config_hash))
		rc = h2d_fail(log, H2D_E_NOMEM, "out of memory");
	json_decref(all);
	return rc;
}

int h2d_bench_cells_make(struct h2d_bench_matrix *m, const struct h2d_value *root)
{
	struct builder b = {.m = m, .root = root};
	int rc = make_ways(&b);

	b.used = h2d_mem->calloc(json_array_size(list_of(&b, "exclude")) + 1, sizeof(*b.used));
	if (!rc && !b.used)
		rc = h2d_fail(root->log, H2D_E_NOMEM, "out of memory");
	if (!rc)
		rc = make_all(&b);
	if (!rc)
		rc = check_used(&b);
	if (!rc)
		rc = hash_config(m, root->log);
	free(b.used);
	free(b.ways);
	return rc;
}

struct h2d_bench_cell *h2d_bench_cell_find(struct h2d_bench_matrix *m, const char *id)
{
	for (size_t i = 0; i < m->cell_count; i++)
		if (!strcmp(m->cells[i].id, id))
			return &m->cells[i];
	return NULL;
}

void h2d_bench_cell_name(const struct h2d_bench_cell *c, char *out, size_t cap)
{
	char *options = json_object_size(c->options)
				? json_dumps(c->options, JSON_COMPACT | JSON_SORT_KEYS)
				: NULL;

	snprintf(out, cap, "%s%s%s, %s, %s, %s", strcmp(c->loader, "h2d") ? c->loader : "",
		 strcmp(c->loader, "h2d") ? "/" : "", c->path, c->checkpoint->name, c->device,
		 c->cache_name);
	if (c->present)
		snprintf(out + strlen(out), cap - strlen(out), ", present %s", c->present);
	if (c->memory_max_bytes)
		snprintf(out + strlen(out), cap - strlen(out), ", at most %.0f MiB",
			 (double)c->memory_max_bytes / (1 << 20));
	if (options)
		snprintf(out + strlen(out), cap - strlen(out), ", %s", options);
	free(options);
}

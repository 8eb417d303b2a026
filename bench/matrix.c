/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/matrix.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"

static const char *const root_keys[] = {"schema",
					"schema_version",
					"name",
					"about",
					"seed",
					"block_count",
					"timeout_s",
					"verify",
					"drop_caches",
					"settle",
					"priority",
					"cpus",
					"cold_max_pct",
					"warm_min_pct",
					"partial_tolerance_pct",
					"checkpoints",
					"devices",
					"paths",
					"external",
					"cache_states",
					"present",
					"memory_max",
					"options",
					"baseline",
					"exclude",
					NULL};
static const char *const version_keys[] = {"major", "minor", NULL};
static const char *const checkpoint_keys[] = {"name", "file", NULL};
static const char *const external_keys[] = {"name", "command", "path", "options", NULL};
static const char *const option_keys[] = {"threads",	"chunk",  "staging", "cache",
					  "per_tensor", "repeat", NULL};
static const char *const exclude_keys[] = {"reason",	 "loader",     "path",
					   "checkpoint", "device",     "cache",
					   "present",	 "memory_max", NULL};
static const char *const baseline_keys[] = {"loader", "path",	 "checkpoint", "device",
					    "cache",  "present", "memory_max", NULL};

static bool name_is_plain(const char *name)
{
	return *name && strlen(name) <= 64 &&
	       !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				  "0123456789._-")];
}

int h2d_bench_cache_parse(const char *text, enum h2d_bench_cache *cache, unsigned *pct)
{
	char *end;
	unsigned long value;

	*pct = 0;
	if (!strcmp(text, "cold")) {
		*cache = H2D_BENCH_COLD;
	} else if (!strcmp(text, "warm")) {
		*cache = H2D_BENCH_WARM;
	} else if (!strcmp(text, "asis")) {
		*cache = H2D_BENCH_ASIS;
	} else if (!strncmp(text, "partial:", 8) && text[8] >= '1' && text[8] <= '9') {
		value = strtoul(text + 8, &end, 10);
		if (*end || value > 99)
			return H2D_E_INVALID;
		*cache = H2D_BENCH_PARTIAL;
		*pct = (unsigned)value;
	} else {
		return H2D_E_INVALID;
	}
	return 0;
}

static uint64_t unit_bytes(const char *text)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};

	if (!*text)
		return 1;
	for (unsigned i = 0; i < 5; i++)
		if (!strcmp(text, units[i]))
			return UINT64_C(1) << 10 * i;
	return 0;
}

const char *h2d_bench_memory_parse(const char *text, uint64_t size_bytes, uint64_t *out)
{
	uint64_t value, unit;
	char *end;

	*out = 0;
	if (!strcmp(text, "none"))
		return NULL;
	if (*text < '0' || *text > '9')
		return "is not a size: write for example 8GiB, 50% or none";
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return "is too large";
	if (!strcmp(end, "%"))
		*out = (uint64_t)((double)size_bytes / 100 *
				  (double)(value < 1000 ? value : 999));
	else if (!(unit = unit_bytes(end)))
		return "has an unknown unit: use KiB, MiB, GiB, TiB or %";
	else if (!h2d_mul_u64(value, unit, out))
		return "is too large";
	return *out ? NULL : "is nothing: write none where there is no limit";
}

/* An array of texts that `wrong` (may be NULL) has no complaint about. */
static int check_texts(const struct h2d_value *list, bool optional,
		       const char *(*wrong)(const char *text))
{
	int rc = h2d_value_array(list, optional);

	if (!rc && list->json && !h2d_value_count(list))
		rc = h2d_value_fail(list, "is empty");
	for (size_t i = 0; i < h2d_value_count(list) && !rc; i++) {
		const struct h2d_value item = h2d_value_element(list, i);
		const char *text, *why;

		rc = h2d_value_text(&item, NULL, &text);
		why = rc || !wrong ? NULL : wrong(text);
		if (why)
			rc = h2d_value_fail(&item, "'%.64s' %s", text, why);
		for (size_t k = 0; k < i && !rc; k++)
			if (json_equal(item.json, json_array_get(list->json, k)))
				rc = h2d_value_fail(&item, "'%.64s' is there twice", text);
	}
	return rc;
}

static const char *wrong_path(const char *text)
{
	const char *name, *summary;

	for (uint32_t i = 0; !h2d_path_describe(i, &name, &summary); i++)
		if (!strcmp(name, text))
			return NULL;
	return "is no transfer path";
}

static const char *wrong_cache(const char *text)
{
	enum h2d_bench_cache cache;
	unsigned pct;

	return h2d_bench_cache_parse(text, &cache, &pct)
		       ? "is no cache state: cold, warm, partial:N (1 to 99) or asis"
		       : NULL;
}

static const char *wrong_present(const char *text)
{
	return strcmp(text, "none") && strcmp(text, "read") && strcmp(text, "sparse")
		       ? "is none of none, read, sparse"
		       : NULL;
}

static const char *wrong_memory(const char *text)
{
	uint64_t bytes;

	return h2d_bench_memory_parse(text, UINT64_C(1) << 40, &bytes);
}

static const char *wrong_device(const char *text)
{
	return *text ? NULL : "names no device";
}

static int check_options(const struct h2d_value *list)
{
	int rc = h2d_value_array(list, true);

	if (!rc && list->json && !h2d_value_count(list))
		rc = h2d_value_fail(list, "is empty");
	for (size_t i = 0; i < h2d_value_count(list) && !rc; i++) {
		const struct h2d_value o = h2d_value_element(list, i);
		const struct h2d_value threads = h2d_value_member(&o, "threads");
		const struct h2d_value chunk = h2d_value_member(&o, "chunk");
		const struct h2d_value staging = h2d_value_member(&o, "staging");
		const struct h2d_value cache = h2d_value_member(&o, "cache");
		const struct h2d_value per_tensor = h2d_value_member(&o, "per_tensor");
		const struct h2d_value repeat = h2d_value_member(&o, "repeat");
		const struct h2d_value *sizes[] = {&chunk, &staging};
		const char *text;
		uint64_t number;
		bool flag;

		rc = h2d_value_object(&o, option_keys);
		if (!rc)
			rc = h2d_value_u64(&threads, 1, 1024, 0, &number);
		if (!rc)
			rc = h2d_value_u64(&repeat, 1, H2D_BENCH_REPEAT_MAX_COUNT, 1, &number);
		if (!rc)
			rc = h2d_value_text(&cache, "keep", &text);
		if (!rc && strcmp(text, "keep") && strcmp(text, "drop"))
			rc = h2d_value_fail(&cache, "is none of keep, drop");
		if (!rc)
			rc = h2d_value_bool(&per_tensor, false, &flag);
		for (size_t k = 0; k < 2 && !rc; k++) {
			rc = h2d_value_text(sizes[k], "1MiB", &text);
			if (!rc &&
			    (strchr(text, '%') || !strcmp(text, "none") || wrong_memory(text)))
				rc = h2d_value_fail(sizes[k], "'%.64s' is not a size", text);
		}
	}
	return rc;
}

static int check_external(const struct h2d_value *list)
{
	int rc = h2d_value_array(list, true);

	for (size_t i = 0; i < h2d_value_count(list) && !rc; i++) {
		const struct h2d_value e = h2d_value_element(list, i);
		const struct h2d_value name = h2d_value_member(&e, "name");
		const struct h2d_value command = h2d_value_member(&e, "command");
		const struct h2d_value path = h2d_value_member(&e, "path");
		const struct h2d_value options = h2d_value_member(&e, "options");
		const char *text;

		rc = h2d_value_object(&e, external_keys);
		if (!rc)
			rc = h2d_value_text(&name, NULL, &text);
		if (!rc && (!name_is_plain(text) || !strcmp(text, "h2d")))
			rc = h2d_value_fail(&name, "'%.64s' is no name for a loader", text);
		if (!rc)
			rc = h2d_value_array(&command, false);
		if (!rc && !h2d_value_count(&command))
			rc = h2d_value_fail(&command, "is empty");
		for (size_t k = 0; k < h2d_value_count(&command) && !rc; k++) {
			const struct h2d_value word = h2d_value_element(&command, k);

			rc = h2d_value_text(&word, NULL, &text);
		}
		if (!rc)
			rc = h2d_value_text(&path, "external", &text);
		if (!rc && options.json && !json_is_object(options.json))
			rc = h2d_value_fail(&options, "must be an object");
		if (!rc && options.json) {
			const struct h2d_value repeat = h2d_value_member(&options, "repeat");
			uint64_t number;

			rc = h2d_value_u64(&repeat, 1, H2D_BENCH_REPEAT_MAX_COUNT, 1, &number);
		}
	}
	return rc;
}

static int check_rules(const struct h2d_value *list)
{
	int rc = h2d_value_array(list, true);

	for (size_t i = 0; i < h2d_value_count(list) && !rc; i++) {
		const struct h2d_value rule = h2d_value_element(list, i);

		rc = h2d_value_object(&rule, exclude_keys);
		for (size_t k = 0; exclude_keys[k] && !rc; k++) {
			const struct h2d_value member =
				h2d_value_member(&rule, exclude_keys[k]);
			const char *text;

			rc = h2d_value_text(&member, k ? "" : NULL, &text);
		}
		if (!rc && json_object_size(rule.json) < 2)
			rc = h2d_value_fail(&rule, "excludes everything");
	}
	return rc;
}

static int check_baseline(const struct h2d_value *v)
{
	int rc = v->json ? h2d_value_object(v, baseline_keys) : 0;

	if (!rc && v->json && !json_object_size(v->json))
		rc = h2d_value_fail(v, "names no member of the key");
	for (size_t k = 0; baseline_keys[k] && !rc; k++) {
		const struct h2d_value member = h2d_value_member(v, baseline_keys[k]);
		const char *text;

		rc = h2d_value_text(&member, "", &text);
	}
	return rc;
}

static int check_schedule(struct h2d_bench_matrix *m, const struct h2d_value *root)
{
	const struct h2d_value priority = h2d_value_member(root, "priority");
	const struct h2d_value cpus = h2d_value_member(root, "cpus");
	const char *text, *why;
	int rc = h2d_value_text(&priority, "normal", &text);

	if (!rc && strcmp(text, "normal") && strcmp(text, "fifo"))
		rc = h2d_value_fail(&priority, "is none of normal, fifo");
	if (rc)
		return rc;
	m->schedule.fifo = !strcmp(text, "fifo");
	rc = h2d_value_text(&cpus, "", &text);
	if (rc || !cpus.json)
		return rc;
	why = h2d_bench_cpus_parse(text, &m->schedule.cpus);
	if (why)
		return h2d_value_fail(&cpus, "'%.64s' %s", text, why);
	m->schedule.have_cpus = true;
	return 0;
}

static int check_scalars(struct h2d_bench_matrix *m, const struct h2d_value *root)
{
	const struct h2d_value name = h2d_value_member(root, "name");
	const struct h2d_value version = h2d_value_member(root, "schema_version");
	const struct {
		const char *key;
		uint64_t min, max, otherwise, *out;
	} numbers[] = {
		{"seed", 0, INT64_MAX, 1, &m->seed},
		{"block_count", 1, 10000, 9, &m->block_count},
		{"timeout_s", 1, 7 * 86400, 600, &m->timeout_s},
	};
	const struct {
		const char *key;
		double otherwise, *out;
	} shares[] = {
		{"cold_max_pct", 1, &m->cold_max_pct},
		{"warm_min_pct", 99, &m->warm_min_pct},
		{"partial_tolerance_pct", 5, &m->partial_tolerance_pct},
	};
	const struct h2d_value verify = h2d_value_member(root, "verify");
	const struct h2d_value drop = h2d_value_member(root, "drop_caches");
	const struct h2d_value settle = h2d_value_member(root, "settle");
	const struct h2d_value about = h2d_value_member(root, "about");
	const char *text;
	int rc = h2d_value_object(root, root_keys);

	if (!rc)
		rc = h2d_value_schema(root, "h2d.bench-matrix", 1);
	if (!rc)
		rc = h2d_value_object(&version, version_keys);
	if (!rc)
		rc = h2d_value_text(&name, NULL, &m->name);
	if (!rc && !name_is_plain(m->name))
		rc = h2d_value_fail(&name,
				    "may hold letters, digits, '.', '_' and '-', up to 64");
	if (!rc)
		rc = h2d_value_text(&about, "", &text);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !rc; i++) {
		const struct h2d_value v = h2d_value_member(root, numbers[i].key);

		rc = h2d_value_u64(&v, numbers[i].min, numbers[i].max, numbers[i].otherwise,
				   numbers[i].out);
	}
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]) && !rc; i++) {
		const struct h2d_value v = h2d_value_member(root, shares[i].key);

		rc = h2d_value_double(&v, 0, 100, shares[i].otherwise, shares[i].out);
	}
	if (!rc)
		rc = h2d_value_bool(&verify, true, &m->verify);
	if (!rc)
		rc = h2d_value_bool(&drop, false, &m->drop_caches);
	if (!rc)
		rc = h2d_value_bool(&settle, false, &m->settle);
	if (!rc)
		rc = check_schedule(m, root);
	return rc;
}

static int check_lists(const struct h2d_value *root)
{
	const struct {
		const char *key;
		bool optional;
		const char *(*wrong)(const char *text);
	} lists[] = {
		{"devices", true, wrong_device},      {"paths", true, wrong_path},
		{"cache_states", false, wrong_cache}, {"present", true, wrong_present},
		{"memory_max", true, wrong_memory},
	};
	const struct {
		const char *key;
		int (*check)(const struct h2d_value *v);
	} parts[] = {
		{"options", check_options},
		{"external", check_external},
		{"exclude", check_rules},
		{"baseline", check_baseline},
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && !rc; i++) {
		const struct h2d_value v = h2d_value_member(root, lists[i].key);

		rc = check_texts(&v, lists[i].optional, lists[i].wrong);
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !rc; i++) {
		const struct h2d_value v = h2d_value_member(root, parts[i].key);

		rc = parts[i].check(&v);
	}
	if (!rc && !json_object_get(root->json, "paths") &&
	    !json_array_size(json_object_get(root->json, "external")))
		rc = h2d_value_fail(root, "has neither paths nor external loaders");
	return rc;
}

/* A name that is not absolute is meant from the matrix's folder. */
static char *place(const struct h2d_bench_matrix *m, const char *file)
{
	char *path;

	if (file[0] == '/')
		return strdup(file);
	return asprintf(&path, "%s/%s", m->folder, file) < 0 ? NULL : path;
}

static int open_checkpoints(struct h2d_bench_matrix *m, const struct h2d_value *root,
			    const struct h2d_log *log)
{
	const struct h2d_value list = h2d_value_member(root, "checkpoints");
	int rc = h2d_value_array(&list, false);

	if (!rc && !h2d_value_count(&list))
		rc = h2d_value_fail(&list, "is empty: name one, or give --checkpoint");
	if (rc)
		return rc;
	m->checkpoints = h2d_mem->calloc(h2d_value_count(&list), sizeof(*m->checkpoints));
	if (!m->checkpoints)
		return h2d_fail(log, H2D_E_NOMEM, "out of memory");
	for (size_t i = 0; i < h2d_value_count(&list) && !rc; i++) {
		const struct h2d_value item = h2d_value_element(&list, i);
		const struct h2d_value name = h2d_value_member(&item, "name");
		const struct h2d_value file = h2d_value_member(&item, "file");
		const char *text, *where;
		char *path = NULL;

		rc = h2d_value_object(&item, checkpoint_keys);
		if (!rc)
			rc = h2d_value_text(&name, NULL, &text);
		if (!rc && !name_is_plain(text))
			rc = h2d_value_fail(&name, "'%.64s' is no name", text);
		if (!rc)
			rc = h2d_value_text(&file, NULL, &where);
		for (size_t k = 0; k < i && !rc; k++)
			if (!strcmp(m->checkpoints[k].name, text))
				rc = h2d_value_fail(&name, "'%.64s' is there twice", text);
		if (rc)
			break;
		path = place(m, where);
		m->checkpoint_count++;
		rc = path ? h2d_bench_checkpoint_open(&m->checkpoints[i], text, path, log)
			  : h2d_fail(log, H2D_E_NOMEM, "out of memory");
		free(path);
	}
	return rc;
}

/* "few=/data/few.safetensors", or a file whose name without its ending is the name. */
static json_t *given_checkpoint(const char *text)
{
	const char *equals = strchr(text, '='), *slash = strrchr(text, '/');
	const char *file = equals && (!slash || equals < slash) ? equals + 1 : text;
	char name[65], *real = realpath(file, NULL);
	json_t *made;

	if (file != text) {
		snprintf(name, sizeof(name), "%.*s", (int)(equals - text), text);
	} else {
		snprintf(name, sizeof(name), "%.64s", slash ? slash + 1 : text);
		name[strcspn(name, ".")] = 0;
		for (char *p = name; *p; p++)
			if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789_-",
				    *p))
				*p = '-';
	}
	/* From the working directory, not from the matrix's. */
	made = json_pack("{s:s, s:s}", "name", name[0] ? name : "checkpoint", "file",
			 real ? real : file);
	free(real);
	return made;
}

static json_t *texts(const char *const *words, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_string(words[i]));
	return list;
}

static void override(struct h2d_bench_matrix *m, const struct h2d_bench_overrides *o)
{
	json_t *root = m->json, *list;

	if (o->checkpoint_count) {
		list = json_array();
		for (size_t i = 0; i < o->checkpoint_count; i++)
			json_array_append_new(list, given_checkpoint(o->checkpoints[i]));
		json_object_set_new(root, "checkpoints", list);
	}
	if (o->block_count)
		json_object_set_new(root, "block_count",
				    json_integer((json_int_t)o->block_count));
	if (o->path_count)
		json_object_set_new(root, "paths", texts(o->paths, o->path_count));
	if (o->device_count)
		json_object_set_new(root, "devices", texts(o->devices, o->device_count));
	m->paths_given = o->path_count;
	m->devices_given = o->device_count;
	m->checkpoints_given = o->checkpoint_count;
}

int h2d_bench_matrix_read(const char *path, const struct h2d_bench_overrides *overrides,
			  const struct h2d_log *log, struct h2d_bench_matrix *out)
{
	struct h2d_value root = {.log = log, .file = path};
	const char *slash = strrchr(path, '/');
	int rc;

	memset(out, 0, sizeof(*out));
	rc = h2d_value_load(path, log, &out->json);
	if (rc)
		return rc;
	out->folder =
		slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	if (!out->folder)
		return h2d_fail(log, H2D_E_NOMEM, "out of memory");
	root.json = out->json;
	if (overrides && json_is_object(out->json))
		override(out, overrides);
	rc = check_scalars(out, &root);
	if (!rc)
		rc = check_lists(&root);
	if (!rc)
		rc = open_checkpoints(out, &root, log);
	if (!rc)
		rc = h2d_bench_cells_make(out, &root);
	return rc;
}

void h2d_bench_matrix_free(struct h2d_bench_matrix *m)
{
	for (size_t i = 0; i < m->cell_count; i++) {
		json_decref(m->cells[i].key);
		free(m->cells[i].reason);
		free(m->cells[i].done);
	}
	for (size_t i = 0; i < m->checkpoint_count; i++)
		h2d_bench_checkpoint_close(&m->checkpoints[i]);
	free(m->cells);
	free(m->checkpoints);
	free(m->folder);
	json_decref(m->json);
	memset(m, 0, sizeof(*m));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/export.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A column: where it is taken from and how it is called. */
enum source { CELL, KEY, SAMPLE };
static const struct column {
	const char *name;
	enum source source;
	const char *group, *member; /* group NULL: of the object itself */
} columns[] = {
	{"id", CELL, NULL, "id"},
	{"loader", KEY, NULL, "loader"},
	{"path", KEY, NULL, "path"},
	{"checkpoint", KEY, NULL, "checkpoint"},
	{"fingerprint", KEY, NULL, "fingerprint"},
	{"device", KEY, NULL, "device"},
	{"cache", KEY, NULL, "cache"},
	{"present", KEY, NULL, "present"},
	{"memory_max_bytes", KEY, NULL, "memory_max_bytes"},
	{"options", KEY, NULL, "options"},
	{"cell_status", CELL, NULL, "status"},
	{"block", SAMPLE, NULL, "block"},
	{"order", SAMPLE, NULL, "order"},
	{"status", SAMPLE, NULL, "status"},
	{"reason", SAMPLE, NULL, "reason"},
	{"time_utc", SAMPLE, NULL, "time_utc"},
	{"load_ns", SAMPLE, NULL, "load_ns"},
	{"wall_ns", SAMPLE, NULL, "wall_ns"},
	{"loaded_bytes", SAMPLE, NULL, "loaded_bytes"},
	{"throughput_bytes_per_s", SAMPLE, NULL, "throughput_bytes_per_s"},
	{"cached_before_pct", SAMPLE, "page_cache", "before_pct"},
	{"cached_after_pct", SAMPLE, "page_cache", "after_pct"},
	{"cache_method", SAMPLE, "page_cache", "method"},
	{"present_proven_pct", SAMPLE, "present", "proven_pct"},
	{"peak_rss_anon_bytes", SAMPLE, "memory", "peak_rss_anon_bytes"},
	{"peak_rss_file_bytes", SAMPLE, "memory", "peak_rss_file_bytes"},
	{"peak_swap_bytes", SAMPLE, "memory", "peak_swap_bytes"},
	{"major_fault_count", SAMPLE, "faults", "major_count"},
	{"minor_fault_count", SAMPLE, "faults", "minor_count"},
	{"read_bytes", SAMPLE, "io", "read_bytes"},
	{"verified", SAMPLE, "verify", "ok"},
	{"verify_method", SAMPLE, "verify", "method"},
	{"adapter", SAMPLE, "adapter", "name"},
	{"adapter_version", SAMPLE, "adapter", "version"},
};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

/* What could steer the terminal that a table is printed on becomes \xNN of each byte. Lines and
 * tabs are values' own. @return how many bytes at `s` do so, 0 for none */
static size_t steers(const char *s)
{
	const unsigned char c = (unsigned char)s[0], then = c ? (unsigned char)s[1] : 0;

	if (c == 0xc2 && then >= 0x80 && then < 0xa0)
		return 2;
	return (c && c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
}

static void put_bytes(FILE *out, const char *text)
{
	for (size_t n; *text; text += n ? n : 1) {
		n = steers(text);
		for (size_t i = 0; i < n; i++)
			fprintf(out, "\\x%02x", (unsigned char)text[i]);
		if (*text == '"')
			fputc('"', out);
		if (!n)
			fputc(*text, out);
	}
}

static void put_text(FILE *out, const char *text)
{
	/* "=cmd|…" in a reason must not become a formula. */
	const bool formula = text[0] && strchr("=+-@\t\r", text[0]);

	if (!formula && !strpbrk(text, "\",\r\n")) {
		put_bytes(out, text);
		return;
	}
	fputc('"', out);
	if (formula)
		fputc('\'', out);
	put_bytes(out, text);
	fputc('"', out);
}

static void put_value(FILE *out, const json_t *value)
{
	char *text;

	if (json_is_string(value))
		put_text(out, json_string_value(value));
	else if (json_is_integer(value))
		fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		fprintf(out, "%.17g", json_real_value(value));
	else if (json_is_boolean(value))
		fputs(json_is_true(value) ? "true" : "false", out);
	else if (json_is_object(value)) {
		text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
		put_text(out, text ? text : "");
		free(text);
	}
}

static void put_row(FILE *out, const json_t *cell, const json_t *sample)
{
	for (size_t i = 0; i < COLUMNS; i++) {
		const json_t *from = columns[i].source == CELL	? cell
				     : columns[i].source == KEY ? json_object_get(cell, "key")
								: sample;

		if (columns[i].group)
			from = json_object_get(from, columns[i].group);
		if (i)
			fputc(',', out);
		put_value(out, json_object_get(from, columns[i].member));
	}
	fputs("\r\n", out);
}

int h2d_export_csv(FILE *out, const char *path, const struct h2d_log *log)
{
	struct h2d_value root = {.log = log, .file = path}, cells;
	json_t *document;
	int rc = h2d_value_load(path, log, &document);

	if (rc)
		return rc;
	root.json = document;
	rc = h2d_value_schema(&root, "h2d.bench", 1);
	cells = h2d_value_member(&root, "cells");
	if (!rc)
		rc = h2d_value_array(&cells, false);
	for (size_t i = 0; i < COLUMNS && !rc; i++)
		fprintf(out, "%s%s", i ? "," : "", columns[i].name);
	if (!rc)
		fputs("\r\n", out);
	for (size_t i = 0; i < h2d_value_count(&cells) && !rc; i++) {
		const struct h2d_value cell = h2d_value_element(&cells, i);
		const struct h2d_value samples = h2d_value_member(&cell, "samples");

		if (!json_is_object(cell.json))
			rc = h2d_value_fail(&cell, "must be an object");
		if (!rc)
			rc = h2d_value_array(&samples, false);
		for (size_t k = 0; k < h2d_value_count(&samples) && !rc; k++)
			put_row(out, cell.json, json_array_get(samples.json, k));
		if (!rc && !h2d_value_count(&samples))
			put_row(out, cell.json, NULL);
	}
	json_decref(document);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the preloaded library did, from the state file that all its processes wrote to. */
#include <stdlib.h>
#include <string.h>

#include "format/detect.h"
#include "run.h"
#include "text.h"

enum { LINES_MAX = 8 }; /* of files, without -v */

/* A record as it was read once: a process that still runs may go on counting. */
struct row {
	const struct h2d_run_record *record;
	uint64_t order, mapping_count, size_bytes, opened_bytes, released_bytes, shared_bytes;
	uint64_t fault_count, kernel_open_count, device_open_count;
	uint64_t written_page_count, counted_bytes;
	uint32_t flags;
	bool first; /* of its file, in `order` */
};

/* Sums over rows. Mappings a child inherited are its parent's: not counted twice. */
struct sum {
	uint64_t mapping_count, size_bytes, shared_bytes, opened_bytes, uncounted_bytes;
	uint64_t written_page_count, fault_count;
};

struct rows {
	struct row *row;
	size_t count, file_count;
	size_t program_count; /* that mapped one of them; a fork is its parent's program */
	struct sum total;
};

/* A copy that surely ends, of what other processes can write to. */
struct path {
	char text[H2D_RUN_PATH_BYTES + 1];
};

static const char *path_of(const struct h2d_cli *cli, const struct row *r, struct path *copy)
{
	memcpy(copy->text, r->record->path, H2D_RUN_PATH_BYTES);
	copy->text[H2D_RUN_PATH_BYTES] = 0;
	return h2d_cli_path(cli, copy->text);
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static int by_order(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return (x->order > y->order) - (x->order < y->order);
}

static void read_row(const struct h2d_run_record *r, struct row *row)
{
	*row = (struct row){
		.record = r,
		.order = r->order,
		.mapping_count = r->mapping_count,
		.size_bytes = r->mapping_bytes,
		.opened_bytes = r->opened_bytes,
		.released_bytes = r->released_bytes,
		.fault_count = r->fault_count,
		.kernel_open_count = r->kernel_open_count,
		.device_open_count = r->device_open_count,
		.written_page_count = r->written_page_count,
		.counted_bytes = r->counted_bytes,
		.flags = r->flags,
	};
	row->shared_bytes =
		minus(minus(row->size_bytes, row->opened_bytes), row->released_bytes);
}

static void add(struct sum *s, const struct row *r)
{
	if (!(r->flags & H2D_RUN_INHERITED)) {
		s->mapping_count += r->mapping_count;
		s->size_bytes += r->size_bytes;
		s->shared_bytes += r->shared_bytes;
	}
	s->opened_bytes += r->opened_bytes;
	s->uncounted_bytes += minus(r->opened_bytes, r->counted_bytes);
	s->written_page_count += r->written_page_count;
	s->fault_count += r->fault_count;
}

static bool same_file(const struct row *a, const struct row *b)
{
	return a->record->device == b->record->device && a->record->inode == b->record->inode;
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* @return 0 or H2D_E_NOMEM */
static int count_programs(struct rows *rows)
{
	uint64_t *images = calloc(rows->count + 1, sizeof(*images));

	if (!images)
		return H2D_E_NOMEM;
	for (size_t i = 0; i < rows->count; i++)
		images[i] = rows->row[i].record->image;
	qsort(images, rows->count, sizeof(*images), by_number);
	for (size_t i = 0; i < rows->count; i++)
		rows->program_count += !i || images[i] != images[i - 1];
	free(images);
	return 0;
}

static int collect(const struct h2d_run_state *state, struct rows *rows)
{
	const struct h2d_run_record *r;
	size_t index = 0;

	memset(rows, 0, sizeof(*rows));
	rows->row = calloc(H2D_RUN_RECORDS, sizeof(*rows->row));
	if (!rows->row)
		return H2D_E_NOMEM;
	while ((r = h2d_run_state_next(state, &index)))
		read_row(r, &rows->row[rows->count++]);
	qsort(rows->row, rows->count, sizeof(*rows->row), by_order);
	for (size_t i = 0; i < rows->count; i++) {
		struct row *row = &rows->row[i];

		row->first = true;
		for (size_t k = 0; row->first && k < i; k++)
			row->first = !same_file(&rows->row[k], row);
		rows->file_count += row->first;
		add(&rows->total, row);
	}
	if (count_programs(rows)) {
		free(rows->row);
		return H2D_E_NOMEM;
	}
	return 0;
}

/* ------------------------------------------------------------------ text */

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void text_sum(FILE *out, const struct sum *s)
{
	char size[32], shared[32], open_[32];

	h2d_text_bytes(size, sizeof(size), s->size_bytes);
	h2d_text_bytes(shared, sizeof(shared), s->shared_bytes);
	h2d_text_bytes(open_, sizeof(open_), s->uncounted_bytes);
	fprintf(out,
		"%llu mapping%s of %s kept read-only, %s stayed shared, %llu page%s written",
		(unsigned long long)s->mapping_count, plural(s->mapping_count), size, shared,
		(unsigned long long)s->written_page_count, plural(s->written_page_count));
	/* A process that ended without a word left no count of its pages. */
	if (s->uncounted_bytes)
		fprintf(out, ", and at most %s more", open_);
	fputc('\n', out);
}

static void text_files(struct h2d_cli *cli, FILE *out, const char *prefix,
		       const struct rows *rows)
{
	size_t lines = 0, max = cli->common.verbose ? rows->count : LINES_MAX;

	for (size_t i = 0; i < rows->count && lines < max; i++) {
		struct sum sum = {0};
		struct path copy;
		const char *path;

		if (!rows->row[i].first)
			continue;
		path = path_of(cli, &rows->row[i], &copy);
		for (size_t k = i; k < rows->count; k++)
			if (same_file(&rows->row[i], &rows->row[k]))
				add(&sum, &rows->row[k]);
		fputs(prefix, out);
		h2d_text_safe(out, path, strlen(path));
		fputs(": ", out);
		text_sum(out, &sum);
		lines++;
	}
	if (lines < rows->file_count)
		fprintf(out, "%s... and %zu more files; -v lists all\n", prefix,
			rows->file_count - lines);
}

static void text_refused(FILE *out, const char *prefix, uint64_t count, const char *why)
{
	if (count)
		fprintf(out, "%s%llu checkpoint mapping%s left writable: %s\n", prefix,
			(unsigned long long)count, plural(count), why);
}

void h2d_run_report_text(struct h2d_cli *cli, FILE *out, const char *prefix,
			 const struct h2d_run_facts *facts)
{
	const struct h2d_run_state *state = facts->setup->state;
	unsigned long long images = state->image_count, candidates = state->candidate_count;
	struct rows rows;

	if (collect(state, &rows)) {
		fprintf(out, "%sout of memory for the report\n", prefix);
		return;
	}
	if (!images)
		fprintf(out,
			"%sno program loaded the library: nothing was kept read-only, and the "
			"command ran as without h2d\n",
			prefix);
	else if (!rows.count)
		fprintf(out,
			"%snothing was to be kept read-only: %llu program%s loaded the library "
			"and reported, %llu private writable file mapping%s seen, none of a "
			"checkpoint\n",
			prefix, images, plural(images), candidates,
			candidates == 1 ? " was" : "s were");
	text_files(cli, out, prefix, &rows);
	if (rows.file_count > 1) {
		fprintf(out, "%sin all: ", prefix);
		text_sum(out, &rows.total);
	}
	/* The others, such as the shells of a wrapper, had nothing to keep. */
	if (rows.count && images > rows.program_count && !state->lost_record_count)
		fprintf(out,
			"%sof %llu programs that loaded the library, %zu had a mapping kept "
			"read-only\n",
			prefix, images, rows.program_count);
	text_refused(out, prefix, state->refused_handler_count,
		     "the program handles SIGSEGV past the C library");
	text_refused(out, prefix, state->refused_limit_count,
		     "strict overcommit or RLIMIT_DATA could fail a later write");
	text_refused(out, prefix, state->refused_memory_count,
		     "no memory for the table, or no room in the map count");
	if (state->lost_record_count)
		fprintf(out, "%s%llu more kept read-only, for which the report had no room\n",
			prefix, (unsigned long long)state->lost_record_count);
	free(rows.row);
}

/* ------------------------------------------------------------------ JSON */

static const char *format_name(uint32_t format)
{
	switch (format) {
	case H2D_FORMAT_SAFETENSORS:
		return "safetensors";
	case H2D_FORMAT_GGUF:
		return "gguf";
	case H2D_FORMAT_CACT:
		return "cact";
	case H2D_FORMAT_TORCH:
	case H2D_FORMAT_TORCH_LEGACY:
		return "torch";
	default:
		return NULL;
	}
}

static void json_text(struct h2d_json *j, const char *key, const char *s, size_t cap)
{
	size_t n = strnlen(s, cap);
	char name[64];

	h2d_json_bytes(j, key, s, n);
	if (!h2d_utf8_valid(s, n)) {
		snprintf(name, sizeof(name), "%s_hex", key);
		h2d_json_hex(j, name, s, n);
	}
}

static void json_row(struct h2d_cli *cli, struct h2d_json *j, const struct row *r)
{
	const struct h2d_run_record *record = r->record;
	const char *format = format_name(record->format);
	struct path copy;

	h2d_json_object_begin(j, NULL);
	json_text(j, "file", path_of(cli, r, &copy), H2D_RUN_PATH_BYTES);
	h2d_json_bool(j, "file_cut", r->flags & H2D_RUN_PATH_CUT);
	if (format)
		h2d_json_string(j, "format", format);
	else
		h2d_cli_null(j, "format", "the content is no known checkpoint format");
	h2d_json_bool(j, "by_pattern", r->flags & H2D_RUN_BY_PATTERN);
	h2d_json_i64(j, "pid", record->pid);
	json_text(j, "program", record->command, H2D_RUN_COMMAND_BYTES);
	h2d_json_bool(j, "inherited", r->flags & H2D_RUN_INHERITED);
	h2d_json_u64(j, "mapping_count", r->mapping_count);
	h2d_json_u64(j, "size_bytes", r->size_bytes);
	h2d_json_u64(j, "shared_bytes", r->shared_bytes);
	h2d_json_u64(j, "opened_bytes", r->opened_bytes);
	h2d_json_u64(j, "released_bytes", r->released_bytes);
	h2d_json_u64(j, "written_page_count", r->written_page_count);
	h2d_json_u64(j, "uncounted_bytes", minus(r->opened_bytes, r->counted_bytes));
	h2d_json_u64(j, "fault_count", r->fault_count);
	h2d_json_u64(j, "kernel_open_count", r->kernel_open_count);
	h2d_json_u64(j, "device_open_count", r->device_open_count);
	h2d_json_bool(j, "whole_opened", r->flags & H2D_RUN_WHOLE_OPENED);
	h2d_json_object_end(j);
}

static void json_command(struct h2d_cli *cli, struct h2d_json *j, const struct h2d_run_facts *f)
{
	const char *why = h2d_run_fit_text(f->program->fit);

	h2d_json_object_begin(j, "command");
	h2d_json_array_begin(j, "argv");
	for (char **a = f->argv; *a; a++) {
		const char *word = h2d_cli_path(cli, *a);

		h2d_json_bytes(j, NULL, word, strlen(word));
	}
	h2d_json_array_end(j);
	h2d_json_i64(j, "pid", f->outcome->pid);
	h2d_json_i64(j, "status", f->outcome->status);
	if (f->outcome->signal_number)
		h2d_json_i64(j, "signal_number", f->outcome->signal_number);
	else
		h2d_cli_null(j, "signal_number", "no signal ended the command");
	h2d_json_u64(j, "elapsed_ns", f->outcome->elapsed_ns);
	h2d_json_bool(j, "preloadable", !why);
	if (why)
		h2d_json_stringf(j, "preloadable_note", "it %s", why);
	h2d_json_object_end(j);
}

static void json_total(struct h2d_json *j, const struct h2d_run_state *state,
		       const struct rows *rows)
{
	h2d_json_object_begin(j, "total");
	h2d_json_u64(j, "program_count", state->image_count);
	h2d_json_u64(j, "keeping_program_count", rows->program_count);
	h2d_json_u64(j, "file_count", rows->file_count);
	h2d_json_u64(j, "mapping_count", rows->total.mapping_count);
	h2d_json_u64(j, "size_bytes", rows->total.size_bytes);
	h2d_json_u64(j, "shared_bytes", rows->total.shared_bytes);
	h2d_json_u64(j, "opened_bytes", rows->total.opened_bytes);
	h2d_json_u64(j, "written_page_count", rows->total.written_page_count);
	h2d_json_u64(j, "uncounted_bytes", rows->total.uncounted_bytes);
	h2d_json_u64(j, "page_bytes", state->page_bytes);
	h2d_json_u64(j, "fault_count", rows->total.fault_count);
	h2d_json_u64(j, "candidate_count", state->candidate_count);
	h2d_json_u64(j, "added_syscall_count", state->added_syscall_count);
	h2d_json_u64(j, "unrecorded_count", state->lost_record_count);
	h2d_json_object_begin(j, "refused");
	h2d_json_u64(j, "handler_count", state->refused_handler_count);
	h2d_json_u64(j, "limit_count", state->refused_limit_count);
	h2d_json_u64(j, "memory_count", state->refused_memory_count);
	h2d_json_object_end(j);
	h2d_json_object_end(j);
}

int h2d_run_report_json(struct h2d_cli *cli, const struct h2d_run_facts *f)
{
	struct h2d_json j;
	struct rows rows;
	int exit;

	if (collect(f->setup->state, &rows))
		return h2d_cli_fail(cli, H2D_STAGE_LOAD, H2D_E_NOMEM, "the report");
	h2d_cli_document(cli, &j, "h2d.run", 1, 0);
	json_command(cli, &j, f);
	h2d_json_string(&j, "library", h2d_cli_path(cli, f->setup->library));
	h2d_json_array_begin(&j, "patterns");
	for (size_t i = 0; i < f->patterns->count; i++)
		h2d_json_string(&j, NULL, f->patterns->items[i]);
	h2d_json_array_end(&j);
	h2d_json_array_begin(&j, "mappings");
	for (size_t i = 0; i < rows.count; i++)
		json_row(cli, &j, &rows.row[i]);
	h2d_json_array_end(&j);
	json_total(&j, f->setup->state, &rows);
	exit = h2d_cli_document_end(cli, &j);
	free(rows.row);
	return exit;
}

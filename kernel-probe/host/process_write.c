/* SPDX-License-Identifier: Apache-2.0 */
/* A process as a document. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/envelope.h"
#include "core/hostfs.h"
#include "host/process.h"

static void null_why(struct h2d_json *j, const char *key, const char *why)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

static void write_runtimes(struct h2d_json *j, unsigned runtimes)
{
	static const char *const names[] = {"hip",   "cuda", "opencl",
					    "torch", "ggml", "h2d-run"};

	h2d_json_array_begin(j, "runtimes");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (runtimes & 1u << i)
			h2d_json_string(j, NULL, names[i]);
	h2d_json_array_end(j);
}

static void write_identity(struct h2d_json *j, const struct h2d_process *p, bool redact)
{
	h2d_json_object_begin(j, "process");
	h2d_json_u64(j, "pid", (uint64_t)p->pid);
	h2d_json_bytes(j, "name", p->name, strlen(p->name));
	h2d_json_stringf(j, "state", "%c", p->state);
	if (p->have_uid)
		h2d_json_u64(j, "uid", p->uid);
	else
		null_why(j, "uid", "its status cannot be read");
	h2d_json_u64(j, "thread_count", p->threads);
	if (redact) {
		null_why(j, "command", "redacted");
	} else if (!p->words) {
		null_why(j, "command", "it cannot be read");
	} else {
		h2d_json_array_begin(j, "command");
		for (size_t i = 0; i < p->word_count; i++)
			h2d_json_bytes(j, NULL, p->words[i], strlen(p->words[i]));
		h2d_json_array_end(j);
	}
	h2d_json_bool(j, "other_pid_namespace", p->other_pid_namespace);
	write_runtimes(j, p->runtimes);
	h2d_json_bool(j, "exited", p->exited);
	h2d_json_bool(j, "mappings_cut", p->cut);
	h2d_json_object_end(j);
}

static void write_format(struct h2d_json *j, const struct h2d_mapped_file *f)
{
	static const char *const names[] = {
		[H2D_FORMAT_NONE] = NULL,     [H2D_FORMAT_SAFETENSORS] = "safetensors",
		[H2D_FORMAT_GGUF] = "gguf",   [H2D_FORMAT_CACT] = "cact",
		[H2D_FORMAT_TORCH] = "torch", [H2D_FORMAT_TORCH_LEGACY] = "torch-legacy",
		[H2D_FORMAT_INDEX] = NULL,
	};

	if (!f->content_known)
		null_why(j, "format", f->why[0] ? f->why : "the file cannot be read");
	else if (names[f->format])
		h2d_json_string(j, "format", names[f->format]);
	else
		null_why(j, "format", "its content is no checkpoint's");
}

static void write_advice(struct h2d_json *j, unsigned advice)
{
	static const char *const names[] = {"random",	"sequential", "hugepage", "nohugepage",
					    "dontfork", "locked",     "dontdump"};

	h2d_json_array_begin(j, "advice");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (advice & 1u << i)
			h2d_json_string(j, NULL, names[i]);
	h2d_json_array_end(j);
}

/* Pages of which the kernel does not tell. */
static void pages(struct h2d_json *j, const char *key, bool known, uint64_t bytes)
{
	if (known)
		h2d_json_u64(j, key, bytes);
	else
		null_why(j, key, "the kernel does not tell (no smaps)");
}

static void write_mapping(struct h2d_json *j, const struct h2d_process *p,
			  const struct h2d_file_mapping *m, bool redact)
{
	const struct h2d_mapped_file *f = &p->files[m->file];
	const char *name = h2d_redacted_path(f->path, redact);

	h2d_json_object_begin(j, NULL);
	h2d_json_bytes(j, "file", name, strlen(name));
	h2d_json_stringf(j, "device", "%u:%u", f->device_major, f->device_minor);
	h2d_json_u64(j, "inode", f->inode);
	h2d_json_bool(j, "deleted", f->deleted);
	write_format(j, f);
	h2d_json_string(j, "permissions", m->permissions);
	h2d_json_stringf(j, "address", "0x%" PRIx64, m->begin);
	h2d_json_u64(j, "offset_bytes", m->offset_bytes);
	h2d_json_u64(j, "size_bytes", m->end - m->begin);
	pages(j, "present_bytes", m->seen & H2D_SMAPS_RSS, m->present_bytes);
	if (m->cached_known)
		h2d_json_u64(j, "cached_bytes", m->cached_bytes);
	else
		null_why(j, "cached_bytes",
			 !f->checkpoint ? "asked of checkpoints only"
			 : f->why[0]	? f->why
					: "the kernel does not tell it of this file");
	pages(j, "anonymous_bytes", m->seen & H2D_SMAPS_ANONYMOUS, m->anonymous_bytes);
	pages(j, "swap_bytes", m->seen & H2D_SMAPS_SWAP, m->swap_bytes);
	pages(j, "huge_bytes", m->seen & H2D_SMAPS_HUGE, m->huge_bytes);
	if (m->seen & H2D_SMAPS_FLAGS)
		write_advice(j, m->advice);
	else
		null_why(j, "advice", "the kernel does not tell (no VmFlags)");
	h2d_json_bool(j, "copied", h2d_mapping_is_copied(p, m));
	h2d_json_object_end(j);
}

static void write_file(struct h2d_json *j, const struct h2d_mapped_file *f, bool redact)
{
	const char *name = h2d_redacted_path(f->path, redact);

	h2d_json_object_begin(j, NULL);
	h2d_json_bytes(j, "file", name, strlen(name));
	if (f->size_known)
		h2d_json_u64(j, "size_bytes", f->size_bytes);
	else
		null_why(j, "size_bytes", f->why[0] ? f->why : "the file cannot be opened");
	if (f->mount.type[0])
		h2d_json_string(j, "filesystem", f->mount.type);
	else
		null_why(j, "filesystem", "its mount is not known");
	h2d_json_bool(j, "network", f->mount.network);
	if (f->mount.have_read_ahead)
		h2d_json_u64(j, "read_ahead_bytes", f->mount.read_ahead_bytes);
	else
		null_why(j, "read_ahead_bytes", "its backing device does not tell");
	h2d_json_object_end(j);
}

static void write_sum(struct h2d_json *j, const char *key, const struct h2d_mapping_sum *s)
{
	h2d_json_object_begin(j, key);
	h2d_json_u64(j, "mapping_count", s->mapping_count);
	h2d_json_u64(j, "size_bytes", s->size_bytes);
	h2d_json_u64(j, "present_bytes", s->present_bytes);
	if (s->cached_known || !s->mapping_count)
		h2d_json_u64(j, "cached_bytes", s->cached_bytes);
	else
		null_why(j, "cached_bytes", "not known of every mapping");
	h2d_json_u64(j, "anonymous_bytes", s->anonymous_bytes);
	h2d_json_u64(j, "swap_bytes", s->swap_bytes);
	h2d_json_u64(j, "huge_bytes", s->huge_bytes);
	h2d_json_object_end(j);
}

void h2d_process_write(struct h2d_json *j, const struct h2d_process *p, bool all, bool redact)
{
	write_identity(j, p, redact);
	h2d_json_array_begin(j, "checkpoints");
	for (size_t i = 0; i < p->file_count; i++)
		if (p->files[i].checkpoint)
			write_file(j, &p->files[i], redact);
	h2d_json_array_end(j);
	h2d_json_array_begin(j, "mappings");
	for (size_t i = 0; i < p->mapping_count; i++) {
		const struct h2d_mapped_file *f = &p->files[p->mappings[i].file];

		if (all || f->checkpoint || f->named_like_one)
			write_mapping(j, p, &p->mappings[i], redact);
	}
	h2d_json_array_end(j);
	h2d_json_object_begin(j, "total");
	write_sum(j, "all", &p->checkpoints);
	write_sum(j, "private_writable", &p->writable);
	write_sum(j, "copied", &p->copied);
	h2d_json_object_end(j);
}

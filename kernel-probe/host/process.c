/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/hostfs.h"
#include "core/mem.h"
#include "host/task.h"

enum { SMALL_BYTES = 16 << 10, WORDS_BYTES = 128 << 10, WORDS_MAX = 1024 };

bool h2d_mapping_is_writable(const struct h2d_file_mapping *m)
{
	return m->permissions[1] == 'w' && m->permissions[3] == 'p';
}

static bool is_written(const struct h2d_file_mapping *m)
{
	return m->permissions[3] == 'p' && (m->anonymous_bytes || m->swap_bytes);
}

bool h2d_mapping_is_copied(const struct h2d_process *p, const struct h2d_file_mapping *m)
{
	return p->files[m->file].checkpoint && is_written(m);
}

const char *h2d_process_unknown(const struct h2d_process *p)
{
	if (h2d_task_ended(p->state))
		return "it has ended, and nobody has asked for its status yet (a zombie)";
	for (size_t i = 0; i < p->mapping_count; i++) {
		const struct h2d_file_mapping *m = &p->mappings[i];
		const struct h2d_mapped_file *f = &p->files[m->file];
		bool told = m->seen & H2D_SMAPS_ANONYMOUS;

		if (f->named_like_one && (told ? is_written(m) : h2d_mapping_is_writable(m)))
			return f->why[0] ? f->why : "a checkpoint's content cannot be read";
		if (f->checkpoint && !told && m->permissions[3] == 'p')
			return "the kernel does not tell the pages of a mapping (no smaps)";
	}
	if (p->cut)
		return "it has more mappings than are looked at";
	return p->exited ? "the process ended while it was looked at" : NULL;
}

/* ---- who it is ---- */

/* "PID (comm) state …"; the name may hold anything, also parentheses. */
static int read_stat(const char *root, int pid, struct h2d_process *p)
{
	char path[64], text[2048], *open, *close;
	int n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	n = h2d_hostfs_read(root, path, text, sizeof(text));
	if (n < 0)
		return n;
	open = strchr(text, '(');
	close = strrchr(text, ')');
	if (!open || !close || close < open)
		return -ESRCH;
	snprintf(p->name, sizeof(p->name), "%.*s", (int)(close - open - 1), open + 1);
	/* Fields 3 (state), 20 (threads) and 22 (start time), proc(5). */
	if (sscanf(close + 1,
		   " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u "
		   "%*d %" SCNu64,
		   &p->state, &p->threads, &p->start_ticks) != 3)
		return -ESRCH;
	return 0;
}

static void find_task(const char *root, struct h2d_process *p)
{
	int alive = h2d_task_ended(p->state) ? h2d_task_alive(root, p->pid, &p->state) : 0;

	p->task = alive ? alive : p->pid;
}

static void read_status(const char *root, struct h2d_process *p)
{
	char path[64], text[SMALL_BYTES], value[256];
	unsigned first, own;

	snprintf(path, sizeof(path), "/proc/%d/status", p->task);
	if (h2d_hostfs_read(root, path, text, sizeof(text)) < 0)
		return;
	if (h2d_text_field(text, "Uid", value, sizeof(value)) > 0 &&
	    sscanf(value, "%u", &p->uid) == 1)
		p->have_uid = true;
	/* One number per namespace, from ours inwards. */
	if (h2d_text_field(text, "NSpid", value, sizeof(value)) > 0)
		p->other_pid_namespace = sscanf(value, "%u %u", &first, &own) == 2;
}

static int read_words(const char *root, struct h2d_process *p)
{
	char path[64], *text;
	size_t bytes, n = 0;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", p->task);
	if (h2d_hostfs_read_all(root, path, WORDS_BYTES, &text, &bytes))
		return 0;
	p->words = h2d_mem->calloc(WORDS_MAX + 1, sizeof(*p->words));
	if (!p->words) {
		free(text);
		return H2D_E_NOMEM;
	}
	for (size_t at = 0; at < bytes && n < WORDS_MAX; at += strlen(text + at) + 1) {
		p->words[n] = strdup(text + at);
		if (!p->words[n])
			break;
		n++;
	}
	p->word_count = n;
	free(text);
	return 0;
}

static void note_runtime(struct h2d_process *p, const char *path)
{
	static const struct {
		const char *begin;
		unsigned runtime;
	} libraries[] = {
		{"libamdhip64.so", H2D_RUNTIME_HIP},
		{"libhsa-runtime64.so", H2D_RUNTIME_HIP},
		{"libcuda.so", H2D_RUNTIME_CUDA},
		{"libcudart.so", H2D_RUNTIME_CUDA},
		{"libOpenCL.so", H2D_RUNTIME_OPENCL},
		{"libtorch_cpu.so", H2D_RUNTIME_TORCH},
		{"libggml-base", H2D_RUNTIME_GGML},
		{"libllama.so", H2D_RUNTIME_GGML},
		{"libggml.so", H2D_RUNTIME_GGML},
		{"libh2d-readonly.so", H2D_RUNTIME_H2D_RUN},
	};
	const char *name = strrchr(path, '/');

	for (size_t i = 0; name && i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (!strncmp(name + 1, libraries[i].begin, strlen(libraries[i].begin)))
			p->runtimes |= libraries[i].runtime;
}

/* ---- what it maps ---- */

/* Files of its own that a process maps: not devices, and not the kernel's. */
static bool is_file(const struct h2d_vma *v)
{
	return v->inode && v->path[0] == '/' && strncmp(v->path, "/dev/", 5) &&
	       strncmp(v->path, "/SYSV", 5) && strncmp(v->path, "/[aio]", 6);
}

static int find_file(struct h2d_process *p, const struct h2d_vma *v, size_t *cap, uint32_t *out)
{
	struct h2d_mapped_file *f;

	/* Mappings of one file mostly follow each other. */
	for (size_t i = p->file_count; i-- > 0;) {
		f = &p->files[i];
		if (f->inode == v->inode && f->device_major == v->device_major &&
		    f->device_minor == v->device_minor) {
			*out = (uint32_t)i;
			return 0;
		}
	}
	if (p->file_count == *cap) {
		size_t more = *cap ? *cap * 2 : 32;

		f = h2d_mem->realloc(p->files, more * sizeof(*f));
		if (!f)
			return H2D_E_NOMEM;
		p->files = f;
		*cap = more;
	}
	f = &p->files[p->file_count];
	memset(f, 0, sizeof(*f));
	f->fd = -1;
	f->path = strdup(v->path);
	if (!f->path)
		return H2D_E_NOMEM;
	f->device_major = v->device_major;
	f->device_minor = v->device_minor;
	f->inode = v->inode;
	f->deleted = v->deleted;
	*out = (uint32_t)p->file_count++;
	return 0;
}

static int add_mapping(struct h2d_process *p, const struct h2d_vma *v, size_t *file_cap,
		       size_t *cap)
{
	struct h2d_file_mapping *m;
	int rc;

	if (p->mapping_count == *cap) {
		size_t more = *cap ? *cap * 2 : 64;

		m = h2d_mem->realloc(p->mappings, more * sizeof(*m));
		if (!m)
			return H2D_E_NOMEM;
		p->mappings = m;
		*cap = more;
	}
	m = &p->mappings[p->mapping_count];
	memset(m, 0, sizeof(*m));
	rc = find_file(p, v, file_cap, &m->file);
	if (rc)
		return rc;
	m->begin = v->begin;
	m->end = v->end;
	m->offset_bytes = v->offset_bytes;
	memcpy(m->permissions, v->permissions, sizeof(m->permissions));
	m->seen = v->seen;
	m->present_bytes = v->present_bytes;
	m->anonymous_bytes = v->anonymous_bytes;
	m->swap_bytes = v->swap_bytes;
	m->huge_bytes = v->huge_bytes;
	m->private_dirty_bytes = v->private_dirty_bytes;
	m->advice = v->advice;
	p->mapping_count++;
	return 0;
}

/* What a capture keeps of smaps: data mappings of files, and the runtimes' names. */
static bool worth_keeping(const struct h2d_process *p, const struct h2d_vma *v,
			  unsigned runtimes_before)
{
	return (is_file(v) && v->permissions[2] != 'x' && v->end - v->begin >= 1 << 16 &&
		!strstr(v->path, ".so")) ||
	       p->runtimes != runtimes_before;
}

static int read_smaps(FILE *in, struct h2d_process *p, FILE *kept, int *err)
{
	struct h2d_smaps_reader *r = h2d_mem->calloc(1, sizeof(*r));
	struct h2d_vma *v = h2d_mem->calloc(1, sizeof(*v));
	size_t file_cap = 0, cap = 0, bytes = 0;
	char *block = NULL;
	int rc = r && v ? 0 : H2D_E_NOMEM, got = 0;

	if (!rc)
		r->in = in;
	while (!rc) {
		unsigned before = p->runtimes;

		if (kept)
			r->keep = open_memstream(&block, &bytes);
		got = h2d_smaps_next(r, v);
		if (got > 0 && v->inode)
			note_runtime(p, v->path);
		if (r->keep) {
			fclose(r->keep);
			if (got > 0 && block && worth_keeping(p, v, before))
				fwrite(block, 1, bytes, kept);
			free(block);
			block = NULL;
			r->keep = NULL;
		}
		if (got <= 0)
			break;
		if (!is_file(v))
			continue;
		if (p->mapping_count == H2D_PROCESS_MAPPINGS_MAX) {
			p->cut = true;
			break;
		}
		rc = add_mapping(p, v, &file_cap, &cap);
	}
	*err = r ? r->error : 0;
	free(r);
	free(v);
	return rc ? rc : got < 0 ? H2D_E_FORMAT : 0;
}

static int closed_to_us(const struct h2d_process *p, const struct h2d_log *log)
{
	return h2d_fail(
		log, H2D_E_PERMISSION,
		"process %d (%s): its mappings cannot be read: ask as its user or as "
		"root; under Yama, in a container or without CAP_SYS_PTRACE even root may "
		"not",
		p->pid, p->name);
}

static int ended(const struct h2d_process *p, const struct h2d_log *log)
{
	return h2d_fail(log, H2D_E_NOT_FOUND, "process %d (%s) ended while it was looked at",
			p->pid, p->name);
}

static int read_mappings(const char *root, struct h2d_process *p, const struct h2d_log *log)
{
	char path[64], *text = NULL;
	size_t bytes = 0;
	FILE *in, *kept = NULL;
	int err, rc;

	snprintf(path, sizeof(path), "/proc/%d/smaps", p->task);
	err = h2d_hostfs_open(root, path, &in);
	if (err == -ENOENT) { /* CONFIG_PROC_PAGE_MONITOR is off, or the process is gone */
		snprintf(path, sizeof(path), "/proc/%d/maps", p->task);
		err = h2d_hostfs_open(root, path, &in);
		p->only_maps = !err;
	}
	if (err == -ENOENT || err == -ESRCH)
		return ended(p, log);
	if (err) {
		h2d_hostfs_note(H2D_HOSTFS_TEXT, path, NULL, 0, err);
		if (err == -EACCES || err == -EPERM)
			return closed_to_us(p, log);
		return h2d_fail_errno(log, -err, "%s", path);
	}
	if (h2d_hostfs_observed())
		kept = open_memstream(&text, &bytes);
	/* The kernel answers at the first read when the process ended or changed its user. */
	rc = read_smaps(in, p, kept, &err);
	fclose(in);
	if (kept && !fclose(kept))
		h2d_hostfs_note(H2D_HOSTFS_TEXT, path, text, bytes, 0);
	free(text);
	if (err == EACCES || err == EPERM)
		return closed_to_us(p, log);
	if (err == ESRCH && !p->mapping_count)
		return ended(p, log);
	if (rc == H2D_E_FORMAT)
		return h2d_fail(log, rc, "%s: not the text of this file", path);
	return rc == H2D_E_NOMEM ? h2d_fail(log, rc, "process %d: out of memory", p->pid) : rc;
}

/* ---- sums ---- */

static void add_sum(struct h2d_mapping_sum *s, const struct h2d_file_mapping *m)
{
	if (!s->mapping_count)
		s->cached_known = true;
	s->mapping_count++;
	s->size_bytes += m->end - m->begin;
	s->present_bytes += m->present_bytes;
	s->anonymous_bytes += m->anonymous_bytes;
	s->swap_bytes += m->swap_bytes;
	s->huge_bytes += m->huge_bytes;
	s->cached_bytes += m->cached_bytes;
	s->cached_known = s->cached_known && m->cached_known;
}

static void sum_up(struct h2d_process *p)
{
	for (size_t i = 0; i < p->file_count; i++) {
		const struct h2d_mapped_file *f = &p->files[i];

		if (!f->checkpoint)
			continue;
		p->checkpoint_count++;
		p->checkpoint_file_bytes += f->size_known ? f->size_bytes : 0;
		if (!p->largest || f->size_bytes > p->largest->size_bytes)
			p->largest = f;
	}
	for (size_t i = 0; i < p->mapping_count; i++) {
		const struct h2d_file_mapping *m = &p->mappings[i];

		if (!p->files[m->file].checkpoint)
			continue;
		add_sum(&p->checkpoints, m);
		p->random_advice |= !!(m->advice & H2D_ADVICE_RANDOM);
		if (h2d_mapping_is_writable(m))
			add_sum(&p->writable, m);
		if (h2d_mapping_is_copied(p, m))
			add_sum(&p->copied, m);
	}
}

/* Files are numbered in the order in which they first appear. */
static void read_files(const char *root, struct h2d_process *p)
{
	size_t first = 0;

	for (size_t i = 0; i < p->file_count; i++) {
		struct h2d_mapped_file *f = &p->files[i];

		while (p->mappings[first].file != i)
			first++;
		h2d_mapped_file_read(root, p->task, &p->mappings[first], f);
		for (size_t k = first; f->checkpoint && k < p->mapping_count; k++)
			if (p->mappings[k].file == i)
				h2d_mapped_file_cache(root, f, &p->mappings[k]);
		/* A process can map more files than we may have open. */
		h2d_mapped_file_close(f);
	}
}

int h2d_process_read(const char *root, int pid, const struct h2d_log *log,
		     struct h2d_process *out)
{
	struct h2d_process again = {0};
	int err, rc;

	memset(out, 0, sizeof(*out));
	out->pid = pid;
	if (root && !root[0])
		root = NULL;
	err = read_stat(root, pid, out);
	if (err == -ENOENT || err == -ESRCH)
		return h2d_fail(log, H2D_E_NOT_FOUND, "there is no process %d", pid);
	if (err)
		return h2d_fail_errno(log, -err, "process %d", pid);
	find_task(root, out);
	read_status(root, out);
	rc = read_words(root, out);
	if (!rc)
		rc = read_mappings(root, out, log);
	if (rc)
		return rc;
	read_files(root, out);
	if (!root) {
		for (size_t i = 0; i < out->file_count; i++)
			h2d_mapped_file_note(out, (uint32_t)i);
		/* The same number may by now belong to another process. */
		out->exited =
			read_stat(root, pid, &again) || again.start_ticks != out->start_ticks;
	}
	sum_up(out);
	return 0;
}

void h2d_process_free(struct h2d_process *p)
{
	for (size_t i = 0; i < p->file_count; i++) {
		h2d_mapped_file_close(&p->files[i]);
		free(p->files[i].path);
	}
	for (size_t i = 0; i < p->word_count; i++)
		free(p->words[i]);
	free(p->words);
	free(p->files);
	free(p->mappings);
	memset(p, 0, sizeof(*p));
}

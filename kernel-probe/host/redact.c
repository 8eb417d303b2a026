/* SPDX-License-Identifier: Apache-2.0 */
#include "host/redact.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

/* "/proc/123/NAME" or "/proc/123/task/124/NAME", also below a sample. */
static bool of_process(const char *path, const char *name)
{
	const char *p = strstr(path, "/proc/");
	size_t digits;

	if (!p)
		return false;
	p += 6;
	digits = strspn(p, "0123456789");
	if (!digits)
		return false;
	p += digits;
	if (!strncmp(p, "/task/", 6))
		p += 6 + strspn(p + 6, "0123456789");
	return *p == '/' && !strcmp(p + 1, name);
}

static int replace(struct h2d_record *r, struct h2d_recorded *item, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return H2D_E_NOMEM;
	h2d_record_set(r, item, copy, strlen(copy));
	return 0;
}

/* Rewrite an item through a stream. */
struct rewriting {
	FILE *out;
	char *text;
	size_t bytes;
};

static int begin(struct rewriting *w)
{
	w->text = NULL;
	w->bytes = 0;
	w->out = open_memstream(&w->text, &w->bytes);
	return w->out ? 0 : H2D_E_NOMEM;
}

static int finish(struct rewriting *w, struct h2d_record *r, struct h2d_recorded *item)
{
	if (fclose(w->out)) {
		free(w->text);
		return H2D_E_NOMEM;
	}
	h2d_record_set(r, item, w->text, w->bytes);
	return 0;
}

/* ---- one kind after the other ---- */

static int command_line(struct h2d_record *r, struct h2d_recorded *item,
			const struct h2d_switches *s)
{
	struct rewriting w;
	size_t n;

	if (begin(&w))
		return H2D_E_NOMEM;
	for (size_t at = 0; at < item->bytes; at += n + 1) {
		const char *word = item->data + at, *part;
		size_t part_bytes;

		n = strlen(word);
		part = h2d_switches_match(s, word, &part_bytes);
		if (part)
			fprintf(w.out, "%.*s", (int)part_bytes, part);
		else
			fputs("redacted", w.out);
		fputc(0, w.out);
	}
	return finish(&w, r, item);
}

/* python, python3, python3.11 and nothing longer: the rest may be anybody's. */
static bool is_python(const char *name)
{
	static const char python[] = "python";

	if (strncmp(name, python, sizeof(python) - 1))
		return false;
	name += sizeof(python) - 1;
	return name[strspn(name, "0123456789.")] == 0;
}

/* The part of a name that says what runs, not whose it is. */
static const char *public_part(const struct h2d_switches *s, const char *name, size_t *bytes)
{
	*bytes = strlen(name);
	return is_python(name) ? name : h2d_switches_match(s, name, bytes);
}

/* "PID (name) …" */
static int stat_line(struct h2d_record *r, struct h2d_recorded *item,
		     const struct h2d_switches *s)
{
	const char *open = strchr(item->data, '('), *close = strrchr(item->data, ')'), *part;
	struct rewriting w;
	char name[64];
	size_t bytes;

	if (!open || !close || close < open)
		return replace(r, item, "");
	snprintf(name, sizeof(name), "%.*s", (int)(close - open - 1), open + 1);
	part = public_part(s, name, &bytes);
	if (begin(&w))
		return H2D_E_NOMEM;
	fprintf(w.out, "%.*s(%.*s%s", (int)(open - item->data), item->data,
		part ? (int)bytes : 7, part ? part : "process", close);
	return finish(&w, r, item);
}

/* What a mapping is called, behind five words, or NULL: a member of it, or nothing. */
static const char *mapping_name(const char *line, size_t n)
{
	const char *p = line, *end = line + n;

	if (!isdigit((unsigned char)line[0]) && (line[0] < 'a' || line[0] > 'f'))
		return NULL;
	for (int word = 0; word < 5; word++) {
		while (p < end && *p != ' ')
			p++;
		while (p < end && *p == ' ')
			p++;
	}
	return p < end ? p : NULL;
}

/* A name that a program gave to memory of its own is its text, not a file's. */
static bool is_given(const char *name, size_t n, const char *kind)
{
	size_t bytes = strlen(kind);

	return n >= bytes && !strncmp(name, kind, bytes);
}

/* Paths of mappings keep their last component. */
static int smaps_lines(struct h2d_record *r, struct h2d_recorded *item,
		       const struct h2d_switches *s)
{
	struct rewriting w;

	(void)s;
	if (begin(&w))
		return H2D_E_NOMEM;
	for (const char *line = item->data; *line;) {
		size_t n = strcspn(line, "\n"), left;
		const char *name = mapping_name(line, n), *last;

		left = name ? (size_t)(line + n - name) : 0;
		fprintf(w.out, "%.*s", (int)(n - left), line);
		last = left ? memrchr(name, '/', left) : NULL;
		if (is_given(name, left, "[anon"))
			fputs("[anon:redacted]", w.out);
		else if (is_given(name, left, "/memfd:"))
			fputs("/memfd:redacted", w.out);
		else if (last)
			fprintf(w.out, "/redacted%.*s", (int)(line + n - last), last);
		else
			fprintf(w.out, "%.*s", (int)left, left ? name : "");
		fputc('\n', w.out);
		line += n + (line[n] == '\n');
	}
	return finish(&w, r, item);
}

/* ---- lines of which a few are kept, or a few are not ---- */

static int some_lines(struct h2d_record *r, struct h2d_recorded *item, const char *const *keys,
		      bool keep)
{
	struct rewriting w;

	if (begin(&w))
		return H2D_E_NOMEM;
	for (const char *line = item->data; *line;) {
		size_t n = strcspn(line, "\n");
		bool named = false;

		for (size_t i = 0; keys[i]; i++)
			named |= !strncmp(line, keys[i], strlen(keys[i]));
		if (named == keep)
			fprintf(w.out, "%.*s\n", (int)n, line);
		line += n + (line[n] == '\n');
	}
	return finish(&w, r, item);
}

/* Of status only what the probes use. */
static int status_lines(struct h2d_record *r, struct h2d_recorded *item,
			const struct h2d_switches *s)
{
	static const char *const keys[] = {"NSpid:",
					   "VmSwap:",
					   "Rss",
					   "voluntary_ctxt_switches:",
					   "nonvoluntary_ctxt_switches:",
					   "Cpus_allowed_list:",
					   NULL};

	(void)s;
	return some_lines(r, item, keys, true);
}

/* Of a node of amdkfd what the probes use: unique_id names the board. */
static int node_lines(struct h2d_record *r, struct h2d_recorded *item)
{
	static const char *const keys[] = {"simd_count ", "cpu_cores_count ",
					   "gfx_target_version ", "capability ", NULL};

	return some_lines(r, item, keys, true);
}

/* On ARM and on some others the board's number stands there. */
static int cpu_lines(struct h2d_record *r, struct h2d_recorded *item)
{
	static const char *const keys[] = {"Serial", "serial", NULL};

	return some_lines(r, item, keys, false);
}

/* Of a module's parameters the numbers that change how memory is mapped and copied. */
static bool parameter_may_stay(const char *name, const char *value)
{
	static const char *const names[] = {"cwsr_enable",
					    "gartsize",
					    "gttsize",
					    "hws_max_conc_proc",
					    "max_num_of_queues_per_device",
					    "moverate",
					    "mtype_local",
					    "no_system_mem_limit",
					    "noretry",
					    "page_pool_size",
					    "pages_limit",
					    "pcie_p2p",
					    "sched_hw_submission",
					    "sched_jobs",
					    "sched_policy",
					    "vm_block_size",
					    "vm_fault_stop",
					    "vm_fragment_size",
					    "vm_size",
					    "vm_update_mode",
					    "vramlimit",
					    NULL};
	bool named = false;

	for (size_t i = 0; names[i]; i++)
		named |= !strcmp(name, names[i]);
	return named && value[strspn(value, "0123456789abcdefxYN-\n")] == 0;
}

/* "GPU UUID: …" and what else names one board. */
static int nvidia_lines(struct h2d_record *r, struct h2d_recorded *item)
{
	static const char *const keys[] = {"Model:", NULL};

	return some_lines(r, item, keys, true);
}

/* ---- control groups: "/user.slice/alice.scope" becomes "/g/g" ---- */

/* Groups that were met, each by its whole path; those of one depth are told apart by a number.
 */
struct groups {
	struct group {
		char *path;
		unsigned depth;
	} * items;
	size_t count;
};

static void free_groups(struct groups *g)
{
	for (size_t i = 0; i < g->count; i++)
		free(g->items[i].path);
	free(g->items);
}

/* @return its number among those of its depth, or -1 */
static int group_number(struct groups *g, const char *path, size_t n, unsigned depth)
{
	struct group *more;
	int number = 0;

	for (size_t i = 0; i < g->count; i++) {
		const struct group *item = &g->items[i];

		if (item->depth != depth)
			continue;
		if (strlen(item->path) == n && !memcmp(item->path, path, n))
			return number;
		number++;
	}
	more = h2d_mem->realloc(g->items, (g->count + 1) * sizeof(*more));
	if (!more)
		return -1;
	g->items = more;
	more[g->count].path = strndup(path, n);
	more[g->count].depth = depth;
	if (!more[g->count].path)
		return -1;
	g->count++;
	return number;
}

/* "/a/b", without what follows, as "/g/g3". */
static int write_group(struct groups *g, const char *path, size_t n, FILE *out)
{
	unsigned depth = 0;

	for (size_t end = 1; end <= n; end++) {
		int number;

		if (end < n && path[end] != '/')
			continue;
		number = group_number(g, path, end, ++depth);
		if (number < 0)
			return H2D_E_NOMEM;
		if (number)
			fprintf(out, "/g%d", number);
		else
			fputs("/g", out);
	}
	return 0;
}

/* The group's path in a text of "id:controllers:path" lines. */
static int group_lines(struct h2d_record *r, struct h2d_recorded *item, struct groups *g)
{
	struct rewriting w;
	int rc = 0, end;

	if (begin(&w))
		return H2D_E_NOMEM;
	for (const char *line = item->data; !rc && *line;) {
		size_t n = strcspn(line, "\n");
		const char *path = memchr(line, '/', n);

		fprintf(w.out, "%.*s", path ? (int)(path - line) : (int)n, line);
		if (path && path + 1 == line + n)
			fputc('/', w.out);
		else if (path)
			rc = write_group(g, path, (size_t)(line + n - path), w.out);
		fputc('\n', w.out);
		line += n + (line[n] == '\n');
	}
	end = finish(&w, r, item);
	return rc ? rc : end;
}

/* The same for the files of the groups themselves. */
static int group_path(struct h2d_recorded *item, struct groups *g)
{
	static const char *const mounts[] = {"/sys/fs/cgroup/memory/", "/sys/fs/cgroup/"};
	const char *rest = NULL, *last = strrchr(item->path, '/');
	struct rewriting w;
	int rc;

	for (size_t i = 0; i < 2 && !rest; i++)
		if (!strncmp(item->path, mounts[i], strlen(mounts[i])))
			rest = item->path + strlen(mounts[i]) - 1;
	if (!rest || rest == last)
		return 0;
	if (begin(&w))
		return H2D_E_NOMEM;
	fprintf(w.out, "%.*s", (int)(rest - item->path), item->path);
	rc = write_group(g, rest, (size_t)(last - rest), w.out);
	fputs(last, w.out);
	if (fclose(w.out))
		rc = H2D_E_NOMEM;
	if (rc) {
		free(w.text);
		return rc;
	}
	free(item->path);
	item->path = w.text;
	return 0;
}

/* ---- all of it ---- */

static int redact_item(struct h2d_record *r, struct h2d_recorded *item,
		       const struct h2d_switches *s, struct groups *g)
{
	static const struct {
		const char *name;
		int (*rewrite)(struct h2d_record *, struct h2d_recorded *,
			       const struct h2d_switches *);
	} rules[] = {
		{"cmdline", command_line}, {"stat", stat_line},	  {"status", status_lines},
		{"smaps", smaps_lines},	   {"maps", smaps_lines},
	};

	if (!strcmp(item->path, "/proc/sys/kernel/hostname"))
		return replace(r, item, "redacted\n");
	if (!strcmp(item->path, "/proc/cmdline"))
		return replace(r, item, "redacted\n");
	if (!strcmp(item->path, "/proc/self/cgroup") || of_process(item->path, "cgroup"))
		return group_lines(r, item, g);
	if (!strcmp(item->path, "/proc/self/status"))
		return status_lines(r, item, s);
	if (!strncmp(item->path, "/proc/driver/nvidia/", 20) &&
	    ends_with(item->path, "/information"))
		return nvidia_lines(r, item);
	if (!strcmp(item->path, "/proc/cpuinfo"))
		return cpu_lines(r, item);
	if (!strncmp(item->path, "/sys/class/kfd/", 15) && ends_with(item->path, "/properties"))
		return node_lines(r, item);
	if (!strncmp(item->path, "/sys/module/", 12) && strstr(item->path, "/parameters/") &&
	    !parameter_may_stay(strrchr(item->path, '/') + 1, item->data))
		return replace(r, item, "redacted\n");
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (of_process(item->path, rules[i].name))
			return rules[i].rewrite(r, item, s);
	return 0;
}

int h2d_redact(struct h2d_record *r, const struct h2d_switches *s)
{
	struct groups g = {0};
	int rc = 0;

	for (size_t i = 0; i < r->count && !rc; i++) {
		struct h2d_recorded *item = &r->items[i];

		rc = group_path(item, &g);
		if (!rc && item->kind == H2D_HOSTFS_TEXT && item->data)
			rc = redact_item(r, item, s, &g);
	}
	free_groups(&g);
	return rc;
}

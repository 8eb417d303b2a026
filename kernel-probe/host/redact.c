/* SPDX-License-Identifier: Apache-2.0 */
#include "host/redact.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Names that say what runs, not whose it is. */
static bool name_may_stay(const struct h2d_switches *s, const char *name, size_t n)
{
	char text[64];
	size_t part;

	if (n >= sizeof(text))
		return false;
	memcpy(text, name, n);
	text[n] = 0;
	return !strncmp(text, "python", 6) || h2d_switches_match(s, text, &part);
}

/* "PID (name) …" */
static int stat_line(struct h2d_record *r, struct h2d_recorded *item,
		     const struct h2d_switches *s)
{
	const char *open = strchr(item->data, '('), *close = strrchr(item->data, ')');
	struct rewriting w;

	if (!open || !close || close < open ||
	    name_may_stay(s, open + 1, (size_t)(close - open - 1)))
		return 0;
	if (begin(&w))
		return H2D_E_NOMEM;
	fprintf(w.out, "%.*s(process%s", (int)(open - item->data), item->data, close);
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
	struct rewriting w;

	(void)s;
	if (begin(&w))
		return H2D_E_NOMEM;
	for (const char *line = item->data; *line;) {
		size_t n = strcspn(line, "\n");

		for (size_t i = 0; keys[i]; i++)
			if (!strncmp(line, keys[i], strlen(keys[i])))
				fprintf(w.out, "%.*s\n", (int)n, line);
		line += n + (line[n] == '\n');
	}
	return finish(&w, r, item);
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
		size_t n = strcspn(line, "\n");
		const char *path = memchr(line, '/', n), *last = path;

		if (path &&
		    (isdigit((unsigned char)line[0]) || (line[0] >= 'a' && line[0] <= 'f'))) {
			for (const char *p = path; p < line + n; p++)
				if (*p == '/')
					last = p;
			fprintf(w.out, "%.*s/redacted%.*s\n", (int)(path - line), line,
				(int)(line + n - last), last);
		} else {
			fprintf(w.out, "%.*s\n", (int)n, line);
		}
		line += n + (line[n] == '\n');
	}
	return finish(&w, r, item);
}

/* "GPU UUID: …" and what else names one board. */
static int nvidia_lines(struct h2d_record *r, struct h2d_recorded *item,
			const struct h2d_switches *s)
{
	struct rewriting w;

	(void)s;
	if (begin(&w))
		return H2D_E_NOMEM;
	for (const char *line = item->data; *line;) {
		size_t n = strcspn(line, "\n");

		if (!strncmp(line, "Model:", 6))
			fprintf(w.out, "%.*s\n", (int)n, line);
		line += n + (line[n] == '\n');
	}
	return finish(&w, r, item);
}

/* ---- control groups: "/user.slice/alice.scope" becomes "/g/g" ---- */

/* The group's path in a text of "id:controllers:path" lines; every line gets its depth only. */
static int group_lines(struct h2d_record *r, struct h2d_recorded *item,
		       const struct h2d_switches *s)
{
	struct rewriting w;

	(void)s;
	if (begin(&w))
		return H2D_E_NOMEM;
	for (const char *line = item->data; *line;) {
		size_t n = strcspn(line, "\n");
		const char *path = memchr(line, '/', n);

		if (!path) {
			fprintf(w.out, "%.*s\n", (int)n, line);
		} else if (path + 1 == line + n) {
			fprintf(w.out, "%.*s/\n", (int)(path - line), line);
		} else {
			fprintf(w.out, "%.*s", (int)(path - line), line);
			for (const char *p = path; p < line + n; p++)
				if (*p == '/')
					fputs("/g", w.out);
			fputc('\n', w.out);
		}
		line += n + (line[n] == '\n');
	}
	return finish(&w, r, item);
}

/* The same for the files of the groups themselves. */
static int group_path(struct h2d_recorded *item)
{
	static const char *const mounts[] = {"/sys/fs/cgroup/memory/", "/sys/fs/cgroup/"};
	char path[H2D_HOSTFS_PATH_BYTES], *copy;
	const char *rest = NULL, *last = strrchr(item->path, '/');

	for (size_t i = 0; i < 2 && !rest; i++)
		if (!strncmp(item->path, mounts[i], strlen(mounts[i])))
			rest = item->path + strlen(mounts[i]) - 1;
	if (!rest || rest == last)
		return 0;
	snprintf(path, sizeof(path), "%.*s", (int)(rest - item->path), item->path);
	for (const char *p = rest; p < last; p++)
		if (*p == '/')
			strncat(path, "/g", sizeof(path) - strlen(path) - 1);
	strncat(path, last, sizeof(path) - strlen(path) - 1);
	copy = strdup(path);
	if (!copy)
		return H2D_E_NOMEM;
	free(item->path);
	item->path = copy;
	return 0;
}

/* ---- all of it ---- */

static int redact_item(struct h2d_record *r, struct h2d_recorded *item,
		       const struct h2d_switches *s)
{
	static const struct {
		const char *name;
		int (*rewrite)(struct h2d_record *, struct h2d_recorded *,
			       const struct h2d_switches *);
	} rules[] = {
		{"cmdline", command_line}, {"stat", stat_line},	  {"status", status_lines},
		{"smaps", smaps_lines},	   {"maps", smaps_lines}, {"cgroup", group_lines},
	};

	if (!strcmp(item->path, "/proc/sys/kernel/hostname"))
		return replace(r, item, "redacted\n");
	if (!strcmp(item->path, "/proc/cmdline"))
		return replace(r, item, "redacted\n");
	if (!strcmp(item->path, "/proc/self/cgroup"))
		return group_lines(r, item, s);
	if (!strcmp(item->path, "/proc/self/status"))
		return status_lines(r, item, s);
	if (!strncmp(item->path, "/proc/driver/nvidia/", 20) &&
	    ends_with(item->path, "/information"))
		return nvidia_lines(r, item, s);
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (of_process(item->path, rules[i].name))
			return rules[i].rewrite(r, item, s);
	return 0;
}

int h2d_redact(struct h2d_record *r, const struct h2d_switches *s)
{
	int rc = 0;

	for (size_t i = 0; i < r->count && !rc; i++) {
		struct h2d_recorded *item = &r->items[i];

		rc = group_path(item);
		if (!rc && item->kind == H2D_HOSTFS_TEXT && item->data)
			rc = redact_item(r, item, s);
	}
	return rc;
}

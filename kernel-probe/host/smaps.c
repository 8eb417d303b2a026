/* SPDX-License-Identifier: Apache-2.0 */
#include "host/smaps.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One line, cut at the buffer; what is left of a longer one is skipped. */
static bool read_line(struct h2d_smaps_reader *r)
{
	size_t n;
	int c;

	if (!fgets(r->line, sizeof(r->line), r->in)) {
		r->error = ferror(r->in) ? errno : 0;
		return false;
	}
	n = strlen(r->line);
	if (n && r->line[n - 1] == '\n') {
		r->line[n - 1] = 0;
	} else {
		do
			c = getc(r->in);
		while (c != EOF && c != '\n');
	}
	return true;
}

void h2d_unescape_octal(char *text)
{
	char *out = text;

	for (const char *p = text; *p; p++) {
		if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7' &&
		    p[3] >= '0' && p[3] <= '7') {
			*out++ = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
			p += 3;
		} else {
			*out++ = *p;
		}
	}
	*out = 0;
}

/* "begin-end perms offset major:minor inode   path" */
static bool parse_head(const char *line, struct h2d_vma *v)
{
	static const char gone[] = " (deleted)";
	int at = 0;
	size_t n;

	memset(v, 0, sizeof(*v));
	if (!isxdigit((unsigned char)line[0]) ||
	    sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 "%n",
		   &v->begin, &v->end, v->permissions, &v->offset_bytes, &v->device_major,
		   &v->device_minor, &v->inode, &at) != 7 ||
	    v->end <= v->begin || strlen(v->permissions) != 4)
		return false;
	line += at;
	line += strspn(line, " ");
	n = strlen(line);
	if (n > sizeof(gone) - 1 && !strcmp(line + n - (sizeof(gone) - 1), gone)) {
		v->deleted = true;
		n -= sizeof(gone) - 1;
	}
	if (n >= sizeof(v->path))
		n = sizeof(v->path) - 1;
	memcpy(v->path, line, n);
	v->path[n] = 0;
	/* Of all characters the kernel escapes newlines only. */
	h2d_unescape_octal(v->path);
	return true;
}

static void parse_flags(const char *list, struct h2d_vma *v)
{
	static const struct {
		char name[3];
		unsigned advice;
	} flags[] = {{"rr", H2D_ADVICE_RANDOM},	 {"sr", H2D_ADVICE_SEQUENTIAL},
		     {"hg", H2D_ADVICE_HUGE},	 {"nh", H2D_ADVICE_NO_HUGE},
		     {"dc", H2D_ADVICE_NO_FORK}, {"lo", H2D_ADVICE_LOCKED},
		     {"dd", H2D_ADVICE_NO_DUMP}};

	v->seen |= H2D_SMAPS_FLAGS;
	while (*list) {
		size_t n;

		list += strspn(list, " ");
		n = strcspn(list, " ");
		for (size_t i = 0; n == 2 && i < sizeof(flags) / sizeof(flags[0]); i++)
			if (!strncmp(list, flags[i].name, 2))
				v->advice |= flags[i].advice;
		list += n;
	}
}

static void parse_member(const char *line, struct h2d_vma *v)
{
	const struct {
		const char *name;
		uint64_t *value;
		unsigned seen;
	} members[] = {
		{"Rss:", &v->present_bytes, H2D_SMAPS_RSS},
		{"Anonymous:", &v->anonymous_bytes, H2D_SMAPS_ANONYMOUS},
		{"Swap:", &v->swap_bytes, H2D_SMAPS_SWAP},
		{"AnonHugePages:", &v->huge_bytes, H2D_SMAPS_HUGE},
		{"ShmemPmdMapped:", &v->huge_bytes, H2D_SMAPS_HUGE},
		{"FilePmdMapped:", &v->huge_bytes, H2D_SMAPS_HUGE},
		{"Private_Dirty:", &v->private_dirty_bytes, 0},
		{"Shared_Clean:", &v->shared_bytes, 0},
		{"Shared_Dirty:", &v->shared_bytes, 0},
	};

	if (!strncmp(line, "VmFlags:", 8)) {
		parse_flags(line + 8, v);
		return;
	}
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		size_t n = strlen(members[i].name);
		uint64_t kib;

		if (strncmp(line, members[i].name, n))
			continue;
		kib = strtoull(line + n, NULL, 10);
		if (kib > UINT64_MAX / 2048)
			return;
		*members[i].value += kib * 1024;
		v->seen |= members[i].seen;
		return;
	}
}

int h2d_smaps_next(struct h2d_smaps_reader *r, struct h2d_vma *vma)
{
	if (r->failed)
		return -1;
	if (!r->have_line && !read_line(r))
		return 0;
	r->have_line = false;
	if (!parse_head(r->line, vma)) {
		r->failed = true;
		return -1;
	}
	if (r->keep)
		fprintf(r->keep, "%s\n", r->line);
	while (read_line(r)) {
		/* Members begin with a capital letter, a mapping with a hexadecimal digit. */
		if (isxdigit((unsigned char)r->line[0]) &&
		    !isupper((unsigned char)r->line[0])) {
			r->have_line = true;
			break;
		}
		parse_member(r->line, vma);
		if (r->keep)
			fprintf(r->keep, "%s\n", r->line);
	}
	return 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "repro/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"

#define PRESENT	  (UINT64_C(1) << 63)
#define SWAPPED	  (UINT64_C(1) << 62)
#define FILE_PAGE (UINT64_C(1) << 61)
#define EXCLUSIVE (UINT64_C(1) << 56)
#define FRAME	  ((UINT64_C(1) << 55) - 1)

static bool is_present(const void *entries, uint64_t i)
{
	return ((const uint64_t *)entries)[i] & PRESENT;
}

static bool is_replaced(const void *entries, uint64_t i)
{
	const uint64_t e = ((const uint64_t *)entries)[i];

	return (e & PRESENT) && ((e & FILE_PAGE) || !(e & EXCLUSIVE));
}

void h2d_pages_count(const uint64_t *entries, uint64_t count, uint64_t address,
		     uint64_t page_bytes, struct h2d_page_state *out)
{
	memset(out, 0, sizeof(*out));
	out->page_bytes = page_bytes;
	out->page_count = count;
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t e = entries[i];

		if (e & PRESENT) {
			out->present_count++;
			if (e & FILE_PAGE)
				out->file_count++;
			else
				out->anonymous_count++;
			if (!(e & FILE_PAGE) && (e & EXCLUSIVE))
				out->exclusive_count++;
			if (i && (entries[i - 1] & PRESENT) && (e & FRAME) &&
			    (e & FRAME) == (entries[i - 1] & FRAME) + 1)
				out->contiguous_count++;
		} else if (e & SWAPPED) {
			out->swapped_count++;
		}
	}
	out->span_count = h2d_spans_touched(address, count * page_bytes);
	out->present_span_count =
		h2d_spans_holding(address, count, page_bytes, is_present, entries);
	out->replaced_span_count =
		h2d_spans_holding(address, count, page_bytes, is_replaced, entries);
}

static int read_exactly(int fd, void *buf, size_t bytes, uint64_t offset)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = pread(fd, (char *)buf + done, bytes - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -EIO;
		done += (size_t)n;
	}
	return 0;
}

int h2d_pages_read(const void *address, uint64_t bytes, const struct h2d_log *log,
		   struct h2d_page_state *out)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t count = bytes / page + !!(bytes % page);
	uint64_t *entries;
	int fd, err, rc = 0;

	memset(out, 0, sizeof(*out));
	if ((uintptr_t)address % page || count > SIZE_MAX / sizeof(*entries))
		return h2d_fail(log, H2D_E_INVALID, "pagemap: range is not made of pages");
	entries = h2d_mem->malloc((size_t)count * sizeof(*entries) + 1);
	if (!entries)
		return h2d_fail(log, H2D_E_NOMEM, "pagemap: %" PRIu64 " entries", count);
	fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		rc = h2d_fail_errno(log, errno, "/proc/self/pagemap");
		goto out;
	}
	err = read_exactly(fd, entries, (size_t)count * sizeof(*entries),
			   (uintptr_t)address / page * sizeof(*entries));
	close(fd);
	if (err)
		rc = h2d_fail_errno(log, -err, "/proc/self/pagemap");
	else
		h2d_pages_count(entries, count, (uintptr_t)address, page, out);
out:
	free(entries);
	return rc;
}

/* "7f00-7f10 rw-p 0000 …": true when the line starts a mapping. */
static bool parse_head(const char *line, uint64_t *begin, uint64_t *end, char permissions[5])
{
	char *rest;

	if (!strchr("0123456789abcdef", line[0]) || !line[0])
		return false;
	*begin = strtoull(line, &rest, 16);
	if (*rest != '-')
		return false;
	*end = strtoull(rest + 1, &rest, 16);
	if (*rest != ' ' || strlen(rest) < 6 || rest[5] != ' ')
		return false;
	memcpy(permissions, rest + 1, 4);
	permissions[4] = 0;
	return true;
}

static void add_field(const char *line, struct h2d_smaps *out)
{
	const struct {
		const char *name;
		uint64_t *sum;
	} fields[] = {
		{"Rss:", &out->rss_bytes},
		{"Anonymous:", &out->anonymous_bytes},
		{"Swap:", &out->swap_bytes},
		{"AnonHugePages:", &out->huge_bytes},
		{"ShmemPmdMapped:", &out->huge_bytes},
		{"FilePmdMapped:", &out->huge_bytes},
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const size_t n = strlen(fields[i].name);

		if (!strncmp(line, fields[i].name, n))
			*fields[i].sum += strtoull(line + n, NULL, 10) << 10;
	}
}

int h2d_smaps_parse(FILE *text, uint64_t begin, uint64_t end, struct h2d_smaps *out)
{
	char *line = NULL, permissions[5];
	uint64_t first, last;
	size_t room = 0;
	bool inside = false;

	memset(out, 0, sizeof(*out));
	while (getline(&line, &room, text) > 0) {
		if (!parse_head(line, &first, &last, permissions)) {
			if (inside)
				add_field(line, out);
			continue;
		}
		inside = first < end && last > begin;
		if (!inside)
			continue;
		if (!out->map_count++) {
			memcpy(out->permissions, permissions, sizeof(permissions));
			out->begin = first;
		} else if (strcmp(out->permissions, permissions)) {
			memcpy(out->permissions, "?", 2);
		}
		out->end = last;
	}
	free(line);
	return out->map_count ? 0 : H2D_E_FORMAT;
}

int h2d_smaps_read(const void *address, uint64_t bytes, const struct h2d_log *log,
		   struct h2d_smaps *out)
{
	FILE *text = fopen("/proc/self/smaps", "re");
	int rc;

	memset(out, 0, sizeof(*out));
	if (!text)
		return h2d_fail_errno(log, errno, "/proc/self/smaps");
	setvbuf(text, NULL, _IOFBF, 64 << 10);
	rc = h2d_smaps_parse(text, (uintptr_t)address, (uintptr_t)address + bytes, out);
	if (ferror(text))
		rc = h2d_fail(log, H2D_E_IO, "/proc/self/smaps: cannot be read");
	else if (rc)
		rc = h2d_fail(log, rc, "/proc/self/smaps: no mapping at %p", address);
	fclose(text);
	return rc;
}

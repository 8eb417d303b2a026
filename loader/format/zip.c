/* SPDX-License-Identifier: Apache-2.0 */
#include "format/zip.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"
#include "format/order.h"
#include "format/reader.h"

enum {
	END_BYTES = 22,
	COMMENT_MAX_BYTES = 65535,
	LOCATOR_BYTES = 20,
	END64_BYTES = 56,
	ENTRY_BYTES = 46,
	LOCAL_BYTES = 30,
	WINDOW_BYTES = 128 * 1024, /* more than a header with the longest name */
	DENSE_BYTES = 4096,
	EXTRA_ZIP64 = 1,
	FLAG_ENCRYPTED = 0x0001,
	FLAG_STRONG = 0x0040,
	FLAG_MASKED = 0x2000, /* the directory itself is encrypted */
};

static uint16_t u16(const unsigned char *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32(const unsigned char *p)
{
	return u16(p) | (uint32_t)u16(p + 2) << 16;
}

static uint64_t u64(const unsigned char *p)
{
	return u32(p) | (uint64_t)u32(p + 4) << 32;
}

/* ---- the end of the archive */

/* Numbers of the end record, and what ZIP64 made of them. */
struct end {
	uint64_t at, disk, directory_disk, entries_here, entries, bytes, offset;
};

/* The end record nearest to the end of the file whose comment reaches exactly to it. */
static bool scan_end(const unsigned char *buf, size_t bytes, uint64_t base, struct end *end)
{
	for (size_t i = bytes < END_BYTES ? 0 : bytes - END_BYTES + 1; i-- > 0;) {
		const unsigned char *p = buf + i;

		if (memcmp(p, "PK\5\6", 4) || i + END_BYTES + u16(p + 20) != bytes)
			continue;
		end->at = base + i;
		end->disk = u16(p + 4);
		end->directory_disk = u16(p + 6);
		end->entries_here = u16(p + 8);
		end->entries = u16(p + 10);
		end->bytes = u32(p + 12);
		end->offset = u32(p + 16);
		return true;
	}
	return false;
}

static int find_end(struct h2d_reader *r, struct end *end)
{
	uint64_t size = r->p->file->id.size_bytes;
	size_t tail = size < END_BYTES + COMMENT_MAX_BYTES ? (size_t)size
							   : END_BYTES + COMMENT_MAX_BYTES;
	unsigned char *buf = h2d_mem->malloc(tail + 1);
	int rc;

	if (!buf)
		return h2d_reader_nomem(r);
	rc = h2d_file_read(r->p->file, buf, tail, size - tail, r->p->log);
	if (!rc && !scan_end(buf, tail, size - tail, end))
		rc = h2d_reader_fail(r, size,
				     "no end record of a zip archive (is the file cut short?)");
	free(buf);
	return rc;
}

/* A saturated number is replaced; any other must say the same, or readers would differ. */
static bool widen(uint64_t *narrow, uint64_t saturated, uint64_t wide)
{
	if (*narrow != saturated)
		return *narrow == wide;
	*narrow = wide;
	return true;
}

static int read_end64(struct h2d_reader *r, struct end *end)
{
	unsigned char loc[LOCATOR_BYTES], rec[END64_BYTES];
	uint64_t at;
	int rc;

	if (end->at < LOCATOR_BYTES)
		return 0;
	rc = h2d_file_read(r->p->file, loc, sizeof(loc), end->at - LOCATOR_BYTES, r->p->log);
	if (rc || memcmp(loc, "PK\6\7", 4))
		return rc;
	at = u64(loc + 8);
	if (u32(loc + 4) || u32(loc + 16) > 1)
		return h2d_reader_fail(r, end->at - LOCATOR_BYTES,
				       "the archive spans several disks");
	if (end->at - LOCATOR_BYTES < END64_BYTES || at > end->at - LOCATOR_BYTES - END64_BYTES)
		return h2d_reader_fail(
			r, end->at - LOCATOR_BYTES,
			"the ZIP64 end record is said to lie at %llu, not before "
			"its locator",
			(unsigned long long)at);
	rc = h2d_file_read(r->p->file, rec, sizeof(rec), at, r->p->log);
	if (rc)
		return rc;
	if (memcmp(rec, "PK\6\6", 4))
		return h2d_reader_fail(r, at, "no ZIP64 end record where its locator points");
	if (!widen(&end->disk, UINT16_MAX, u32(rec + 16)) ||
	    !widen(&end->directory_disk, UINT16_MAX, u32(rec + 20)) ||
	    !widen(&end->entries_here, UINT16_MAX, u64(rec + 24)) ||
	    !widen(&end->entries, UINT16_MAX, u64(rec + 32)) ||
	    !widen(&end->bytes, UINT32_MAX, u64(rec + 40)) ||
	    !widen(&end->offset, UINT32_MAX, u64(rec + 48)))
		return h2d_reader_fail(r, at, "the two end records contradict each other");
	end->at = at;
	return 0;
}

/* ---- the directory */

static int check_end(struct h2d_reader *r, const struct end *end)
{
	if (end->disk || end->directory_disk || end->entries_here != end->entries)
		return h2d_reader_fail(r, end->at, "the archive spans several disks");
	if (end->offset > end->at || end->bytes > end->at - end->offset)
		return h2d_reader_fail(
			r, end->at, "a directory of %llu bytes at %llu passes its end record",
			(unsigned long long)end->bytes, (unsigned long long)end->offset);
	if (end->entries > end->bytes / ENTRY_BYTES)
		return h2d_reader_fail(
			r, end->at, "%llu entries cannot fit in a directory of %llu bytes",
			(unsigned long long)end->entries, (unsigned long long)end->bytes);
	return 0;
}

/* ZIP64 values stand in the extra field in this order, each only where its number in the entry
 * is saturated. */
static int widen_entry(struct h2d_reader *r, struct h2d_zip_record *rec, uint64_t *packed,
		       uint32_t disk, const unsigned char *x, size_t n)
{
	uint64_t *field[] = {&rec->size_bytes, packed, &rec->header_offset};
	bool found = false;

	while (n >= 4) {
		size_t len = u16(x + 2);
		const unsigned char *v = x + 4;

		if (len > n - 4)
			break;
		n -= 4 + len;
		x += 4 + len;
		if (u16(v - 4) != EXTRA_ZIP64)
			continue;
		if (found)
			return h2d_reader_fail(r, rec->entry_offset, "two ZIP64 extra fields");
		found = true;
		for (unsigned i = 0; i < 3; i++) {
			if (*field[i] != UINT32_MAX)
				continue;
			if (len < 8)
				return h2d_reader_fail(r, rec->entry_offset,
						       "its ZIP64 extra field is too short");
			*field[i] = u64(v);
			v += 8;
			len -= 8;
		}
		if (disk == UINT16_MAX && len >= 4)
			disk = u32(v);
	}
	if (n)
		return h2d_reader_fail(r, rec->entry_offset, "its extra field is damaged");
	if (!found && (rec->size_bytes == UINT32_MAX || *packed == UINT32_MAX ||
		       rec->header_offset == UINT32_MAX))
		return h2d_reader_fail(r, rec->entry_offset,
				       "its ZIP64 extra field is missing");
	if (disk)
		return h2d_reader_fail(r, rec->entry_offset, "it lies on another disk");
	return 0;
}

/* Everything lives in one folder, as PyTorch writes it; the first entry says in which. */
static int take_name(struct h2d_zip *zip, struct h2d_reader *r, struct h2d_zip_record *rec,
		     const char *name, size_t bytes)
{
	const char *slash = memchr(name, '/', bytes);

	h2d_reader_subject(r, "record", name, bytes);
	if (memchr(name, 0, bytes))
		return h2d_reader_fail(r, rec->entry_offset, "its name holds a NUL");
	if (!zip->top) {
		if (!slash || slash == name)
			return h2d_reader_fail(r, rec->entry_offset,
					       "it is not in a folder: not an archive of "
					       "PyTorch");
		zip->top = name;
		zip->top_bytes = (size_t)(slash - name) + 1;
	}
	if (bytes < zip->top_bytes || memcmp(name, zip->top, zip->top_bytes))
		return h2d_reader_fail(r, rec->entry_offset,
				       "it is not in the one top folder of the archive");
	rec->name = name + zip->top_bytes;
	rec->name_bytes = bytes - zip->top_bytes;
	return 0;
}

static int read_entry(struct h2d_zip *zip, struct h2d_reader *r, struct h2d_zip_record *rec)
{
	unsigned char e[ENTRY_BYTES], *text;
	size_t name_bytes, extra_bytes, comment_bytes;
	uint64_t packed;
	int rc;

	memset(rec, 0, sizeof(*rec));
	rec->entry_offset = r->pos;
	h2d_reader_subject(r, "directory", NULL, 0);
	rc = h2d_reader_read(r, e, sizeof(e), "an entry");
	if (rc)
		return rc;
	if (memcmp(e, "PK\1\2", 4))
		return h2d_reader_fail(r, rec->entry_offset, "no entry where one must be");
	rec->flags = u16(e + 8);
	rec->method = u16(e + 10);
	packed = u32(e + 20);
	rec->size_bytes = u32(e + 24);
	name_bytes = u16(e + 28);
	extra_bytes = u16(e + 30);
	comment_bytes = u16(e + 32);
	rec->header_offset = u32(e + 42);
	text = h2d_arena_alloc(&zip->arena, name_bytes + extra_bytes + comment_bytes + 1);
	if (!text)
		return h2d_reader_nomem(r);
	rc = h2d_reader_read(r, text, name_bytes + extra_bytes + comment_bytes, "an entry");
	if (!rc)
		rc = take_name(zip, r, rec, (char *)text, name_bytes);
	if (!rc)
		rc = widen_entry(r, rec, &packed, u16(e + 34), text + name_bytes, extra_bytes);
	if (rc)
		return rc;
	text[name_bytes] = 0;
	if (rec->flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED))
		return h2d_reader_fail(r, rec->entry_offset, "it is encrypted");
	if (!rec->method && packed != rec->size_bytes)
		return h2d_reader_fail(r, rec->entry_offset,
				       "it is stored, but its two sizes differ (%llu and %llu)",
				       (unsigned long long)packed,
				       (unsigned long long)rec->size_bytes);
	if (rec->method)
		rec->size_bytes = packed; /* what it takes of the file */
	return 0;
}

static int read_directory(struct h2d_zip *zip, struct h2d_reader *r, uint64_t count)
{
	size_t bytes;
	int rc;

	if (!h2d_mul_size((size_t)count, sizeof(*zip->records), &bytes))
		return h2d_reader_nomem(r);
	zip->records = h2d_mem->malloc(bytes ? bytes : 1);
	if (!zip->records)
		return h2d_reader_nomem(r);
	for (; zip->count < count; zip->count++) {
		rc = read_entry(zip, r, &zip->records[zip->count]);
		if (rc)
			return rc;
	}
	h2d_reader_subject(r, "directory", NULL, 0);
	if (h2d_reader_left(r))
		return h2d_reader_fail(r, r->pos, "%llu bytes behind its last entry",
				       (unsigned long long)h2d_reader_left(r));
	return 0;
}

/* ---- the records */

/* What was read last. Small records lie so close that one read serves many headers. */
struct window {
	unsigned char *data; /* WINDOW_BYTES */
	uint64_t begin;
	size_t bytes;
};

/* The `need` bytes at `at`, with more behind them when `dense`. */
static int peek(struct h2d_zip *zip, struct h2d_reader *r, struct window *w, uint64_t at,
		size_t need, bool dense, const unsigned char **p)
{
	uint64_t left = zip->directory_offset - at;
	int rc;

	if (at < w->begin || at - w->begin > w->bytes || need > w->bytes - (at - w->begin)) {
		w->begin = at;
		w->bytes = !dense ? need : left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
		rc = h2d_file_read(r->p->file, w->data, w->bytes, at, r->p->log);
		if (rc)
			return rc;
	}
	*p = w->data + (at - w->begin);
	return 0;
}

/* The local header only says where the bytes begin, and must not name another record. */
static int locate(struct h2d_zip *zip, struct h2d_reader *r, struct h2d_zip_record *rec,
		  struct window *w, bool dense)
{
	const unsigned char *buf;
	size_t name_bytes = zip->top_bytes + rec->name_bytes;
	uint64_t end;
	int rc;

	h2d_reader_subject(r, "record", rec->name, rec->name_bytes);
	if (!h2d_add_u64(rec->header_offset, LOCAL_BYTES + name_bytes, &end) ||
	    end > zip->directory_offset)
		return h2d_reader_fail(r, rec->entry_offset,
				       "its header at %llu does not lie before the directory",
				       (unsigned long long)rec->header_offset);
	rc = peek(zip, r, w, rec->header_offset, LOCAL_BYTES + name_bytes, dense, &buf);
	if (rc)
		return rc;
	if (memcmp(buf, "PK\3\4", 4))
		return h2d_reader_fail(r, rec->header_offset,
				       "no local header where it must be");
	if (u16(buf + 6) & FLAG_ENCRYPTED)
		return h2d_reader_fail(r, rec->header_offset, "it is encrypted");
	if (u16(buf + 8) != rec->method || u16(buf + 26) != name_bytes ||
	    memcmp(buf + LOCAL_BYTES, zip->top, zip->top_bytes) ||
	    memcmp(buf + LOCAL_BYTES + zip->top_bytes, rec->name, rec->name_bytes))
		return h2d_reader_fail(r, rec->header_offset,
				       "its local header contradicts the directory");
	rec->offset_bytes = end + u16(buf + 28);
	if (!h2d_add_u64(rec->offset_bytes, rec->size_bytes, &end) ||
	    end > zip->directory_offset)
		return h2d_reader_fail(r, rec->header_offset,
				       "its %llu bytes do not end before the directory",
				       (unsigned long long)rec->size_bytes);
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct h2d_zip_record *x = a, *y = b;

	return x->header_offset < y->header_offset ? -1 : x->header_offset > y->header_offset;
}

static int locate_all(struct h2d_zip *zip, struct h2d_reader *r)
{
	struct window w = {.data = h2d_mem->malloc(WINDOW_BYTES)};
	struct h2d_zip_record *rec = zip->records;
	int rc = 0;

	if (!w.data)
		return h2d_reader_nomem(r);
	qsort(rec, zip->count, sizeof(*rec), by_place);
	for (uint64_t i = 0; i < zip->count && !rc; i++)
		rc = locate(zip, r, &rec[i], &w,
			    i + 1 < zip->count &&
				    rec[i + 1].header_offset - rec[i].header_offset <
					    DENSE_BYTES);
	free(w.data);
	if (rc)
		return rc;
	for (uint64_t i = 1; i < zip->count; i++) {
		const struct h2d_zip_record *a = &zip->records[i - 1], *b = a + 1;
		struct h2d_shown shown;

		if (a->offset_bytes + a->size_bytes <= b->header_offset)
			continue;
		h2d_reader_subject(r, "record", b->name, b->name_bytes);
		return h2d_reader_fail(r, b->header_offset, "it overlaps record \"%s\"",
				       h2d_show_name(&shown, a->name, a->name_bytes));
	}
	return 0;
}

static uint64_t slot_of(const struct h2d_zip *zip, const char *name, size_t bytes)
{
	uint64_t i = h2d_order_hash(zip->cat, name, bytes) & zip->table_mask;

	for (; zip->table[i]; i = (i + 1) & zip->table_mask) {
		const struct h2d_zip_record *rec = &zip->records[zip->table[i] - 1];

		if (rec->name_bytes == bytes && !memcmp(rec->name, name, bytes))
			break;
	}
	return i;
}

static int index_names(struct h2d_zip *zip, struct h2d_reader *r)
{
	uint64_t slots = 16;

	while (slots < 2 * zip->count)
		slots *= 2;
	zip->table = h2d_mem->calloc(slots, sizeof(*zip->table));
	if (!zip->table)
		return h2d_reader_nomem(r);
	zip->table_mask = slots - 1;
	for (uint64_t i = 0; i < zip->count; i++) {
		const struct h2d_zip_record *rec = &zip->records[i];
		uint64_t slot = slot_of(zip, rec->name, rec->name_bytes);

		h2d_reader_subject(r, "record", rec->name, rec->name_bytes);
		if (zip->table[slot])
			return h2d_reader_fail(r, rec->entry_offset,
					       "two records have this name");
		zip->table[slot] = i + 1;
	}
	return 0;
}

int h2d_zip_open(struct h2d_zip *zip, const struct h2d_parse *p)
{
	struct h2d_reader r;
	struct end end = {0};
	int rc;

	memset(zip, 0, sizeof(*zip));
	zip->cat = p->cat;
	h2d_reader_init(&r, p, 0, p->file->id.size_bytes);
	h2d_reader_subject(&r, "archive", NULL, 0);
	rc = find_end(&r, &end);
	if (!rc)
		rc = read_end64(&r, &end);
	if (!rc)
		rc = check_end(&r, &end);
	if (rc)
		return rc;
	zip->directory_offset = end.offset;
	zip->directory_bytes = end.bytes;
	h2d_reader_init(&r, p, end.offset, end.offset + end.bytes);
	r.region = "directory";
	rc = read_directory(zip, &r, end.entries);
	if (!rc)
		rc = locate_all(zip, &r);
	if (!rc)
		rc = index_names(zip, &r);
	h2d_reader_free(&r);
	return rc;
}

void h2d_zip_free(struct h2d_zip *zip)
{
	free(zip->records);
	free(zip->table);
	h2d_arena_free(&zip->arena);
	memset(zip, 0, sizeof(*zip));
}

const struct h2d_zip_record *h2d_zip_find(const struct h2d_zip *zip, const char *name,
					  size_t name_bytes)
{
	uint64_t slot;

	if (!zip->table)
		return NULL;
	slot = zip->table[slot_of(zip, name, name_bytes)];
	return slot ? &zip->records[slot - 1] : NULL;
}

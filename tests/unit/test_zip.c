/* SPDX-License-Identifier: Apache-2.0 */
#include "format/zip.h"
#include "torch_fixture.h"

static struct h2d_zip zip;

/* The archive alone, in the form of a parser. */
static int open_zip(struct h2d_parse *p)
{
	int rc = h2d_zip_open(&zip, p);

	h2d_zip_free(&zip);
	return rc;
}

static int open_and_keep(struct h2d_parse *p)
{
	return h2d_zip_open(&zip, p);
}

static void three(struct zip_maker *z, enum zip_style style)
{
	*z = (struct zip_maker){.style = style};
	zip_add(z, "data.pkl", "pickle", 6);
	zip_add(z, "data/0", "zero", 4);
	zip_add(z, "data/1", "", 0);
}

#define REJECT(part)                                                                           \
	do {                                                                                   \
		CHECK_REJECTED(open_zip, &b, part);                                            \
		bytes_free(&b);                                                                \
	} while (0)

static void set_u16(struct bytes *b, uint64_t at, unsigned v)
{
	uint16_t w = (uint16_t)v;

	memcpy(b->data + at, &w, 2);
}

static void set_u32(struct bytes *b, uint64_t at, uint32_t v)
{
	memcpy(b->data + at, &v, 4);
}

static void set_u64(struct bytes *b, uint64_t at, uint64_t v)
{
	memcpy(b->data + at, &v, 8);
}

/* ---- tests */

static void styles(void)
{
	struct bytes b = {0};
	struct zip_maker z;
	struct outcome o;

	for (unsigned i = 0; i < 4; i++) {
		const struct h2d_zip_record *rec;

		three(&z, i & 1 ? ZIP_113 : ZIP_NEW);
		z.zip64 = i & 2;
		zip_make(&z, &b);
		parse(open_and_keep, b.data, b.n, &o);
		REQUIRE(o.rc == 0);
		CHECK_EQ(zip.count, 3);
		CHECK(zip.top_bytes == 8 && !memcmp(zip.top, "archive/", 8));
		for (unsigned k = 0; k < 3; k++) {
			rec = h2d_zip_find(&zip, z.file[k].name, strlen(z.file[k].name));
			REQUIRE(rec);
			CHECK_EQ(rec->size_bytes, z.file[k].n);
			CHECK_EQ(rec->offset_bytes, z.file[k].begin);
			CHECK_EQ(rec->offset_bytes % 64, 0);
		}
		CHECK(!h2d_zip_find(&zip, "data/2", 6));
		CHECK(!h2d_zip_find(&zip, "data/", 5));
		h2d_zip_free(&zip);
		outcome_free(&o);
		bytes_free(&b);
	}
}

/* Records near each other and far apart, so that headers are read together and one by one. */
static void near_and_far(void)
{
	static const unsigned char big[200000];
	const size_t size[] = {5, 100, 9000, 7, 150000, 3, 4096, 2};
	char name[8][16];
	struct bytes b = {0};
	struct zip_maker z = {.style = ZIP_113};
	struct outcome o;

	for (unsigned i = 0; i < 8; i++) {
		snprintf(name[i], sizeof(name[i]), "data/%u", i);
		zip_add(&z, name[i], big, size[i]);
	}
	zip_make(&z, &b);
	parse(open_and_keep, b.data, b.n, &o);
	REQUIRE(o.rc == 0);
	for (unsigned i = 0; i < 8; i++) {
		const struct h2d_zip_record *rec = h2d_zip_find(&zip, name[i], 6);

		REQUIRE(rec);
		CHECK_EQ(rec->offset_bytes, z.file[i].begin);
		CHECK_EQ(rec->size_bytes, size[i]);
	}
	h2d_zip_free(&zip);
	outcome_free(&o);
	check_reads(open_zip, &b);
	bytes_free(&b);
}

/* A comment, also one that looks like an end record of its own. */
static void comments(void)
{
	struct bytes b = {0};
	struct zip_maker z;

	three(&z, ZIP_NEW);
	zip_make(&z, &b);
	set_u16(&b, b.n - 2, 300);
	put_fill(&b, 'c', 300);
	CHECK_ACCEPTED(open_zip, &b);
	memcpy(b.data + b.n - 100, "PK\5\6", 4); /* its own length does not fit */
	CHECK_ACCEPTED(open_zip, &b);
	put_u8(&b, 0);
	REJECT("no end record");
	three(&z, ZIP_NEW);
	zip_make(&z, &b);
	set_u16(&b, b.n - 2, 65535);
	put_fill(&b, 'c', 65535);
	CHECK_ACCEPTED(open_zip, &b);
	bytes_free(&b);
}

static void bad_ends(void)
{
	struct bytes b = {0};
	struct zip_maker z;

	put_fill(&b, 0, 21);
	REJECT("no end record");
	put_fill(&b, 0, 70000);
	REJECT("no end record");
	three(&z, ZIP_NEW);
#define AGAIN()                                                                                \
	do {                                                                                   \
		bytes_free(&b);                                                                \
		three(&z, ZIP_NEW);                                                            \
		zip_make(&z, &b);                                                              \
	} while (0)
	AGAIN();
	set_u16(&b, b.n - 12, 4);
	REJECT("contradict");
	AGAIN();
	set_u32(&b, b.n - 6, 0);
	REJECT("contradict");
	AGAIN();
	set_u64(&b, b.n - 34, b.n);
	REJECT("not before its locator");
	AGAIN();
	set_u64(&b, b.n - 34, z.end - 4);
	REJECT("no ZIP64 end record");
	AGAIN();
	set_u32(&b, b.n - 26, 2);
	REJECT("several disks");
	AGAIN();
	set_u16(&b, b.n - 18, 1);
	REJECT("contradict");
	/* Without ZIP64 records: numbers are believed and checked. */
	AGAIN();
	set_u32(&b, b.n - 42, 0);
	CHECK_ACCEPTED(open_zip, &b);
	set_u16(&b, b.n - 18, 1);
	REJECT("several disks");
	AGAIN();
	set_u32(&b, b.n - 42, 0);
	set_u32(&b, b.n - 6, (uint32_t)b.n);
	REJECT("passes its end record");
	AGAIN();
	set_u32(&b, b.n - 42, 0);
	set_u32(&b, b.n - 10, UINT32_MAX);
	REJECT("passes its end record");
	AGAIN();
	set_u32(&b, b.n - 42, 0);
	set_u16(&b, b.n - 12, 1000);
	set_u16(&b, b.n - 14, 1000);
	REJECT("cannot fit");
	AGAIN();
	set_u32(&b, b.n - 42, 0);
	set_u16(&b, b.n - 12, 2);
	set_u16(&b, b.n - 14, 2);
	REJECT("behind its last entry");
	AGAIN();
	set_u32(&b, b.n - 42, 0);
	set_u32(&b, b.n - 10, (uint32_t)(z.end - z.directory) - 1);
	REJECT("the directory ends inside an entry");
	bytes_free(&b);
}

static void bad_entries(void)
{
	struct bytes b = {0};
	struct zip_maker z;

	/* Single fields of the first entry of the directory. */
	static const struct {
		unsigned at, value;
		const char *part;
	} field[] = {
		{0, 0, "no entry where one must be"},
		{8, 1, "encrypted"},
		{8, 0x41, "encrypted"},
		{8, 0x2000, "encrypted"},
		{10, 8, "contradicts the directory"},
		{20, 7, "its two sizes differ"},
		{34, 1, "another disk"},
		{42, 1, "no local header"},
		{42, 0xffff, "does not lie before the directory"},
	};
	for (unsigned i = 0; i < sizeof(field) / sizeof(field[0]); i++) {
		three(&z, ZIP_113);
		zip_make(&z, &b);
		set_u16(&b, z.directory + field[i].at, field[i].value);
		REJECT(field[i].part);
	}
	three(&z, ZIP_113);
	zip_make(&z, &b);
	set_u32(&b, z.directory + 20, 1000);
	set_u32(&b, z.directory + 24, 1000);
	REJECT("record \"data.pkl\": its 1000 bytes do not end before the directory");
	three(&z, ZIP_113);
	zip_make(&z, &b);
	set_u32(&b, z.directory + 20, 100);
	set_u32(&b, z.directory + 24, 100);
	REJECT("record \"data/0\": it overlaps record \"data.pkl\"");
	three(&z, ZIP_113);
	zip_make(&z, &b);
	set_u32(&b, z.directory + 24, UINT32_MAX);
	REJECT("its ZIP64 extra field is missing");
	three(&z, ZIP_113);
	z.zip64 = true;
	zip_make(&z, &b);
	set_u16(&b, z.directory + 46 + 16 + 2, 16);
	REJECT("its ZIP64 extra field is too short");
	three(&z, ZIP_113);
	z.zip64 = true;
	zip_make(&z, &b);
	set_u16(&b, z.directory + 46 + 16 + 2, 25);
	REJECT("its extra field is damaged");
	three(&z, ZIP_113);
	z.zip64 = true;
	zip_make(&z, &b);
	set_u64(&b, z.directory + 46 + 16 + 4 + 16, UINT64_MAX - 10);
	REJECT("does not lie before the directory");
	three(&z, ZIP_113);
	z.zip64 = true;
	zip_make(&z, &b);
	set_u64(&b, z.directory + 46 + 16 + 4, UINT64_MAX - 10);
	set_u64(&b, z.directory + 46 + 16 + 12, UINT64_MAX - 10);
	REJECT("do not end before the directory");
	three(&z, ZIP_NEW);
	z.local_flags = 1;
	zip_make(&z, &b);
	REJECT("record \"data/1\": it is encrypted");
	three(&z, ZIP_NEW);
	z.local_method = 8;
	zip_make(&z, &b);
	REJECT("contradicts the directory");
	three(&z, ZIP_NEW);
	z.local_name = "archive/data/9";
	zip_make(&z, &b);
	REJECT("contradicts the directory");
	three(&z, ZIP_NEW);
	z.local_name = "archive/data/11";
	zip_make(&z, &b);
	REJECT("contradicts the directory");
}

static void names(void)
{
	struct bytes b = {0};
	struct zip_maker z;

	three(&z, ZIP_NEW);
	zip_add(&z, "data/0", "again", 5);
	zip_make(&z, &b);
	REJECT("record \"data/0\": two records have this name");
	three(&z, ZIP_NEW);
	z.top = "";
	zip_make(&z, &b);
	REJECT("not in a folder");
	three(&z, ZIP_NEW);
	z.top = "/";
	zip_make(&z, &b);
	REJECT("not in a folder");
	/* The last record in another folder. */
	three(&z, ZIP_NEW);
	zip_make(&z, &b);
	b.data[z.file[2].header + 30] = 'b';
	b.data[z.end - 14] = 'b';
	REJECT("not in the one top folder");
	three(&z, ZIP_NEW);
	zip_make(&z, &b);
	b.data[z.end - 1] = 0;
	REJECT("holds a NUL");
}

/* Two entries that share one local header: a duplicate under another name. */
static void same_place(void)
{
	struct bytes b = {0};
	struct zip_maker z;

	three(&z, ZIP_NEW);
	zip_make(&z, &b);
	set_u32(&b, z.end - 14 - 4, (uint32_t)z.file[1].header);
	REJECT("contradicts the directory");
}

static void faults(void)
{
	struct bytes b = {0};
	struct zip_maker z;

	three(&z, ZIP_113);
	zip_make(&z, &b);
	check_truncation(open_zip, &b, b.n);
	check_allocations(open_zip, &b);
	check_reads(open_zip, &b);
	bytes_free(&b);
}

int main(void)
{
	RUN(styles);
	RUN(near_and_far);
	RUN(comments);
	RUN(bad_ends);
	RUN(bad_entries);
	RUN(names);
	RUN(same_place);
	RUN(faults);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_repro */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "repro/known.h"
#include "repro/pages.h"
#include "test.h"

#define PRESENT	  (UINT64_C(1) << 63)
#define SWAPPED	  (UINT64_C(1) << 62)
#define FILE_PAGE (UINT64_C(1) << 61)
#define EXCLUSIVE (UINT64_C(1) << 56)

static const uint64_t base = UINT64_C(0x7f0000000000);

static void entries_are_counted(void)
{
	const uint64_t entries[] = {
		PRESENT | FILE_PAGE,
		PRESENT | FILE_PAGE | EXCLUSIVE,
		PRESENT | EXCLUSIVE,
		PRESENT,
		SWAPPED,
		0,
		FILE_PAGE,
		EXCLUSIVE,
	};
	struct h2d_page_state s;

	h2d_pages_count(entries, 8, base, 4096, &s);
	CHECK_EQ(s.page_count, 8);
	CHECK_EQ(s.present_count, 4);
	CHECK_EQ(s.file_count, 2);
	CHECK_EQ(s.anonymous_count, 2);
	CHECK_EQ(s.exclusive_count, 1);
	CHECK_EQ(s.swapped_count, 1);
	CHECK_EQ(s.span_count, 1);
	CHECK_EQ(s.replaced_span_count, 1);
}

/* Which kind of page makes its span wait. */
static void what_a_write_replaces(void)
{
	static const struct {
		uint64_t entry;
		uint64_t replaced;
	} kinds[] = {
		{PRESENT | FILE_PAGE, 1},
		{PRESENT | FILE_PAGE | EXCLUSIVE, 1},
		{PRESENT, 1},
		{PRESENT | EXCLUSIVE, 0},
		{0, 0},
		{SWAPPED, 0},
		{FILE_PAGE, 0},
	};
	static uint64_t entries[4 * 512];
	struct h2d_page_state s;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		memset(entries, 0, sizeof(entries));
		entries[700] = kinds[i].entry;
		h2d_pages_count(entries, 4 * 512, base, 4096, &s);
		CHECK_EQ(s.replaced_span_count, kinds[i].replaced);
		CHECK_EQ(s.span_count, 4);
	}
	/* One in each span: all of them, and one more when shifted over a boundary. */
	memset(entries, 0, sizeof(entries));
	for (size_t i = 0; i < 4; i++)
		entries[i * 512 + 511] = PRESENT | FILE_PAGE;
	h2d_pages_count(entries, 4 * 512, base, 4096, &s);
	CHECK_EQ(s.replaced_span_count, 4);
	CHECK_EQ(s.present_count, 4);
	h2d_pages_count(entries, 4 * 512, base + 4096, 4096, &s);
	CHECK_EQ(s.span_count, 5);
	CHECK_EQ(s.replaced_span_count, 4);
	h2d_pages_count(entries, 0, base, 4096, &s);
	CHECK_EQ(s.span_count, 0);
}

static int parse(const char *text, uint64_t begin, uint64_t end, struct h2d_smaps *out)
{
	FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int rc = h2d_smaps_parse(f, begin, end, out);

	fclose(f);
	return rc;
}

static const char smaps[] =
	"7f1000000000-7f1000200000 rw-p 00000000 fe:01 42   /a/file (deleted)\n"
	"Size:               2048 kB\nRss:                1024 kB\nPss:  512 kB\n"
	"Anonymous:           256 kB\nAnonHugePages:         0 kB\nShmemPmdMapped: 0 kB\n"
	"FilePmdMapped:         0 kB\nSwap:                  8 kB\nSwapPss: 4 kB\n"
	"VmFlags: rd wr mr mw me\n"
	"7f1000200000-7f1000400000 r--p 00200000 fe:01 42   /a/file\n"
	"Rss:                2048 kB\nAnonymous:             0 kB\nFilePmdMapped:      2048 "
	"kB\n"
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]\n"
	"Rss:                   0 kB\n";

static void smaps_is_read(void)
{
	struct h2d_smaps s;

	REQUIRE(!parse(smaps, 0x7f1000000000, 0x7f1000200000, &s));
	CHECK_STR(s.permissions, "rw-p");
	CHECK_EQ(s.map_count, 1);
	CHECK_EQ(s.begin, 0x7f1000000000);
	CHECK_EQ(s.end, 0x7f1000200000);
	CHECK_EQ(s.rss_bytes, 1024 << 10);
	CHECK_EQ(s.anonymous_bytes, 256 << 10);
	CHECK_EQ(s.swap_bytes, 8 << 10);
	CHECK_EQ(s.huge_bytes, 0);

	REQUIRE(!parse(smaps, 0x7f10001ff000, 0x7f1000201000, &s));
	CHECK_STR(s.permissions, "?");
	CHECK_EQ(s.map_count, 2);
	CHECK_EQ(s.rss_bytes, 3072 << 10);
	CHECK_EQ(s.huge_bytes, 2048 << 10);

	CHECK_EQ(parse(smaps, 0x7f1000400000, 0x7f1000401000, &s), H2D_E_FORMAT);
	CHECK_EQ(parse("\n", 0, UINT64_MAX, &s), H2D_E_FORMAT);
	CHECK_EQ(parse("7f10-7f20 rw\nRss: 4 kB\n", 0, UINT64_MAX, &s), H2D_E_FORMAT);
}

static void own_mapping(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 16 * page;
	unsigned char *p =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct h2d_page_state s;
	struct h2d_smaps m;

	REQUIRE(p != MAP_FAILED);
	/* A smaller mapping inside, so that it does not merge with a neighbour. */
	REQUIRE(!mprotect(p, page, PROT_NONE));
	REQUIRE(!mprotect(p + 15 * page, page, PROT_NONE));
	madvise(p, bytes, MADV_NOHUGEPAGE);
	p[3 * page] = 1;
	p[4 * page] = 1;
	if (h2d_pages_read(p, bytes, NULL, &s))
		SKIP("no /proc/self/pagemap here");
	CHECK_EQ(s.page_count, 16);
	CHECK_EQ(s.present_count, 2);
	CHECK_EQ(s.anonymous_count, 2);
	REQUIRE(!h2d_smaps_read(p + page, 14 * page, NULL, &m));
	CHECK_STR(m.permissions, "rw-p");
	CHECK_EQ(m.begin, (uintptr_t)p + page);
	CHECK_EQ(m.end, (uintptr_t)p + 15 * page);
	CHECK_EQ(m.anonymous_bytes, 2 * page);
	CHECK(h2d_pages_read(p + 1, page, NULL, &s) == H2D_E_INVALID);
	munmap(p, bytes);
	CHECK(h2d_smaps_read(p, page, NULL, &m) < 0);
}

static void known_bytes(void)
{
	static unsigned char whole[10000], part[10000];

	h2d_known_fill(whole, sizeof(whole), 0);
	for (uint64_t at = 0; at < 40; at++)
		for (uint64_t n = 0; n < 40; n++) {
			h2d_known_fill(part, n, at);
			CHECK(!memcmp(part, whole + at, n));
			CHECK(h2d_known_compare(whole + at, n, at) == UINT64_MAX);
		}
	whole[5000] ^= 1;
	CHECK_EQ(h2d_known_compare(whole, sizeof(whole), 0), 5000);
	CHECK_EQ(h2d_known_compare(whole + 4990, 100, 4990), 10);
	whole[9999] ^= 1;
	CHECK_EQ(h2d_known_compare(whole + 9000, 1000, 9000), 999);
}

static void known_file(void)
{
	char path[] = "/tmp/h2d-test-known-XXXXXX";
	struct h2d_known_file f;
	unsigned char data[5000];
	int fd = mkstemp(path);

	REQUIRE(fd >= 0);
	close(fd);
	/* An existing file is never touched. */
	CHECK_EQ(h2d_known_file_make(path, 100, NULL, &f), H2D_E_INVALID);
	unlink(path);
	REQUIRE(!h2d_known_file_make(path, 5000, NULL, &f));
	CHECK(access(path, F_OK) < 0);
	CHECK_EQ(pread(f.fd, data, sizeof(data), 0), 5000);
	CHECK(h2d_known_compare(data, 5000, 0) == UINT64_MAX);
	h2d_known_file_close(&f);
	CHECK_EQ(f.fd, -1);
	REQUIRE(!h2d_known_file_make("/tmp", 4096, NULL, &f));
	h2d_known_file_close(&f);
	h2d_known_file_close(&f);
	CHECK_EQ(h2d_known_file_make("/proc/none/x", 1, NULL, &f), H2D_E_NOT_FOUND);
	CHECK_EQ(h2d_known_file_make("/dev/full/x", 1, NULL, &f), H2D_E_NOT_FOUND);
}

int main(void)
{
	RUN(entries_are_counted);
	RUN(what_a_write_replaces);
	RUN(smaps_is_read);
	RUN(known_bytes);
	RUN(known_file);
	RUN(own_mapping);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Sample modules whose policy is known: as they are, compressed, cut, damaged, of another
 * machine, signed, and inside a package. */
#include <archive.h>
#include <archive_entry.h>
#include <elf.h>

#include "inspect/inspect.h"
#include "unit/scratch.h"
#include "unit/test.h"

static const struct h2d_log quiet = {.fn = scratch_log_fn};

static const struct {
	const char *name;
	enum h2d_retry_policy policy;
} samples[] = {
	{"gcc-refresh-chunks.ko", H2D_RETRY_REFRESH},
	{"gcc-refresh-locked.ko", H2D_RETRY_REFRESH},
	{"gcc-stale-chunks.ko", H2D_RETRY_STALE},
	{"gcc-stale-locked.ko", H2D_RETRY_STALE},
	{"gcc-no_retry-chunks.ko", H2D_RETRY_NONE},
	{"gcc-no_retry-locked.ko", H2D_RETRY_NONE},
	{"clang-refresh-helper.ko", H2D_RETRY_REFRESH},
	{"clang-stale-helper.ko", H2D_RETRY_STALE},
	{"clang-no_retry-helper.ko", H2D_RETRY_NONE},
	{"gcc-no_clock-chunks.ko", H2D_RETRY_UNKNOWN},
	{"gcc-pointer-locked.ko", H2D_RETRY_UNKNOWN},
	{"gcc-twice-cold.ko", H2D_RETRY_UNKNOWN},
};

static uint8_t *read_sample(const char *name, size_t *bytes)
{
	const char *top = getenv("H2D_SOURCE_DIR");
	static uint8_t buffer[1 << 16];
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/inspect/%s", top ? top : ".", name);
	f = fopen(path, "rb");
	if (!f)
		SKIP("the samples are not here (set H2D_SOURCE_DIR)");
	*bytes = fread(buffer, 1, sizeof(buffer), f);
	fclose(f);
	return buffer;
}

static void policies(void)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
		struct h2d_module_report *r;
		size_t bytes, verdicts = 0;
		uint8_t *data = read_sample(samples[i].name, &bytes);

		REQUIRE(!h2d_inspect_bytes(samples[i].name, data, bytes, &quiet, &r));
		CHECK_STR(h2d_retry_policy_name(r->retry_policy),
			  h2d_retry_policy_name(samples[i].policy));
		CHECK((r->retry_policy == H2D_RETRY_UNKNOWN) == (r->retry_why[0] != 0));
		CHECK_STR(r->machine, "x86_64");
		for (size_t k = 0; k < r->evidence_count; k++) {
			const struct h2d_inspect_evidence *e = &r->evidence[k];

			verdicts += !strcmp(e->kind, "verdict");
			CHECK(e->section[0] && e->statement[0]);
		}
		CHECK(verdicts >= 1);
		h2d_module_report_free(r);
	}
}

/* Evidence is such that a disassembler shows the same. */
static void evidence(void)
{
	struct h2d_module_report *r;
	bool busy = false, clock = false, cycle = false;
	size_t bytes;
	uint8_t *data = read_sample("gcc-stale-chunks.ko", &bytes);

	REQUIRE(!h2d_inspect_bytes("x.ko", data, bytes, &quiet, &r));
	for (size_t i = 0; i < r->evidence_count; i++) {
		const struct h2d_inspect_evidence *e = &r->evidence[i];

		busy |= !strcmp(e->kind, "busy_test");
		clock |= !strcmp(e->kind, "clock");
		cycle |= !strcmp(e->kind, "cycle");
		if (!strcmp(e->kind, "call") && strstr(e->statement, "hmm_range_fault"))
			CHECK_STR(e->function, "amdgpu_hmm_range_get_pages");
	}
	CHECK(busy && clock && cycle);
	CHECK(r->timeout.is_known && !r->timeout.is_scaled);
	CHECK_EQ(r->timeout.jiffies, 250);
	CHECK_EQ(r->callers[H2D_CALLER_SVM].rule, H2D_PERMISSION_VMA);
	CHECK_EQ(r->callers[H2D_CALLER_USERPTR].rule, H2D_PERMISSION_ACCESS);
	CHECK(r->callers[H2D_CALLER_SVM].is_present);
	h2d_module_report_free(r);
}

static void other_machine(void)
{
	struct h2d_module_report *r;
	size_t bytes;
	uint8_t *data = read_sample("gcc-stale-chunks.ko", &bytes);

	data[offsetof(Elf64_Ehdr, e_machine)] = EM_AARCH64;
	REQUIRE(!h2d_inspect_bytes("x.ko", data, bytes, &quiet, &r));
	CHECK_STR(r->machine, "aarch64");
	CHECK_EQ(r->retry_policy, H2D_RETRY_UNKNOWN);
	CHECK_STR(r->retry_why, "machine code of aarch64 is not read");
	h2d_module_report_free(r);
}

/* Modules cut anywhere are refused: their table of sections stands at the end. */
static void cut(void)
{
	size_t bytes;
	uint8_t *data = read_sample("gcc-refresh-chunks.ko", &bytes);

	for (size_t n = 0; n < bytes; n += 7) {
		struct h2d_module_report *r = NULL;

		CHECK_EQ(h2d_inspect_bytes("cut.ko", data, n, &quiet, &r), H2D_E_FORMAT);
		CHECK(!r);
	}
}

/* One bit changed at a time: nothing but that it ends, without a fault. */
static void damaged(void)
{
	static uint8_t copy[1 << 16];
	size_t bytes;
	uint8_t *data = read_sample("gcc-stale-locked.ko", &bytes);

	memcpy(copy, data, bytes);
	for (size_t at = 0; at < bytes; at += 11) {
		struct h2d_module_report *r = NULL;
		uint8_t old = copy[at];

		copy[at] ^= (uint8_t)(1u << at % 8);
		h2d_inspect_bytes("damaged.ko", copy, bytes, &quiet, &r);
		h2d_module_report_free(r);
		copy[at] = old;
	}
	CHECK(!memcmp(copy, data, bytes));
}

/* ---- compressed ---- */

static size_t pack(int (*filter)(struct archive *), const void *data, size_t bytes, void *out,
		   size_t cap)
{
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();
	size_t used = 0;
	int err;

	archive_write_set_format_raw(a);
	err = filter(a) || archive_write_open_memory(a, out, cap, &used);
	archive_entry_set_filetype(e, AE_IFREG);
	err = err || archive_write_header(a, e);
	/* In pieces, so that large ones need no memory. */
	for (size_t done = 0; !err && done < bytes;) {
		size_t n = bytes - done < 1 << 16 ? bytes - done : 1 << 16;

		err = archive_write_data(a, data, n) != (la_ssize_t)n;
		done += n;
	}
	archive_entry_free(e);
	archive_write_close(a);
	archive_write_free(a);
	return err ? 0 : used;
}

static const struct {
	const char *name;
	int (*filter)(struct archive *);
} filters[] = {{"xz", archive_write_add_filter_xz},
	       {"zstd", archive_write_add_filter_zstd},
	       {"gzip", archive_write_add_filter_gzip}};

static uint8_t packed[1 << 20];

static void compressed(void)
{
	size_t bytes, n;
	uint8_t *data = read_sample("gcc-stale-chunks.ko", &bytes);

	for (unsigned i = 0; i < 3; i++) {
		struct h2d_module_report *r = NULL;

		n = pack(filters[i].filter, data, bytes, packed, sizeof(packed));
		REQUIRE(n);
		REQUIRE(!h2d_inspect_bytes("x.ko", packed, n, &quiet, &r));
		CHECK_EQ(r->retry_policy, H2D_RETRY_STALE);
		CHECK_STR(r->compression, filters[i].name);
		h2d_module_report_free(r);
		CHECK_EQ(h2d_inspect_bytes("x.ko", packed, n / 2, &quiet, &r), H2D_E_FORMAT);
		packed[n / 2] ^= 0x55;
		if (!h2d_inspect_bytes("x.ko", packed, n, &quiet, &r))
			h2d_module_report_free(r);
	}
}

/* 160 MiB of zeros in a few KiB: given up at 64 MiB and something. */
static void bomb(void)
{
	static const uint8_t zeros[1 << 16];

	for (unsigned i = 1; i < 3; i++) {
		struct h2d_module_report *r = NULL;
		size_t n = pack(filters[i].filter, zeros, 160u << 20, packed, sizeof(packed));

		REQUIRE(n);
		CHECK_EQ(h2d_inspect_bytes("bomb.ko", packed, n, &quiet, &r), H2D_E_FORMAT);
		CHECK(strstr(scratch_line, "unpacks to more than"));
	}
}

/* ---- what a module says about itself ---- */

static void signed_module(void)
{
	static const char text[] = "~Module signature appended~\n";
	struct h2d_module_report *r;
	size_t bytes;
	uint8_t *data = read_sample("gcc-refresh-chunks.ko", &bytes);
	uint8_t *p = data + bytes;

	/* OID of a common name and its string, then struct module_signature. */
	memcpy(p, "\x06\x03\x55\x04\x03\x0c\x06signer", 13);
	memset(p + 13, 0, 12);
	p[13 + 11] = 13;
	memcpy(p + 25, text, sizeof(text) - 1);
	bytes += 25 + sizeof(text) - 1;
	REQUIRE(!h2d_inspect_bytes("/lib/modules/x/kernel/drivers/amdgpu.ko", data, bytes,
				   &quiet, &r));
	CHECK(r->is_signed);
	CHECK_STR(r->signer, "signer");
	CHECK_EQ(r->retry_policy, H2D_RETRY_REFRESH);
	/* Where the kernel's own would be, but not marked as such. */
	CHECK_EQ(r->origin, H2D_ORIGIN_REBUILT);
	h2d_module_report_free(r);
	/* A length that leads outside. */
	p[13 + 8] = 0xff;
	REQUIRE(!h2d_inspect_bytes("/lib/modules/x/updates/dkms/amdgpu.ko", data, bytes, &quiet,
				   &r));
	CHECK(r->is_signed && !r->signer[0]);
	CHECK_EQ(r->origin, H2D_ORIGIN_DKMS);
	h2d_module_report_free(r);
}

static void not_modules(void)
{
	static const char *const texts[] = {"", "\177ELF", "text", "\x1f\x8b", "!<arch>\n"};
	struct h2d_module_report *r = NULL;

	for (unsigned i = 0; i < 5; i++)
		CHECK_EQ(h2d_inspect_bytes("x", texts[i], strlen(texts[i]), &quiet, &r),
			 H2D_E_FORMAT);
	CHECK_EQ(h2d_inspect_file("/nonexistent/x.ko", &quiet, &r), H2D_E_NOT_FOUND);
	CHECK_EQ(h2d_inspect_file("/dev/null", &quiet, &r), H2D_E_FORMAT);
	CHECK_EQ(h2d_inspect_file("/proc/self/exe", &quiet, &r), H2D_E_FORMAT);
	CHECK(strstr(scratch_line, "not a relocatable file"));
}

int main(void)
{
	RUN(policies);
	RUN(evidence);
	RUN(other_machine);
	RUN(cut);
	RUN(damaged);
	RUN(compressed);
	RUN(bomb);
	RUN(signed_module);
	RUN(not_modules);
	return TEST_DONE();
}

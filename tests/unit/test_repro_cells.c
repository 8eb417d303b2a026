/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_repro */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "repro/cells.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)

static struct h2d_known_file file;

static bool pagemap_works(void)
{
	struct h2d_page_state s;
	static char here[2 * 4096];
	uintptr_t page = ((uintptr_t)here + 4095) & ~(uintptr_t)4095;

	*(volatile char *)page = 1;
	return !h2d_pages_read((void *)page, 4096, NULL, &s) && s.present_count == 1;
}

/* What the law says of each cell of 4 MiB, placed where it may be. */
static void every_cell_reaches_its_state(void)
{
	for (const struct h2d_cell *c = h2d_cells; c->name; c++) {
		struct h2d_cell_map m;

		if (c->source == H2D_CELL_PINNED)
			continue;
		REQUIRE(!h2d_cell_map(c, &file, NULL, 4 * MIB, NULL, &m));
		if (m.invalid[0])
			fprintf(stderr, "  %s: %s\n", c->name, m.invalid);
		CHECK_STR(m.invalid, "");
		CHECK_STR(m.smaps.permissions, c->permissions);
		CHECK_EQ(m.pages.page_count * m.pages.page_bytes, 4 * MIB);
		if (c->waits)
			CHECK_EQ(m.expected_windows, m.pages.span_count);
		else
			CHECK_EQ(m.expected_windows, 0);
		CHECK_EQ(m.expected_anon_bytes, c->moves ? 4 * MIB : 0);
		h2d_cell_retire(&m);
		CHECK_EQ(m.child, 0);
		h2d_cell_unmap(&m);
	}
}

static void placement(void)
{
	struct h2d_cell_map m;

	REQUIRE(!h2d_cell_map(h2d_cell_find("rw-shifted"), &file, NULL, 4 * MIB, NULL, &m));
	CHECK_EQ((uintptr_t)m.data % (2 * MIB), sysconf(_SC_PAGESIZE));
	CHECK_EQ(m.expected_windows, 3);
	h2d_cell_unmap(&m);
	REQUIRE(!h2d_cell_map(h2d_cell_find("anon-forked"), &file, NULL, 4 * MIB, NULL, &m));
	CHECK_EQ((uintptr_t)m.data % (2 * MIB), 0);
	CHECK_EQ(m.expected_windows, 2);
	CHECK(m.child > 0);
	h2d_cell_unmap(&m);
}

static void sparse_is_sparse(void)
{
	struct h2d_cell_map m;

	REQUIRE(!h2d_cell_map(h2d_cell_find("rw-sparse"), &file, NULL, 4 * MIB, NULL, &m));
	CHECK(m.pages.present_count < m.pages.page_count / 4);
	CHECK_EQ(m.expected_windows, m.pages.span_count);
	h2d_cell_unmap(&m);
}

/* A cell that claims another state than the kernel shows is invalid, whichever part differs. */
static void wrong_states_are_invalid(void)
{
	const struct h2d_cell right = *h2d_cell_find("rw-present");
	struct h2d_cell wrong[] = {right, right, right, right, right, right, right};
	struct h2d_cell_map m;

	wrong[0].prepare = H2D_PREPARE_NOTHING;
	wrong[1].presence = H2D_PRESENCE_NONE;
	wrong[2].presence = H2D_PRESENCE_SPARSE;
	wrong[3].flags = 0;
	wrong[4].pages = H2D_PAGES_OWN;
	wrong[5].waits = false;
	wrong[6].flags |= H2D_CELL_HUGE;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		REQUIRE(!h2d_cell_map(&wrong[i], &file, NULL, 4 * MIB, NULL, &m));
		CHECK(m.invalid[0]);
		if (!m.invalid[0])
			fprintf(stderr, "  wrong state %zu passed\n", i);
		h2d_cell_unmap(&m);
	}
}

static void the_bytes_are_there(void)
{
	static const char *const names[] = {"ro-present",  "rw-absent",	   "anon",
					    "anon-forked", "rw-populated", "rw-shifted"};
	struct h2d_cell_map m;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		REQUIRE(!h2d_cell_map(h2d_cell_find(names[i]), &file, NULL, MIB, NULL, &m));
		CHECK(h2d_known_compare(m.data, MIB, 0) == UINT64_MAX);
		h2d_cell_unmap(&m);
	}
	REQUIRE(!h2d_cell_map(h2d_cell_find("anon-zero-page"), &file, NULL, MIB, NULL, &m));
	CHECK(!m.data[0] && !m.data[MIB - 1]);
	h2d_cell_unmap(&m);
}

/* Nothing can take the address of a cell that was measured. */
static void retired_addresses_stay_taken(void)
{
	struct h2d_cell_map m;
	void *p;

	REQUIRE(!h2d_cell_map(h2d_cell_find("rw-present"), &file, NULL, MIB, NULL, &m));
	m.data[0] = 1;
	h2d_cell_retire(&m);
	p = mmap(m.data, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		 0);
	CHECK(p == MAP_FAILED);
	/* The private copy is gone, the file shows through. */
	CHECK(h2d_known_compare(m.data, MIB, 0) == UINT64_MAX);
	h2d_cell_unmap(&m);
}

static void names(void)
{
	static const char *const contract[] = {
		"ro-present", "ro-absent",	"rw-absent",   "rw-present",
		"anon",	      "anon-zero-page", "anon-forked", "pinned",
		"rw-then-ro", "rw-populated",	"rw-sparse",   "rw-shifted",
	};

	for (size_t i = 0; i < 12; i++) {
		REQUIRE(h2d_cell_find(contract[i]));
		CHECK_STR(h2d_cells[i].name, contract[i]);
		CHECK(h2d_cells[i].summary && *h2d_cells[i].summary);
	}
	CHECK(!h2d_cells[12].name);
	CHECK(!h2d_cell_find("rw"));
}

int main(void)
{
	RUN(names);
	if (!pagemap_works())
		SKIP("no /proc/self/pagemap here");
	if (h2d_known_file_make("/tmp", 4 * MIB, NULL, &file))
		SKIP("no room for 4 MiB in /tmp");
	RUN(every_cell_reaches_its_state);
	RUN(placement);
	RUN(sparse_is_sparse);
	RUN(wrong_states_are_invalid);
	RUN(the_bytes_are_there);
	RUN(retired_addresses_stay_taken);
	h2d_known_file_close(&file);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of an h2d.bench that no campaign can have brought about are no evidence. */
#include <stdlib.h>

#include "bench/compare.h"
#include "core/mem.h"

enum { SAMPLE_MAX = 1000000 };
#define WHOLE_MAX (UINT64_C(1) << 53)

struct measured {
	uint64_t block;
	size_t index;
};

int h2d_compare_number(const struct h2d_value *of, const char *key, uint64_t least,
		       uint64_t *out)
{
	const struct h2d_value v = h2d_value_member(of, key);

	if (!v.json || json_is_null(v.json))
		return h2d_value_fail(&v, "is missing");
	return h2d_value_u64(&v, least, WHOLE_MAX, 0, out);
}

int h2d_compare_room(const struct h2d_value *samples, struct h2d_compare_side *side)
{
	const size_t count = h2d_value_count(samples);

	if (count > SAMPLE_MAX)
		return h2d_value_fail(samples, "has too many");
	side->times = h2d_mem->calloc(count + 1, sizeof(*side->times));
	return side->times ? 0 : h2d_fail(samples->log, H2D_E_NOMEM, "out of memory");
}

static int by_block(const void *a, const void *b)
{
	const struct measured *x = a, *y = b;

	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/* Every cell is measured once in a block: a second sample of it is a copy, and no evidence. */
int h2d_compare_blocks(const struct h2d_value *samples)
{
	const size_t count = h2d_value_count(samples);
	struct measured *list = h2d_mem->calloc(count + 1, sizeof(*list));
	size_t copy = SIZE_MAX;
	int rc = list ? 0 : h2d_fail(samples->log, H2D_E_NOMEM, "out of memory");

	for (size_t i = 0; i < count && !rc; i++) {
		const struct h2d_value sample = h2d_value_element(samples, i);

		list[i].index = i;
		rc = h2d_compare_number(&sample, "block", 0, &list[i].block);
	}
	if (rc)
		goto out;
	qsort(list, count, sizeof(*list), by_block);
	for (size_t i = 1; i < count; i++)
		if (list[i].block == list[i - 1].block && list[i].index < copy)
			copy = list[i].index;
	if (copy != SIZE_MAX) {
		const struct h2d_value sample = h2d_value_element(samples, copy);
		const struct h2d_value block = h2d_value_member(&sample, "block");

		rc = h2d_value_fail(&block,
				    "%lld was measured already: a cell has one sample in each",
				    (long long)json_integer_value(block.json));
	}
out:
	free(list);
	return rc;
}

/* The shortest of them is the sample's time, and together they lie within what was seen. */
static int check_repeats(const struct h2d_value *sample, uint64_t load_ns, uint64_t wall_ns)
{
	const struct h2d_value list = h2d_value_member(sample, "repeats_ns");
	uint64_t least = UINT64_MAX, left = wall_ns;
	int rc = h2d_value_array(&list, true);

	if (rc || !list.json)
		return rc;
	for (size_t i = 0; i < h2d_value_count(&list); i++) {
		const struct h2d_value v = h2d_value_element(&list, i);
		uint64_t ns;

		rc = h2d_value_u64(&v, 1, WHOLE_MAX, 0, &ns);
		if (rc)
			return rc;
		if (ns > left)
			return h2d_value_fail(&list, "add up to more than wall_ns, %llu",
					      (unsigned long long)wall_ns);
		left -= ns;
		least = ns < least ? ns : least;
	}
	if (least != load_ns)
		return h2d_value_fail(&list, "the shortest is not load_ns, %llu",
				      (unsigned long long)load_ns);
	return 0;
}

static bool stated(const struct h2d_value *of)
{
	const struct h2d_value v = h2d_value_member(of, "throughput_bytes_per_s");

	return v.json && !json_is_null(v.json);
}

int h2d_compare_sample(const struct h2d_value *cell, const struct h2d_value *sample,
		       double *out)
{
	const struct h2d_value wall = h2d_value_member(sample, "wall_ns");
	const struct h2d_value statistics = h2d_value_member(cell, "statistics");
	uint64_t load_ns = 0, wall_ns = WHOLE_MAX, bytes;
	int rc = h2d_compare_number(sample, "load_ns", 1, &load_ns);

	*out = (double)load_ns;
	if (!rc && wall.json && !json_is_null(wall.json))
		rc = h2d_value_u64(&wall, 0, WHOLE_MAX, 0, &wall_ns);
	if (!rc && wall_ns < load_ns)
		rc = h2d_value_fail(&wall, "is shorter than load_ns, %llu",
				    (unsigned long long)load_ns);
	if (!rc)
		rc = check_repeats(sample, load_ns, wall_ns);
	if (!rc && (stated(sample) || stated(&statistics)))
		rc = h2d_compare_number(sample, "loaded_bytes", 1, &bytes);
	return rc;
}

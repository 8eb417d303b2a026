/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_abi */
/* The prototypes of the driver's function, from BTF made by hand; and BTF that is broken. */
#include "abi/signature.h"
#include "btf_data.h"
#include "test.h"

#define END UINT32_MAX

static struct btf_data kernel, module;
static struct btf_ids k;

static int find(struct h2d_signature *out)
{
	return h2d_signature_from_bytes(module.bytes, module.size, kernel.bytes, kernel.size,
					&(struct h2d_log){0}, out);
}

static int of_prototype(uint32_t result, const uint32_t *parameters, struct h2d_signature *out)
{
	btf_begin(&module, &kernel);
	btf_type(&module, "some_other", H2D_BTF_STRUCT, 0, 16);
	btf_function(&module, "amdgpu_hmm_register", k.s32, (uint32_t[]){k.void_p, END});
	btf_function(&module, H2D_SIGNATURE_FUNCTION, result, parameters);
	btf_finish(&module);
	return find(out);
}

static void prototype_of_6_1(void)
{
	struct h2d_signature s;

	CHECK_EQ(of_prototype(k.s32,
			      (uint32_t[]){k.notifier_p, k.mm_p, k.page_pp, k.u64, k.u64,
					   k.range_pp, k.boolean, k.boolean, k.void_p, END},
			      &s),
		 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_MM);
	CHECK_STR(s.reason, "");
}

static void prototype_of_6_12(void)
{
	struct h2d_signature s;

	CHECK_EQ(of_prototype(k.s32,
			      (uint32_t[]){k.notifier_p, k.u64, k.u64, k.boolean, k.void_p,
					   k.page_pp, k.range_pp, END},
			      &s),
		 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_PAGES);
	CHECK_STR(s.prototype,
		  "int amdgpu_hmm_range_get_pages(struct mmu_interval_notifier *p, "
		  "uint64_t p, uint64_t p, bool p, void *p, struct page **p, "
		  "struct hmm_range **p)");
}

/* The newest: the last parameter is the driver's own structure, defined in the module. */
static int of_own_range(uint32_t first_member, uint32_t offset_bits, uint32_t bytes,
			const char *name, struct h2d_signature *s)
{
	uint32_t range;

	btf_begin(&module, &kernel);
	range = btf_type(&module, name, H2D_BTF_STRUCT, 2, bytes);
	btf_member(&module, "hmm_range", first_member, offset_bits);
	btf_member(&module, "bo", k.void_p, 512);
	range = btf_pointer(&module, range);
	btf_function(&module, H2D_SIGNATURE_FUNCTION, k.s32,
		     (uint32_t[]){k.notifier_p, k.u64, k.u64, k.boolean, k.void_p, range, END});
	btf_finish(&module);
	return find(s);
}

static void prototype_with_own_range(void)
{
	struct h2d_signature s;

	CHECK_EQ(of_own_range(k.range, 0, 72, "amdgpu_hmm_range", &s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_RANGE);
	CHECK(strstr(s.prototype, "struct amdgpu_hmm_range *p)") != NULL);

	/* Another name, another first member, not at the front, larger than what is allotted */
	CHECK_EQ(of_own_range(k.range, 0, 72, "hmm_range", &s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_NONE);
	CHECK_EQ(of_own_range(k.void_p, 0, 72, "amdgpu_hmm_range", &s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_NONE);
	CHECK_EQ(of_own_range(k.range, 64, 72, "amdgpu_hmm_range", &s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_NONE);
	CHECK_EQ(of_own_range(k.range, 0, 64 + 201, "amdgpu_hmm_range", &s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_NONE);
	CHECK(*s.reason != 0);
	CHECK_EQ(of_own_range(k.range, 0, 64 + 200, "amdgpu_hmm_range", &s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_RANGE);
}

/* One parameter at a time is wrong, missing or too many; the result is not an int. */
static void near_misses(void)
{
	const uint32_t good[] = {k.notifier_p, k.u64,	  k.u64,     k.boolean,
				 k.void_p,     k.page_pp, k.range_pp};
	const uint32_t wrong[] = {k.s32,     k.u64,	k.boolean,  k.void_p, k.notifier_p,
				  k.page_pp, k.range_p, k.range_pp, 0};
	uint32_t p[9];
	struct h2d_signature s;

	for (size_t i = 0; i < 7; i++) {
		for (size_t j = 0; j < sizeof(wrong) / sizeof(*wrong); j++) {
			if (wrong[j] == good[i])
				continue;
			memcpy(p, good, sizeof(good));
			p[i] = wrong[j];
			p[7] = END;
			CHECK_EQ(of_prototype(k.s32, p, &s), 0);
			CHECK_EQ(s.value, H2D_HMM_SIGNATURE_NONE);
		}
	}
	memcpy(p, good, sizeof(good));
	p[7] = k.boolean;
	p[8] = END;
	CHECK_EQ(of_prototype(k.s32, p, &s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_NONE);
	p[6] = END;
	CHECK_EQ(of_prototype(k.s32, p, &s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_NONE);
	p[6] = good[6];
	p[7] = END;
	CHECK_EQ(of_prototype(k.u64, p, &s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_NONE);
	CHECK_EQ(of_prototype(k.s32, p, &s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_PAGES);
}

static void two_that_differ(void)
{
	const uint32_t good[] = {k.notifier_p, k.u64,	  k.u64,      k.boolean,
				 k.void_p,     k.page_pp, k.range_pp, END};
	struct h2d_signature s;

	btf_begin(&module, &kernel);
	btf_function(&module, H2D_SIGNATURE_FUNCTION, k.s32, good);
	btf_function(&module, H2D_SIGNATURE_FUNCTION, k.s32, good);
	btf_function(&module, H2D_SIGNATURE_FUNCTION, k.s32, good);
	btf_finish(&module);
	CHECK_EQ(find(&s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_PAGES);
	btf_function(&module, H2D_SIGNATURE_FUNCTION, k.s32, good + 1);
	btf_finish(&module);
	CHECK_EQ(find(&s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_NONE);
}

static void not_there(void)
{
	struct h2d_signature s;

	btf_begin(&module, &kernel);
	btf_function(&module, "amdgpu_hmm_register", k.s32, (uint32_t[]){k.void_p, END});
	btf_finish(&module);
	CHECK_EQ(find(&s), H2D_E_NOT_FOUND);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_NONE);
}

/* Types that refer to themselves, to nothing, or are of a kind from the future. */
static void nonsense_types(void)
{
	struct h2d_signature s;
	uint32_t loop;

	btf_begin(&module, &kernel);
	loop = module.next_id;
	btf_type(&module, "loop", H2D_BTF_TYPEDEF, 0, loop);
	btf_function(&module, H2D_SIGNATURE_FUNCTION, loop,
		     (uint32_t[]){loop, 1u << 30, k.u64, k.boolean, k.void_p, k.page_pp,
				  k.range_pp, END});
	btf_finish(&module);
	CHECK_EQ(find(&s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_NONE);

	btf_begin(&module, &kernel);
	btf_type(&module, H2D_SIGNATURE_FUNCTION, H2D_BTF_FUNC, 0, 1u << 30);
	btf_finish(&module);
	CHECK_EQ(find(&s), H2D_E_NOT_FOUND);

	btf_type(&module, "future", (enum h2d_btf_kind)20, 0, 0);
	btf_finish(&module);
	CHECK_EQ(find(&s), H2D_E_FORMAT);
}

/* Every prefix, and every byte replaced: an answer or an error, nothing read outside. */
static void damaged(void)
{
	static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
	struct h2d_signature s;
	struct btf_data good;

	prototype_of_6_12();
	good = module;
	for (size_t size = 0; size < good.size; size++) {
		uint8_t *exact = malloc(size ? size : 1);

		REQUIRE(exact);
		memcpy(exact, good.bytes, size);
		CHECK(h2d_signature_from_bytes(exact, size, kernel.bytes, kernel.size,
					       &(struct h2d_log){0}, &s) != 0);
		free(exact);
	}
	for (size_t at = 0; at < good.size; at++) {
		for (size_t v = 0; v < sizeof(values); v++) {
			module = good;
			module.bytes[at] = values[v];
			find(&s);
			CHECK(s.value >= -1 && s.value <= 2);
		}
	}
	CHECK_EQ(h2d_signature_from_bytes(good.bytes, good.size, "ELF", 3, &(struct h2d_log){0},
					  &s),
		 H2D_E_FORMAT);
	memcpy(module.bytes, "\xeb\x9f", 2);
	CHECK_EQ(find(&s), H2D_E_UNSUPPORTED);
}

int main(void)
{
	btf_kernel(&kernel, &k);
	RUN(prototype_of_6_1);
	RUN(prototype_of_6_12);
	RUN(prototype_with_own_range);
	RUN(near_misses);
	RUN(two_that_differ);
	RUN(not_there);
	RUN(nonsense_types);
	RUN(damaged);
	return TEST_DONE();
}

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file btf_data.h
 * Makes BTF by hand, for the tests: a kernel's with the types that the driver's prototypes use,
 * and modules' that refer to it. Sizes are fixed and ample; ids are handed out in order.
 */
#ifndef H2D_TEST_BTF_DATA_H
#define H2D_TEST_BTF_DATA_H

#include <stdint.h>
#include <string.h>

#include "abi/btf.h"

struct btf_data {
	uint8_t bytes[4096]; /* finished BTF */
	size_t size;
	uint8_t types[2048];
	size_t types_size;
	char strings[1024];
	uint32_t strings_size, first_string, next_id;
};

static inline void btf_begin(struct btf_data *b, const struct btf_data *base)
{
	memset(b, 0, sizeof(*b));
	b->next_id = base ? base->next_id : 1;
	b->first_string = base ? base->first_string + base->strings_size : 0;
	b->strings_size = base ? 0 : 1;
}

static inline uint32_t btf_string(struct btf_data *b, const char *s)
{
	uint32_t at = b->strings_size;

	if (!*s)
		return 0;
	memcpy(b->strings + at, s, strlen(s) + 1);
	b->strings_size += (uint32_t)strlen(s) + 1;
	return b->first_string + at;
}

static inline void btf_u32(struct btf_data *b, uint32_t v)
{
	memcpy(b->types + b->types_size, &v, 4);
	b->types_size += 4;
}

static inline uint32_t btf_type(struct btf_data *b, const char *name, enum h2d_btf_kind kind,
				uint32_t vlen, uint32_t size_type)
{
	btf_u32(b, btf_string(b, name));
	btf_u32(b, (uint32_t)kind << 24 | vlen);
	btf_u32(b, size_type);
	return b->next_id++;
}

static inline uint32_t btf_int(struct btf_data *b, const char *name, uint32_t size,
			       uint32_t encoding)
{
	uint32_t id = btf_type(b, name, H2D_BTF_INT, 0, size);

	btf_u32(b, encoding << 24 | size * 8);
	return id;
}

static inline uint32_t btf_pointer(struct btf_data *b, uint32_t to)
{
	return btf_type(b, "", H2D_BTF_PTR, 0, to);
}

/* A member of the struct that was made last, as many as its vlen says. */
static inline void btf_member(struct btf_data *b, const char *name, uint32_t type,
			      uint32_t offset_bits)
{
	btf_u32(b, btf_string(b, name));
	btf_u32(b, type);
	btf_u32(b, offset_bits);
}

/* A function `name` returning `result`; `parameters` ends with UINT32_MAX. */
static inline void btf_function(struct btf_data *b, const char *name, uint32_t result,
				const uint32_t *parameters)
{
	uint32_t count = 0, proto;

	while (parameters[count] != UINT32_MAX)
		count++;
	proto = btf_type(b, "", H2D_BTF_FUNC_PROTO, count, result);
	for (uint32_t i = 0; i < count; i++) {
		btf_u32(b, btf_string(b, "p"));
		btf_u32(b, parameters[i]);
	}
	btf_type(b, name, H2D_BTF_FUNC, 0, proto);
}

static inline void btf_finish(struct btf_data *b)
{
	const uint32_t header[] = {
		0x0001eb9f,	24, 0, (uint32_t)b->types_size, (uint32_t)b->types_size,
		b->strings_size};

	memcpy(b->bytes, header, sizeof(header));
	memcpy(b->bytes + 24, b->types, b->types_size);
	memcpy(b->bytes + 24 + b->types_size, b->strings, b->strings_size);
	b->size = 24 + b->types_size + b->strings_size;
}

/* Ids in the kernel that btf_kernel() makes. */
struct btf_ids {
	uint32_t s32, u64, boolean, void_p, notifier_p, mm_p, page_pp, range, range_p, range_pp;
};

static inline void btf_kernel(struct btf_data *b, struct btf_ids *id)
{
	uint32_t word;

	btf_begin(b, NULL);
	id->s32 = btf_int(b, "int", 4, 1);
	word = btf_int(b, "long unsigned int", 8, 0);
	id->u64 = btf_type(b, "uint64_t", H2D_BTF_TYPEDEF, 0,
			   btf_type(b, "__u64", H2D_BTF_TYPEDEF, 0, word));
	id->boolean = btf_type(b, "bool", H2D_BTF_TYPEDEF, 0, btf_int(b, "_Bool", 1, 4));
	id->void_p = btf_pointer(b, 0);
	id->notifier_p =
		btf_pointer(b, btf_type(b, "mmu_interval_notifier", H2D_BTF_STRUCT, 0, 88));
	id->mm_p = btf_pointer(b, btf_type(b, "mm_struct", H2D_BTF_FWD, 0, 0));
	id->page_pp =
		btf_pointer(b, btf_pointer(b, btf_type(b, "page", H2D_BTF_STRUCT, 0, 64)));
	id->range = btf_type(b, "hmm_range", H2D_BTF_STRUCT, 0, 64);
	id->range_p = btf_pointer(b, id->range);
	id->range_pp = btf_pointer(b, id->range_p);
	btf_finish(b);
}

#endif

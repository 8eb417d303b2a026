/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "signature.h"
#include "whole_file.h"

#define SYS_BTF "/sys/kernel/btf/"

enum {
	PARAMETERS_MAX = 9,
	/* What the kernel module has room for behind the hmm_range: a pointer and its spare. */
	RANGE_TAIL_MAX = 200,
	SYS_BTF_MAX = 256 << 20,
};

/* How a parameter must look. */
enum shape {
	END,
	U64,
	BOOL,
	VOID_POINTER,
	NOTIFIER,      /* struct mmu_interval_notifier * */
	MM,	       /* struct mm_struct * */
	PAGES,	       /* struct page ** */
	RANGE_POINTER, /* struct hmm_range ** */
	DRIVER_RANGE,  /* struct amdgpu_hmm_range * */
};

static const struct {
	int value;
	enum shape parameters[PARAMETERS_MAX + 1];
} known[] = {
	{H2D_HMM_SIGNATURE_MM,
	 {NOTIFIER, MM, PAGES, U64, U64, RANGE_POINTER, BOOL, BOOL, VOID_POINTER, END}},
	{H2D_HMM_SIGNATURE_PAGES,
	 {NOTIFIER, U64, U64, BOOL, VOID_POINTER, PAGES, RANGE_POINTER, END}},
	{H2D_HMM_SIGNATURE_RANGE, {NOTIFIER, U64, U64, BOOL, VOID_POINTER, DRIVER_RANGE, END}},
};

/* What a pointer of `depth` stars points to; false for anything else. */
static bool pointee(const struct h2d_btf *btf, uint32_t id, int depth,
		    struct h2d_btf_type *type)
{
	while (depth--) {
		if (h2d_btf_resolve(btf, id, type) || type->kind != H2D_BTF_PTR)
			return false;
		id = type->size_type;
	}
	return !h2d_btf_resolve(btf, id, type);
}

static bool points_to_struct(const struct h2d_btf *btf, uint32_t id, int depth,
			     const char *name)
{
	struct h2d_btf_type type;

	return pointee(btf, id, depth, &type) &&
	       (type.kind == H2D_BTF_STRUCT || type.kind == H2D_BTF_FWD) &&
	       !strcmp(type.name, name);
}

/* The driver's own range: an hmm_range first, and no more behind it than the module allots. */
static bool is_driver_range(const struct h2d_btf *btf, uint32_t id)
{
	struct h2d_btf_type range, inner;
	uint32_t member, offset;
	const char *name;

	if (!points_to_struct(btf, id, 1, "amdgpu_hmm_range") || !pointee(btf, id, 1, &range) ||
	    h2d_btf_element(btf, &range, 0, &name, &member, &offset) || offset ||
	    h2d_btf_resolve(btf, member, &inner))
		return false;
	return inner.kind == H2D_BTF_STRUCT && !strcmp(inner.name, "hmm_range") &&
	       range.size_type >= inner.size_type &&
	       range.size_type - inner.size_type <= RANGE_TAIL_MAX;
}

static bool has_shape(const struct h2d_btf *btf, uint32_t id, enum shape shape)
{
	struct h2d_btf_type type;

	switch (shape) {
	case U64:
		return !h2d_btf_resolve(btf, id, &type) && h2d_btf_is_unsigned(&type) &&
		       type.size_type == 8;
	case BOOL:
		return !h2d_btf_resolve(btf, id, &type) && h2d_btf_is_bool(&type) &&
		       type.size_type == 1;
	case VOID_POINTER:
		return pointee(btf, id, 1, &type) && type.kind == H2D_BTF_VOID;
	case NOTIFIER:
		return points_to_struct(btf, id, 1, "mmu_interval_notifier");
	case MM:
		return points_to_struct(btf, id, 1, "mm_struct");
	case PAGES:
		return points_to_struct(btf, id, 2, "page");
	case RANGE_POINTER:
		return points_to_struct(btf, id, 2, "hmm_range");
	case DRIVER_RANGE:
		return is_driver_range(btf, id);
	default:
		return false;
	}
}

static bool returns_int(const struct h2d_btf *btf, const struct h2d_btf_type *proto)
{
	struct h2d_btf_type type;

	return !h2d_btf_resolve(btf, proto->size_type, &type) && type.kind == H2D_BTF_INT &&
	       type.size_type == 4 && !h2d_btf_is_unsigned(&type) && !h2d_btf_is_bool(&type);
}

static bool matches(const struct h2d_btf *btf, const struct h2d_btf_type *proto,
		    const enum shape *parameters)
{
	const char *name;
	uint32_t i, id;

	for (i = 0; parameters[i] != END; i++)
		if (h2d_btf_element(btf, proto, i, &name, &id, NULL) ||
		    !has_shape(btf, id, parameters[i]))
			return false;
	return i == proto->vlen;
}

static int classify(const struct h2d_btf *btf, const struct h2d_btf_type *proto)
{
	if (!returns_int(btf, proto))
		return H2D_HMM_SIGNATURE_NONE;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (matches(btf, proto, known[i].parameters))
			return known[i].value;
	return H2D_HMM_SIGNATURE_NONE;
}

void h2d_signature_init(struct h2d_signature *out)
{
	memset(out, 0, sizeof(*out));
	out->value = H2D_HMM_SIGNATURE_NONE;
}

int h2d_signature_find(const struct h2d_btf *module, const struct h2d_log *log,
		       struct h2d_signature *out)
{
	struct h2d_btf_type proto;
	uint32_t id = 0;

	h2d_signature_init(out);
	if (h2d_btf_next_function(module, H2D_SIGNATURE_FUNCTION, &id, &proto))
		return h2d_fail(log, H2D_E_NOT_FOUND,
				"BTF: no function %s: not amdgpu, or another kernel's base",
				H2D_SIGNATURE_FUNCTION);
	h2d_btf_print_prototype(module, H2D_SIGNATURE_FUNCTION, &proto, out->prototype,
				sizeof(out->prototype));
	out->value = classify(module, &proto);
	if (out->value == H2D_HMM_SIGNATURE_NONE)
		snprintf(out->reason, sizeof(out->reason), "not one of the known prototypes");

	while (!h2d_btf_next_function(module, H2D_SIGNATURE_FUNCTION, &id, &proto)) {
		if (classify(module, &proto) == out->value)
			continue;
		out->value = H2D_HMM_SIGNATURE_NONE;
		snprintf(out->reason, sizeof(out->reason), "several prototypes that differ");
		break;
	}
	return 0;
}

int h2d_signature_from_bytes(const void *module, size_t module_bytes, const void *kernel,
			     size_t kernel_bytes, const struct h2d_log *log,
			     struct h2d_signature *out)
{
	struct h2d_btf base, split = {0};
	int err;

	h2d_signature_init(out);
	err = h2d_btf_open(kernel, kernel_bytes, NULL, log, &base);
	if (err)
		goto out;
	err = h2d_btf_open(module, module_bytes, &base, log, &split);
	if (err)
		goto out;
	err = h2d_signature_find(&split, log, out);
out:
	h2d_btf_close(&split);
	h2d_btf_close(&base);
	return err;
}

int h2d_signature_running(const struct h2d_log *log, struct h2d_signature *out)
{
	void *kernel = NULL, *module = NULL;
	size_t kernel_bytes, module_bytes;
	int err;

	h2d_signature_init(out);
	err = h2d_whole_file_read(SYS_BTF "vmlinux", SYS_BTF_MAX, log, &kernel, &kernel_bytes);
	if (!err)
		err = h2d_whole_file_read(SYS_BTF "amdgpu", SYS_BTF_MAX, log, &module,
					  &module_bytes);
	if (!err)
		err = h2d_signature_from_bytes(module, module_bytes, kernel, kernel_bytes, log,
					       out);
	free(module);
	free(kernel);
	return err;
}

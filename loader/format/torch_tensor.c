/* SPDX-License-Identifier: Apache-2.0 */
/* From a rebuild call, which is only read, to an extent in the file. */
#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "format/torch.h"

enum { REBUILD_DEPTH_MAX = 8, KEY_MAX_BYTES = 200, METADATA_MAX_COUNT = 16 };

/* Where a tensor's elements lie, as its pickle says. */
struct view {
	const struct h2d_zip_record *record;
	const struct h2d_torch_dtype *dtype;
	uint64_t element_count;			      /* of the storage */
	uint64_t offset;			      /* in elements */
	const struct h2d_pickle_value *size, *stride; /* NULL: the whole storage */
	uint64_t at;				      /* of the call in the file */
};

static int bad(struct h2d_torch *t, uint64_t at, const char *rule)
{
	return h2d_reader_fail(&t->r, at, "%s", rule);
}

/* A kind of tensor whose bytes mean nothing by themselves. */
static int unsupported(struct h2d_torch *t, uint64_t at, const char *what, const char *detail)
{
	if (t->script) {
		h2d_reader_warn(&t->r, at, "%s (%s) is not supported", what, detail);
		t->raw = true;
		return 0;
	}
	return h2d_reader_fail(&t->r, at, "%s (%s) is not supported", what, detail);
}

/* ---- the storage */

static bool storage_type(const struct h2d_pickle_value *v, const struct h2d_torch_dtype **dtype)
{
	static const char *const modules[] = {"torch", "torch.storage", "torch.cuda"};

	if (!v || v->kind != H2D_PICKLE_GLOBAL)
		return false;
	for (unsigned i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (!strcmp(v->text.data, modules[i]))
			*dtype = h2d_torch_storage_dtype(v->name);
	return *dtype != NULL;
}

static const struct h2d_zip_record *storage_record(struct h2d_torch *t, const char *key,
						   uint64_t bytes)
{
	char name[KEY_MAX_BYTES + 16];
	int n;

	if (bytes > KEY_MAX_BYTES)
		return NULL;
	n = snprintf(name, sizeof(name), "%s%.*s", t->folder, (int)bytes, key);
	return h2d_zip_find(&t->zip, name, (size_t)n);
}

/* ("storage", class, key, location, number of elements): torch/serialization.py, save(). */
static int take_storage(struct h2d_torch *t, const struct h2d_pickle_value *v,
			struct view *view)
{
	const struct h2d_pickle_value *id, *tag, *key, *count;
	uint64_t bytes;
	struct h2d_shown shown;

	if (!v || v->kind != H2D_PICKLE_PERSISTENT)
		return bad(t, view->at, "its storage is no persistent id");
	id = v->call->args;
	tag = h2d_pickle_at(id, 0);
	key = h2d_pickle_at(id, 2);
	count = h2d_pickle_at(id, 4);
	if (!tag || tag->kind != H2D_PICKLE_STRING || strcmp(tag->text.data, "storage") ||
	    !key || key->kind != H2D_PICKLE_STRING || !count || count->kind != H2D_PICKLE_INT ||
	    count->integer < 0)
		return bad(t, v->call->at, "a persistent id that names no storage");
	if (!storage_type(h2d_pickle_at(id, 1), &view->dtype))
		return bad(t, v->call->at, "a storage of an unknown type");
	if (!view->dtype->bytes)
		return unsupported(t, v->call->at, "a quantised storage", view->dtype->name);
	view->element_count = (uint64_t)count->integer;
	view->record = storage_record(t, key->text.data, key->text.bytes);
	h2d_show_name(&shown, key->text.data, key->text.bytes);
	if (!view->record)
		return h2d_reader_fail(&t->r, v->call->at, "the archive has no record %s%s",
				       t->folder, shown.text);
	if (!h2d_mul_u64(view->element_count, view->dtype->bytes, &bytes) ||
	    bytes > view->record->size_bytes)
		return h2d_reader_fail(
			&t->r, v->call->at,
			"storage \"%s\" of %llu elements (%s) passes the %llu bytes "
			"of its record",
			shown.text, (unsigned long long)view->element_count, view->dtype->name,
			(unsigned long long)view->record->size_bytes);
	return 0;
}

/* ---- the call */

/* A tuple or list, also inside torch.Size(). */
static const struct h2d_pickle_value *sequence(const struct h2d_pickle_value *v)
{
	if (v && v->kind == H2D_PICKLE_OBJECT &&
	    h2d_pickle_is_global(v->call->callable, "torch", "Size"))
		v = h2d_pickle_at(v->call->args, 0);
	return v && (v->kind == H2D_PICKLE_TUPLE || v->kind == H2D_PICKLE_LIST) ? v : NULL;
}

/* The lazy conjugate and negative bits change what the bytes mean. */
static bool lazily_changed(const struct h2d_pickle_value *metadata)
{
	const struct h2d_pickle_item *i;

	if (!metadata || metadata->kind != H2D_PICKLE_DICT ||
	    metadata->count > METADATA_MAX_COUNT)
		return false;
	for (i = metadata->items.first; i; i = i->next)
		if (i->key->kind == H2D_PICKLE_STRING && i->value->kind == H2D_PICKLE_BOOL &&
		    i->value->integer &&
		    (!strcmp(i->key->text.data, "conj") || !strcmp(i->key->text.data, "neg")))
			return true;
	return false;
}

/* (storage, offset, size, stride, requires_grad, hooks[, metadata]); in version 3 the dtype
 * stands before the metadata. */
static int take_view(struct h2d_torch *t, const struct h2d_pickle_value *args, bool version3,
		     struct view *view)
{
	const struct h2d_pickle_value *offset = h2d_pickle_at(args, 1), *dtype;
	int rc = take_storage(t, h2d_pickle_at(args, 0), view);

	if (rc || t->raw)
		return rc;
	view->size = sequence(h2d_pickle_at(args, 2));
	view->stride = sequence(h2d_pickle_at(args, 3));
	if (!offset || offset->kind != H2D_PICKLE_INT || offset->integer < 0 || !view->size ||
	    !view->stride || view->size->count != view->stride->count)
		return bad(t, view->at, "a rebuild call whose arguments are damaged");
	view->offset = (uint64_t)offset->integer;
	if (version3) {
		dtype = h2d_pickle_at(args, 6);
		view->dtype = dtype && dtype->kind == H2D_PICKLE_GLOBAL &&
					      !strcmp(dtype->text.data, "torch")
				      ? h2d_torch_dtype(dtype->name)
				      : NULL;
		if (!view->dtype || !view->dtype->bytes)
			return unsupported(t, view->at, "a tensor of an unknown dtype",
					   dtype && dtype->kind == H2D_PICKLE_GLOBAL
						   ? dtype->name
						   : "none");
	}
	if (lazily_changed(h2d_pickle_at(args, version3 ? 7 : 6)))
		return unsupported(t, view->at, "a tensor with a lazy operation",
				   "conjugated or negated");
	return 0;
}

/* Look through parameters and subclasses at the call that makes the tensor itself. */
static int take_call(struct h2d_torch *t, const struct h2d_pickle_value *callable,
		     const struct h2d_pickle_value *args, struct view *view)
{
	for (unsigned depth = 0; depth < REBUILD_DEPTH_MAX; depth++) {
		if (h2d_pickle_is_global(callable, "torch._tensor", "_rebuild_from_type_v2")) {
			callable = h2d_pickle_at(args, 0);
			args = h2d_pickle_at(args, 2);
		} else if (h2d_pickle_is_global(callable, "torch._utils",
						"_rebuild_parameter") ||
			   h2d_pickle_is_global(callable, "torch._utils",
						"_rebuild_parameter_with_state")) {
			const struct h2d_pickle_value *data = h2d_pickle_at(args, 0);

			if (!data || data->kind != H2D_PICKLE_OBJECT)
				break;
			callable = data->call->callable;
			args = data->call->args;
			view->at = data->call->at;
		} else if (h2d_pickle_is_global(callable, "torch._utils",
						"_rebuild_tensor_v2") ||
			   h2d_pickle_is_global(callable, "torch._utils", "_rebuild_tensor")) {
			return take_view(t, args, false, view);
		} else if (h2d_pickle_is_global(callable, "torch._utils",
						"_rebuild_tensor_v3")) {
			return take_view(t, args, true, view);
		} else {
			break;
		}
	}
	return unsupported(t, view->at, "a quantised, sparse or otherwise special tensor",
			   callable && callable->kind == H2D_PICKLE_GLOBAL ? callable->name
									   : "damaged call");
}

/* Whether a call of this makes a tensor; a kind we cannot read must not pass for something
 * else. */
static bool makes_tensor(const struct h2d_pickle_value *callable)
{
	if (!callable || callable->kind != H2D_PICKLE_GLOBAL)
		return false;
	return (!strcmp(callable->text.data, "torch._utils") &&
		!strncmp(callable->name, "_rebuild_", 9)) ||
	       (!strcmp(callable->text.data, "torch._tensor") &&
		!strncmp(callable->name, "_rebuild_", 9)) ||
	       h2d_pickle_is_global(callable, "torch.storage", "_load_from_bytes");
}

/* ---- the tensor */

/* Fills shape and strides. `span` is the number of elements from the first to the last one
 * touched, 0 when there are none. */
static int take_shape(struct h2d_torch *t, const struct view *view, struct h2d_tensor *out,
		      uint64_t *span)
{
	uint32_t rank = view->size->count;
	uint64_t *shape = h2d_arena_array(&t->p->cat->arena, rank, sizeof(*shape));
	int64_t *strides = h2d_arena_array(&t->p->cat->arena, rank, sizeof(*strides));
	const struct h2d_pickle_item *size = view->size->items.first;
	const struct h2d_pickle_item *stride = view->stride->items.first;
	bool empty = false, ordered = true;
	uint64_t last = 0, step = 1;

	if (!shape || !strides)
		return h2d_reader_nomem(&t->r);
	for (uint32_t i = 0; i < rank; i++, size = size->next, stride = stride->next) {
		uint64_t reach;

		if (size->value->kind != H2D_PICKLE_INT || size->value->integer < 0 ||
		    stride->value->kind != H2D_PICKLE_INT || stride->value->integer < 0)
			return bad(t, view->at, "a size or stride that is no count");
		shape[i] = (uint64_t)size->value->integer;
		strides[i] = stride->value->integer;
		empty = empty || !shape[i];
		if (shape[i] && (!h2d_mul_u64(shape[i] - 1, (uint64_t)strides[i], &reach) ||
				 !h2d_add_u64(last, reach, &last)))
			return bad(t, view->at, "its strides pass 2^64 elements");
	}
	for (uint32_t i = rank; i-- > 0 && ordered && !empty;) {
		ordered = shape[i] == 1 || (uint64_t)strides[i] == step;
		ordered = h2d_mul_u64(step, shape[i], &step) && ordered;
	}
	out->rank = rank;
	out->shape = shape;
	out->strides = ordered ? NULL : strides;
	if (empty)
		*span = 0;
	else if (!h2d_add_u64(last, 1, span))
		return bad(t, view->at, "its strides pass 2^64 elements");
	return 0;
}

static int whole_storage(struct h2d_torch *t, const struct view *view, struct h2d_tensor *out)
{
	uint64_t *shape = h2d_arena_array(&t->p->cat->arena, 1, sizeof(*shape));

	if (!shape)
		return h2d_reader_nomem(&t->r);
	shape[0] = view->element_count;
	out->rank = 1;
	out->shape = shape;
	return 0;
}

static void note_use(struct h2d_torch *t, const struct view *view, uint64_t index)
{
	struct h2d_torch_use *use = &t->uses[view->record - t->zip.records];

	if (use->count++ == 0) {
		use->first = index;
		return;
	}
	t->p->cat->tensors[use->first].flags |= H2D_TENSOR_SHARED;
	t->p->cat->tensors[index].flags |= H2D_TENSOR_SHARED;
}

static int add_tensor(struct h2d_torch *t, const struct view *view)
{
	struct h2d_catalogue *cat = t->p->cat;
	uint64_t span = view->element_count, begin, bytes, end;
	struct h2d_tensor *out;
	size_t name_bytes;
	int rc = h2d_torch_spend(t, sizeof(*out) + t->path_bytes +
					    (view->size ? 16ull * view->size->count : 8));

	if (rc)
		return rc;
	out = h2d_catalogue_add_tensor(cat);
	if (!out)
		return h2d_reader_nomem(&t->r);
	rc = view->size ? take_shape(t, view, out, &span) : whole_storage(t, view, out);
	if (rc)
		return rc;
	if (!h2d_mul_u64(view->offset, view->dtype->bytes, &begin) ||
	    !h2d_mul_u64(span, view->dtype->bytes, &bytes) ||
	    !h2d_add_u64(begin, bytes, &end) || end > view->record->size_bytes)
		return h2d_reader_fail(
			&t->r, view->at,
			"its %llu elements (%s) from element %llu on pass the %llu "
			"bytes of record %s",
			(unsigned long long)span, view->dtype->name,
			(unsigned long long)view->offset,
			(unsigned long long)view->record->size_bytes, view->record->name);
	out->name = h2d_torch_name(t, "tensor", &name_bytes);
	if (!out->name)
		return h2d_reader_nomem(&t->r);
	out->name_bytes = (uint32_t)name_bytes;
	out->dtype = view->dtype->name;
	out->file = t->p->file_index;
	out->ordinal = (uint32_t)(cat->tensor_count - 1 - t->first_tensor);
	out->entry_offset = view->at;
	out->offset_bytes = view->record->offset_bytes + begin;
	out->size_bytes = bytes;
	note_use(t, view, cat->tensor_count - 1);
	return 0;
}

int h2d_torch_take_tensor(struct h2d_torch *t, const struct h2d_pickle_value *v)
{
	struct view view = {0};
	int rc;

	if (v->kind == H2D_PICKLE_PERSISTENT) {
		h2d_torch_subject(t, "storage");
		view.at = v->call->at;
		rc = take_storage(t, v, &view);
	} else if (v->kind == H2D_PICKLE_OBJECT && makes_tensor(v->call->callable)) {
		h2d_torch_subject(t, "tensor");
		view.at = v->call->at;
		rc = take_call(t, v->call->callable, v->call->args, &view);
	} else {
		return H2D_TORCH_OTHER;
	}
	if (!rc && !t->raw)
		rc = add_tensor(t, &view);
	return rc ? rc : H2D_TORCH_TENSOR;
}

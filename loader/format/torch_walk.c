/* SPDX-License-Identifier: Apache-2.0 */
/* From the tree of a pickle to names: tensors into the catalogue, plain values as metadata. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "format/torch.h"

enum {
	DEPTH_MAX = 200,
	PATH_MAX_BYTES = 4096,
	WARNINGS_MAX = 8,
};

typedef const struct h2d_pickle_value value;

/* Whether plain values are kept as metadata here. Not below modules and TorchScript objects,
 * whose every layer has some, nor below objects that are unknown to us. */
enum meta { META_SKIP, META_KEEP };

static int walk(struct h2d_torch *t, struct h2d_pickle_value *v, unsigned depth,
		enum meta meta);

int h2d_torch_spend(struct h2d_torch *t, uint64_t bytes)
{
	if (bytes > t->bytes_left)
		return h2d_reader_fail(&t->r, t->r.pos,
				       "values are shared so often that their names would take "
				       "far more memory than the pickle");
	t->bytes_left -= bytes;
	return 0;
}

char *h2d_torch_name(struct h2d_torch *t, const char *at_root, size_t *bytes)
{
	*bytes = t->path_bytes ? t->path_bytes : strlen(at_root);
	return h2d_arena_copy(&t->p->cat->arena, t->path_bytes ? t->path : at_root, *bytes);
}

void h2d_torch_subject(struct h2d_torch *t, const char *kind)
{
	h2d_reader_subject(&t->r, kind, t->path, t->path_bytes);
}

/* A tree of shared values can be walked for ever, or nearly so; a real one is walked once. */
static int visit(struct h2d_torch *t, uint64_t count)
{
	if (count > t->visits_left)
		return h2d_reader_fail(&t->r, t->r.pos,
				       "values are shared so often that walking them does not "
				       "end");
	t->visits_left -= count;
	return 0;
}

/* ---- the path */

static int path_add(struct h2d_torch *t, const char *part, uint64_t bytes)
{
	size_t dot = t->path_bytes ? 1 : 0, need;

	if (bytes > PATH_MAX_BYTES || t->path_bytes + dot + bytes > PATH_MAX_BYTES) {
		h2d_torch_subject(t, "name");
		return h2d_reader_fail(&t->r, t->r.pos, "a name of more than %d bytes",
				       PATH_MAX_BYTES);
	}
	need = t->path_bytes + dot + (size_t)bytes;
	if (need > t->path_cap) {
		char *p = h2d_mem->realloc(t->path, 2 * need);

		if (!p)
			return h2d_reader_nomem(&t->r);
		t->path = p;
		t->path_cap = 2 * need;
	}
	if (dot)
		t->path[t->path_bytes] = '.';
	if (bytes)
		memcpy(t->path + t->path_bytes + dot, part, (size_t)bytes);
	t->path_bytes = need;
	return 0;
}

/* Walk `v` under a name one part longer. */
static int walk_part(struct h2d_torch *t, struct h2d_pickle_value *v, const char *part,
		     uint64_t bytes, unsigned depth, enum meta meta)
{
	size_t before = t->path_bytes;
	int rc = path_add(t, part, bytes);

	if (!rc)
		rc = walk(t, v, depth, meta);
	t->path_bytes = before;
	return rc;
}

/* A key as a part of a name: text as it is, whole numbers in decimal, others by position. */
static int walk_key(struct h2d_torch *t, const struct h2d_pickle_item *item, uint32_t place,
		    unsigned depth, enum meta meta)
{
	char number[24];

	if (item->key->kind == H2D_PICKLE_STRING)
		return walk_part(t, item->value, item->key->text.data, item->key->text.bytes,
				 depth, meta);
	if (item->key->kind == H2D_PICKLE_INT)
		snprintf(number, sizeof(number), "%" PRId64, item->key->integer);
	else
		snprintf(number, sizeof(number), "#%u", place);
	return walk_part(t, item->value, number, strlen(number), depth, meta);
}

/* ---- metadata */

static bool value_type(const value *v, enum h2d_value_type *type)
{
	switch (v->kind) {
	case H2D_PICKLE_BOOL:
		*type = H2D_VALUE_BOOL;
		return true;
	case H2D_PICKLE_INT:
		*type = H2D_VALUE_I64;
		return true;
	case H2D_PICKLE_FLOAT:
		*type = H2D_VALUE_F64;
		return true;
	case H2D_PICKLE_STRING:
		*type = H2D_VALUE_STRING;
		return true;
	default:
		return false;
	}
}

static uint64_t scalar_bytes(const value *v)
{
	switch (v->kind) {
	case H2D_PICKLE_BOOL:
		return 1;
	case H2D_PICKLE_STRING:
		return v->text.bytes;
	default:
		return 8;
	}
}

static void put_scalar(unsigned char *to, const value *v)
{
	if (v->kind == H2D_PICKLE_BOOL)
		*to = v->integer != 0;
	else if (v->kind == H2D_PICKLE_STRING)
		memcpy(to, v->text.data, v->text.bytes);
	else if (v->kind == H2D_PICKLE_FLOAT)
		memcpy(to, &v->real, sizeof(v->real));
	else
		memcpy(to, &v->integer, sizeof(v->integer));
}

static struct h2d_metadata *add_metadata(struct h2d_torch *t, uint64_t data_bytes, int *rc)
{
	struct h2d_catalogue *cat = t->p->cat;
	struct h2d_metadata *m;
	char *key;

	*rc = h2d_torch_spend(t, sizeof(*m) + t->path_bytes + data_bytes);
	if (*rc)
		return NULL;
	m = h2d_catalogue_add_metadata(cat);
	key = m ? h2d_torch_name(t, "value", &m->key_bytes) : NULL;
	if (!key) {
		*rc = h2d_reader_nomem(&t->r);
		return NULL;
	}
	m->key = key;
	m->count = 1;
	return m;
}

static int add_scalar(struct h2d_torch *t, const value *v)
{
	uint64_t bytes = v->kind == H2D_PICKLE_NONE ? 0 : scalar_bytes(v);
	enum h2d_value_type type = H2D_VALUE_NULL;
	struct h2d_metadata *m;
	unsigned char *data;
	int rc;

	value_type(v, &type);
	m = add_metadata(t, bytes, &rc);
	if (!m)
		return rc;
	data = h2d_arena_alloc(&t->p->cat->arena, (size_t)bytes + 1);
	if (!data)
		return h2d_reader_nomem(&t->r);
	if (bytes)
		put_scalar(data, v);
	data[bytes] = 0;
	m->type = type;
	m->data = data;
	m->data_bytes = (size_t)bytes;
	return 0;
}

/* True when all elements are plain values of one type. */
static bool is_array(const value *v, enum h2d_value_type *type)
{
	const struct h2d_pickle_item *i = v->items.first;
	enum h2d_value_type other;

	if (!i || !value_type(i->value, type))
		return false;
	for (i = i->next; i; i = i->next)
		if (!value_type(i->value, &other) || other != *type)
			return false;
	return true;
}

static int add_array(struct h2d_torch *t, const value *v, enum h2d_value_type type)
{
	const struct h2d_pickle_item *i;
	uint64_t bytes = 0, prefix = type == H2D_VALUE_STRING ? sizeof(uint64_t) : 0;
	struct h2d_metadata *m;
	unsigned char *data;
	int rc;

	for (i = v->items.first; i; i = i->next)
		bytes += prefix + scalar_bytes(i->value);
	m = add_metadata(t, bytes, &rc);
	if (!m)
		return rc;
	data = h2d_arena_alloc(&t->p->cat->arena, (size_t)bytes);
	if (!data)
		return h2d_reader_nomem(&t->r);
	m->type = H2D_VALUE_ARRAY;
	m->element_type = type;
	m->count = v->count;
	m->data = data;
	m->data_bytes = (size_t)bytes;
	for (i = v->items.first; i; i = i->next) {
		uint64_t n = scalar_bytes(i->value);

		memcpy(data, &n, prefix);
		put_scalar(data + prefix, i->value);
		data += prefix + n;
	}
	return 0;
}

/* ---- containers and objects */

static int walk_elements(struct h2d_torch *t, const value *v, unsigned depth, enum meta meta)
{
	uint32_t place = 0;
	int rc = 0;

	for (const struct h2d_pickle_item *i = v->items.first; i && !rc && !t->raw;
	     i = i->next) {
		char number[24];

		snprintf(number, sizeof(number), "%u", place++);
		rc = walk_part(t, i->value, number, strlen(number), depth, meta);
	}
	return rc;
}

static int walk_items(struct h2d_torch *t, const value *v, unsigned depth, enum meta meta)
{
	uint32_t place = 0;
	int rc = 0;

	for (const struct h2d_pickle_item *i = v->items.first; i && !rc && !t->raw; i = i->next)
		if (i->key)
			rc = walk_key(t, i, place++, depth, meta);
	return rc;
}

static int walk_list(struct h2d_torch *t, const value *v, unsigned depth, enum meta meta)
{
	enum h2d_value_type type;
	int rc = visit(t, v->count);

	if (rc)
		return rc;
	if (is_array(v, &type))
		return meta == META_KEEP ? add_array(t, v, type) : 0;
	return walk_elements(t, v, depth, meta);
}

static value *item_named(const value *dict, const char *key)
{
	for (const struct h2d_pickle_item *i = dict->items.first; i; i = i->next)
		if (i->key && i->key->kind == H2D_PICKLE_STRING &&
		    !strcmp(i->key->text.data, key))
			return i->value;
	return NULL;
}

/* torch.nn.Module keeps its tensors in three dicts that their state-dict names leave out. */
static bool is_module_part(const value *key)
{
	return key && key->kind == H2D_PICKLE_STRING &&
	       (!strcmp(key->text.data, "_parameters") || !strcmp(key->text.data, "_buffers") ||
		!strcmp(key->text.data, "_modules"));
}

static int walk_module(struct h2d_torch *t, const value *state, unsigned depth)
{
	uint32_t place = 0;
	int rc = 0;

	for (const struct h2d_pickle_item *i = state->items.first; i && !rc && !t->raw;
	     i = i->next, place++) {
		if (is_module_part(i->key))
			rc = walk(t, i->value, depth, META_SKIP);
		else if (i->key)
			rc = walk_key(t, i, place, depth, META_SKIP);
	}
	return rc;
}

/* Attributes: a dict, or (dict or None, dict of slots), or whatever __getstate__ made. */
static int walk_state(struct h2d_torch *t, struct h2d_pickle_value *state, unsigned depth,
		      enum meta meta)
{
	if (state->kind == H2D_PICKLE_DICT && item_named(state, "_parameters") &&
	    item_named(state, "_modules"))
		return walk_module(t, state, depth);
	return walk(t, state, depth, meta);
}

static bool starts(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

/* What an object is as far as walking goes. */
enum shape {
	SHAPE_UNKNOWN,
	SHAPE_DICT,    /* its items; or a list of pairs as its argument */
	SHAPE_WRAPPER, /* stands for its first argument */
	SHAPE_SCRIPT,  /* TorchScript object: attributes only */
	SHAPE_MODULE,
	SHAPE_INERT, /* nothing in it */
};

static enum shape shape_of(const value *callable)
{
	static const struct {
		const char *module, *name;
		enum shape shape;
	} known[] = {
		{"collections", "OrderedDict", SHAPE_DICT},
		{"collections", "defaultdict", SHAPE_DICT},
		{"collections", "Counter", SHAPE_DICT},
		{"builtins", "dict", SHAPE_DICT},
		{"__builtin__", "dict", SHAPE_DICT},
		{"torch", "Size", SHAPE_WRAPPER},
		{"builtins", "set", SHAPE_WRAPPER},
		{"__builtin__", "set", SHAPE_WRAPPER},
		{"builtins", "frozenset", SHAPE_WRAPPER},
		{"__builtin__", "frozenset", SHAPE_WRAPPER},
		{"builtins", "list", SHAPE_WRAPPER},
		{"builtins", "tuple", SHAPE_WRAPPER},
		{"collections", "deque", SHAPE_WRAPPER},
		{"torch.jit._pickle", "build_intlist", SHAPE_WRAPPER},
		{"torch.jit._pickle", "build_tensorlist", SHAPE_WRAPPER},
		{"torch.jit._pickle", "build_doublelist", SHAPE_WRAPPER},
		{"torch.jit._pickle", "build_boollist", SHAPE_WRAPPER},
		{"torch.jit._pickle", "restore_type_tag", SHAPE_WRAPPER},
		{"torch", "device", SHAPE_WRAPPER},
		{"builtins", "complex", SHAPE_INERT},
		{"__builtin__", "complex", SHAPE_INERT},
		{"builtins", "bytearray", SHAPE_INERT},
		{"__builtin__", "bytearray", SHAPE_INERT},
		{"_codecs", "encode", SHAPE_INERT},
	};

	if (!callable || callable->kind != H2D_PICKLE_GLOBAL)
		return SHAPE_UNKNOWN;
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (h2d_pickle_is_global(callable, known[i].module, known[i].name))
			return known[i].shape;
	if (starts(callable->text.data, "__torch__"))
		return SHAPE_SCRIPT;
	if (starts(callable->text.data, "torch.nn."))
		return SHAPE_MODULE;
	return SHAPE_UNKNOWN;
}

/* Said once per class: a value that Python would have made is not made here. */
static void warn_unknown(struct h2d_torch *t, struct h2d_pickle_value *v)
{
	struct h2d_pickle_value *callable = v->call->callable;
	struct h2d_shown module, name;

	if (!callable || callable->mark || t->warned_count > WARNINGS_MAX)
		return;
	callable->mark = 1;
	h2d_torch_subject(t, "value");
	if (t->warned_count++ == WARNINGS_MAX)
		h2d_reader_warn(&t->r, v->call->at, "more such values are not mentioned");
	else if (callable->kind != H2D_PICKLE_GLOBAL)
		h2d_reader_warn(&t->r, v->call->at, "a call of what is no global is not made");
	else
		h2d_reader_warn(&t->r, v->call->at,
				"%s.%s is not called; only what it is given is looked at",
				h2d_show_name(&module, callable->text.data,
					      strlen(callable->text.data)),
				h2d_show_name(&name, callable->name, strlen(callable->name)));
}

/* OrderedDict([(key, value), …]), as older Pythons pickle it. */
static int walk_pairs(struct h2d_torch *t, const value *list, unsigned depth, enum meta meta)
{
	uint32_t place = 0;
	int rc = visit(t, list->count);

	for (const struct h2d_pickle_item *i = list->items.first; i && !rc && !t->raw;
	     i = i->next) {
		struct h2d_pickle_item pair = {.key = h2d_pickle_at(i->value, 0),
					       .value = h2d_pickle_at(i->value, 1)};

		if (pair.key && pair.value)
			rc = walk_key(t, &pair, place++, depth, meta);
	}
	return rc;
}

static int walk_object(struct h2d_torch *t, struct h2d_pickle_value *v, unsigned depth,
		       enum meta meta)
{
	const struct h2d_pickle_call *call = v->call;
	struct h2d_pickle_value *first = h2d_pickle_at(call->args, 0);
	enum shape shape = shape_of(call->callable);
	int rc = 0;

	switch (shape) {
	case SHAPE_INERT:
		return 0;
	case SHAPE_WRAPPER:
		return first ? walk(t, first, depth, meta) : 0;
	case SHAPE_DICT:
		if (first && first->kind == H2D_PICKLE_LIST)
			rc = walk_pairs(t, first, depth, meta);
		if (!rc && !t->raw)
			rc = walk_items(t, v, depth, meta);
		/* State dicts carry versions of their modules as an attribute. */
		if (!rc && !t->raw && call->state)
			rc = walk_state(t, call->state, depth, META_SKIP);
		return rc;
	case SHAPE_UNKNOWN:
		warn_unknown(t, v);
		rc = walk(t, call->args, depth, META_SKIP);
		/* Attributes (argparse.Namespace) are worth showing, other states are not. */
		if (call->state && call->state->kind != H2D_PICKLE_DICT)
			meta = META_SKIP;
		break;
	default:
		meta = META_SKIP;
		break;
	}
	if (!rc && !t->raw && call->state)
		rc = walk_state(t, call->state, depth, meta);
	if (!rc && !t->raw && v->items.first)
		rc = v->items.first->key ? walk_items(t, v, depth, meta)
					 : walk_elements(t, v, depth, meta);
	return rc;
}

static int walk_inside(struct h2d_torch *t, struct h2d_pickle_value *v, unsigned depth,
		       enum meta meta)
{
	switch (v->kind) {
	case H2D_PICKLE_TUPLE:
	case H2D_PICKLE_LIST:
	case H2D_PICKLE_SET:
		return walk_list(t, v, depth, meta);
	case H2D_PICKLE_DICT:
		return walk_items(t, v, depth, meta);
	case H2D_PICKLE_OBJECT:
		return walk_object(t, v, depth, meta);
	case H2D_PICKLE_NONE:
	case H2D_PICKLE_BOOL:
	case H2D_PICKLE_INT:
	case H2D_PICKLE_FLOAT:
	case H2D_PICKLE_STRING:
		return meta == META_KEEP ? add_scalar(t, v) : 0;
	default:
		return 0;
	}
}

static int walk(struct h2d_torch *t, struct h2d_pickle_value *v, unsigned depth, enum meta meta)
{
	int rc;

	if (v->kind != H2D_PICKLE_GLOBAL && v->mark)
		return 0; /* inside itself: nothing new */
	if (depth == DEPTH_MAX) {
		h2d_torch_subject(t, "value");
		return h2d_reader_fail(&t->r, t->r.pos, "values are nested more than %d deep",
				       DEPTH_MAX);
	}
	rc = visit(t, 1);
	if (rc)
		return rc;
	rc = h2d_torch_take_tensor(t, v);
	if (rc)
		return rc < 0 ? rc : 0;
	v->mark = v->kind != H2D_PICKLE_GLOBAL;
	rc = walk_inside(t, v, depth + 1, meta);
	v->mark = v->kind == H2D_PICKLE_GLOBAL ? v->mark : 0;
	return rc;
}

int h2d_torch_walk(struct h2d_torch *t, struct h2d_pickle_value *root, const char *prefix)
{
	int rc = 0;

	t->path_bytes = 0;
	if (*prefix)
		rc = path_add(t, prefix, strlen(prefix));
	return rc ? rc : walk(t, root, 0, META_KEEP);
}

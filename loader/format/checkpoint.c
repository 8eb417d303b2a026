/* SPDX-License-Identifier: Apache-2.0 */
#include "format/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/opts.h"
#include "format/order.h"

/* An empty checkpoint with the caller's log and a copy of `path`. */
static int create(const char *path, const struct h2d_open_opts *opts,
		  struct h2d_checkpoint **out)
{
	struct h2d_open_opts o;
	struct h2d_checkpoint *c;
	struct h2d_log log;
	size_t bytes = strlen(path) + 1;

	*out = NULL;
	if (h2d_opts_read(&o, sizeof(o), opts))
		return H2D_E_INVALID;
	log = (struct h2d_log){o.log, o.log_user};
	c = h2d_mem->calloc(1, sizeof(*c));
	if (!c)
		return h2d_fail(&log, H2D_E_NOMEM, "%s: out of memory", path);
	c->log = log;
	c->path = h2d_mem->malloc(bytes);
	if (!c->path) {
		free(c);
		return h2d_fail(&log, H2D_E_NOMEM, "%s: out of memory", path);
	}
	memcpy(c->path, path, bytes);
	pthread_mutex_init(&c->views_lock, NULL);
	*out = c;
	return 0;
}

/* End an open that began at `start`: hand the checkpoint out, or release it. */
static int settle(struct h2d_checkpoint *c, uint64_t start, int rc, struct h2d_checkpoint **out)
{
	if (rc) {
		h2d_checkpoint_close(c);
		return rc;
	}
	c->open_ns = h2d_now_ns() - start;
	*out = c;
	return 0;
}

int h2d_checkpoint_open(const char *path, const struct h2d_open_opts *opts,
			struct h2d_checkpoint **out)
{
	uint64_t start = h2d_now_ns();
	struct h2d_checkpoint *c;
	int rc;

	if (!out)
		return H2D_E_INVALID;
	*out = NULL;
	if (!path)
		return H2D_E_INVALID;
	rc = create(path, opts, &c);
	if (rc)
		return rc;
	return settle(c, start, h2d_set_open(&c->cat, path, &c->log), out);
}

int h2d_checkpoint_open_fd(int fd, const char *name, const struct h2d_open_opts *opts,
			   struct h2d_checkpoint **out)
{
	uint64_t start = h2d_now_ns();
	struct h2d_checkpoint *c;
	struct h2d_file file;
	int rc;

	if (!out)
		return H2D_E_INVALID;
	*out = NULL;
	rc = create(name ? name : "descriptor", opts, &c);
	if (rc)
		return rc;
	rc = h2d_file_open_fd(&file, fd, name, &c->log);
	if (!rc)
		rc = h2d_set_open_file(&c->cat, &file, &c->log);
	return settle(c, start, rc, out);
}

int h2d_checkpoint_open_memory(const void *data, size_t bytes, const struct h2d_open_opts *opts,
			       struct h2d_checkpoint **out)
{
	uint64_t start = h2d_now_ns();
	struct h2d_checkpoint *c;
	struct h2d_file file;
	int rc;

	if (!out)
		return H2D_E_INVALID;
	*out = NULL;
	if (!data && bytes)
		return H2D_E_INVALID;
	rc = create("memory", opts, &c);
	if (rc)
		return rc;
	rc = h2d_file_open_memory(&file, data, bytes, &c->log);
	if (!rc)
		rc = h2d_set_open_file(&c->cat, &file, &c->log);
	return settle(c, start, rc, out);
}

void h2d_checkpoint_close(struct h2d_checkpoint *ckpt)
{
	if (!ckpt)
		return;
	for (uint32_t i = 0; ckpt->views && i < ckpt->cat.file_count; i++)
		h2d_map_close(&ckpt->views[i]);
	free(ckpt->views);
	h2d_catalogue_free(&ckpt->cat);
	pthread_mutex_destroy(&ckpt->views_lock);
	free(ckpt->path);
	free(ckpt);
}

int h2d_checkpoint_info(const struct h2d_checkpoint *ckpt, struct h2d_checkpoint_info *info)
{
	struct h2d_checkpoint_info i = {.size = sizeof(i)};

	if (!ckpt || !info)
		return H2D_E_INVALID;
	i.path = ckpt->path;
	i.format = ckpt->cat.format;
	i.file_count = ckpt->cat.file_count;
	i.tensor_count = ckpt->cat.tensor_count;
	i.metadata_count = ckpt->cat.metadata_count;
	i.size_bytes = ckpt->cat.size_bytes;
	i.header_bytes = ckpt->cat.header_bytes;
	i.ignored_count = ckpt->cat.ignored_count;
	return h2d_info_write(info, &i, sizeof(i)) ? H2D_E_INVALID : 0;
}

const char *h2d_checkpoint_file(const struct h2d_checkpoint *ckpt, uint32_t file)
{
	return ckpt && file < ckpt->cat.file_count ? ckpt->cat.files[file].path : NULL;
}

int h2d_checkpoint_tensor(const struct h2d_checkpoint *ckpt, uint64_t index,
			  struct h2d_tensor_info *info)
{
	struct h2d_tensor_info i = {.size = sizeof(i)};
	const struct h2d_tensor *t;

	if (!ckpt || !info)
		return H2D_E_INVALID;
	if (index >= ckpt->cat.tensor_count)
		return H2D_E_NOT_FOUND;
	t = &ckpt->cat.tensors[index];
	i.name = t->name;
	i.name_bytes = t->name_bytes;
	i.dtype = t->dtype;
	i.shape = t->shape;
	i.rank = t->rank;
	i.file = t->file;
	i.offset_bytes = t->offset_bytes;
	i.size_bytes = t->size_bytes;
	i.strides = t->strides;
	i.ordinal = t->ordinal;
	i.whole = t->strides || t->flags & H2D_TENSOR_WHOLE;
	return h2d_info_write(info, &i, sizeof(i)) ? H2D_E_INVALID : 0;
}

int h2d_checkpoint_find(const struct h2d_checkpoint *ckpt, const char *name, size_t name_bytes,
			uint64_t *index)
{
	uint64_t found;

	if (!ckpt || !name)
		return H2D_E_INVALID;
	found = h2d_order_find(&ckpt->cat, name, name_bytes);
	if (found == UINT64_MAX)
		return H2D_E_NOT_FOUND;
	if (index)
		*index = found;
	return 0;
}

int h2d_checkpoint_metadata(const struct h2d_checkpoint *ckpt, uint64_t index,
			    struct h2d_metadata_info *info)
{
	struct h2d_metadata_info i = {.size = sizeof(i)};
	const struct h2d_metadata *m;

	if (!ckpt || !info)
		return H2D_E_INVALID;
	if (index >= ckpt->cat.metadata_count)
		return H2D_E_NOT_FOUND;
	m = &ckpt->cat.metadata[index];
	i.key = m->key;
	i.key_bytes = m->key_bytes;
	i.type = m->type;
	i.element_type = m->element_type;
	i.count = m->count;
	i.data = m->data;
	i.data_bytes = m->data_bytes;
	return h2d_info_write(info, &i, sizeof(i)) ? H2D_E_INVALID : 0;
}

/* The mapping of a file, made at the first call. Called with the lock held. */
static int map_file(struct h2d_checkpoint *c, uint32_t file, struct h2d_map **out)
{
	struct h2d_catalogue *cat = &c->cat;
	struct h2d_map *m;
	int rc;

	if (!c->views) {
		c->views = h2d_mem->calloc(cat->file_count, sizeof(*c->views));
		if (!c->views)
			return h2d_fail(&c->log, H2D_E_NOMEM, "%s: out of memory for views",
					c->path);
	}
	m = &c->views[file];
	if (!m->base) {
		rc = h2d_map_open(m, &cat->files[file], H2D_MAP_READ, &c->log);
		/* After mapping: a file cut short before it would fault under the caller. */
		if (!rc)
			rc = h2d_file_check_unchanged(&cat->files[file], &c->log);
		if (rc) {
			h2d_map_close(m);
			memset(m, 0, sizeof(*m));
			return rc;
		}
	}
	*out = m;
	return 0;
}

int h2d_checkpoint_view(struct h2d_checkpoint *ckpt, uint64_t index, const void **data,
			uint64_t *size_bytes)
{
	const struct h2d_tensor *t;
	struct h2d_map *m = NULL;
	int rc;

	if (!ckpt || !data)
		return H2D_E_INVALID;
	*data = NULL;
	if (index >= ckpt->cat.tensor_count)
		return H2D_E_NOT_FOUND;
	t = &ckpt->cat.tensors[index];
	pthread_mutex_lock(&ckpt->views_lock);
	rc = map_file(ckpt, t->file, &m);
	pthread_mutex_unlock(&ckpt->views_lock);
	if (rc)
		return rc;
	*data = m->base + t->offset_bytes;
	if (size_bytes)
		*size_bytes = t->size_bytes;
	return 0;
}

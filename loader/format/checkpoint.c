/* SPDX-License-Identifier: Apache-2.0 */
#include "h2d/h2d.h"

int h2d_checkpoint_open(const char *path, const struct h2d_open_opts *opts,
			struct h2d_checkpoint **out)
{
	(void)path;
	(void)opts;
	(void)out;
	return H2D_E_UNSUPPORTED;
}

int h2d_checkpoint_open_fd(int fd, const char *name, const struct h2d_open_opts *opts,
			   struct h2d_checkpoint **out)
{
	(void)fd;
	(void)name;
	(void)opts;
	(void)out;
	return H2D_E_UNSUPPORTED;
}

int h2d_checkpoint_open_memory(const void *data, size_t bytes, const struct h2d_open_opts *opts,
			       struct h2d_checkpoint **out)
{
	(void)data;
	(void)bytes;
	(void)opts;
	(void)out;
	return H2D_E_UNSUPPORTED;
}

void h2d_checkpoint_close(struct h2d_checkpoint *ckpt)
{
	(void)ckpt;
}

int h2d_checkpoint_info(const struct h2d_checkpoint *ckpt, struct h2d_checkpoint_info *info)
{
	(void)ckpt;
	(void)info;
	return H2D_E_UNSUPPORTED;
}

const char *h2d_checkpoint_file(const struct h2d_checkpoint *ckpt, uint32_t file)
{
	(void)ckpt;
	(void)file;
	return NULL;
}

int h2d_checkpoint_tensor(const struct h2d_checkpoint *ckpt, uint64_t index,
			  struct h2d_tensor_info *info)
{
	(void)ckpt;
	(void)index;
	(void)info;
	return H2D_E_UNSUPPORTED;
}

int h2d_checkpoint_find(const struct h2d_checkpoint *ckpt, const char *name, size_t name_bytes,
			uint64_t *index)
{
	(void)ckpt;
	(void)name;
	(void)name_bytes;
	(void)index;
	return H2D_E_UNSUPPORTED;
}

int h2d_checkpoint_metadata(const struct h2d_checkpoint *ckpt, uint64_t index,
			    struct h2d_metadata_info *info)
{
	(void)ckpt;
	(void)index;
	(void)info;
	return H2D_E_UNSUPPORTED;
}

int h2d_checkpoint_view(struct h2d_checkpoint *ckpt, uint64_t index, const void **data,
			uint64_t *size_bytes)
{
	(void)ckpt;
	(void)index;
	(void)data;
	(void)size_bytes;
	return H2D_E_UNSUPPORTED;
}

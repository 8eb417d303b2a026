/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "format/order.h"

/* Tell the type of an opened file by its first bytes and let its parser read the header. */
static int parse_file(struct h2d_catalogue *cat, uint32_t index, const struct h2d_log *log)
{
	const struct h2d_file *file = &cat->files[index];
	struct h2d_parse parse = {.cat = cat, .file = file, .file_index = index, .log = log};
	uint64_t size = file->id.size_bytes;
	unsigned char head[H2D_DETECT_BYTES];
	size_t bytes = size < sizeof(head) ? size : sizeof(head);
	enum h2d_format_id id;
	int rc;

	rc = h2d_file_read(file, head, bytes, 0, log);
	if (rc)
		return rc;
	id = h2d_detect(head, bytes, size);
	if (id == H2D_FORMAT_TORCH_LEGACY)
		return h2d_fail(
			log, H2D_E_FORMAT,
			"%s: legacy pickle stream of torch.save (offset 0): only the zip "
			"form is read, since a stream cannot be located without running "
			"it; save it again with PyTorch 1.6 or later",
			file->path);
	for (const struct h2d_format *f = h2d_formats; f->name; f++) {
		if (f->id != id)
			continue;
		cat->format = f->name;
		return f->parse(&parse);
	}
	return h2d_fail(log, H2D_E_FORMAT,
			"%s: no format h2d knows (offset 0): neither safetensors, GGUF, .cact, "
			"a PyTorch zip archive nor an index.json",
			file->path);
}

static int finish(struct h2d_catalogue *cat, const struct h2d_log *log, int rc)
{
	if (!rc)
		rc = h2d_order_finish(cat, log);
	if (rc)
		h2d_catalogue_free(cat);
	return rc;
}

int h2d_set_open(struct h2d_catalogue *cat, const char *path, const struct h2d_log *log)
{
	struct h2d_file *file = h2d_catalogue_add_file(cat);
	int rc;

	if (!file)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
	rc = h2d_file_open(file, path, log);
	if (!rc)
		rc = parse_file(cat, 0, log);
	return finish(cat, log, rc);
}

int h2d_set_open_file(struct h2d_catalogue *cat, struct h2d_file *file,
		      const struct h2d_log *log)
{
	struct h2d_file *slot = h2d_catalogue_add_file(cat);

	if (!slot) {
		h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", file->path);
		h2d_file_close(file);
		return H2D_E_NOMEM;
	}
	*slot = *file;
	return finish(cat, log, parse_file(cat, 0, log));
}

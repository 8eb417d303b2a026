/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest useful program: open a checkpoint in memory, load it, look at the bytes. Valid C
 * and C++. */
#include <h2d/h2d.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
	static const char json[] =
		"{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
	unsigned char file[8 + sizeof(json) - 1 + 4];
	struct h2d_load_opts opts = H2D_OPTS(opts);
	struct h2d_checkpoint *ckpt = NULL;
	struct h2d_weights *weights = NULL;
	struct h2d_device *dev = NULL;
	uint64_t bytes = 0;
	void *data = NULL;
	int rc;

	memset(file, 0, sizeof(file));
	file[0] = (unsigned char)(sizeof(json) - 1);
	memcpy(file + 8, json, sizeof(json) - 1);
	memcpy(file + 8 + sizeof(json) - 1, "\1\2\3\4", 4);
	opts.path = "mmap";
	rc = h2d_checkpoint_open_memory(file, sizeof(file), NULL, &ckpt);
	if (!rc)
		rc = h2d_device_open("host", NULL, &dev);
	if (!rc)
		rc = h2d_load(ckpt, dev, &opts, &weights);
	if (!rc)
		rc = h2d_weights_data(weights, 0, NULL, &data, &bytes);
	if (!rc && (bytes != 4 || memcmp(data, "\1\2\3\4", 4)))
		rc = H2D_E_MISMATCH;
	if (rc)
		fprintf(stderr, "consumer: %s\n", h2d_status_string(rc));
	h2d_weights_free(weights);
	h2d_device_close(dev);
	h2d_checkpoint_close(ckpt);
	return rc != 0 || h2d_version() != (H2D_VERSION_MAJOR << 16 | H2D_VERSION_MINOR << 8 |
					    H2D_VERSION_PATCH);
}

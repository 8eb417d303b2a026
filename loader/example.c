/* SPDX-License-Identifier: Apache-2.0 */
#include <h2d/h2d.h>

#include <inttypes.h>
#include <stdio.h>

static void tell(void *user, enum h2d_log_level level, const char *line)
{
	if (level == H2D_LOG_ERROR)
		fprintf((FILE *)user, "%s\n", line);
}

/* Loads a checkpoint into host memory and lists its tensors: name, bytes, address. */
int main(int argc, char **argv)
{
	struct h2d_open_opts open = H2D_OPTS(open);
	struct h2d_device_opts device = H2D_OPTS(device);
	struct h2d_load_opts load = H2D_OPTS(load);
	struct h2d_checkpoint *ckpt = NULL;
	struct h2d_weights *weights = NULL;
	struct h2d_device *dev = NULL;
	int rc;

	if (argc != 2)
		return 2;
	open.log = device.log = load.log = tell;
	open.log_user = device.log_user = load.log_user = stderr;
	rc = h2d_checkpoint_open(argv[1], &open, &ckpt);
	if (!rc)
		rc = h2d_device_open("host", &device, &dev);
	if (!rc)
		rc = h2d_load(ckpt, dev, &load, &weights);
	for (uint64_t i = 0; !rc && i < h2d_weights_count(weights); i++) {
		struct h2d_tensor_info tensor = H2D_OPTS(tensor);
		uint64_t index, bytes;
		void *data;

		rc = h2d_weights_data(weights, i, &index, &data, &bytes);
		if (!rc)
			rc = h2d_checkpoint_tensor(ckpt, index, &tensor);
		if (!rc)
			printf("%.*s\t%" PRIu64 "\t%p\n", (int)tensor.name_bytes, tensor.name,
			       bytes, data);
	}
	if (rc)
		fprintf(stderr, "%s: %s\n", argv[1], h2d_status_string(rc));
	h2d_weights_free(weights);
	h2d_device_close(dev);
	h2d_checkpoint_close(ckpt);
	return rc != 0;
}

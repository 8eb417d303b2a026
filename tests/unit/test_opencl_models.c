/* SPDX-License-Identifier: Apache-2.0 */
/* label: long */
/* Every path, byte for byte, of the real checkpoints that scripts/fetch-models has brought, to
 * an OpenCL device of each kind of memory. */
#include <dirent.h>

#include "opencl_bench.h"

static void every_path(struct fixture *f, struct h2d_device *dev, const char *file)
{
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_open_opts oo = H2D_OPTS(oo);
	struct h2d_checkpoint *ckpt = NULL;
	const char *name;

	oo.log = fixture_log;
	oo.log_user = f;
	REQUIRE(!h2d_checkpoint_open(file, &oo, &ckpt));
	h2d_checkpoint_info(ckpt, &info);
	for (uint32_t i = 0; !h2d_path_describe(i, &name, NULL); i++) {
		struct h2d_verify_result v = H2D_OPTS(v);
		struct h2d_load_opts o = H2D_OPTS(o);
		struct h2d_report r = H2D_OPTS(r);
		struct h2d_weights *w = NULL;
		int rc;

		o.path = name;
		rc = h2d_load(ckpt, dev, &o, &w);
		if (rc == H2D_E_UNSUPPORTED)
			continue;
		CHECK_EQ(rc, 0);
		if (rc)
			continue;
		CHECK_EQ(h2d_verify(w, NULL, &v), 0);
		CHECK_EQ(v.compared_bytes, info.size_bytes);
		CHECK_EQ(v.tensor_count, info.tensor_count);
		h2d_weights_report(w, &r);
		printf("%s %s %s: %.2f GB/s, %llu in flight\n", dev->facts.name,
		       strrchr(file, '/') + 1, name,
		       (double)r.loaded_bytes / (double)r.total_ns,
		       (unsigned long long)r.max_in_flight_count);
		h2d_weights_free(w);
	}
	h2d_checkpoint_close(ckpt);
}

int main(void)
{
	static const char *const memories[] = {"opencl:0,memory=svm", "opencl:0,memory=buffer"};
	const char *source = getenv("H2D_SOURCE_DIR");
	char folder[2000], file[3000];
	static struct fixture f;
	struct dirent *entry;
	unsigned files = 0;
	DIR *d;

	opencl_begin();
	snprintf(folder, sizeof(folder), "%s/models", source ? source : ".");
	d = opendir(folder);
	while (d && (entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		files++;
		snprintf(file, sizeof(file), "%s/%s", folder, entry->d_name);
		for (int m = 0; m < 2; m++) {
			struct h2d_device *dev = opencl_open(&f, memories[m], 0);

			CHECK(dev != NULL);
			if (dev)
				every_path(&f, dev, file);
			h2d_device_close(dev);
		}
	}
	if (d)
		closedir(d);
	if (!files)
		SKIP("no real checkpoints: run scripts/fetch-models");
	return TEST_DONE();
}

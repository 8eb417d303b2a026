/* SPDX-License-Identifier: Apache-2.0 */
/* Which packages make one kernel, and what they unpack to: Debian, Ubuntu, Fedora, Arch. */
#include <sys/stat.h>
#include <unistd.h>

#include "lab/internal.h"
#include "synthetic.h"
#include "unit/test.h"

static char last_line[1024];

static void keep_line(void *user, enum h2d_log_level level, const char *line)
{
	(void)user;
	if (level == H2D_LOG_ERROR)
		snprintf(last_line, sizeof(last_line), "%s", line);
}

static const char *dir(const char *name)
{
	const char *path = in_scratch(name);

	mkdir(path, 0700);
	return path;
}

static const char *in(const char *directory, const char *name)
{
	static char buffers[16][600];
	static unsigned next;
	char *buffer = buffers[next++ % 16];

	snprintf(buffer, 600, "%s/%s", directory, name);
	return buffer;
}

/* Never asks the archive: without a cache there is nowhere to fetch to. */
static struct lab make_lab(const char *kernel_dir)
{
	struct lab lab = {.log = {.fn = keep_line}};

	lab.options.offline = true;
	lab.kernel_dir = kernel_dir ? strdup(kernel_dir) : NULL;
	last_line[0] = 0;
	return lab;
}

static void deb(const char *path, const char *name, const char *version, const char *depends,
		const struct entry *entries)
{
	char control[1024];

	snprintf(control, sizeof(control),
		 "Package: %s\nVersion: %s\nArchitecture: amd64\nDepends: %s\n", name, version,
		 depends);
	if (make_deb(path, control, entries))
		abort();
}

static const struct entry debian_image[] = {
	{ENTRY_FILE, "./boot/vmlinuz-9.1-amd64", "kernel", 0},
	{ENTRY_FILE, "./lib/modules/9.1-amd64/kernel/fs/ext4.ko", "module", 0},
	{0},
};
static const struct entry debian_headers[] = {
	{ENTRY_FILE, "./usr/src/linux-headers-9.1-amd64/Makefile",
	 "include /usr/src/linux-headers-9.1-common/Makefile\n", 0},
	{ENTRY_SYMLINK, "./usr/src/linux-headers-9.1-amd64/scripts",
	 "../../lib/linux-kbuild-9.1/scripts", 0},
	{ENTRY_SYMLINK, "./lib/modules/9.1-amd64/build", "/usr/src/linux-headers-9.1-amd64", 0},
	{0},
};
static const struct entry nothing[] = {{ENTRY_DIR, "./usr/src/", NULL, 0}, {0}};

static void fill_debian(const char *d, const char *version)
{
	char exact[64], least[64], both[256], file[64];

	snprintf(exact, sizeof(exact), "linux-headers-9.1-common (= %s)", version);
	snprintf(least, sizeof(least), "linux-kbuild-9.1 (>= %s)", version);
	snprintf(both, sizeof(both), "%s, %s, gcc-12, linux-image-9.1-amd64 (= %s) | x", exact,
		 least, version);
	snprintf(file, sizeof(file), "image-%s.trimmed.deb", version);
	deb(in(d, file), "linux-image-9.1-amd64", version, "kmod", debian_image);
	snprintf(file, sizeof(file), "headers-%s", version);
	deb(in(d, file), "linux-headers-9.1-amd64", version, both, debian_headers);
	snprintf(file, sizeof(file), "common-%s", version);
	deb(in(d, file), "linux-headers-9.1-common", version, "", nothing);
	snprintf(file, sizeof(file), "kbuild-%s", version);
	deb(in(d, file), "linux-kbuild-9.1", version, "", nothing);
}

static void free_all(struct lab *lab, struct lab_kernel *kernels, size_t count)
{
	for (size_t i = 0; i < count; i++)
		lab_kernel_free(&kernels[i]);
	free(kernels);
	free(lab->kernel_dir);
}

static void debian(void)
{
	const char *d = dir("debian"), *root_dir = in_scratch("debian-root");
	struct lab lab = make_lab(d);
	const char *release = "9.1-amd64";
	struct lab_kernel *kernels;
	struct lab_root root;
	char *makefile, *text, expected[800];
	size_t count, size;

	fill_debian(d, "9.1.5-1");
	fill_debian(d, "9.1.10-1");
	REQUIRE(write_bytes(in(d, "README"), "no package\n", 11) == 0);
	lab.options.releases = &release;
	lab.options.release_count = 1;
	REQUIRE(lab_kernels_find(&lab, &kernels, &count) == 0);
	REQUIRE(count == 1);
	CHECK(!kernels[0].missing && !kernels[0].headers_missing);
	/* The newest of two, and everything else of the same version. */
	CHECK_STR(kernels[0].image.version, "9.1.10-1");
	CHECK_EQ(kernels[0].header_count, 3);
	for (size_t i = 0; i < kernels[0].header_count; i++)
		CHECK_STR(kernels[0].headers[i].version, "9.1.10-1");
	CHECK(kernels[0].measured);
	CHECK_EQ(kernels[0].origin, LAB_ORIGIN_DIR);
	REQUIRE(lab_root_unpack(&lab, &kernels[0], root_dir, &root) == 0);
	CHECK_STR(root.release, "9.1-amd64");
	REQUIRE(lab_root_headers(&lab, &kernels[0], &root) == 0);
	REQUIRE(root.build);
	makefile = lab_format("%s/Makefile", root.build);
	REQUIRE(lab_read_file(makefile, 4096, &text, &size) == 0);
	snprintf(expected, sizeof(expected),
		 "include %s/usr/src/linux-headers-9.1-common/Makefile\n", root_dir);
	CHECK_STR(text, expected);
	free(text);
	free(makefile);
	lab_root_free(&root);
	free_all(&lab, kernels, count);
}

static void by_name_and_version(void)
{
	const char *d = dir("debian");
	struct lab lab = make_lab(d);
	const char *const packages[] = {"linux-image-9.1-amd64=9.1.5-1",
					"linux-image-9.1-amd64=9.1.7-1", "linux-image-8-amd64"};
	struct lab_kernel *kernels;
	size_t count;

	lab.options.packages = packages;
	lab.options.package_count = 3;
	REQUIRE(lab_kernels_find(&lab, &kernels, &count) == 0);
	REQUIRE(count == 3);
	CHECK(!kernels[0].missing);
	CHECK_STR(kernels[0].image.version, "9.1.5-1");
	CHECK(kernels[1].missing && strstr(kernels[1].request, "9.1.7-1"));
	CHECK(kernels[2].missing && strstr(kernels[2].missing, "offline"));
	free_all(&lab, kernels, count);
}

static void wrong_packages(void)
{
	const char *d = dir("wrong");
	struct lab lab = make_lab(NULL);
	const char *package;
	struct lab_kernel *kernels;
	size_t count;

	lab.options.packages = &package;
	lab.options.package_count = 1;
	/* A package, but no kernel. */
	deb(in(d, "headers"), "linux-headers-9.1-amd64", "1", "", nothing);
	package = in(d, "headers");
	CHECK_EQ(lab_kernels_find(&lab, &kernels, &count), H2D_E_FORMAT);
	free_all(&lab, kernels, count);
	/* No package at all. */
	REQUIRE(write_bytes(in(d, "text.deb"), "hello", 5) == 0);
	lab = make_lab(NULL);
	lab.options.packages = &package;
	lab.options.package_count = 1;
	package = in(d, "text.deb");
	CHECK_EQ(lab_kernels_find(&lab, &kernels, &count), H2D_E_FORMAT);
	CHECK(strstr(last_line, "text.deb"));
	free_all(&lab, kernels, count);
	package = in(d, "missing.deb");
	CHECK_EQ(lab_kernels_find(&lab, &kernels, &count), H2D_E_NOT_FOUND);
	free_all(&lab, kernels, count);
	/* For another machine. */
	REQUIRE(make_deb(in(d, "arm.deb"),
			 "Package: linux-image-9.1-arm64\nVersion: 1\nArchitecture: arm64\n",
			 nothing) == 0);
	package = in(d, "arm.deb");
	CHECK_EQ(lab_kernels_find(&lab, &kernels, &count), H2D_E_FORMAT);
	CHECK(strstr(last_line, "another machine"));
	free_all(&lab, kernels, count);
}

/* An image package that does not hold what its name says. */
static void hollow_image(void)
{
	const struct entry other[] = {
		{ENTRY_FILE, "./boot/vmlinuz-8-amd64", "kernel", 0},
		{ENTRY_FILE, "./lib/modules/8-amd64/kernel/x.ko", "module", 0},
		{0},
	};
	const struct entry no_kernel[] = {
		{ENTRY_FILE, "./lib/modules/9.1-amd64/kernel/x.ko", "module", 0},
		{0},
	};
	const struct entry *const contents[] = {other, no_kernel, nothing};

	for (size_t i = 0; i < 3; i++) {
		const char *d = dir("hollow"), *package = in(d, "image");
		struct lab lab = make_lab(NULL);
		struct lab_kernel *kernels;
		struct lab_root root;
		size_t count;
		char name[32];

		deb(in(d, "image"), "linux-image-9.1-amd64", "1", "", contents[i]);
		lab.options.packages = &package;
		lab.options.package_count = 1;
		REQUIRE(lab_kernels_find(&lab, &kernels, &count) == 0);
		REQUIRE(count == 1);
		CHECK(kernels[0].headers_missing);
		snprintf(name, sizeof(name), "hollow-%zu", i);
		CHECK_EQ(lab_root_unpack(&lab, &kernels[0], in_scratch(name), &root),
			 H2D_E_FORMAT);
		CHECK(strstr(last_line, "wrong package"));
		lab_root_free(&root);
		free_all(&lab, kernels, count);
	}
}

static void ubuntu(void)
{
	static const struct entry image[] = {
		{ENTRY_FILE, "./boot/vmlinuz-7.0.0-28-generic", "k", 0}, {0}};
	static const struct entry modules[] = {
		{ENTRY_FILE, "./lib/modules/7.0.0-28-generic/kernel/fs/xfs.ko.zst", "m", 0},
		{0}};
	static const struct entry extra[] = {
		{ENTRY_FILE, "./lib/modules/7.0.0-28-generic/kernel/drivers/gpu/amdgpu.ko.zst",
		 "m", 0},
		{0}};
	static const struct entry headers[] = {
		{ENTRY_FILE, "./usr/src/linux-headers-7.0.0-28/Makefile", "all:\n", 0},
		{ENTRY_SYMLINK, "./usr/src/linux-headers-7.0.0-28-generic/Makefile",
		 "../linux-headers-7.0.0-28/Makefile", 0},
		{0}};
	const char *d = dir("ubuntu"), *release = "7.0.0-28-generic";
	struct lab lab = make_lab(d);
	struct lab_kernel *kernels;
	struct lab_root root;
	size_t count;
	char *amdgpu;

	deb(in(d, "a"), "linux-image-7.0.0-28-generic", "7.0.0-28.28",
	    "kmod, linux-modules-7.0.0-28-generic", image);
	deb(in(d, "b"), "linux-modules-7.0.0-28-generic", "7.0.0-28.28", "", modules);
	deb(in(d, "c"), "linux-modules-extra-7.0.0-28-generic", "7.0.0-28.28", "", extra);
	deb(in(d, "d"), "linux-headers-7.0.0-28-generic", "7.0.0-28.28",
	    "linux-hwe-7.0-headers-7.0.0-28, libc6", headers);
	deb(in(d, "e"), "linux-hwe-7.0-headers-7.0.0-28", "7.0.0-28.28", "", nothing);
	lab.options.releases = &release;
	lab.options.release_count = 1;
	REQUIRE(lab_kernels_find(&lab, &kernels, &count) == 0);
	REQUIRE(count == 1);
	CHECK(!kernels[0].missing && !kernels[0].headers_missing);
	CHECK_EQ(kernels[0].module_count, 2);
	CHECK_EQ(kernels[0].header_count, 2);
	CHECK(!kernels[0].measured);
	REQUIRE(lab_root_unpack(&lab, &kernels[0], in_scratch("ubuntu-root"), &root) == 0);
	amdgpu = lab_format("%s/kernel/drivers/gpu/amdgpu.ko.zst", root.modules);
	CHECK(amdgpu && access(amdgpu, R_OK) == 0);
	free(amdgpu);
	CHECK_EQ(lab_root_headers(&lab, &kernels[0], &root), 0);
	CHECK(root.build && strstr(root.build, "linux-headers-7.0.0-28-generic"));
	lab_root_free(&root);
	free_all(&lab, kernels, count);
	/* Without its modules it cannot be had. */
	unlink(in(d, "b"));
	lab = make_lab(d);
	lab.options.releases = &release;
	lab.options.release_count = 1;
	REQUIRE(lab_kernels_find(&lab, &kernels, &count) == 0);
	CHECK(count == 1 && kernels[0].missing &&
	      strstr(kernels[0].missing, "linux-modules-7.0.0-28-generic"));
	free_all(&lab, kernels, count);
}

/* Debian since 7.2: the image package only names those of the kernel and of its modules. */
static void debian_split(void)
{
	static const struct entry binary[] = {
		{ENTRY_FILE, "./usr/lib/modules/7.3.4+deb13-amd64/vmlinuz", "k", 0}, {0}};
	static const struct entry modules[] = {
		{ENTRY_FILE,
		 "./usr/lib/modules/7.3.4+deb13-amd64/kernel/drivers/gpu/amdgpu.ko.xz", "m", 0},
		{0}};
	static const struct entry headers[] = {
		{ENTRY_FILE, "./usr/src/linux-headers-7.3.4+deb13-amd64/Makefile", "all:\n", 0},
		{0}};
	static const struct entry base[] = {
		{ENTRY_FILE, "./usr/lib/modules/7.3.4+deb13-amd64/modules.builtin", "b", 0},
		{0}};
	const char *d = dir("split"), *release = "7.3.4+deb13-amd64";
	struct lab lab = make_lab(d);
	struct lab_kernel *kernels;
	struct lab_root root;
	size_t count;
	char *builtin;

	deb(in(d, "a"), "linux-image-7.3.4+deb13-amd64", "7.3.4-1",
	    "linux-base-7.3.4+deb13-amd64 (= 7.3.4-1), linux-binary-7.3.4+deb13-amd64 (= "
	    "7.3.4-1), linux-modules-7.3.4+deb13-amd64 (= 7.3.4-1)",
	    nothing);
	deb(in(d, "b"), "linux-binary-7.3.4+deb13-amd64", "7.3.4-1", "", binary);
	deb(in(d, "c"), "linux-modules-7.3.4+deb13-amd64", "7.3.4-1", "", modules);
	deb(in(d, "d"), "linux-headers-7.3.4+deb13-amd64", "7.3.4-1",
	    "gcc-14-for-host, linux-base (>= 4.12~)", headers);
	deb(in(d, "e"), "linux-base-7.3.4+deb13-amd64", "7.3.4-1", "", base);
	lab.options.releases = &release;
	lab.options.release_count = 1;
	REQUIRE(lab_kernels_find(&lab, &kernels, &count) == 0);
	REQUIRE(count == 1);
	CHECK(!kernels[0].missing && !kernels[0].headers_missing);
	CHECK_EQ(kernels[0].module_count, 3);
	REQUIRE(lab_root_unpack(&lab, &kernels[0], in_scratch("split-root"), &root) == 0);
	builtin = lab_format("%s/modules.builtin", root.modules);
	CHECK(builtin && access(builtin, R_OK) == 0);
	free(builtin);
	CHECK(root.image && strstr(root.image, "/lib/modules/7.3.4+deb13-amd64/vmlinuz"));
	CHECK_STR(root.release, release);
	lab_root_free(&root);
	free_all(&lab, kernels, count);
	/* Without the kernel itself it cannot be had. */
	unlink(in(d, "b"));
	lab = make_lab(d);
	lab.options.releases = &release;
	lab.options.release_count = 1;
	REQUIRE(lab_kernels_find(&lab, &kernels, &count) == 0);
	CHECK(count == 1 && kernels[0].missing && strstr(kernels[0].missing, "linux-binary-"));
	free_all(&lab, kernels, count);
}

static void fedora(void)
{
	static const struct entry core[] = {
		{ENTRY_FILE, "./lib/modules/7.0.12-200.fc44.x86_64/vmlinuz", "k", 0}, {0}};
	static const struct entry modules[] = {
		{ENTRY_FILE, "./lib/modules/7.0.12-200.fc44.x86_64/kernel/fs/ext4.ko.xz", "m",
		 0},
		{0}};
	static const struct entry devel[] = {
		{ENTRY_FILE, "./usr/src/kernels/7.0.12-200.fc44.x86_64/Makefile", "all:\n", 0},
		{0}};
	const char *d = dir("fedora"), *release = "7.0.12-200.fc44.x86_64";
	struct lab lab = make_lab(d);
	struct lab_kernel *kernels;
	struct lab_root root;
	size_t count;

	REQUIRE(make_rpm(in(d, "1"), "kernel-core", "7.0.12", "200.fc44", "x86_64", core) == 0);
	REQUIRE(make_rpm(in(d, "2"), "kernel-modules", "7.0.12", "200.fc44", "x86_64",
			 modules) == 0);
	REQUIRE(make_rpm(in(d, "3"), "kernel-devel", "7.0.12", "200.fc44", "x86_64", devel) ==
		0);
	REQUIRE(make_rpm(in(d, "4"), "kernel-devel", "7.0.13", "200.fc44", "x86_64", devel) ==
		0);
	lab.options.releases = &release;
	lab.options.release_count = 1;
	REQUIRE(lab_kernels_find(&lab, &kernels, &count) == 0);
	REQUIRE(count == 1);
	CHECK(!kernels[0].missing && !kernels[0].measured);
	CHECK_EQ(kernels[0].module_count, 1);
	CHECK_EQ(kernels[0].header_count, 1);
	REQUIRE(lab_root_unpack(&lab, &kernels[0], in_scratch("fedora-root"), &root) == 0);
	CHECK(root.image && strstr(root.image, "/vmlinuz"));
	CHECK_EQ(lab_root_headers(&lab, &kernels[0], &root), 0);
	CHECK(root.build && strstr(root.build, "usr/src/kernels"));
	lab_root_free(&root);
	free_all(&lab, kernels, count);
}

static void arch(void)
{
	static const struct entry image[] = {
		{ENTRY_FILE, "usr/lib/modules/7.0.12-zen1-1-zen/vmlinuz", "k", 0},
		{ENTRY_FILE, "usr/lib/modules/7.0.12-zen1-1-zen/kernel/fs/ext4.ko.zst", "m", 0},
		{0}};
	static const struct entry headers[] = {
		{ENTRY_FILE, "usr/lib/modules/7.0.12-zen1-1-zen/build/Makefile", "all:\n", 0},
		{0}};
	const char *d = dir("arch");
	const char *const packages[] = {in(d, "linux-zen.pkg.tar.zst"),
					in(d, "linux-zen-headers.pkg.tar.zst")};
	struct lab lab = make_lab(NULL);
	struct lab_kernel *kernels;
	struct lab_root root;
	size_t count;

	REQUIRE(make_pacman(packages[0],
			    "pkgname = linux-zen\npkgver = 7.0.12.zen1-1\narch = x86_64\n",
			    image) == 0);
	REQUIRE(make_pacman(
			packages[1],
			"pkgname = linux-zen-headers\npkgver = 7.0.12.zen1-1\narch = x86_64\n",
			headers) == 0);
	lab.options.packages = packages;
	lab.options.package_count = 2;
	REQUIRE(lab_kernels_find(&lab, &kernels, &count) == 0);
	REQUIRE(count == 1);
	CHECK(!kernels[0].missing && !kernels[0].headers_missing && !kernels[0].measured);
	REQUIRE(lab_root_unpack(&lab, &kernels[0], in_scratch("arch-root"), &root) == 0);
	CHECK_STR(root.release, "7.0.12-zen1-1-zen");
	CHECK_EQ(lab_root_headers(&lab, &kernels[0], &root), 0);
	CHECK(root.build && strstr(root.build, "/build"));
	lab_root_free(&root);
	free_all(&lab, kernels, count);
}

int main(void)
{
	RUN(debian);
	RUN(by_name_and_version);
	RUN(wrong_packages);
	RUN(hollow_image);
	RUN(ubuntu);
	RUN(debian_split);
	RUN(fedora);
	RUN(arch);
	return TEST_DONE();
}

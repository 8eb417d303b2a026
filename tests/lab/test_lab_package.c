/* SPDX-License-Identifier: Apache-2.0 */
/* Package files of every format: recognised by content, unpacked, and never outside. */
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

static const struct h2d_log log_ = {.fn = keep_line};

static const char control[] = "Package: linux-image-9.9.9-test\nVersion: 9.9.9-1\n"
			      "Architecture: amd64\nDepends: kmod, linux-base (>= 4)\n";

static const struct entry good[] = {
	{ENTRY_DIR, "./boot/", NULL, 0},
	{ENTRY_FILE, "./boot/vmlinuz-9.9.9-test", "kernel", 04755},
	{ENTRY_FILE, "./lib/modules/9.9.9-test/kernel/a.ko", "module", 0},
	{ENTRY_SYMLINK, "./lib/modules/9.9.9-test/build", "/usr/src/linux-headers-9.9.9", 0},
	{ENTRY_SYMLINK, "./lib/modules/9.9.9-test/b.ko", "kernel/a.ko", 0},
	{ENTRY_HARDLINK, "./lib/modules/9.9.9-test/c.ko",
	 "./lib/modules/9.9.9-test/kernel/a.ko", 0},
	{ENTRY_FILE, "./usr/share/doc/x/copyright", "not needed", 0},
	{0},
};

static bool there(const char *directory, const char *name)
{
	char path[1024];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return lstat(path, &st) == 0;
}

static void check_unpacked(const char *path, enum h2d_lab_package_format format,
			   const char *name, const char *version, const char *directory)
{
	struct lab_package package;
	char file[1024];
	struct stat st;

	REQUIRE(lab_package_read(&log_, path, false, &package) == 0);
	CHECK_EQ(package.format, format);
	CHECK_STR(package.name, name);
	CHECK_STR(package.version, version);
	REQUIRE(mkdir(directory, 0700) == 0);
	CHECK_EQ(lab_package_unpack(&log_, &package, directory, NULL, NULL), 0);
	CHECK(there(directory, "boot/vmlinuz-9.9.9-test"));
	CHECK(there(directory, "lib/modules/9.9.9-test/kernel/a.ko"));
	CHECK(there(directory, "lib/modules/9.9.9-test/b.ko"));
	CHECK(there(directory, "lib/modules/9.9.9-test/c.ko"));
	CHECK(!there(directory, "lib/modules/9.9.9-test/build"));
	CHECK(!there(directory, "usr/share"));
	snprintf(file, sizeof(file), "%s/boot/vmlinuz-9.9.9-test", directory);
	REQUIRE(stat(file, &st) == 0);
	CHECK_EQ(st.st_mode & 07777, 0755);
	lab_package_free(&package);
}

static void deb(void)
{
	/* Names say nothing: the file ends in neither .deb nor anything else. */
	REQUIRE(make_deb(in_scratch("some.trimmed"), control, good) == 0);
	check_unpacked(in_scratch("some.trimmed"), H2D_LAB_PACKAGE_DEB,
		       "linux-image-9.9.9-test", "9.9.9-1", in_scratch("deb-root"));
}

static void rpm(void)
{
	REQUIRE(make_rpm(in_scratch("a.rpm"), "kernel-core", "9.9.9", "200.fc44", "x86_64",
			 good) == 0);
	check_unpacked(in_scratch("a.rpm"), H2D_LAB_PACKAGE_RPM, "kernel-core",
		       "9.9.9-200.fc44", in_scratch("rpm-root"));
}

static void pacman(void)
{
	REQUIRE(make_pacman(in_scratch("a.pkg.tar.zst"),
			    "pkgname = linux\npkgver = 9.9.9.arch1-1\narch = x86_64\n",
			    good) == 0);
	check_unpacked(in_scratch("a.pkg.tar.zst"), H2D_LAB_PACKAGE_PACMAN, "linux",
		       "9.9.9.arch1-1", in_scratch("pacman-root"));
}

static void expect_status(const char *path, int status)
{
	struct lab_package package;

	last_line[0] = 0;
	CHECK_EQ(lab_package_read(&log_, path, false, &package), status);
	CHECK(status == 0 || strstr(last_line, path));
	lab_package_free(&package);
}

static void no_packages(void)
{
	const struct entry nothing[] = {{0}};

	REQUIRE(write_bytes(in_scratch("text"), "hello\n", 6) == 0);
	REQUIRE(write_bytes(in_scratch("empty"), "", 0) == 0);
	REQUIRE(write_bytes(in_scratch("ar"), "!<arch>\ndebian-binary   ", 24) == 0);
	REQUIRE(write_bytes(in_scratch("rpm"), "\xed\xab\xee\xdb\3\0\0\0", 8) == 0);
	REQUIRE(write_bytes(in_scratch("zst"), "\x28\xb5\x2f\xfd\0\0\0\0", 8) == 0);
	REQUIRE(make_deb(in_scratch("noname"), "Version: 1\nArchitecture: amd64\n", nothing) ==
		0);
	REQUIRE(make_pacman(in_scratch("noinfo"), "pkgver = 1\n", nothing) == 0);
	expect_status(in_scratch("text"), H2D_E_FORMAT);
	expect_status(in_scratch("empty"), H2D_E_FORMAT);
	expect_status(in_scratch("ar"), H2D_E_FORMAT);
	expect_status(in_scratch("rpm"), H2D_E_FORMAT);
	expect_status(in_scratch("zst"), H2D_E_FORMAT);
	expect_status(in_scratch("noname"), H2D_E_FORMAT);
	expect_status(in_scratch("noinfo"), H2D_E_FORMAT);
	expect_status(in_scratch("missing"), H2D_E_NOT_FOUND);
	expect_status(scratch(), H2D_E_FORMAT);
}

/* Cut anywhere, a package is refused when it is read or when it is unpacked; changed bytes are
 * survived. */
static void damaged(void)
{
	char *data;
	size_t size;

	REQUIRE(make_deb(in_scratch("whole"), control, good) == 0);
	REQUIRE(lab_read_file(in_scratch("whole"), 1 << 20, &data, &size) == 0);
	for (size_t n = 0; n < size; n += 37) {
		struct lab_package package;
		const char *directory = in_scratch("cut-root");
		int err;

		REQUIRE(write_bytes(in_scratch("cut"), data, n) == 0);
		REQUIRE(mkdir(directory, 0700) == 0);
		err = lab_package_read(&log_, in_scratch("cut"), false, &package);
		if (!err)
			err = lab_package_unpack(&log_, &package, directory, NULL, NULL);
		CHECK_EQ(err, H2D_E_FORMAT);
		lab_package_free(&package);
		lab_remove_tree(directory);
	}
	for (size_t n = 0; n < size; n += 7) {
		struct lab_package package;
		const char *directory = in_scratch("bad-root");
		int err;

		data[n] ^= 0x55;
		REQUIRE(write_bytes(in_scratch("bad"), data, size) == 0);
		data[n] ^= 0x55;
		REQUIRE(mkdir(directory, 0700) == 0);
		err = lab_package_read(&log_, in_scratch("bad"), false, &package);
		if (!err)
			err = lab_package_unpack(&log_, &package, directory, NULL, NULL);
		CHECK(err == 0 || err == H2D_E_FORMAT);
		lab_package_free(&package);
		lab_remove_tree(directory);
	}
	free(data);
}

static void refuse(const char *what, const struct entry *entries)
{
	struct lab_package package;
	const char *root = in_scratch("refuse-root");
	int err;

	REQUIRE(make_deb(in_scratch("refuse.deb"), control, entries) == 0);
	REQUIRE(mkdir(root, 0700) == 0);
	REQUIRE(lab_package_read(&log_, in_scratch("refuse.deb"), false, &package) == 0);
	last_line[0] = 0;
	err = lab_package_unpack(&log_, &package, root, NULL, NULL);
	if (err != H2D_E_FORMAT || !strstr(last_line, "refused"))
		fprintf(stderr, "not refused: %s (%d, %s)\n", what, err, last_line);
	CHECK_EQ(err, H2D_E_FORMAT);
	CHECK(strstr(last_line, "refused"));
	CHECK(access(in_scratch("escaped"), F_OK) != 0);
	lab_package_free(&package);
	lab_remove_tree(root);
}

static void escapes(void)
{
	char absolute[600];
	const struct entry absolute_name[] = {{ENTRY_FILE, absolute, "x", 0}, {0}};
	const struct entry dotdot[] = {{ENTRY_FILE, "lib/../../escaped", "x", 0}, {0}};
	const struct entry only_dotdot[] = {{ENTRY_DIR, "..", NULL, 0}, {0}};
	const struct entry symlink_out[] = {{ENTRY_SYMLINK, "lib/x", "../../escaped", 0}, {0}};
	const struct entry symlink_deep[] = {
		{ENTRY_SYMLINK, "lib/a/b", "../../x/../../escaped", 0},
		{0},
	};
	const struct entry through_symlink[] = {
		{ENTRY_DIR, "lib/real/", NULL, 0},
		{ENTRY_SYMLINK, "lib/link", "real", 0},
		{ENTRY_FILE, "lib/link/file", "x", 0},
		{0},
	};
	const struct entry hardlink_out[] = {
		{ENTRY_HARDLINK, "lib/x", "../escaped-source", 0},
		{0},
	};
	const struct entry hardlink_absolute[] = {
		{ENTRY_HARDLINK, "lib/x", "/etc/hostname", 0},
		{0},
	};
	const struct entry device[] = {{ENTRY_DEVICE, "lib/null", NULL, 0}, {0}};

	snprintf(absolute, sizeof(absolute), "%s", in_scratch("escaped"));
	REQUIRE(write_bytes(in_scratch("escaped-source"), "x", 1) == 0);
	refuse("absolute name", absolute_name);
	refuse("dot-dot name", dotdot);
	refuse("dot-dot alone", only_dotdot);
	refuse("symbolic link out", symlink_out);
	refuse("symbolic link out by detour", symlink_deep);
	refuse("file below a symbolic link", through_symlink);
	refuse("hard link out", hardlink_out);
	refuse("absolute hard link", hardlink_absolute);
	refuse("device node", device);
}

static int always(void *user)
{
	(void)user;
	return 1;
}

static void limits(void)
{
	const struct lab_unpack_limits few_bytes = {.bytes = 8, .entries = 100};
	const struct lab_unpack_limits few_entries = {.bytes = 1 << 20, .entries = 3};
	const char *root = in_scratch("limit-root");
	struct lab_package package;
	const struct lab_cancel cancel = {.asked = always};

	REQUIRE(make_deb(in_scratch("limit.deb"), control, good) == 0);
	REQUIRE(mkdir(root, 0700) == 0);
	REQUIRE(lab_package_read(&log_, in_scratch("limit.deb"), false, &package) == 0);
	CHECK_EQ(lab_package_unpack(&log_, &package, root, &few_bytes, NULL), H2D_E_FORMAT);
	CHECK_EQ(lab_package_unpack(&log_, &package, root, &few_entries, NULL), H2D_E_FORMAT);
	CHECK_EQ(lab_package_unpack(&log_, &package, root, NULL, &cancel), H2D_E_CANCELLED);
	CHECK_EQ(lab_package_unpack(&log_, &package, in_scratch("nowhere"), NULL, NULL),
		 H2D_E_NOT_FOUND);
	lab_package_free(&package);
}

int main(void)
{
	RUN(deb);
	RUN(rpm);
	RUN(pacman);
	RUN(no_packages);
	RUN(damaged);
	RUN(escapes);
	RUN(limits);
	return TEST_DONE();
}

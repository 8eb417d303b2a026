/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_host PkgConfig::libarchive */
/* Captures are hostile: nothing outside their tree is read or written, whatever they hold. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>

#include "core/hostfs.h"
#include "host/root.h"
#include "host/unpack.h"
#include "scratch.h"
#include "test.h"

/* A member of an archive under test. */
struct member {
	const char *name;
	unsigned type;	     /**< AE_IF… */
	const char *content; /**< text, target of a link */
	size_t repeat;	     /**< how often the text stands there; 0: once */
	bool hard;	     /**< a hard link to `content` */
};

static const char *make_archive(const char *name, const struct member *members, size_t count,
				bool gzip)
{
	const char *path = scratch_path(name);
	struct archive *a = archive_write_new();

	if (gzip)
		archive_write_add_filter_gzip(a);
	archive_write_set_format_pax_restricted(a);
	if (archive_write_open_filename(a, path) != ARCHIVE_OK)
		exit(1);
	for (size_t i = 0; i < count; i++) {
		const struct member *m = &members[i];
		size_t n = m->content ? strlen(m->content) : 0,
		       repeat = m->repeat ? m->repeat : 1;
		struct archive_entry *e = archive_entry_new();

		archive_entry_set_pathname(e, m->name);
		archive_entry_set_filetype(e, m->type);
		archive_entry_set_perm(e, 0755);
		if (m->hard)
			archive_entry_set_hardlink(e, m->content);
		else if (m->type == AE_IFLNK)
			archive_entry_set_symlink(e, m->content);
		else
			archive_entry_set_size(e, m->type == AE_IFREG ? (la_int64_t)(n * repeat)
								      : 0);
		archive_write_header(a, e);
		for (size_t k = 0; m->type == AE_IFREG && !m->hard && k < repeat; k++)
			archive_write_data(a, m->content, n);
		archive_entry_free(e);
	}
	archive_write_free(a);
	return path;
}

static int open_root(const char *path, struct h2d_root *r)
{
	scratch_line[0] = 0;
	return h2d_root_open(path, &scratch_log, r);
}

static void plain_and_nested(void)
{
	static const struct member plain[] = {
		{"proc/meminfo", AE_IFREG, "MemTotal: 1 kB\n", 0, false},
		{"sys/a", AE_IFDIR, NULL, 0, false},
		{"sys/link", AE_IFLNK, "../x/driver", 0, false},
	};
	static const struct member nested[] = {
		{"./", AE_IFDIR, NULL, 0, false},
		{"./capture/", AE_IFDIR, NULL, 0, false},
		{"./capture/proc/meminfo", AE_IFREG, "MemTotal: 2 kB\n", 0, false},
	};
	char text[64], *unpacked;
	struct h2d_root r;
	char link[16];

	CHECK_EQ(open_root(make_archive("plain.tar", plain, 3, false), &r), 0);
	CHECK_EQ(h2d_hostfs_read(r.path, "/proc/meminfo", text, sizeof(text)), 14);
	CHECK_EQ(h2d_hostfs_link_name(r.path, "/sys/link", link, sizeof(link)), 0);
	CHECK_STR(link, "driver");
	unpacked = strdup(r.unpacked);
	h2d_root_close(&r);
	CHECK(access(unpacked, F_OK));
	free(unpacked);
	CHECK_EQ(open_root(make_archive("nested.tar.gz", nested, 3, true), &r), 0);
	CHECK(h2d_hostfs_read(r.path, "/proc/meminfo", text, sizeof(text)) > 0);
	CHECK_STR(text, "MemTotal: 2 kB");
	h2d_root_close(&r);
	CHECK_EQ(open_root(NULL, &r), 0);
	CHECK(!r.path);
	h2d_root_close(&r);
	CHECK_EQ(open_root(scratch_dir, &r), 0);
	CHECK(r.path && !r.unpacked);
	h2d_root_close(&r);
}

static void refused(void)
{
	static const struct member up[] = {{"../evil", AE_IFREG, "x", 0, false}};
	static const struct member deep[] = {{"a/../../evil", AE_IFREG, "x", 0, false}};
	static const struct member absolute[] = {{"/evil", AE_IFREG, "x", 0, false}};
	static const struct member twice[] = {{"a", AE_IFREG, "x", 0, false},
					      {"a", AE_IFREG, "y", 0, false}};
	static const struct member through[] = {{"a", AE_IFLNK, "/tmp", 0, false},
						{"a/evil", AE_IFREG, "x", 0, false}};
	static const struct member below_file[] = {{"a", AE_IFREG, "x", 0, false},
						   {"a/b", AE_IFREG, "x", 0, false}};
	static const struct {
		const struct member *members;
		size_t count;
		const char *message;
	} cases[] = {
		{up, 1, "lies outside"},       {deep, 1, "lies outside"},
		{absolute, 1, "lies outside"}, {twice, 2, "twice"},
		{through, 2, "no directory"},  {below_file, 2, "no directory"},
	};
	struct h2d_root r;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[32];

		snprintf(name, sizeof(name), "refused-%zu.tar", i);
		CHECK_EQ(open_root(make_archive(name, cases[i].members, cases[i].count, false),
				   &r),
			 H2D_E_FORMAT);
		CHECK(scratch_logged(cases[i].message));
		h2d_root_close(&r);
	}
	CHECK(access("/tmp/evil", F_OK));
	CHECK_EQ(open_root("/nonexistent", &r), H2D_E_NOT_FOUND);
	h2d_root_close(&r);
	CHECK_EQ(open_root("/dev/null", &r), H2D_E_FORMAT);
	h2d_root_close(&r);
}

static void left_out(void)
{
	static const struct member odd[] = {
		{"dev", AE_IFCHR, NULL, 0, false},
		{"fifo", AE_IFIFO, NULL, 0, false},
		{"file", AE_IFREG, "x", 0, false},
		{"hard", AE_IFREG, "/etc/hostname", 0, true},
	};
	struct h2d_root r;
	char text[8], **names;

	CHECK_EQ(open_root(make_archive("odd.tar", odd, 4, false), &r), 0);
	CHECK_EQ(h2d_hostfs_read(r.path, "/file", text, sizeof(text)), 1);
	CHECK_EQ(h2d_hostfs_list(r.path, "/", &names), 1);
	h2d_hostfs_list_free(names);
	h2d_root_close(&r);
}

/* 80 MiB of zeros in some kilobytes. */
static void a_bomb(void)
{
	static char zeros[65537];
	static struct member bomb[] = {{"a", AE_IFREG, zeros, 1280, false}};
	struct h2d_root r;

	memset(zeros, '0', sizeof(zeros) - 1);
	CHECK_EQ(open_root(make_archive("bomb.tar.gz", bomb, 1, true), &r), H2D_E_FORMAT);
	CHECK(scratch_logged("MiB unpacked"));
	h2d_root_close(&r);
}

static void damaged(void)
{
	static const struct member m[] = {{"a", AE_IFREG, "0123456789", 5000, false}};
	const char *path = make_archive("whole.tar.gz", m, 1, true);
	unsigned char bytes[4096];
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, bytes, sizeof(bytes));
	unsigned refused_count = 0;

	close(fd);
	REQUIRE(n > 64);
	for (ssize_t cut = 0; cut < n; cut += 7) {
		const char *part = scratch_path("part.tar.gz");
		struct h2d_root r;
		int rc;

		fd = open(part, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		CHECK_EQ(write(fd, bytes, (size_t)cut), cut);
		close(fd);
		rc = open_root(part, &r);
		refused_count += rc == H2D_E_FORMAT;
		CHECK(rc == 0 || rc == H2D_E_FORMAT);
		h2d_root_close(&r);
	}
	CHECK(refused_count > 0);
}

/* Links of a tree are followed inside it. */
static void links_stay_inside(void)
{
	char dir[300], text[64], path[400];
	const char *top = scratch_path("tree");

	REQUIRE(!mkdir(top, 0700));
	snprintf(dir, sizeof(dir), "%s", top);
	snprintf(path, sizeof(path), "%s/etc", dir);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/etc/os-release", dir);
	CHECK_EQ(symlink("/etc/real", path), 0);
	snprintf(path, sizeof(path), "%s/passwd", dir);
	CHECK_EQ(symlink("../../../../../../../../etc/passwd", path), 0);
	snprintf(path, sizeof(path), "%s/etc/real", dir);
	fclose(fopen(path, "w"));
	CHECK_EQ(h2d_hostfs_read(dir, "/etc/os-release", text, sizeof(text)), 0);
	CHECK_EQ(h2d_hostfs_read(dir, "/passwd", text, sizeof(text)), -ENOENT);
	/* "../" in what is asked for stays inside too. */
	CHECK_EQ(
		h2d_hostfs_read(dir, "/../../../../../../../../etc/passwd", text, sizeof(text)),
		-ENOENT);
}

static void recorded_errors(void)
{
	char dir[300], text[64], path[400], **names;
	const char *top = scratch_path("errors");
	FILE *f;

	REQUIRE(!mkdir(top, 0700));
	snprintf(dir, sizeof(dir), "%s", top);
	snprintf(path, sizeof(path), "%s/closed.errno", dir);
	f = fopen(path, "w");
	fputs("13\n", f);
	fclose(f);
	snprintf(path, sizeof(path), "%s/odd.errno", dir);
	f = fopen(path, "w");
	fputs("many\n", f);
	fclose(f);
	CHECK_EQ(h2d_hostfs_read(dir, "/closed", text, sizeof(text)), -EACCES);
	CHECK_EQ(h2d_hostfs_list(dir, "/closed", &names), -EACCES);
	CHECK_EQ(h2d_hostfs_link_name(dir, "/closed", text, sizeof(text)), -EACCES);
	CHECK_EQ(h2d_hostfs_read(dir, "/odd", text, sizeof(text)), -ENOENT);
	CHECK_EQ(h2d_hostfs_read(dir, "/absent", text, sizeof(text)), -ENOENT);
}

static void packing(void)
{
	char tree[300], one[300], two[300], text[64];
	unsigned char a[2048], b[2048];
	struct h2d_root r;
	ssize_t n, m;
	int fd;

	snprintf(tree, sizeof(tree), "%s", scratch_path("pack"));
	snprintf(one, sizeof(one), "%s", scratch_path("one.tar.gz"));
	snprintf(two, sizeof(two), "%s", scratch_path("two.tar.gz"));
	REQUIRE(!mkdir(tree, 0700));
	snprintf(text, sizeof(text), "%.40s/file", tree);
	fd = open(text, O_WRONLY | O_CREAT, 0600);
	REQUIRE(fd >= 0 && write(fd, "hello\n", 6) == 6);
	close(fd);
	CHECK_EQ(h2d_pack(tree, "top", one, &scratch_log), 0);
	CHECK_EQ(h2d_pack(tree, "top", two, &scratch_log), 0);
	CHECK_EQ(h2d_pack(tree, "top", two, &scratch_log), H2D_E_INVALID);
	fd = open(one, O_RDONLY);
	n = read(fd, a, sizeof(a));
	close(fd);
	fd = open(two, O_RDONLY);
	m = read(fd, b, sizeof(b));
	close(fd);
	CHECK(n > 0 && n == m && !memcmp(a, b, (size_t)n));
	CHECK_EQ(open_root(one, &r), 0);
	CHECK_EQ(h2d_hostfs_read(r.path, "/file", text, sizeof(text)), 5);
	h2d_root_close(&r);
}

int main(void)
{
	RUN(plain_and_nested);
	RUN(refused);
	RUN(left_out);
	RUN(a_bomb);
	RUN(damaged);
	RUN(links_stay_inside);
	RUN(recorded_errors);
	RUN(packing);
	return TEST_DONE();
}

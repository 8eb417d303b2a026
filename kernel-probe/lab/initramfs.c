/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the guest's root as a cpio archive of the kind that kernels unpack at boot. */
#include "internal.h"
#include "spawn.h"

#include <archive.h>
#include <archive_entry.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PROGRAM_MAX_BYTES (256u << 20)
#define LIST_TIMEOUT_MS	  30000u

struct lab_initramfs {
	struct lab *lab;
	char *path;
	struct archive *archive;
	char **names; /* written so far */
	size_t count;
	la_int64_t inode;
	int error;
};

static int fail(struct lab_initramfs *fs)
{
	int err = archive_errno(fs->archive);

	fs->error = h2d_fail_errno(&fs->lab->log, err > 0 ? err : EIO, "%s", fs->path);
	return fs->error;
}

static int no_memory(struct lab_initramfs *fs)
{
	fs->error = h2d_fail(&fs->lab->log, H2D_E_NOMEM, "out of memory");
	return fs->error;
}

/* Remembers a name. Returns 1 when it was there already. */
static int remember(struct lab_initramfs *fs, const char *name)
{
	char **grown;

	for (size_t i = 0; i < fs->count; i++)
		if (strcmp(fs->names[i], name) == 0)
			return 1;
	grown = realloc(fs->names, (fs->count + 1) * sizeof(*grown));
	if (!grown)
		return no_memory(fs);
	fs->names = grown;
	grown[fs->count] = strdup(name);
	if (!grown[fs->count])
		return no_memory(fs);
	fs->count++;
	return 0;
}

static int put(struct lab_initramfs *fs, const char *name, mode_t mode, const void *data,
	       size_t size, unsigned major_, unsigned minor_)
{
	struct archive_entry *entry = archive_entry_new();
	int err = 0;

	if (!entry)
		return no_memory(fs);
	archive_entry_set_pathname(entry, name);
	archive_entry_set_mode(entry, mode);
	archive_entry_set_size(entry, (la_int64_t)size);
	archive_entry_set_nlink(entry, 1);
	archive_entry_set_ino64(entry, ++fs->inode);
	archive_entry_set_rdevmajor(entry, major_);
	archive_entry_set_rdevminor(entry, minor_);
	if (archive_write_header(fs->archive, entry) != ARCHIVE_OK ||
	    (size && archive_write_data(fs->archive, data, size) != (la_ssize_t)size) ||
	    archive_write_finish_entry(fs->archive) != ARCHIVE_OK)
		err = fail(fs);
	archive_entry_free(entry);
	return err;
}

int lab_initramfs_add_dir(struct lab_initramfs *fs, const char *name)
{
	char *copy = strdup(name);
	int err = fs->error;

	if (!copy)
		return no_memory(fs);
	for (char *p = copy; !err && *p; p++) {
		if (*p != '/' && p[1])
			continue;
		if (*p == '/')
			*p = 0;
		if (*copy) {
			err = remember(fs, copy);
			if (!err)
				err = put(fs, copy, S_IFDIR | 0755, NULL, 0, 0, 0);
			else if (err == 1)
				err = 0;
		}
		if (!*p)
			*p = '/';
	}
	free(copy);
	return err;
}

int lab_initramfs_add(struct lab_initramfs *fs, const char *name, const void *data, size_t size,
		      unsigned mode)
{
	const char *slash = strrchr(name, '/');
	int err = fs->error;

	if (!err && slash && slash != name) {
		char *parent = strndup(name, (size_t)(slash - name));

		if (!parent)
			return no_memory(fs);
		err = lab_initramfs_add_dir(fs, parent);
		free(parent);
	}
	if (!err)
		err = remember(fs, name);
	if (err)
		return err == 1 ? 0 : err;
	return put(fs, name, S_IFREG | mode, data, size, 0, 0);
}

int lab_initramfs_add_file(struct lab_initramfs *fs, const char *name, const char *path,
			   unsigned mode)
{
	char *data;
	size_t size;
	int err;

	if (fs->error)
		return fs->error;
	err = lab_read_file(path, PROGRAM_MAX_BYTES, &data, &size);
	if (err) {
		fs->error = h2d_fail_errno(&fs->lab->log, -err, "%s", path);
		return fs->error;
	}
	err = lab_initramfs_add(fs, name, data, size, mode);
	free(data);
	return err;
}

/* The loader that a program asks for. Returns NULL for a static one. */
static const char *interpreter(const char *data, size_t size)
{
	const Elf64_Ehdr *ehdr = (const void *)data;

	if (size < sizeof(*ehdr) || memcmp(data, ELFMAG, SELFMAG) != 0 ||
	    data[EI_CLASS] != ELFCLASS64 || ehdr->e_phentsize != sizeof(Elf64_Phdr) ||
	    ehdr->e_phoff > size || ehdr->e_phnum > (size - ehdr->e_phoff) / sizeof(Elf64_Phdr))
		return NULL;
	for (unsigned i = 0; i < ehdr->e_phnum; i++) {
		Elf64_Phdr phdr;

		memcpy(&phdr, data + ehdr->e_phoff + i * sizeof(phdr), sizeof(phdr));
		if (phdr.p_type != PT_INTERP)
			continue;
		if (phdr.p_offset > size || phdr.p_filesz > size - phdr.p_offset ||
		    !phdr.p_filesz || data[phdr.p_offset + phdr.p_filesz - 1] != 0)
			return NULL;
		return data + phdr.p_offset;
	}
	return NULL;
}

/* Adds the files in lines like "libc.so.6 => /lib/libc.so.6 (0x…)" and "/lib/ld.so (0x…)". */
static int add_libraries(struct lab_initramfs *fs, char *text, const char *program)
{
	char *save = NULL;
	int err = 0;

	for (char *line = strtok_r(text, "\n", &save); !err && line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *path = strstr(line, "=> ");

		path = path ? path + 3 : line + strspn(line, " \t");
		if (strncmp(path, "not found", 9) == 0) {
			fs->error = h2d_fail(&fs->lab->log, H2D_E_UNAVAILABLE,
					     "%s: a library is missing: %s", program, line);
			return fs->error;
		}
		path[strcspn(path, " ")] = 0;
		if (path[0] == '/')
			err = lab_initramfs_add_file(fs, path + 1, path, 0755);
	}
	return err;
}

int lab_initramfs_add_program(struct lab_initramfs *fs, const char *name, const char *path)
{
	struct lab_command command = {
		.timeout_ms = LIST_TIMEOUT_MS,
		.keep_bytes = 64 << 10,
		.cancel = &fs->lab->cancel,
	};
	struct lab_outcome outcome = {0};
	char *data = NULL, *text = NULL;
	const char *loader;
	size_t size;
	int err = fs->error;

	if (err)
		return err;
	err = lab_read_file(path, PROGRAM_MAX_BYTES, &data, &size);
	if (err) {
		fs->error = h2d_fail_errno(&fs->lab->log, -err, "%s", path);
		return fs->error;
	}
	err = lab_initramfs_add(fs, name, data, size, 0755);
	loader = interpreter(data, size);
	if (err || !loader)
		goto out;
	err = lab_initramfs_add_file(fs, loader + (loader[0] == '/'), loader, 0755);
	if (err)
		goto out;
	command.argv = (const char *const[]){loader, "--list", path, NULL};
	err = lab_spawn(&command, &outcome);
	if (err || outcome.status != 0)
		err = fs->error = h2d_fail(&fs->lab->log, H2D_E_UNAVAILABLE,
					   "%s: its libraries cannot be listed", path);
	else if (!(text = lab_text_string(&outcome.out)))
		err = no_memory(fs);
	else
		err = add_libraries(fs, text, path);
out:
	lab_outcome_free(&outcome);
	free(text);
	free(data);
	return err;
}

int lab_initramfs_open(struct lab *lab, const char *path, struct lab_initramfs **out)
{
	static const char *const dirs[] = {"dev", "proc", "sys",    "tmp",
					   "mnt", "bin",  "modules"};
	struct lab_initramfs *fs = calloc(1, sizeof(*fs));
	int err;

	*out = NULL;
	if (!fs || !(fs->path = strdup(path)) || !(fs->archive = archive_write_new())) {
		if (fs)
			free(fs->path);
		free(fs);
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	}
	fs->lab = lab;
	archive_write_set_format_cpio_newc(fs->archive);
	archive_write_add_filter_none(fs->archive);
	*out = fs;
	if (archive_write_open_filename(fs->archive, path) != ARCHIVE_OK)
		return fail(fs);
	err = 0;
	for (size_t i = 0; !err && i < sizeof(dirs) / sizeof(dirs[0]); i++)
		err = lab_initramfs_add_dir(fs, dirs[i]);
	/* Without it init starts with no standard output. */
	if (!err)
		err = put(fs, "dev/console", S_IFCHR | 0600, NULL, 0, 5, 1);
	return err;
}

int lab_initramfs_close(struct lab_initramfs *fs)
{
	int err;

	if (!fs)
		return 0;
	if (archive_write_close(fs->archive) != ARCHIVE_OK && !fs->error)
		fail(fs);
	archive_write_free(fs->archive);
	err = fs->error;
	for (size_t i = 0; i < fs->count; i++)
		free(fs->names[i]);
	free(fs->names);
	free(fs->path);
	free(fs);
	return err;
}

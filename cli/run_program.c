/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at a program before it is started: can a library be preloaded into it at all? */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "run.h"

enum {
	HEAD_BYTES = 256, /* of a script's first line, as much as the kernel reads */
	SCRIPTS_MAX = 5,  /* interpreters that are scripts, as many as the kernel follows */
	SEGMENTS_MAX = 1024,
};

static bool is_executable(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* As execvp() looks for it. */
static bool find(const char *command, char *out, size_t cap)
{
	const char *path = getenv("PATH");

	if (strchr(command, '/'))
		return (size_t)snprintf(out, cap, "%s", command) < cap;
	if (!path)
		path = "/bin:/usr/bin";
	while (*command) {
		int n = (int)strcspn(path, ":");

		/* An empty element is the working directory. */
		if ((size_t)snprintf(out, cap, "%.*s%s%s", n, path, n ? "/" : "./", command) <
			    cap &&
		    is_executable(out))
			return true;
		path += n;
		if (!*path++)
			break;
	}
	out[0] = 0;
	return false;
}

/* The interpreter of a script, in place of its path. @return false when it is no script */
static bool interpreter(int fd, char *file, size_t cap)
{
	char head[HEAD_BYTES + 1], *name;
	ssize_t n = pread(fd, head, HEAD_BYTES, 0);

	if (n < 3 || head[0] != '#' || head[1] != '!')
		return false;
	head[n] = 0;
	name = head + 2 + strspn(head + 2, " \t");
	name[strcspn(name, " \t\r\n")] = 0;
	if (!*name)
		return false;
	return (size_t)snprintf(file, cap, "%s", name) < cap;
}

static bool read_at(int fd, void *data, size_t bytes, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, data, bytes, (off_t)offset) == (ssize_t)bytes;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Whether an ELF file of our kind names a dynamic loader, and which. */
static enum h2d_run_fit dynamic_loader(int fd, char *loader, size_t cap)
{
	ElfW(Ehdr) e;

	loader[0] = 0;
	/* Neither a script nor ELF: execvp() gives it to the shell. */
	if (!read_at(fd, &e, sizeof(e), 0) || memcmp(e.e_ident, ELFMAG, SELFMAG))
		return H2D_RUN_FITS;
	if (e.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
		return H2D_RUN_FOREIGN;
	if (e.e_phentsize != sizeof(ElfW(Phdr)) || e.e_phnum > SEGMENTS_MAX)
		return H2D_RUN_FITS;
	for (unsigned i = 0; i < e.e_phnum; i++) {
		ElfW(Phdr) p;
		uint64_t at = e.e_phoff + (uint64_t)i * sizeof(p);

		if (!read_at(fd, &p, sizeof(p), at))
			return H2D_RUN_FITS;
		if (p.p_type != PT_INTERP)
			continue;
		if (!p.p_filesz || p.p_filesz >= cap ||
		    !read_at(fd, loader, p.p_filesz, p.p_offset))
			return H2D_RUN_FITS;
		loader[p.p_filesz] = 0;
		return H2D_RUN_FITS;
	}
	return H2D_RUN_STATIC;
}

/* Whether running that file changes who we are, so that the loader no longer trusts us. */
static bool gains_privileges(int fd, const char *file)
{
	struct statvfs fs;
	struct stat st;

	if (fstat(fd, &st) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return false;
	if (!fstatvfs(fd, &fs) && fs.f_flag & ST_NOSUID)
		return false;
	if (st.st_mode & S_ISUID && st.st_uid != getuid())
		return true;
	if (st.st_mode & S_ISGID && st.st_mode & S_IXGRP && st.st_gid != getgid())
		return true;
	return getuid() && getxattr(file, "security.capability", NULL, 0) > 0;
}

/* Of this very program, for comparison. */
static uint16_t own_machine(char *loader, size_t cap)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ElfW(Ehdr) e = {.e_machine = EM_NONE};

	loader[0] = 0;
	if (fd < 0)
		return EM_NONE;
	dynamic_loader(fd, loader, cap);
	if (!read_at(fd, &e, sizeof(e), 0))
		e.e_machine = EM_NONE;
	close(fd);
	return e.e_machine;
}

static enum h2d_run_fit judge(int fd, struct h2d_run_program *p)
{
	enum h2d_run_fit fit = dynamic_loader(fd, p->loader, sizeof(p->loader));
	char own[sizeof(p->loader)];
	uint16_t machine = own_machine(own, sizeof(own));
	ElfW(Ehdr) e;

	if (gains_privileges(fd, p->file))
		return H2D_RUN_PRIVILEGED;
	if (fit != H2D_RUN_FITS || !p->loader[0])
		return fit;
	if (machine != EM_NONE && read_at(fd, &e, sizeof(e), 0) && e.e_machine != machine)
		return H2D_RUN_FOREIGN;
	/* Loaders of one C library have one name, wherever they lie. */
	if (own[0] && strcmp(base_name(own), base_name(p->loader)) != 0)
		return H2D_RUN_OTHER_LIBC;
	return H2D_RUN_FITS;
}

void h2d_run_program_inspect(const char *command, struct h2d_run_program *p)
{
	memset(p, 0, sizeof(*p));
	if (!find(command, p->path, sizeof(p->path)))
		return;
	snprintf(p->file, sizeof(p->file), "%s", p->path);
	for (int i = 0; i <= SCRIPTS_MAX; i++) {
		/* O_NONBLOCK: a FIFO of that name must not hold us. */
		int fd = open(p->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		bool again;

		if (fd < 0)
			return;
		again = interpreter(fd, p->file, sizeof(p->file));
		if (!again)
			p->fit = judge(fd, p);
		close(fd);
		if (!again)
			return;
	}
}

const char *h2d_run_fit_text(enum h2d_run_fit fit)
{
	switch (fit) {
	case H2D_RUN_FITS:
		break;
	case H2D_RUN_STATIC:
		return "is statically linked: no library can be preloaded into it, so its own "
		       "mappings stay as they are; only programs that it starts are covered";
	case H2D_RUN_FOREIGN:
		return "is built for another architecture: no library of this one can be "
		       "preloaded into it; only programs of this architecture that it starts "
		       "are covered";
	case H2D_RUN_OTHER_LIBC:
		return "uses another C library than h2d, so the preloaded library would break "
		       "it";
	case H2D_RUN_PRIVILEGED:
		return "gains privileges when it is started (setuid, setgid or file "
		       "capabilities), "
		       "so the dynamic loader takes preloaded libraries away from it and from "
		       "all "
		       "it starts; put h2d behind it, for example 'sudo h2d run -- COMMAND'";
	}
	return NULL;
}

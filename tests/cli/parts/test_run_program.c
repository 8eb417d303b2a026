/* SPDX-License-Identifier: Apache-2.0 */
/* Which programs a library can be preloaded into, told from files made for the purpose. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../unit/test.h"
#include "run.h"

static char folder[] = "/tmp/h2d-program-XXXXXX";
static char own_loader[256];

static void make(const char *name, const void *data, size_t bytes)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);

	CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
	close(fd);
}

/* An ELF file with one segment: a loader's name, or none. */
static void make_elf(const char *name, const char *loader, unsigned char class,
		     uint16_t machine)
{
	struct {
		ElfW(Ehdr) e;
		ElfW(Phdr) p;
		char loader[256];
	} f = {
		.e = {.e_phoff = sizeof(f.e),
		      .e_phentsize = sizeof(f.p),
		      .e_phnum = 1,
		      .e_machine = machine},
		.p = {.p_type = loader ? PT_INTERP : PT_LOAD,
		      .p_offset = sizeof(f.e) + sizeof(f.p)},
	};

	memcpy(f.e.e_ident, ELFMAG, SELFMAG);
	f.e.e_ident[EI_CLASS] = class;
	if (loader) {
		snprintf(f.loader, sizeof(f.loader), "%s", loader);
		f.p.p_filesz = strlen(loader) + 1;
	}
	make(name, &f, sizeof(f));
}

static enum h2d_run_fit fit(const char *name)
{
	static struct h2d_run_program p;

	h2d_run_program_inspect(name, &p);
	return p.fit;
}

static uint16_t own_machine(void)
{
	ElfW(Ehdr) e = {0};
	int fd = open("/proc/self/exe", O_RDONLY);

	CHECK(read(fd, &e, sizeof(e)) == sizeof(e));
	close(fd);
	return e.e_machine;
}

static void dynamic_or_not(void)
{
	unsigned char class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
	unsigned char other = class == ELFCLASS64 ? ELFCLASS32 : ELFCLASS64;
	uint16_t machine = own_machine();
	struct h2d_run_program p;

	h2d_run_program_inspect("/proc/self/exe", &p);
	CHECK_EQ(p.fit, H2D_RUN_FITS);
	snprintf(own_loader, sizeof(own_loader), "%s", p.loader);
	CHECK(own_loader[0] == '/');
	make_elf("./dynamic", own_loader, class, machine);
	CHECK_EQ(fit("./dynamic"), H2D_RUN_FITS);
	make_elf("./static", NULL, class, machine);
	CHECK_EQ(fit("./static"), H2D_RUN_STATIC);
	make_elf("./foreign", "/lib/ld-linux.so.2", other, machine);
	CHECK_EQ(fit("./foreign"), H2D_RUN_FOREIGN);
	make_elf("./machine", own_loader, class, EM_NONE + 1);
	CHECK_EQ(fit("./machine"), H2D_RUN_FOREIGN);
	make_elf("./musl", "/lib/ld-musl-x86_64.so.1", class, machine);
	CHECK_EQ(fit("./musl"), H2D_RUN_OTHER_LIBC);
	make_elf("./moved", "/elsewhere/lib/../x", class, machine);
	CHECK_EQ(fit("./moved"), H2D_RUN_OTHER_LIBC);
}

static void scripts(void)
{
	struct h2d_run_program p;

	make("./plain", "exit 0\n", 7);
	CHECK_EQ(fit("./plain"), H2D_RUN_FITS);
	make("./one", "#! ./static -x y\n", 17);
	h2d_run_program_inspect("./one", &p);
	CHECK_EQ(p.fit, H2D_RUN_STATIC);
	CHECK_STR(p.path, "./one");
	CHECK_STR(p.file, "./static");
	make("./two", "#!./one\n", 8);
	CHECK_EQ(fit("./two"), H2D_RUN_STATIC);
	make("./dynamic-script", "#!/bin/sh", 9);
	CHECK_EQ(fit("./dynamic-script"), H2D_RUN_FITS);
	/* One that runs itself, an empty one, one whose interpreter is missing: execvp()'s. */
	make("./self", "#!./self\n", 9);
	CHECK_EQ(fit("./self"), H2D_RUN_FITS);
	make("./empty", "#! \n", 4);
	CHECK_EQ(fit("./empty"), H2D_RUN_FITS);
	make("./missing", "#!/nonexistent\n", 15);
	CHECK_EQ(fit("./missing"), H2D_RUN_FITS);
}

/* Hostile or cut files are not judged; the kernel will. */
static void damaged(void)
{
	ElfW(Ehdr) e = {.e_phoff = UINT64_MAX, .e_phentsize = sizeof(ElfW(Phdr)), .e_phnum = 3};

	memcpy(e.e_ident, ELFMAG, SELFMAG);
	e.e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
	e.e_machine = own_machine();
	make("./far", &e, sizeof(e));
	CHECK_EQ(fit("./far"), H2D_RUN_FITS);
	e.e_phnum = UINT16_MAX;
	make("./many", &e, sizeof(e));
	CHECK_EQ(fit("./many"), H2D_RUN_FITS);
	make("./short", &e, 20);
	CHECK_EQ(fit("./short"), H2D_RUN_FITS);
	make("./nothing", "", 0);
	CHECK_EQ(fit("./nothing"), H2D_RUN_FITS);
	CHECK(mkfifo("./fifo", 0755) == 0);
	CHECK_EQ(fit("./fifo"), H2D_RUN_FITS);
}

static void search_path(void)
{
	struct h2d_run_program p;

	CHECK(mkdir("bin", 0755) == 0 && mkdir("bin/static", 0755) == 0);
	setenv("PATH", "bin::/nonexistent", 1);
	/* A folder of that name is passed over. */
	h2d_run_program_inspect("static", &p);
	CHECK_STR(p.path, "./static");
	CHECK_EQ(p.fit, H2D_RUN_STATIC);
	CHECK(chmod("./static", 0644) == 0);
	h2d_run_program_inspect("static", &p);
	CHECK_STR(p.path, "");
	h2d_run_program_inspect("", &p);
	CHECK_STR(p.path, "");
	setenv("PATH", "", 1);
	h2d_run_program_inspect("one", &p);
	CHECK_STR(p.path, "./one");
}

static void privileges(void)
{
	if (getuid()) {
		printf("not root: no file of another user can be made\n");
		return;
	}
	make_elf("./setuid", own_loader, sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32,
		 own_machine());
	CHECK(chown("./setuid", 1, 1) == 0 && chmod("./setuid", 04755) == 0);
	CHECK_EQ(fit("./setuid"), H2D_RUN_PRIVILEGED);
	CHECK(chmod("./setuid", 02755) == 0);
	CHECK_EQ(fit("./setuid"), H2D_RUN_PRIVILEGED);
	/* Without the group's execute bit that means something else. */
	CHECK(chmod("./setuid", 02745) == 0);
	CHECK_EQ(fit("./setuid"), H2D_RUN_FITS);
	/* Nothing is gained from oneself. */
	CHECK(chown("./setuid", 0, 0) == 0 && chmod("./setuid", 06755) == 0);
	CHECK_EQ(fit("./setuid"), H2D_RUN_FITS);
	/* That of a script counts for nothing; that of its interpreter does. */
	CHECK(chown("./setuid", 1, 1) == 0 && chmod("./setuid", 04755) == 0);
	make("./setuid-script", "#!/bin/sh\n", 10);
	CHECK(chown("./setuid-script", 1, 1) == 0 && chmod("./setuid-script", 04755) == 0);
	CHECK_EQ(fit("./setuid-script"), H2D_RUN_FITS);
	make("./setuid-interpreter", "#!./setuid\n", 11);
	CHECK_EQ(fit("./setuid-interpreter"), H2D_RUN_PRIVILEGED);
}

int main(void)
{
	char command[sizeof(folder) + 16];
	int failed;

	if (!mkdtemp(folder) || chdir(folder))
		return 1;
	RUN(dynamic_or_not);
	RUN(scripts);
	RUN(damaged);
	RUN(search_path);
	RUN(privileges);
	failed = TEST_DONE();
	setenv("PATH", "/usr/bin:/bin", 1);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command) || failed;
}

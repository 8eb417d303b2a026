/* SPDX-License-Identifier: Apache-2.0 */
/* Starting other programs: they inherit the thread's signal mask, and must get the one that the
 * program asked for. system() and popen() start theirs inside the C library. */
#include <alloca.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "run/interpose.h"
#include "run/keep.h"
#include "run/signals.h"

/* Newer than some headers. */
int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags);

#define FUNCTIONS(X)                                                                           \
	X(execve)                                                                              \
	X(execvpe)                                                                             \
	X(fexecve)                                                                             \
	X(posix_spawn)                                                                         \
	X(posix_spawnp)

#define FIELD(name) __typeof__(name) *name;

static struct {
	FUNCTIONS(FIELD)
} next;

static const char *const names[] = {
#define NAME(name) #name,
	FUNCTIONS(NAME)};

static _Atomic bool resolved;

void ro_resolve_exec(void)
{
	ro_next_all(names, sizeof(names) / sizeof(names[0]), &next);
	atomic_store(&resolved, true);
}

#define NEXT(name) (atomic_load(&resolved) ? (void)0 : ro_resolve_exec(), next.name)

/* `call` with the mask that the program believes in; if it comes back, with ours again. */
#define WITH_ITS_MASK(call)                                                                    \
	({                                                                                     \
		ro_signals was;                                                                \
		bool changed = ro_signals_before_exec(&was);                                   \
		int rc = (call), saved = errno;                                                \
                                                                                               \
		if (changed)                                                                   \
			ro_signals_restore(was);                                               \
		errno = saved;                                                                 \
		rc;                                                                            \
	})

RO_PUBLIC int execve(const char *path, char *const argv[], char *const envp[])
{
	return WITH_ITS_MASK(NEXT(execve)(path, argv, envp));
}

RO_PUBLIC int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return WITH_ITS_MASK(NEXT(execvpe)(file, argv, envp));
}

RO_PUBLIC int fexecve(int fd, char *const argv[], char *const envp[])
{
	return WITH_ITS_MASK(NEXT(fexecve)(fd, argv, envp));
}

RO_PUBLIC int execveat(int dir, const char *path, char *const argv[], char *const envp[],
		       int flags)
{
	return WITH_ITS_MASK((int)syscall(SYS_execveat, dir, path, argv, envp, flags));
}

RO_PUBLIC int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

RO_PUBLIC int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

static size_t count_words(va_list words)
{
	size_t n = 1;

	while (va_arg(words, char *))
		n++;
	return n;
}

/* The words of a list, the first of which is named, as an array on the caller's stack. */
#define TO_ARRAY(argv, first, words)                                                           \
	do {                                                                                   \
		va_list counted;                                                               \
                                                                                               \
		va_start(words, first);                                                        \
		va_copy(counted, words);                                                       \
		argv = alloca(((first) ? count_words(counted) + 1 : 1) * sizeof(*argv));       \
		va_end(counted);                                                               \
		argv[0] = (char *)(first);                                                     \
		for (size_t i = 0; argv[i]; i++)                                               \
			argv[i + 1] = va_arg(words, char *);                                   \
	} while (0)

RO_PUBLIC int execl(const char *path, const char *first, ...)
{
	char **argv;
	va_list words;

	TO_ARRAY(argv, first, words);
	va_end(words);
	return execve(path, argv, environ);
}

RO_PUBLIC int execlp(const char *file, const char *first, ...)
{
	char **argv;
	va_list words;

	TO_ARRAY(argv, first, words);
	va_end(words);
	return execvpe(file, argv, environ);
}

RO_PUBLIC int execle(const char *path, const char *first, ...)
{
	char **argv, *const *envp;
	va_list words;

	TO_ARRAY(argv, first, words);
	envp = va_arg(words, char *const *);
	va_end(words);
	return execve(path, argv, envp);
}

/* The C library writes the number with every signal blocked. */
RO_PUBLIC int posix_spawn(pid_t *pid, const char *path,
			  const posix_spawn_file_actions_t *actions,
			  const posix_spawnattr_t *attributes, char *const argv[],
			  char *const envp[])
{
	ro_open(pid, sizeof(*pid), RO_KERNEL_WRITE);
	return WITH_ITS_MASK(NEXT(posix_spawn)(pid, path, actions, attributes, argv, envp));
}

RO_PUBLIC int posix_spawnp(pid_t *pid, const char *file,
			   const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *attributes, char *const argv[],
			   char *const envp[])
{
	ro_open(pid, sizeof(*pid), RO_KERNEL_WRITE);
	return WITH_ITS_MASK(NEXT(posix_spawnp)(pid, file, actions, attributes, argv, envp));
}

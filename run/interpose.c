/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/interpose.h"
#include "run/keep.h"
#include "run/report.h"
#include "run/signals.h"
#include "run/sys.h"

void ro_resolve(void)
{
	void *p;

	if (ro.sigaction)
		return;
	p = ro_next("sigaction");
	memcpy(&ro.sigaction, &p, sizeof(p));
}

static void (*next_exit)(int);

typedef void handler_fn(void);
typedef int register_fn(handler_fn *prepare, handler_fn *parent, handler_fn *child, void *dso);

/* What pthread_atfork() is, in every library that was linked with it. The handler that was
 * registered first is the last before fork() and the first after it. It must be ours, which
 * takes the lock: the others take locks of their own, whose holders may be waiting for it. The
 * constructors of the libraries that a program is linked with run before ours. */
register_fn __register_atfork;
RO_PUBLIC int __register_atfork(handler_fn *prepare, handler_fn *parent, handler_fn *child,
				void *dso)
{
	static _Atomic bool registered;
	register_fn *next;
	void *p = ro_next("__register_atfork");

	if (!p)
		return ENOMEM;
	memcpy(&next, &p, sizeof(next));
	/* Of this object, which is never unloaded. */
	if (!atomic_exchange(&registered, true))
		next(ro_fork_prepare, ro_fork_parent, ro_fork_child, NULL);
	return prepare || parent || child ? next(prepare, parent, child, dso) : 0;
}

__attribute__((constructor)) static void begin(void)
{
	void *p = ro_next("_exit");

	memcpy(&next_exit, &p, sizeof(p));
	ro_resolve();
	ro_resolve_io();
	ro_init();
	ro_resolve_exec();
	ro_signals_inherit();
	__register_atfork(NULL, NULL, NULL, NULL);
	at_quick_exit(ro_end);
}

__attribute__((destructor)) static void end(void)
{
	ro_end();
}

/* These run no destructors. */
RO_PUBLIC void _exit(int status)
{
	ro_end();
	if (next_exit)
		next_exit(status);
	for (;;)
		syscall(SYS_exit_group, status);
}

RO_PUBLIC void _Exit(int status)
{
	_exit(status);
}

/* fork() without the handlers of pthread_atfork(). */
RO_PUBLIC pid_t _Fork(void)
{
	pid_t (*next)(void);
	void *p = ro_next("_Fork");
	pid_t pid;

	if (!p) {
		errno = ENOSYS;
		return -1;
	}
	memcpy(&next, &p, sizeof(next));
	ro_fork_prepare();
	pid = next();
	if (pid)
		ro_fork_parent();
	else
		ro_fork_child();
	return pid;
}

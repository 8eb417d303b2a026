/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "run/interpose.h"
#include "run/keep.h"
#include "run/signals.h"

void *ro_next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

void ro_resolve(void)
{
	void *p;

	if (ro.sigaction)
		return;
	p = ro_next("sigaction");
	memcpy(&ro.sigaction, &p, sizeof(p));
}

__attribute__((constructor)) static void begin(void)
{
	ro_resolve();
	ro_init();
	ro_signals_inherit();
	pthread_atfork(ro_fork_prepare, ro_fork_parent, ro_fork_child);
}

__attribute__((destructor)) static void end(void)
{
	ro_count_all();
}

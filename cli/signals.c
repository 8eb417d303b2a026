/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "cli.h"

/* Read by the threads of a load, so volatile sig_atomic_t would not do. */
static _Atomic int caught;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler cannot take a lock");

static void note(int signal_number)
{
	if (!atomic_exchange(&caught, signal_number))
		return;
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

void h2d_signals_install(void)
{
	/* Without SA_RESTART a blocked write comes back and sees that it is over. */
	struct sigaction noting = {.sa_handler = note}, ignoring = {.sa_handler = SIG_IGN};

	sigemptyset(&noting.sa_mask);
	sigaction(SIGINT, &noting, NULL);
	sigaction(SIGTERM, &noting, NULL);
	sigemptyset(&ignoring.sa_mask);
	sigaction(SIGPIPE, &ignoring, NULL);
	/* Past the limit on file sizes a write fails with EFBIG then, which can be told. */
	sigaction(SIGXFSZ, &ignoring, NULL);
}

int h2d_signals_caught(void)
{
	return atomic_load(&caught);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "cli.h"

/* Read by the threads of a load, so volatile sig_atomic_t would not do. */
static _Atomic int caught;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler cannot take a lock");

/* What this program was started with. */
static const int ours[] = {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ};
enum { OURS = sizeof(ours) / sizeof(ours[0]) };
static struct sigaction inherited[OURS];

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
	sigemptyset(&ignoring.sa_mask);
	/* SIGXFSZ: past the limit on file sizes a write fails with EFBIG, which can be told. */
	for (int i = 0; i < OURS; i++)
		sigaction(ours[i],
			  ours[i] == SIGINT || ours[i] == SIGTERM ? &noting : &ignoring,
			  &inherited[i]);
}

void h2d_signals_restore(void)
{
	for (int i = 0; i < OURS; i++)
		sigaction(ours[i], &inherited[i], NULL);
}

int h2d_signals_caught(void)
{
	return atomic_load(&caught);
}

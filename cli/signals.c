/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stddef.h>

#include "cli.h"

static volatile sig_atomic_t caught;

static void note(int signal)
{
	caught = signal;
}

void h2d_signals_install(void)
{
	/* Without SA_RESTART a blocked write comes back; SA_RESETHAND lets the second one kill.
	 */
	struct sigaction noting = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND},
			 ignoring = {.sa_handler = SIG_IGN};

	sigemptyset(&noting.sa_mask);
	sigaction(SIGINT, &noting, NULL);
	sigaction(SIGTERM, &noting, NULL);
	sigemptyset(&ignoring.sa_mask);
	sigaction(SIGPIPE, &ignoring, NULL);
}

int h2d_signals_caught(void)
{
	return caught;
}

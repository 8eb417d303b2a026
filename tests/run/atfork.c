/* SPDX-License-Identifier: Apache-2.0 */
/* A library as an allocator or a runtime is one: its lock is taken over fork(), by handlers
 * that its constructor registers before that of a preloaded library runs. */
#include <pthread.h>

extern pthread_mutex_t atfork_lock;
pthread_mutex_t atfork_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock(void)
{
	pthread_mutex_lock(&atfork_lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&atfork_lock);
}

__attribute__((constructor)) static void begin(void)
{
	pthread_atfork(lock, unlock, unlock);
}

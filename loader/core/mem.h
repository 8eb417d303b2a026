/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file mem.h
 * The one table of memory and thread calls: every allocation and every thread of the library
 * goes through it, so that tests can make each one fail in turn. Memory is released with
 * free().
 */
#ifndef H2D_CORE_MEM_H
#define H2D_CORE_MEM_H

#include <pthread.h>
#include <stddef.h>

struct h2d_mem_ops {
	void *(*malloc)(size_t bytes);
	void *(*calloc)(size_t count, size_t size);
	void *(*realloc)(void *p, size_t bytes);
	/** Anonymous private memory of whole pages, or NULL with errno set. `prot` as of
	 * mmap(); PROT_NONE reserves addresses only. Released with munmap(), in parts if
	 * wished. */
	void *(*map)(size_t bytes, int prot);
	/** As pthread_create(); 0 or an errno. The thread blocks every signal except those that
	 *  its own instructions raise: the program's handlers run in the program's threads, and
	 * a SIGBUS on a mapping always finds its handler. */
	int (*thread_create)(pthread_t *t, void *(*fn)(void *), void *arg);
};

extern const struct h2d_mem_ops h2d_mem_libc;
/** In force; only tests point it elsewhere, before any other thread runs. */
extern const struct h2d_mem_ops *h2d_mem;

#endif

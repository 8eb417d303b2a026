/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the files of hmm-fuzz. */
#ifndef H2D_MODULE_TESTS_FUZZ_H
#define H2D_MODULE_TESTS_FUZZ_H

#include <stdatomic.h>

#include "guest.h"

/* xorshift64*; the state is never zero. */
struct fuzz_random {
	uint64_t state;
};

uint64_t fuzz_next(struct fuzz_random *r);
/* 0 … n-1 */
uint64_t fuzz_below(struct fuzz_random *r, uint64_t n);
/* True in one of n cases. */
bool fuzz_one_in(struct fuzz_random *r, unsigned n);

/* One mapping of a child, of any kind that the guest has. */
struct fuzz_map {
	char *address;
	size_t bytes;
	int prot, flags;
	int fd;	    /* -1: anonymous */
	bool fixed; /* not to be moved or taken apart */
};

/* Make a mapping of a random kind, under `directory` where it needs a file; false when the
 * guest has not got that kind. */
bool fuzz_map_make(struct fuzz_random *r, const char *directory, struct fuzz_map *map);
/* Do one thing to a part of the mapping that a program may do at any time. */
void fuzz_map_disturb(struct fuzz_random *r, struct fuzz_map *map);
/* The range of a random line of /proc/self/maps. */
bool fuzz_any_range(struct fuzz_random *r, unsigned long long *address,
		    unsigned long long *bytes);

enum {
	FUZZ_ERRNOS = 8,
	FUZZ_CODES = 5,
};

/* Counters in memory that all processes of the run share. */
struct fuzz_shared {
	atomic_ullong requests, children, killed, disturbed;
	atomic_ullong by_errno[FUZZ_ERRNOS]; /* order of fuzz_errnos */
	atomic_ullong by_code[FUZZ_CODES];   /* last_code, order of fuzz_codes */
	atomic_ullong windows, callbacks, foreign, shipped;
	atomic_uint violations;
	char first_violation[256];
};

extern const int fuzz_errnos[FUZZ_ERRNOS];
extern const int fuzz_codes[FUZZ_CODES];

void fuzz_violation(struct fuzz_shared *shared, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* One request, of any sense, checked as far as it can be. */
void fuzz_request(struct fuzz_random *r, struct fuzz_shared *shared, const struct h2d_hmm *hmm,
		  const struct fuzz_map *maps, unsigned map_count);

#endif

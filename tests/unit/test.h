/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file test.h
 * The whole of our unit-test framework: a test is a function, CHECK counts and goes on, REQUIRE
 * leaves the test, SKIP leaves the program with status 77 and a reason.
 */
#ifndef H2D_TEST_H
#define H2D_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int test_failures, test_checks; /* also checked from the threads of a load */

#define CHECK(cond)                                                                            \
	do {                                                                                   \
		test_checks++;                                                                 \
		if (!(cond)) {                                                                 \
			test_failures++;                                                       \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond);     \
		}                                                                              \
	} while (0)

#define CHECK_EQ(a, b)                                                                         \
	do {                                                                                   \
		long long test_a = (long long)(a), test_b = (long long)(b);                    \
		test_checks++;                                                                 \
		if (test_a != test_b) {                                                        \
			test_failures++;                                                       \
			fprintf(stderr, "%s:%d: failed: %s = %lld, expected %s = %lld\n",      \
				__FILE__, __LINE__, #a, test_a, #b, test_b);                   \
		}                                                                              \
	} while (0)

#define CHECK_STR(a, b)                                                                        \
	do {                                                                                   \
		const char *test_a = (a), *test_b = (b);                                       \
		test_checks++;                                                                 \
		if (!test_a || strcmp(test_a, test_b)) {                                       \
			test_failures++;                                                       \
			fprintf(stderr, "%s:%d: failed: %s = \"%s\", expected \"%s\"\n",       \
				__FILE__, __LINE__, #a, test_a ? test_a : "(null)", test_b);   \
		}                                                                              \
	} while (0)

#define REQUIRE(cond)                                                                          \
	do {                                                                                   \
		test_checks++;                                                                 \
		if (!(cond)) {                                                                 \
			test_failures++;                                                       \
			fprintf(stderr, "%s:%d: failed: %s (test left)\n", __FILE__, __LINE__, \
				#cond);                                                        \
			return;                                                                \
		}                                                                              \
	} while (0)

#define SKIP(why)                                                                              \
	do {                                                                                   \
		printf("skipped: %s\n", why);                                                  \
		exit(77);                                                                      \
	} while (0)

#define RUN(fn)                                                                                \
	do {                                                                                   \
		int test_before = test_failures;                                               \
		fn();                                                                          \
		printf("%s %s\n", test_failures == test_before ? "ok  " : "FAIL", #fn);        \
		fflush(stdout);                                                                \
	} while (0)

#define TEST_DONE()                                                                            \
	(printf("%d checks, %d failed\n", test_checks, test_failures),                         \
	 test_failures || !test_checks ? 1 : 0)

#endif

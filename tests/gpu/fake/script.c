/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted failures of the fakes. */
#include "script.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { RULES_MAX = 16, NAMES_MAX = 64 };

struct rule {
	char name[48];
	int64_t value;
	uint64_t at; /* 0: a parameter */
	bool all;    /* from `at` on */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MAX];
static size_t rule_count;
static struct {
	const char *name;
	uint64_t count;
} counts[NAMES_MAX];

static void parse_rule(const char *text, size_t n)
{
	struct rule *r = &rules[rule_count];
	char copy[128], *at, *value;

	if (!n || n >= sizeof(copy) || rule_count == RULES_MAX)
		return;
	memcpy(copy, text, n);
	copy[n] = 0;
	memset(r, 0, sizeof(*r));
	at = strchr(copy, '@');
	if (at) {
		*at++ = 0;
		r->at = strtoull(at, NULL, 10);
		r->all = strchr(at, '+') != NULL;
	}
	value = strchr(copy, '=');
	if (value) {
		*value++ = 0;
		r->value = strtoll(value, NULL, 0);
	}
	snprintf(r->name, sizeof(r->name), "%.47s", copy);
	if (!r->at)
		r->at = 1;
	rule_count++;
}

void fake_script_set(const char *text)
{
	pthread_mutex_lock(&lock);
	rule_count = 0;
	memset(counts, 0, sizeof(counts));
	while (text && *text) {
		size_t n = strcspn(text, ";");

		parse_rule(text, n);
		text += n + (text[n] == ';');
	}
	pthread_mutex_unlock(&lock);
}

static uint64_t *count_of(const char *name)
{
	for (size_t i = 0; i < NAMES_MAX; i++) {
		if (!counts[i].name)
			counts[i].name = name;
		if (!strcmp(counts[i].name, name))
			return &counts[i].count;
	}
	abort();
}

int64_t fake_script_hit(const char *name)
{
	int64_t value = 0;
	uint64_t n;

	pthread_mutex_lock(&lock);
	n = ++*count_of(name);
	for (size_t i = 0; i < rule_count; i++)
		if (!strcmp(rules[i].name, name) &&
		    (n == rules[i].at || (rules[i].all && n > rules[i].at)))
			value = rules[i].value ? rules[i].value : -1;
	pthread_mutex_unlock(&lock);
	return value;
}

int64_t fake_script_parameter(const char *name, int64_t otherwise)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < rule_count; i++)
		if (!strcmp(rules[i].name, name))
			otherwise = rules[i].value;
	pthread_mutex_unlock(&lock);
	return otherwise;
}

uint64_t fake_script_calls(const char *name)
{
	uint64_t n = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < NAMES_MAX && counts[i].name; i++)
		if (!strcmp(counts[i].name, name))
			n = counts[i].count;
	pthread_mutex_unlock(&lock);
	return n;
}

__attribute__((constructor)) static void from_environment(void)
{
	fake_script_set(getenv("H2D_FAKE_GPU"));
}

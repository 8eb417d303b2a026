/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli.h"
#include "options.h"

enum { WORD_MAX = 64, NAMES_MAX = 32 };

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* Edits (insert, remove, replace, swap neighbours) that make one word of the other: optimal
 * string alignment, three rows. */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][WORD_MAX + 1];
	size_t na = strlen(a), nb = strlen(b);

	if (na > WORD_MAX || nb > WORD_MAX)
		return WORD_MAX;
	for (size_t k = 0; k <= nb; k++)
		rows[0][k] = (unsigned)k;
	for (size_t i = 1; i <= na; i++) {
		unsigned *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t k = 1; k <= nb; k++) {
			row[k] = least(up[k] + 1, row[k - 1] + 1,
				       up[k - 1] + (a[i - 1] != b[k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
			    up2[k - 2] + 1 < row[k])
				row[k] = up2[k - 2] + 1;
		}
	}
	return rows[na % 3][nb];
}

const char *h2d_suggest(const char *wrong, const char *const *words)
{
	size_t n = strlen(wrong);
	unsigned best = n < 6 ? 2 : n < 9 ? 3 : 4; /* edits that are too far */
	const char *found = NULL;

	for (; *words; words++) {
		unsigned d = distance(wrong, *words);

		/* The beginning of a word is a good guess whatever is missing. */
		if (n >= 3 && !strncmp(wrong, *words, n))
			d = 1;
		if (d < best) {
			best = d;
			found = *words;
		}
	}
	return found;
}

/* The same text every time, so a second call changes nothing. */
static void collect(const char **names, int (*describe)(uint32_t, const char **, const char **))
{
	const char *name, *summary;

	for (uint32_t i = 0; i < NAMES_MAX && !describe(i, &name, &summary); i++)
		names[i] = name;
}

const char *const *h2d_path_names(void)
{
	static const char *names[NAMES_MAX + 1];

	collect(names, h2d_path_describe);
	return names;
}

const char *const *h2d_backend_names(void)
{
	static const char *names[NAMES_MAX + 1];

	collect(names, h2d_backend_describe);
	return names;
}

const char *const h2d_known_backends[] = {"host", "null", "opencl", "hip", "cuda", "hmm", NULL};

bool h2d_word_in(const char *const *list, const char *word, size_t bytes)
{
	for (; *list; list++)
		if (strlen(*list) == bytes && !memcmp(*list, word, bytes))
			return true;
	return false;
}

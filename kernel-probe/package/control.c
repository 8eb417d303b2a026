/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the metadata texts of packages. */
#include "package/control.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *line_end(const char *p, const char *end)
{
	const char *nl = memchr(p, '\n', (size_t)(end - p));

	return nl ? nl : end;
}

/* Copies [p, end) without the blanks around it onto the end of *value. Returns false: no
 * memory. */
static bool append_trimmed(char **value, size_t *length, const char *p, const char *end)
{
	char *grown;
	size_t part;

	while (p < end && isspace((unsigned char)*p))
		p++;
	while (end > p && isspace((unsigned char)end[-1]))
		end--;
	part = (size_t)(end - p);
	grown = realloc(*value, *length + part + 2);
	if (!grown)
		return false;
	if (*length)
		grown[(*length)++] = ' ';
	memcpy(grown + *length, p, part);
	*length += part;
	grown[*length] = 0;
	/* A zero inside would end the string early and hide the rest. */
	for (size_t i = 0; i < *length; i++)
		if (!grown[i])
			grown[i] = '?';
	*value = grown;
	return true;
}

char *lab_control_field(const char *text, size_t size, const char *name)
{
	const char *p = text, *end = text + size;
	size_t name_length = strlen(name), length = 0;
	char *value = NULL;

	while (p < end) {
		const char *eol = line_end(p, end);
		bool continues = p < eol && (*p == ' ' || *p == '\t');

		if (p == eol)
			break; /* an empty line ends the stanza */
		if (value && !continues)
			break;
		if (value) {
			if (!append_trimmed(&value, &length, p, eol))
				goto fail;
		} else if (!continues && (size_t)(eol - p) > name_length &&
			   strncasecmp(p, name, name_length) == 0 && p[name_length] == ':') {
			if (!append_trimmed(&value, &length, p + name_length + 1, eol))
				goto fail;
		}
		p = eol < end ? eol + 1 : end;
	}
	if (length)
		return value;
fail:
	free(value);
	return NULL;
}

char *lab_pkginfo_field(const char *text, size_t size, const char *name)
{
	const char *p = text, *end = text + size;
	size_t name_length = strlen(name), length = 0;
	char *value = NULL;

	for (; p < end; p = p < end ? p + 1 : end) {
		const char *eol = line_end(p, end);

		if ((size_t)(eol - p) > name_length + 2 && memcmp(p, name, name_length) == 0 &&
		    memcmp(p + name_length, " = ", 3) == 0) {
			append_trimmed(&value, &length, p + name_length + 3, eol);
			return value;
		}
		p = eol;
	}
	return NULL;
}

static const char *skip_blanks(const char *p)
{
	while (*p && isspace((unsigned char)*p))
		p++;
	return p;
}

/* Copies characters up to one of `stops`. Returns where it stopped; *fits is cleared if cut. */
static const char *copy_until(const char *p, const char *stops, char *out, size_t size,
			      bool *fits)
{
	size_t n = strcspn(p, stops);
	size_t kept = n;

	if (kept >= size) {
		*fits = false;
		kept = size - 1;
	}
	memcpy(out, p, kept);
	out[kept] = 0;
	return p + n;
}

int lab_dependency_next(const char **list, struct lab_dependency *dependency)
{
	const char *p = *list;
	int alternative = 0;

	for (;;) {
		bool fits = true;

		for (p = skip_blanks(p); *p == ',' || *p == '|'; p = skip_blanks(p + 1))
			alternative = *p == '|' ? 1 : 0;
		if (!*p) {
			*list = p;
			return 0;
		}
		memset(dependency, 0, sizeof(*dependency));
		dependency->alternative = alternative;
		p = copy_until(p, " \t,|([<:", dependency->name, sizeof(dependency->name),
			       &fits);
		if (*p == ':') /* an architecture qualifier */
			p += strcspn(p, " \t,|([<");
		p = skip_blanks(p);
		if (*p == '(') {
			p = skip_blanks(p + 1);
			p = copy_until(p, " \t0123456789abcdefghijklmnopqrstuvwxyz),|",
				       dependency->relation, sizeof(dependency->relation),
				       &fits);
			p = skip_blanks(p);
			p = copy_until(p, " \t),|", dependency->version,
				       sizeof(dependency->version), &fits);
		}
		/* Whatever else stands there (architectures, profiles) ends with the item. */
		p += strcspn(p, ",|");
		if (fits && dependency->name[0]) {
			*list = p;
			return 1;
		}
	}
}

/* Order of one character in the non-digit parts: '~' < end < letters < the rest. */
static int order(char c)
{
	if (c == '~')
		return -1;
	if (!c || isdigit((unsigned char)c))
		return 0;
	if (isalpha((unsigned char)c))
		return (unsigned char)c;
	return (unsigned char)c + 256;
}

static int compare_part(const char *a, const char *a_end, const char *b, const char *b_end)
{
#define AT(p, end) ((p) < (end) ? *(p) : 0)
	while (a < a_end || b < b_end) {
		int first = 0;

		while ((a < a_end && !isdigit((unsigned char)*a)) ||
		       (b < b_end && !isdigit((unsigned char)*b))) {
			int d = order(AT(a, a_end)) - order(AT(b, b_end));

			if (d)
				return d;
			a += a < a_end;
			b += b < b_end;
		}
		while (AT(a, a_end) == '0')
			a++;
		while (AT(b, b_end) == '0')
			b++;
		while (isdigit((unsigned char)AT(a, a_end)) &&
		       isdigit((unsigned char)AT(b, b_end))) {
			if (!first)
				first = *a - *b;
			a++;
			b++;
		}
		if (isdigit((unsigned char)AT(a, a_end)))
			return 1;
		if (isdigit((unsigned char)AT(b, b_end)))
			return -1;
		if (first)
			return first;
	}
	return 0;
#undef AT
}

static const char *split_epoch(const char *version, unsigned long *epoch)
{
	const char *colon = strchr(version, ':');

	*epoch = colon ? strtoul(version, NULL, 10) : 0;
	return colon ? colon + 1 : version;
}

int lab_version_compare(const char *a, const char *b)
{
	unsigned long epoch_a, epoch_b;
	const char *a_end, *b_end, *a_dash, *b_dash;
	int d;

	a = split_epoch(a, &epoch_a);
	b = split_epoch(b, &epoch_b);
	if (epoch_a != epoch_b)
		return epoch_a < epoch_b ? -1 : 1;
	a_end = a + strlen(a);
	b_end = b + strlen(b);
	a_dash = strrchr(a, '-');
	b_dash = strrchr(b, '-');
	d = compare_part(a, a_dash ? a_dash : a_end, b, b_dash ? b_dash : b_end);
	if (d)
		return d;
	return compare_part(a_dash ? a_dash + 1 : a_end, a_end, b_dash ? b_dash + 1 : b_end,
			    b_end);
}

int lab_dependency_accepts(const struct lab_dependency *dependency, const char *version)
{
	const char *relation = dependency->relation;
	int d;

	if (!relation[0])
		return 1;
	d = lab_version_compare(version, dependency->version);
	if (strcmp(relation, "=") == 0)
		return d == 0;
	if (strcmp(relation, ">=") == 0)
		return d >= 0;
	if (strcmp(relation, "<=") == 0)
		return d <= 0;
	if (strcmp(relation, ">>") == 0)
		return d > 0;
	if (strcmp(relation, "<<") == 0)
		return d < 0;
	return 0;
}

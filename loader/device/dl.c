/* SPDX-License-Identifier: Apache-2.0 */
#include "device/dl.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h2d/h2d.h"

/* Add text to a line that may be full. */
static void append(char *line, size_t bytes, const char *a, const char *b)
{
	size_t used = strlen(line);

	if (used + 1 < bytes)
		snprintf(line + used, bytes - used, "%s%s", a, b);
}

/* What the library calls itself: DT_SONAME of the loaded file. */
static void read_soname(const struct link_map *map, char *out, size_t bytes)
{
	const char *strings = NULL;
	ElfW(Xword) at = 0;
	bool named = false;

	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_STRTAB)
			strings = (const char *)d->d_un.d_ptr; /* relocated by the linker */
		else if (d->d_tag == DT_SONAME) {
			at = d->d_un.d_val;
			named = true;
		}
	}
	snprintf(out, bytes, "%s", named && strings ? strings + at : "");
}

static void describe(struct h2d_dl *dl, const char *name)
{
	struct link_map *map = NULL;
	char *real;

	snprintf(dl->soname, sizeof(dl->soname), "%s", name);
	if (dlinfo(dl->handle, RTLD_DI_LINKMAP, &map) || !map)
		return;
	read_soname(map, dl->soname, sizeof(dl->soname));
	real = realpath(map->l_name, NULL);
	snprintf(dl->path, sizeof(dl->path), "%s", real ? real : map->l_name);
	free(real);
}

static bool is_known(const struct h2d_dl_spec *spec, const char *soname)
{
	if (!spec->sonames)
		return true;
	for (const char *const *s = spec->sonames; *s; s++)
		if (!strcmp(*s, soname))
			return true;
	return false;
}

static bool find_symbols(const struct h2d_dl *dl, const struct h2d_dl_spec *spec, void *table,
			 char *why, size_t why_bytes)
{
	for (const struct h2d_dl_symbol *s = spec->symbols; s->name; s++) {
		void *function = dlsym(dl->handle, s->name);

		if (!function && !s->optional) {
			snprintf(why, why_bytes, "%s (%s) has no function %s", dl->soname,
				 dl->path, s->name);
			return false;
		}
		memcpy((char *)table + s->offset, &function, sizeof(function));
	}
	return true;
}

/* One that is not installed says so in its own name; anything else is the better reason. */
static bool is_absence(const char *error, const char *name)
{
	size_t n = strlen(name);

	return !strncmp(error, name, n) && strstr(error + n, "No such file");
}

static bool open_first(struct h2d_dl *dl, const struct h2d_dl_spec *spec, const char **name,
		       char *why, size_t why_bytes)
{
	char tried[160] = "";

	why[0] = 0;
	for (const char *const *n = spec->names; *n; n++) {
		const char *error;

		dl->handle = dlopen(*n, RTLD_NOW | RTLD_LOCAL);
		*name = *n;
		if (dl->handle)
			return true;
		error = dlerror();
		append(tried, sizeof(tried), tried[0] ? ", " : "", *n);
		if (error && !why[0] && !is_absence(error, *n))
			snprintf(why, why_bytes, "%s", error);
	}
	if (!why[0])
		snprintf(why, why_bytes, "no runtime is installed (tried %s)", tried);
	return false;
}

int h2d_dl_open(struct h2d_dl *dl, const struct h2d_dl_spec *spec, void *table, char *why,
		size_t why_bytes)
{
	const char *name = "";

	memset(dl, 0, sizeof(*dl));
	if (!open_first(dl, spec, &name, why, why_bytes))
		return H2D_E_UNAVAILABLE;
	describe(dl, name);
	if (!is_known(spec, dl->soname)) {
		snprintf(why, why_bytes, "%s is %s (%s), a version that h2d does not know",
			 name, dl->soname[0] ? dl->soname : "without a soname", dl->path);
		h2d_dl_close(dl);
		return H2D_E_UNAVAILABLE;
	}
	if (!find_symbols(dl, spec, table, why, why_bytes)) {
		h2d_dl_close(dl);
		return H2D_E_UNAVAILABLE;
	}
	return 0;
}

void h2d_dl_keep(const struct h2d_dl *dl)
{
	void *again;

	if (!dl->handle || !dl->path[0])
		return;
	again = dlopen(dl->path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
	if (again)
		dlclose(again);
}

void h2d_dl_close(struct h2d_dl *dl)
{
	if (dl->handle)
		dlclose(dl->handle);
	dl->handle = NULL;
}

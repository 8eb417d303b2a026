/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing includes upward: core < file < format, core < device, both < transfer < path, and
 * only a GPU back-end's own file may include its vendor's header. */
#include <dirent.h>

#include "test.h"

struct floor {
	const char *name, *below[7];
	const char *where; /* below the source tree; NULL: loader/NAME */
};

static const struct floor floors[] = {
	{"core", {"core", NULL}, NULL},
	{"file", {"core", "file", NULL}, NULL},
	{"format", {"core", "file", "format", NULL}, NULL},
	/* abi: the client of our kernel module, to the hmm back-end what a vendor's header is
	 * to the others. */
	{"device", {"core", "device", "abi", NULL}, NULL},
	{"transfer", {"core", "file", "format", "device", "transfer", NULL}, NULL},
	{"path", {"core", "file", "format", "device", "transfer", "path", NULL}, NULL},
	/* The preloaded library lives in programs that know nothing of us: of all the rest it
	 * takes only the detection by content, which is freestanding. */
	{"run", {"run", "format/detect.h", NULL}, "run"},
};

static const char *const vendor[] = {"hip/", "cuda", "CL/", "cufile", "hipfile", NULL};

static int allowed(const struct floor *f, const char *include)
{
	size_t n = strcspn(include, "/");

	if (include[n] != '/' || (!f->where && !strncmp(include, "h2d/", 4)))
		return 1;
	for (size_t i = 0; f->below[i]; i++)
		if (!strcmp(include, f->below[i]) ||
		    (strlen(f->below[i]) == n && !strncmp(include, f->below[i], n)))
			return 1;
	return 0;
}

/* The text between quotes or angle brackets of an #include line, or NULL. */
static char *included(char *line, char *kind)
{
	char *p = line + strspn(line, " \t"), *end;

	if (*p++ != '#')
		return NULL;
	p += strspn(p, " \t");
	if (strncmp(p, "include", 7))
		return NULL;
	p += 7;
	p += strspn(p, " \t");
	*kind = *p;
	if (*p != '"' && *p != '<')
		return NULL;
	end = strchr(p + 1, *p == '"' ? '"' : '>');
	if (!end)
		return NULL;
	*end = 0;
	return p + 1;
}

static void check_file(const struct floor *f, const char *dir, const char *name)
{
	char path[1024], line[1024], kind;
	FILE *in;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	in = fopen(path, "r");
	REQUIRE(in);
	while (fgets(line, sizeof(line), in)) {
		char *inc = included(line, &kind);

		if (!inc)
			continue;
		if (kind == '"' && !allowed(f, inc)) {
			fprintf(stderr, "%s includes %s, which is above it\n", path, inc);
			CHECK(0);
		}
		for (size_t i = 0; vendor[i]; i++)
			if (strcmp(f->name, "device") &&
			    !strncmp(inc, vendor[i], strlen(vendor[i]))) {
				fprintf(stderr, "%s includes a vendor's header, %s\n", path,
					inc);
				CHECK(0);
			}
	}
	fclose(in);
	CHECK(1);
}

static void nothing_includes_upward(void)
{
	const char *root = getenv("H2D_SOURCE_DIR");
	unsigned files = 0;

	if (!root)
		SKIP("H2D_SOURCE_DIR is not set");
	for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
		char dir[512];
		struct dirent *e;
		DIR *d;

		snprintf(dir, sizeof(dir), "%s/%s%s", root, floors[i].where ? "" : "loader/",
			 floors[i].name);
		d = opendir(dir);
		REQUIRE(d);
		while ((e = readdir(d))) {
			size_t n = strlen(e->d_name);

			if (n > 2 && e->d_name[n - 2] == '.' &&
			    (e->d_name[n - 1] == 'c' || e->d_name[n - 1] == 'h')) {
				check_file(&floors[i], dir, e->d_name);
				files++;
			}
		}
		closedir(d);
	}
	CHECK(files > 20);
}

static void the_check_itself_can_fail(void)
{
	const struct floor run = floors[sizeof(floors) / sizeof(floors[0]) - 1];
	char up[] = "#include \"path/table.h\"\n", down[] = "# include \"core/log.h\"\n", kind;

	CHECK(!allowed(&floors[1], included(up, &kind)));
	CHECK(allowed(&floors[1], included(down, &kind)));
	CHECK(!allowed(&run, "h2d/h2d.h") && !allowed(&run, "format/table.h"));
	CHECK(allowed(&run, "format/detect.h") && allowed(&run, "run/keep.h"));
}

int main(void)
{
	RUN(the_check_itself_can_fail);
	RUN(nothing_includes_upward);
	return TEST_DONE();
}

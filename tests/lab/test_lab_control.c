/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata texts: fields, dependency lists, the order of versions. */
#include "package/control.h"
#include "unit/test.h"

static void check_field(const char *text, const char *name, const char *expected)
{
	char *value = lab_control_field(text, strlen(text), name);

	if (expected)
		CHECK_STR(value, expected);
	else
		CHECK(!value);
	free(value);
}

static void fields(void)
{
	const char *text = "Package: linux-image-1\nversion:  1.2~rc1-3 \n"
			   "Depends: a (>= 1),\n b | c,\n\td\nDescription: x\n .\n y\n"
			   "\nPackage: second\nOnly: there\n";

	check_field(text, "Package", "linux-image-1");
	check_field(text, "Version", "1.2~rc1-3");
	check_field(text, "Depends", "a (>= 1), b | c, d");
	check_field(text, "Description", "x . y");
	check_field(text, "Pack", NULL);
	check_field(text, "Only", NULL);
	check_field("", "Package", NULL);
	check_field("Package", "Package", NULL);
	check_field("Package:", "Package", NULL);
	check_field(" Package: folded\n", "Package", NULL);
	check_field("X: a\n Package: b\n", "Package", NULL);
}

static void field_with_zero(void)
{
	static const char text[] = "Package: lin\0ux\nVersion: 1\n";
	char *value = lab_control_field(text, sizeof(text) - 1, "Package");

	CHECK_STR(value, "lin?ux");
	free(value);
	value = lab_control_field(text, sizeof(text) - 1, "Version");
	CHECK_STR(value, "1");
	free(value);
	/* Not terminated: the last byte belongs to the value. */
	value = lab_control_field("Package: abc", 11, "Package");
	CHECK_STR(value, "ab");
	free(value);
}

static void pkginfo(void)
{
	const char *text =
		"# made by hand\npkgname = linux\npkgver = 6.1-2\npkgver = 9\narch=x\n";
	char *value = lab_pkginfo_field(text, strlen(text), "pkgver");

	CHECK_STR(value, "6.1-2");
	free(value);
	value = lab_pkginfo_field(text, strlen(text), "pkgname");
	CHECK_STR(value, "linux");
	free(value);
	CHECK(!lab_pkginfo_field(text, strlen(text), "arch"));
	CHECK(!lab_pkginfo_field("pkgname = ", 9, "pkgname"));
	CHECK(!lab_pkginfo_field("", 0, "pkgname"));
}

static void dependencies(void)
{
	const char *list = " linux-kbuild-6.1 (>= 6.1.192-3), gcc-12:amd64|gcc (<<13) , "
			   "x [amd64] <!nocheck>, , |, (= 1), last";
	static const struct {
		const char *name, *relation, *version;
		int alternative;
	} expected[] = {
		{"linux-kbuild-6.1", ">=", "6.1.192-3", 0},
		{"gcc-12", "", "", 0},
		{"gcc", "<<", "13", 1},
		{"x", "", "", 0},
		{"last", "", "", 0},
	};
	struct lab_dependency d;

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		REQUIRE(lab_dependency_next(&list, &d) == 1);
		CHECK_STR(d.name, expected[i].name);
		CHECK_STR(d.relation, expected[i].relation);
		CHECK_STR(d.version, expected[i].version);
		CHECK_EQ(d.alternative, expected[i].alternative);
	}
	CHECK_EQ(lab_dependency_next(&list, &d), 0);
	CHECK_EQ(lab_dependency_next(&list, &d), 0);
}

static void hostile_dependencies(void)
{
	static const char *const lists[] = {
		"(",  "a (", "a (>=", "a (>= ", ",,,,", "|",   "a |", "a (===== 1), b",
		"a[", "a<",  ":",     "a:",	"()",	"a ()"};
	char long_list[4096];
	struct lab_dependency d;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const char *list = lists[i];
		int n = 0;

		while (lab_dependency_next(&list, &d) && n < 10)
			n++;
		CHECK(n <= 2);
	}
	memset(long_list, 'a', sizeof(long_list));
	memcpy(long_list + sizeof(long_list) - 3, ",b", 3);
	{
		const char *list = long_list;

		REQUIRE(lab_dependency_next(&list, &d) == 1);
		CHECK_STR(d.name, "b");
	}
}

static void versions(void)
{
	/* Each is earlier than the next. */
	static const char *const order[] = {
		"1.0~~",
		"1.0~~a",
		"1.0~",
		"1.0",
		"1.0-1",
		"1.0a",
		"1.0+b",
		"1.0.1",
		"6.1.90-1",
		"6.1.192-3",
		"6.12.113-1~deb12u1",
		"6.12.113-1",
		"6.12.115-2~deb12u1",
		"6.12.115-2",
		"1:0.1",
	};
	const size_t n = sizeof(order) / sizeof(order[0]);

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			int d = lab_version_compare(order[i], order[j]);

			CHECK((d > 0) - (d < 0) == (i > j) - (i < j));
		}
	CHECK_EQ(lab_version_compare("1.01", "1.1"), 0);
	CHECK_EQ(lab_version_compare("0:1", "1"), 0);
}

static void accepts(void)
{
	struct lab_dependency d = {.name = "x", .relation = ">=", .version = "6.1.192-3"};

	CHECK(lab_dependency_accepts(&d, "6.1.192-3"));
	CHECK(lab_dependency_accepts(&d, "6.2-1"));
	CHECK(!lab_dependency_accepts(&d, "6.1.90-1"));
	strcpy(d.relation, "=");
	CHECK(!lab_dependency_accepts(&d, "6.2-1"));
	strcpy(d.relation, "<<");
	CHECK(lab_dependency_accepts(&d, "6.1.192-2"));
	strcpy(d.relation, "?");
	CHECK(!lab_dependency_accepts(&d, "6.1.192-3"));
	d.relation[0] = 0;
	CHECK(lab_dependency_accepts(&d, "anything"));
}

int main(void)
{
	RUN(fields);
	RUN(field_with_zero);
	RUN(pkginfo);
	RUN(dependencies);
	RUN(hostile_dependencies);
	RUN(versions);
	RUN(accepts);
	return TEST_DONE();
}

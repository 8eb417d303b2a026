# SPDX-License-Identifier: Apache-2.0
# The manual page libh2d(3), as mdoc(7), from the comments of the public header.
# usage: awk -v date="Month D, YYYY" -v version=X.Y.Z -f manual.awk h2d.h example.c

# Text that troff must not interpret.
function safe(s)
{
	gsub(/\\/, "\\e", s)
	gsub(/-/, "\\-", s)
	return s
}

# "h2d_load()," as a macro.
function called(word,   name, rest, out)
{
	name = word
	sub(/\(.*/, "", name)
	rest = substr(word, length(name) + 3)
	out = ".Fn " name
	for (; rest != ""; rest = substr(rest, 2))
		out = out " " substr(rest, 1, 1)
	return out
}

# A line as troff lines of less than 80 columns, whatever becomes of other characters.
function folded(s,   n, i, word, out, column)
{
	column = 0
	out = ""
	n = split(s, word, " ")
	for (i = 1; i <= n; i++) {
		if (word[i] ~ /^[A-Za-z0-9_]+\(\)[.,;:)]*$/) {
			out = out (column ? "\n" : "") called(word[i]) (i < n ? "\n" : "")
			column = 0
			continue
		}
		if (column && column + 1 + length(word[i]) > 70) {
			out = out "\n"
			column = 0
		} else if (column) {
			out = out " "
			column++
		}
		if (!column && word[i] ~ /^[.']/)
			out = out "\\&"
		out = out word[i]
		column += length(word[i])
	}
	return out
}

# Tabs as blanks, and comments as plain ones.
function code(s,   at, out)
{
	gsub(/\/\*\*<?/, "/*", s)
	while ((at = index(s, "\t")) > 0)
		s = substr(s, 1, at - 1) substr("        ", 1 + (at - 1) % 8) substr(s, at + 1)
	return safe(s)
}

# A paragraph: every sentence begins a line, `words` are bold.
function prose(s,   n, i, part, bold, out, line)
{
	gsub(/[ \t]+/, " ", s)
	sub(/^ /, "", s)
	sub(/ $/, "", s)
	s = safe(s)
	n = split(s, part, "`")
	s = part[1]
	for (i = 2; i <= n; i++) {
		bold = i % 2 == 0
		s = s (bold ? "\\fB" : "\\fP") part[i]
	}
	while (match(s, /[.?!][)]? [A-Z0-9\\]/))
		s = substr(s, 1, RSTART + RLENGTH - 3) "\n" substr(s, RSTART + RLENGTH - 1)
	n = split(s, line, "\n")
	out = folded(line[1])
	for (i = 2; i <= n; i++)
		out = out "\n" folded(line[i])
	return out
}

# The comment before a declaration: paragraphs, then parameters, then the result.
function describe(doc,   n, i, line, text, list)
{
	if (doc == "")
		return
	sub(/@since 0[.]1[ \n]*$/, "", doc)
	n = split(doc, line, "\n")
	text = ""
	list = 0
	for (i = 1; i <= n + 1; i++) {
		if (i <= n && line[i] !~ /^@/ && line[i] != "") {
			text = text " " line[i]
			continue
		}
		if (text != "") {
			if (text ~ /^ *@param /) {
				sub(/^ *@param +/, "", text)
				if (!list++)
					body = body ".Bl -tag -width Ds -compact\n"
				name = text
				sub(/ .*/, "", name)
				sub(/^[^ ]+ +/, "", text)
				body = body ".It Fa " name "\n" prose(text) "\n"
			} else {
				if (list)
					body = body ".El\n"
				list = 0
				if (text ~ /^ *@return /)
					sub(/^ *@return /, "Returns ", text)
				if (paragraphs++)
					body = body ".Pp\n"
				body = body prose(text) "\n"
			}
		}
		text = i <= n ? line[i] : ""
	}
	if (list)
		body = body ".El\n"
}

function begin_section()
{
	if (section == "")
		return
	body = body ".Ss " section "\n"
	section = ""
}

# "H2D_API int f(const char *a, int b);"
function prototype(s,   type, name, args, n, i, arg)
{
	sub(/^H2D_API /, "", s)
	gsub(/[ \t]+/, " ", s)
	match(s, /[a-z0-9_]+\(/)
	name = substr(s, RSTART, RLENGTH - 1)
	type = substr(s, 1, RSTART - 1)
	args = substr(s, RSTART + RLENGTH)
	sub(/\);.*/, "", args)
	sub(/ $/, "", type)
	synopsis = synopsis ".Ft " (type ~ / / ? "\"" type "\"" : type) "\n.Fo " name "\n"
	n = split(args, arg, /, */)
	for (i = 1; i <= n; i++)
		synopsis = synopsis ".Fa \"" arg[i] "\"\n"
	synopsis = synopsis ".Fc\n"
	begin_section()
	body = body ".Bl -tag -width Ds\n.It Fn " name "\n"
	paragraphs = 0
	describe(doc)
	body = body ".El\n"
	doc = ""
}

# A type is shown as it is declared: its members carry their meaning.
function declaration(s)
{
	paragraphs = section == ""
	begin_section()
	describe(doc)
	body = body ".Bd -literal -offset 2n -compact\n" s ".Ed\n"
	doc = ""
}

FNR != NR {
	if (FNR > 1)
		example = example code($0) "\n"
	next
}
/^\/\* -+ / {
	section = $0
	sub(/^\/\* -+ /, "", section)
	sub(/ \*\/$/, "", section)
	next
}
/^\/\*\*/ && !in_declaration {
	in_comment = 1
	doc = ""
}
in_comment {
	line = $0
	in_comment = line !~ /\*\//
	sub(/^\/\*\*[ ]?/, "", line)
	sub(/[ ]*\*\/.*/, "", line)
	sub(/^ \*[ ]*/, "", line)
	# A since-version ends a description wherever its line was broken.
	if (line ~ /^@since/ || line ~ /^@file/) {
		if (line ~ /^@file/)
			is_file = 1
	} else {
		marked = line
		gsub(/ *@since 0[.]1/, "", marked)
		if (match(marked, / @(return|param) /)) {
			doc = doc substr(marked, 1, RSTART - 1) "\n"
			marked = substr(marked, RSTART + 1)
		}
		doc = doc marked "\n"
	}
	if (!in_comment && is_file) {
		overview = doc
		is_file = 0
		doc = ""
	}
	next
}
/^H2D_API/ || proto != "" {
	proto = proto " " $0
	sub(/^ /, "", proto)
	if ($0 ~ /;/) {
		prototype(proto)
		proto = ""
	}
	next
}
/^(struct|enum) [a-z0-9_]+ \{/ || /^typedef / || in_declaration {
	in_declaration = 1
	declared = declared code($0) "\n"
	if ($0 ~ /^[^*]*;[ \t]*$/ && $0 !~ /^\t/ || $0 ~ /\};$/ || (declared ~ /^typedef/ && $0 ~ /;$/)) {
		declaration(declared)
		declared = ""
		in_declaration = 0
	}
	next
}

END {
	print ".\\\" SPDX-License-Identifier: Apache-2.0"
	print ".\\\" Made from h2d.h by manual.awk."
	printf ".Dd %s\n.Dt LIBH2D 3\n.Os \"h2d %s\"\n", date, version
	print ".Sh NAME\n.Nm libh2d\n.Nd model weights from storage to an accelerator"
	print ".Sh LIBRARY\nlibh2d (libh2d, \\-lh2d)"
	print ".Sh SYNOPSIS\n.In h2d/h2d.h"
	printf "%s", synopsis
	print ".Sh DESCRIPTION"
	# Its first paragraph is the page's name.
	sub(/^\n*[^\n]*\n\n*/, "", overview)
	mine = body
	body = ""
	paragraphs = 0
	describe(overview)
	printf "%s%s", body, mine
	print ".Sh RETURN VALUES"
	print "Functions that return"
	print ".Vt int"
	print "return 0, or one of the negative statuses of"
	print ".Vt \"enum h2d_status\" ."
	print ".Sh EXAMPLES"
	print ".Bd -literal -offset 2n"
	printf "%s", example
	print ".Ed"
	print ".Pp"
	print "A program finds the library by"
	print ".Ql pkg\\-config h2d"
	print "or CMake's"
	print ".Ql find_package(h2d) ."
	print ".Sh SEE ALSO\n.Xr h2d 1"
	print ".Sh HISTORY\nAll of this is there since version 0.1."
}

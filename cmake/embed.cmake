# SPDX-License-Identifier: Apache-2.0
# cmake -DIN=FILE -DOUT=FILE.c -DNAME=SYMBOL -P embed.cmake: a file as an array of C, so that a
# program finds it wherever it is.
file(READ ${IN} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR bytes "${digits} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUT} "/* Made by embed.cmake. */\n#include <stddef.h>\nextern const unsigned char ${NAME}[];\n"
	"extern const size_t ${NAME}_bytes;\nconst unsigned char ${NAME}[] = {\n${hex}};\n"
	"const size_t ${NAME}_bytes = ${bytes};\n")

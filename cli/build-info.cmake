# SPDX-License-Identifier: Apache-2.0
# Run at build time: which commit is this, and was anything changed on top of it?
set(git "")
set(dirty 0)
find_program(git_program git)
if(git_program AND EXISTS ${SOURCE}/.git)
	execute_process(COMMAND ${git_program} rev-parse --short=12 HEAD WORKING_DIRECTORY ${SOURCE}
		OUTPUT_VARIABLE git OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
	execute_process(COMMAND ${git_program} status --porcelain --untracked-files=no
		WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE changes ERROR_QUIET)
	if(changes)
		set(dirty 1)
	endif()
endif()
set(text "/* SPDX-License-Identifier: Apache-2.0 */
/* Written by build-info.cmake. */
#define H2D_BUILD_GIT \"${git}\"
#define H2D_BUILD_GIT_DIRTY ${dirty}
#define H2D_LIBURING_VERSION \"${LIBURING}\"
")
set(old "")
if(EXISTS ${OUT})
	file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
	file(WRITE ${OUT} "${text}")
endif()

# SPDX-License-Identifier: Apache-2.0
option(H2D_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(H2D_FATAL_WARNINGS "Treat compiler warnings as errors" OFF)
option(H2D_FUZZ "Build the fuzz targets with libFuzzer (needs clang)" OFF)
set(H2D_SANITIZE "" CACHE STRING "Sanitizers, for example address,undefined or thread")
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
	set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(h2d_flags INTERFACE)
target_compile_definitions(h2d_flags INTERFACE _GNU_SOURCE _FILE_OFFSET_BITS=64 H2D_BUILDING)
target_compile_options(h2d_flags INTERFACE
	-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla
	-Wpointer-arith -Wformat=2 -Wwrite-strings -fno-strict-aliasing
	# Lines for people are cut where their buffer ends, on purpose.
	$<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>)
if(H2D_FATAL_WARNINGS)
	target_compile_options(h2d_flags INTERFACE -Werror)
endif()
target_include_directories(h2d_flags INTERFACE
	${PROJECT_SOURCE_DIR}/loader ${PROJECT_SOURCE_DIR}/loader/include)
if(H2D_SANITIZE)
	target_compile_options(h2d_flags INTERFACE -fsanitize=${H2D_SANITIZE} -fno-omit-frame-pointer)
	target_link_options(h2d_flags INTERFACE -fsanitize=${H2D_SANITIZE})
	# What sanitizers add makes GCC see paths that are not there.
	if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
		target_compile_options(h2d_flags INTERFACE -Wno-maybe-uninitialized)
	endif()
	if(H2D_SANITIZE MATCHES "undefined")
		target_compile_options(h2d_flags INTERFACE -fno-sanitize-recover=undefined)
	endif()
endif()
if(H2D_FUZZ)
	target_compile_options(h2d_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

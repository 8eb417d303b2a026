# SPDX-License-Identifier: Apache-2.0
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing>=2.3)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc>=2.1)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson>=2.13)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash>=0.8)
# Optional parts; each names itself in `h2d version` when it is built in.
pkg_check_modules(libarchive IMPORTED_TARGET libarchive)
pkg_check_modules(libelf IMPORTED_TARGET libelf)
pkg_check_modules(capstone IMPORTED_TARGET capstone)
pkg_check_modules(libbpf IMPORTED_TARGET libbpf)

# SPDX-License-Identifier: Apache-2.0
install(TARGETS h2d_shared h2d_static EXPORT h2d-targets
	LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
	ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES loader/include/h2d/h2d.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/h2d)

# Absolute GNUInstallDirs are allowed, so each path is joined and never pasted together.
cmake_path(APPEND h2d_pc_libdir "\${prefix}" "${CMAKE_INSTALL_LIBDIR}")
cmake_path(APPEND h2d_pc_includedir "\${prefix}" "${CMAKE_INSTALL_INCLUDEDIR}")
configure_file(cmake/h2d.pc.in h2d.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/h2d.pc
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(h2d_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/h2d)
install(EXPORT h2d-targets NAMESPACE h2d:: DESTINATION ${h2d_cmake_dir})
configure_package_config_file(cmake/h2d-config.cmake.in h2d-config.cmake
	INSTALL_DESTINATION ${h2d_cmake_dir})
write_basic_package_version_file(h2d-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/h2d-config.cmake
	${CMAKE_CURRENT_BINARY_DIR}/h2d-config-version.cmake DESTINATION ${h2d_cmake_dir})

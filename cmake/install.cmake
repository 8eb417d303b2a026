# SPDX-License-Identifier: Apache-2.0
install(TARGETS h2d_shared h2d_static EXPORT h2d-targets
	LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
	ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES loader/include/h2d/h2d.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/h2d)

# Found from where the file lies, so that an installed tree can be moved; absolute GNUInstallDirs
# are allowed and then taken as they are.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
	set(h2d_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
	file(RELATIVE_PATH h2d_pc_up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
	string(REGEX REPLACE "/$" "" h2d_pc_up "${h2d_pc_up}")
	set(h2d_pc_prefix "\${pcfiledir}/${h2d_pc_up}")
endif()
set(h2d_pc_libdir "\${prefix}")
cmake_path(APPEND h2d_pc_libdir "${CMAKE_INSTALL_LIBDIR}")
set(h2d_pc_includedir "\${prefix}")
cmake_path(APPEND h2d_pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")
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

# Headers, libraries, programs, the CMake package and the pkg-config file.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/sievedb")

set(installed_libraries sievedb_static)
if(SIEVEDB_BUILD_SHARED)
  list(APPEND installed_libraries sievedb_shared)
endif()
install(TARGETS ${installed_libraries} EXPORT sievedbTargets)
install(DIRECTORY include/sievedb DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
if(SIEVEDB_BUILD_TOOLS)
  get_property(built_programs GLOBAL PROPERTY SIEVEDB_PROGRAMS)
  install(TARGETS ${built_programs})
endif()

set(SIEVEDB_DEFAULT_KIND static)
if(BUILD_SHARED_LIBS)
  set(SIEVEDB_DEFAULT_KIND shared)
endif()
install(EXPORT sievedbTargets NAMESPACE sievedb:: DESTINATION "${package_dir}")
configure_package_config_file(tools/cmake/sievedbConfig.cmake.in
  "${PROJECT_BINARY_DIR}/sievedbConfig.cmake" INSTALL_DESTINATION "${package_dir}")
# Before 1.0 a minor version may change the API, as the soname says too.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/sievedbConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/sievedbConfig.cmake"
  "${PROJECT_BINARY_DIR}/sievedbConfigVersion.cmake"
  tools/cmake/FindxxHash.cmake
  DESTINATION "${package_dir}")

# Abseil names its pkg-config files absl_X.
list(TRANSFORM SIEVEDB_ABSL_PUBLIC PREPEND absl_ OUTPUT_VARIABLE pc_requires)
list(TRANSFORM SIEVEDB_ABSL_PRIVATE PREPEND absl_ OUTPUT_VARIABLE pc_requires_private)
list(APPEND pc_requires_private snappy libxxhash)
set(SIEVEDB_PC_LIBS_PRIVATE "${CMAKE_THREAD_LIBS_INIT}")
set(SIEVEDB_PC_LIBS "")
if(NOT SIEVEDB_BUILD_SHARED)
  # The static library is the only one: then plain --libs must do too.
  list(APPEND pc_requires ${pc_requires_private})
  set(pc_requires_private "")
  set(SIEVEDB_PC_LIBS "${SIEVEDB_PC_LIBS_PRIVATE}")
  set(SIEVEDB_PC_LIBS_PRIVATE "")
endif()
list(JOIN pc_requires " " SIEVEDB_PC_REQUIRES)
list(JOIN pc_requires_private " " SIEVEDB_PC_REQUIRES_PRIVATE)
# Relative to the file, so that an installed tree can be moved, unless a
# directory was given as an absolute path.
file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" up "${up}")
set(SIEVEDB_PC_PREFIX "\${pcfiledir}/${up}")
foreach(kind LIB INCLUDE)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}DIR}")
    set(SIEVEDB_PC_${kind}DIR "${CMAKE_INSTALL_${kind}DIR}")
    set(SIEVEDB_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  else()
    set(SIEVEDB_PC_${kind}DIR "\${prefix}/${CMAKE_INSTALL_${kind}DIR}")
  endif()
endforeach()
configure_file(tools/cmake/sievedb.pc.in "${PROJECT_BINARY_DIR}/sievedb.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/sievedb.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

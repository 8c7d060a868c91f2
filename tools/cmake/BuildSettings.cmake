# How SieveDB itself is compiled. Nothing here reaches the code of a project
# that uses SieveDB, through add_subdirectory or the installed package.

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
  endif()
  if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
    set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

  find_program(CCACHE_PROGRAM ccache)
  if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  endif()
endif()

set(sievedb_warnings -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  -Wold-style-cast -Wcast-qual -Wformat=2 -Wundef -Wimplicit-fallthrough -Wextra-semi
  -Werror=unused-result)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND sievedb_warnings -Wthread-safety -Wthread-safety-beta -Wunreachable-code -Wcomma
    -Wconditional-uninitialized)
endif()
if(SIEVEDB_WERROR)
  list(APPEND sievedb_warnings -Werror)
endif()

set(sievedb_instrumentation "")
if(SIEVEDB_SANITIZE)
  list(APPEND sievedb_instrumentation -fsanitize=${SIEVEDB_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
endif()
if(SIEVEDB_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SIEVEDB_BUILD_FUZZERS needs clang; use the preset 'fuzz'")
  endif()
  list(APPEND sievedb_instrumentation -fsanitize=fuzzer-no-link)
endif()

# Language, warnings, visibility and sanitizers for one of our own targets.
function(sievedb_settings target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE ${sievedb_warnings} ${sievedb_instrumentation})
  # Whoever links instrumented objects needs the sanitizer's runtime.
  target_link_options(${target} PUBLIC ${sievedb_instrumentation})
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()

#!/usr/bin/env bash
# Installs a build into a temporary prefix, then builds and runs tests/consumer in
# every way a user might: find_package and pkg-config, each against the static and
# the shared library, and add_subdirectory.
#   install_test.sh BUILD_DIR CXX BUILD_TYPE [CMAKE_ARGUMENT_FOR_ADD_SUBDIRECTORY...]
set -euo pipefail

build=$1 cxx=$2 build_type=$3
shift 3
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

fail() { echo "install_test: $*" >&2; exit 1; }

# run NAME PROGRAM static|shared: the program works and is linked as it should be.
run() {
  echo "== $1"
  local linked=static
  # Not through grep -q: it may end before ldd has written all, which pipefail takes for a failure.
  case $(ldd "$2") in *libsievedb.so*) linked=shared ;; esac
  [ "$linked" = "$3" ] || fail "$1 is linked to the $linked library"
  LD_LIBRARY_PATH=$libdir "$2" "$scratch/db-$1" || fail "$1 does not run"
}

build_consumer() {
  local dir=$scratch/$1
  shift
  cmake -S "$source/tests/consumer" -B "$dir" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_BUILD_TYPE="$build_type" "$@" >"$dir.log" 2>&1 &&
    cmake --build "$dir" -j2 >>"$dir.log" 2>&1 || { cat "$dir.log"; fail "cannot build $dir"; }
}

echo "== install"
cmake --install "$build" --prefix "$prefix" >"$scratch/install.log" 2>&1 ||
  { cat "$scratch/install.log"; fail "cannot install"; }
libdir=$(dirname "$(find "$prefix" -name libsievedb.a)")
[ -f "$prefix/include/sievedb/db.h" ] || fail "no headers installed"
# The tree must work where it is, not because of where it was configured for.
mv "$prefix" "$scratch/moved"
libdir=$scratch/moved${libdir#"$prefix"}
prefix=$scratch/moved
shared=; [ -e "$libdir/libsievedb.so" ] && shared=yes

build_consumer package-static -DCMAKE_PREFIX_PATH="$prefix" -DBUILD_SHARED_LIBS=OFF
run package-static "$scratch/package-static/consumer" static
if [ "$shared" ]; then
  build_consumer package-shared -DCMAKE_PREFIX_PATH="$prefix" -DBUILD_SHARED_LIBS=ON
  run package-shared "$scratch/package-shared/consumer" shared
fi

export PKG_CONFIG_PATH=$libdir/pkgconfig
if [ "$shared" ]; then
  # shellcheck disable=SC2046  # the flags are words
  "$cxx" -std=c++20 "$source/tests/consumer/main.cc" -o "$scratch/pkg-shared" \
    $(pkg-config --cflags --libs sievedb)
  run pkg-shared "$scratch/pkg-shared" shared
  rm "$libdir"/libsievedb.so*  # -lsievedb now means the static library
fi
# shellcheck disable=SC2046
"$cxx" -std=c++20 "$source/tests/consumer/main.cc" -o "$scratch/pkg-static" \
  $(pkg-config --static --cflags --libs sievedb)
run pkg-static "$scratch/pkg-static" static

build_consumer subdirectory -DSIEVEDB_SOURCE_DIR="$source" "$@"
run subdirectory "$scratch/subdirectory/consumer" static
for extra in db_bench db_test micro_bench; do
  [ -z "$(find "$scratch/subdirectory" -name "$extra")" ] || fail "add_subdirectory builds $extra"
done
echo "install_test: passed"

#!/bin/sh
# Builds libec_kiln.so for the Ceph of this machine, without Ceph's source.
#
#   bindings/ceph/build.sh LIBRARY OUT
#
# LIBRARY is libkiln_c.a. On Debian, as root, missing packages are installed. Exit code 3: this
# machine's Ceph is none that we know, or its packages cannot be had.
set -eu

LIBRARY=${1:?usage: build.sh LIBRARY OUT}
OUT=${2:?usage: build.sh LIBRARY OUT}
HERE=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$OUT"
LOG_DIR=$OUT
. "$HERE/../../.ci/packages.sh"

packages ceph-osd libradospp-dev librados-dev g++ || {
    echo "Ceph's packages (ceph-osd libradospp-dev librados-dev g++) cannot be installed" >&2
    exit 3
}

# One row a release: the interface that its plugins have.
RELEASE=$(package_version ceph-osd)
case $RELEASE in
    16.2.*) INTERFACE=interface_16.h ;;
    18.2.*) INTERFACE=interface_18.h ;;
    20.2.*) INTERFACE=interface_20.h ;;
    *) echo "no interface for Ceph $RELEASE; known: 16.2, 18.2, 20.2" >&2; exit 3 ;;
esac
# A daemon takes a plugin only if it says the daemon's own version.
VERSION=${RELEASE%%[!0-9.]*}

FLAGS="-std=c++17 -O2 -Wall -Wextra -I$HERE -I$HERE/../c/include"
INTERFACE="-DCEPH_INTERFACE=\"$INTERFACE\""
# shellcheck disable=SC2086 # several words are wanted
g++ $FLAGS "$INTERFACE" "-DCEPH_VERSION=\"$VERSION\"" -fPIC -shared -s \
    -Wl,-soname,libec_kiln.so "-Wl,--version-script=$HERE/libec_kiln.map" -Wl,--gc-sections \
    "$HERE/plugin.cc" "$LIBRARY" -o "$OUT/libec_kiln.so.new"
mv "$OUT/libec_kiln.so.new" "$OUT/libec_kiln.so"

# A folder in which it stands beside the stock plugins: erasure_code_dir of a cluster, and what the
# test program loads from.
CEPH=/usr/lib/$(gcc -print-multiarch)/ceph
for plugin in "$CEPH"/erasure-code/libec_*.so; do ln -sf "$plugin" "$OUT/"; done

# shellcheck disable=SC2086
g++ $FLAGS "$INTERFACE" "-I$HERE/tests" -rdynamic "$HERE"/tests/*.cc -o "$OUT/host" \
    -lrados "$CEPH/libceph-common.so.2" "-Wl,-rpath,$CEPH" -ldl -lpthread

#!/bin/sh
# Builds the libraries that kiln-bench measures kiln against, as shared libraries in one folder.
#
#   lab/peers/build.sh OUT
#
# What is missing is installed by apt-get (Debian, as root) or fetched by go and cargo. A peer
# that cannot be had is left out, loudly; the bench reports it as missing. OUT/SKIPPED says why.
set -u

OUT=${1:?usage: build.sh OUT}
HERE=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$OUT" && OUT=$(cd "$OUT" && pwd)
: >"$OUT/SKIPPED"
LIB=$(gcc -print-multiarch 2>/dev/null || echo .)
FLAGS='-O3 -fPIC -shared -Wall -Wextra'

skip() {
    rm -f "$OUT/$1.so"
    echo "!! PEER LEFT OUT: $1: $2" | tee -a "$OUT/SKIPPED" >&2
}

LOG_DIR=$OUT
. "$HERE/../../.ci/packages.sh"
. "$HERE/deb.sh"

# Nothing to do if the library is newer than what it is made of.
fresh() {
    [ -e "$OUT/$1.so" ] || return 1
    shift_name=$1
    shift
    for source in "$HERE/peer.h" "$@"; do
        [ "$source" -nt "$OUT/$shift_name.so" ] && return 1
    done
    return 0
}

# make NAME COMMAND...: runs the command, which writes $OUT/NAME.so; skips the peer if it fails.
make_peer() {
    name=$1
    shift
    echo "peer $name"
    "$@" >"$OUT/$name.log" 2>&1 || skip "$name" "does not build, see $OUT/$name.log"
}

if ! command -v gcc >/dev/null; then packages gcc libc6-dev || skip gcc "no C compiler"; fi

fresh ceiling "$HERE/ceiling.c" ||
    make_peer ceiling gcc $FLAGS -o "$OUT/ceiling.so" "$HERE/ceiling.c"

if ! packages libisal-dev; then
    skip isal "Debian package libisal-dev cannot be installed"
elif ! fresh isal "$HERE/isal.c"; then
    make_peer isal gcc $FLAGS "-DPEER_VERSION=\"$(package_version libisal-dev)\"" \
        -o "$OUT/isal.so" "$HERE/isal.c" -lisal
fi

# The ISA-L of Debian's next release knows GFNI. It gets a name of its own: of two libraries with
# one name a process loads the first only.
NEXT=forky
isal_next() {
    from=$OUT/isal-next-$NEXT
    [ -d "$from/unpacked/usr" ] || deb "$NEXT" "$(dpkg --print-architecture)" "$from" \
        libisal-dev libisal2 || return 1
    version=$(basename "$from"/libisal2_*.deb .deb | cut -d_ -f2)
    cp -L "$from/unpacked/usr/lib/$LIB/libisal.so.2" "$OUT/libisal-next.so" &&
        patchelf --set-soname libisal-next.so "$OUT/libisal-next.so" &&
        gcc $FLAGS -DPEER_NEXT=1 "-DPEER_VERSION=\"$version\"" "-I$from/unpacked/usr/include" \
            -o "$OUT/isal-next.so" "$HERE/isal.c" "$OUT/libisal-next.so" "-Wl,-rpath,$OUT"
}
if ! packages patchelf; then
    skip isal-next "Debian package patchelf cannot be installed"
elif ! fresh isal-next "$HERE/isal.c"; then
    make_peer isal-next isal_next
fi

if ! packages libjerasure-dev; then
    skip jerasure "Debian package libjerasure-dev cannot be installed"
elif ! fresh jerasure "$HERE/jerasure.c"; then
    make_peer jerasure gcc $FLAGS "-DPEER_VERSION=\"$(package_version libjerasure-dev)\"" \
        -I/usr/include/jerasure -o "$OUT/jerasure.so" "$HERE/jerasure.c" -lJerasure
fi

if ! command -v go >/dev/null; then
    skip klauspost "no go on this machine (1.24 or later)"
elif ! fresh klauspost "$HERE/go/main.go" "$HERE/go/go.mod"; then
    klauspost() { cd "$HERE/go" && go build -buildmode=c-shared -o "$OUT/klauspost.so" .; }
    make_peer klauspost klauspost
fi

if ! fresh crates "$HERE/rust/src/lib.rs" "$HERE/rust/Cargo.toml"; then
    crates() {
        cd "$HERE/rust" && cargo build --release --locked --target-dir "$OUT/rust" &&
            cp "$OUT/rust/release/libkiln_bench_crates.so" "$OUT/crates.so"
    }
    make_peer crates crates
fi

CEPH=/usr/lib/$LIB/ceph
SHIM=$HERE/../../bindings/ceph
if ! packages ceph-osd libradospp-dev g++; then
    skip ceph "Debian packages ceph-osd and libradospp-dev cannot be installed"
elif case $(package_version ceph-osd) in 16.2.*) false ;; esac; then
    skip ceph "the plugin interface written here is that of 16.2, not $(package_version ceph-osd)"
elif ! fresh ceph "$HERE/ceph.cc" "$SHIM/tests/host.h"; then
    make_peer ceph g++ -std=c++17 $FLAGS "-I$SHIM" "-I$SHIM/tests" \
        '-DCEPH_INTERFACE="interface_16.h"' "-DPEER_VERSION=\"$(package_version ceph-osd)\"" \
        "-DPLUGIN_DIR=\"$CEPH/erasure-code\"" -o "$OUT/ceph.so" "$HERE/ceph.cc" \
        -lrados "$CEPH/libceph-common.so.2" -Wl,-rpath,"$CEPH" -ldl
fi
exit 0

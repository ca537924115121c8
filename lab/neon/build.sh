#!/bin/sh
# Builds what `count.py` counts: one program each of kiln, klauspost and ISA-L, for aarch64.
#
#   lab/neon/build.sh OUT
#
# What is missing is installed by apt-get (Debian, as root) or fetched by go and rustup. A peer that
# cannot be had is left out, and said.
set -eu

OUT=${1:?usage: build.sh OUT}
HERE=$(cd "$(dirname "$0")" && pwd)
REPO=$HERE/../..
mkdir -p "$OUT" && OUT=$(cd "$OUT" && pwd)
LOG_DIR=$OUT
. "$REPO/.ci/packages.sh"
. "$REPO/lab/peers/deb.sh"
target=aarch64-unknown-linux-gnu

leave() {
    echo "$1" >&2
    exit 3
}

packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static ||
    leave "the compiler for aarch64 and its emulator cannot be installed (Debian, as root)"
rustup target add $target >"$OUT/rustup.log" 2>&1 ||
    leave "rustup cannot fetch $target, see $OUT/rustup.log"

CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    "${CARGO:-cargo}" build --release --locked -p kiln-code --example repeat --target $target \
    --target-dir "$OUT/cargo" --manifest-path "$REPO/Cargo.toml"
cp "$OUT/cargo/$target/release/examples/repeat" "$OUT/kiln"

if ! (
    cd "$REPO/lab/peers/go" &&
        GOARCH=arm64 CGO_ENABLED=0 go build -o "$OUT/klauspost" ./repeat
); then
    echo "!! PEER LEFT OUT: klauspost: needs go 1.24 or later" >&2
fi

suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
if [ -d "$OUT/isal-arm64/unpacked/usr" ] ||
    deb "$suite" arm64 "$OUT/isal-arm64" libisal-dev libisal2 >"$OUT/isal.log" 2>&1; then
    root=$OUT/isal-arm64/unpacked/usr
    aarch64-linux-gnu-gcc -O2 -Wall -Wextra "-I$root/include" -o "$OUT/isal" "$HERE/isal.c" \
        "-L$root/lib/aarch64-linux-gnu" -lisal "-Wl,-rpath,$root/lib/aarch64-linux-gnu"
    version=$(basename "$OUT"/isal-arm64/libisal2_*_arm64.deb _arm64.deb)
    echo "${version#libisal2_}" >"$OUT/isal.version"
else
    echo "!! PEER LEFT OUT: ISA-L: its package for arm64 cannot be had, see $OUT/isal.log" >&2
fi

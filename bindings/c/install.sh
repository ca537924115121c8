#!/bin/sh
# Installs the C interface: shared and static library, header, pkg-config file.
#
#   bindings/c/install.sh LIBRARY PREFIX [DESTDIR]
#
# LIBRARY is libkiln_c.a as cargo builds it. The shared library is linked from it, since rustc does
# not give symbols a version. Everything goes below DESTDIR, to be used at PREFIX.
set -eu

LIBRARY=${1:?usage: install.sh LIBRARY PREFIX [DESTDIR]}
PREFIX=${2:?usage: install.sh LIBRARY PREFIX [DESTDIR]}
DESTDIR=${3:-}
HERE=$(cd "$(dirname "$0")" && pwd)
case $PREFIX in
    /*) ;;
    *) echo "PREFIX=$PREFIX: an absolute path is wanted" >&2; exit 2 ;;
esac

# The interface's version is the number in the library's name; the package's follows.
ABI=$(sed -n 's/^#define KILN_ABI //p' "$HERE/include/kiln.h")
VERSION=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' \
    "$HERE/../../Cargo.toml")
# What Rust's standard library wants of the system.
PRIVATE='-lgcc_s -lpthread -ldl -lm'

lib=$DESTDIR$PREFIX/lib
mkdir -p "$lib/pkgconfig" "$DESTDIR$PREFIX/include"
file=libkiln.so.$ABI.$VERSION
# Written beside and renamed: programs that run keep the library that they have.
# shellcheck disable=SC2086 # several words are wanted
"${CC:-cc}" -shared -Wl,-soname,"libkiln.so.$ABI" "-Wl,--version-script=$HERE/kiln.map" \
    -Wl,--no-undefined -Wl,--gc-sections -Wl,-S \
    -Wl,--whole-archive "$LIBRARY" -Wl,--no-whole-archive $PRIVATE -o "$lib/$file.new"
mv "$lib/$file.new" "$lib/$file"
ln -sf "$file" "$lib/libkiln.so.$ABI"
ln -sf "libkiln.so.$ABI" "$lib/libkiln.so"
install -m 644 "$LIBRARY" "$lib/libkiln.a"
install -m 644 "$HERE/include/kiln.h" "$DESTDIR$PREFIX/include/kiln.h"
sed -e "s|@PREFIX@|$PREFIX|" -e "s|@VERSION@|$VERSION|" -e "s|@PRIVATE@|$PRIVATE|" \
    "$HERE/kiln.pc.in" >"$lib/pkgconfig/kiln.pc"

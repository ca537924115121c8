#!/bin/sh
# What is shipped: a static binary, a tarball with it, a .deb, symbols apart, a bill of materials
# and checksums. The same bytes from the same source and toolchain. `dist.sh TARGET_DIR OUT`.
set -eu
target=$1 out=$2
cargo=${CARGO:-cargo} triple=${TRIPLE:-x86_64-unknown-linux-musl}
# Foreign machines: a C compiler for the crate ring (headers of glibc do, nothing of it is linked),
# tools for their binaries, and something that runs them.
tools= run= linker=
case $triple in
    x86_64-*) arch=amd64 cc=${MUSL_CC:-musl-gcc} packages=musl-tools ;;
    aarch64-*)
        arch=arm64 cc=${MUSL_CC:-aarch64-linux-gnu-gcc} linker=rust-lld
        tools=aarch64-linux-gnu-
        packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static"
        [ "$(uname -m)" = aarch64 ] || run=qemu-aarch64-static ;;
    *) echo "SKIPPED: no package for $triple"; exit 3 ;;
esac
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
skip() { echo "SKIPPED: $*"; exit 3; }
[ -z "$run" ] || command -v $run > /dev/null ||
    skip "no $run to make pages and completions with (apt-get install $packages)"

# BUILT: a binary that is there already, to try the packing alone.
if [ -z "${BUILT:-}" ]; then
    if ! rustc --print target-libdir --target "$triple" 2> /dev/null | xargs test -d; then
        rustup target add "$triple" > /dev/null 2>&1 ||
            skip "no standard library for $triple (rustup target add $triple)"
    fi
    command -v "$cc" > /dev/null || skip "no C compiler $cc (apt-get install $packages)"
    upper=$(echo "$triple" | tr a-z- A-Z_)
    [ -z "$linker" ] || export "CARGO_TARGET_${upper}_LINKER=$linker"
    # Paths of this machine stay out of the binary.
    home=${CARGO_HOME:-$HOME/.cargo}
    RUSTFLAGS="--remap-path-prefix=$here=/kiln --remap-path-prefix=$home=/cargo" \
        env "CC_$(echo "$triple" | tr - _)=$cc" \
        "$cargo" build --locked --profile dist --target "$triple" -p kiln
    BUILT=$target/$triple/dist/kiln
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# All files are as old as the last commit; without git, as 1980, the oldest that all formats know.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || echo 315532800)}
export SOURCE_DATE_EPOCH

name=kiln-$version-$triple
stage=$out/stage
rm -rf "$out"
mkdir -p "$stage/usr/bin" "$stage/usr/share/man/man1" "$stage/lib/systemd/system" \
    "$stage/etc/kiln" "$stage/usr/share/doc/kiln" "$stage/usr/share/kiln" \
    "$stage/usr/share/bash-completion/completions" "$stage/usr/share/zsh/vendor-completions" \
    "$stage/usr/share/fish/vendor_completions.d"
"${tools}objcopy" --only-keep-debug "$BUILT" "$out/$name.debug"
"${tools}strip" -o "$stage/usr/bin/kiln" "$BUILT"
kiln=$stage/usr/bin/kiln
$run "$kiln" man "$stage/usr/share/man/man1"
gzip -9n "$stage"/usr/share/man/man1/*.1
$run "$kiln" completions bash > "$stage/usr/share/bash-completion/completions/kiln"
$run "$kiln" completions zsh > "$stage/usr/share/zsh/vendor-completions/_kiln"
$run "$kiln" completions fish > "$stage/usr/share/fish/vendor_completions.d/kiln.fish"
cp dist/systemd/*.service "$stage/lib/systemd/system/"
cp dist/config/*.conf "$stage/etc/kiln/"
cp dist/monitoring/* "$stage/usr/share/kiln/"
cp README.md "$stage/usr/share/doc/kiln/"
cp LICENSE "$stage/usr/share/doc/kiln/copyright"
python3 dist/sbom.py --cargo "$cargo" --target "$triple" > "$out/$name.cdx.json"
cp "$out/$name.cdx.json" "$stage/usr/share/doc/kiln/kiln.cdx.json"
find "$stage" -type d -exec chmod 755 {} +
find "$stage" -type f -exec chmod 644 {} +
chmod 755 "$kiln"
find "$stage" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +

tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    --transform="s,^\.,$name," -C "$stage" -cf - . | gzip -9n > "$out/$name.tar.gz"

if command -v dpkg-deb > /dev/null; then
    mkdir "$stage/DEBIAN"
    cp dist/debian/postinst dist/debian/prerm "$stage/DEBIAN/"
    chmod 755 "$stage/DEBIAN" "$stage/DEBIAN/postinst" "$stage/DEBIAN/prerm"
    (cd "$stage" && find etc -type f | sort | sed 's,^,/,') > "$stage/DEBIAN/conffiles"
    cat > "$stage/DEBIAN/control" << END
Package: kiln
Version: $version
Architecture: $arch
Maintainer: kiln <kiln@localhost>
Section: utils
Priority: optional
Installed-Size: $(du -sk --apparent-size "$stage/usr" | cut -f 1)
Description: erasure coding of files, with cheap repair
 Cuts files into shards of which some may be lost, keeps pools of them on
 disks and machines, and rebuilds what is lost from the least reading.
END
    chmod 644 "$stage/DEBIAN/conffiles" "$stage/DEBIAN/control"
    find "$stage/DEBIAN" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$stage" "$out/kiln_${version}_$arch.deb" > /dev/null
fi
rm -r "$stage"
(cd "$out" && sha256sum -- *) > "$out.sums"
mv "$out.sums" "$out/SHA256SUMS"
ls -l "$out"

#!/bin/sh
# Tries what `make dist` made: size, links, pages, units, the bill, rules, and, as root on Debian, a
# fresh root in which the .deb goes from nothing to a repaired pool. `dist_test.sh OUT`.
set -eu
out=$(cd "$1" && pwd)
skip() { echo "SKIPPED: $*"; }
fail() { echo "FAILED: $*"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$(dirname "$0")" && pwd)

(cd "$out" && sha256sum -c --quiet SHA256SUMS) || fail "checksums"
tar -xzf "$out"/kiln-*.tar.gz -C "$work"
root=$(echo "$work"/kiln-*)
kiln=$root/usr/bin/kiln
size=$(stat -c %s "$kiln")
[ "$size" -le 20000000 ] || [ -n "${BUILT:-}" ] ||
    fail "the binary has $size bytes, at most 20 MB are promised"
echo "the binary has $size bytes"
case $(file -b "$kiln" 2> /dev/null || echo unknown) in
    *statically*|*static-pie*) ;;
    *) [ -n "${BUILT:-}" ] || fail "the binary is not static" ;;
esac

# Every command has a page, and every shell takes its completions.
for command in $("$kiln" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    [ -e "$root/usr/share/man/man1/kiln-$command.1.gz" ] || fail "no page of kiln $command"
done
if command -v man > /dev/null; then
    # A manual that is excluded from small systems answers with an advice.
    MANROFFSEQ='' man --warnings -E UTF-8 -l "$root/usr/share/man/man1/kiln.1.gz" \
        > "$work/page" 2> "$work/warnings" || true
    [ ! -s "$work/warnings" ] || skip "man complains: $(head -n 1 "$work/warnings")"
fi
bash -n "$root/usr/share/bash-completion/completions/kiln" || fail "completions of bash"
if command -v zsh > /dev/null; then
    zsh -n "$root/usr/share/zsh/vendor-completions/_kiln" || fail "completions of zsh"
else skip "no zsh"; fi
if command -v fish > /dev/null; then
    fish -n "$root/usr/share/fish/vendor_completions.d/kiln.fish" || fail "completions of fish"
else skip "no fish"; fi

python3 "$here/check.py" "$root"
if command -v promtool > /dev/null; then
    promtool check rules "$root/usr/share/kiln/alerts.yml" > /dev/null || fail "rules"
    (cd "$root/usr/share/kiln" && promtool test rules alerts_test.yml > "$work/rules") ||
        { cat "$work/rules"; fail "rules"; }
else skip "no promtool (apt-get install prometheus)"; fi
if command -v systemd-analyze > /dev/null; then
    for unit in agent coordinator s3; do
        # The binary is not installed here, which is no fault of the unit.
        systemd-analyze verify "$root/lib/systemd/system/kiln-$unit.service" 2>&1 |
            grep "kiln-$unit" | grep -v "not executable\|No such file\|'man " && fail "unit $unit"
        level=$(systemd-analyze security --offline=true --no-pager \
            "$root/lib/systemd/system/kiln-$unit.service" 2> /dev/null |
            sed -n 's/.*exposure level.*: \([0-9.]*\).*/\1/p')
        echo "exposure of kiln-$unit, 0 to 10: ${level:-not told}"
    done
else skip "no systemd-analyze"; fi

# From the package to a repaired pool, where nothing else is.
deb=$(ls "$out"/*.deb 2> /dev/null) || { skip "no .deb"; exit 0; }
if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
    skip "a fresh Debian wants root and debootstrap; the package is unpacked instead"
    dpkg-deb -x "$deb" "$work/debian"
    run() { PATH=$work/debian/usr/bin:$PATH sh -ec "$1"; }
    mkdir -p "$work/debian/try" && cd "$work/debian/try"
else
    debootstrap --variant=minbase stable "$work/debian" > "$work/bootstrap" 2>&1 ||
        { tail -n 3 "$work/bootstrap"; fail "debootstrap"; }
    cp "$deb" "$work/debian/kiln.deb"
    chroot "$work/debian" dpkg -i /kiln.deb > /dev/null || fail "dpkg -i"
    mkdir -p "$work/debian/try"
    run() { chroot "$work/debian" sh -ec "cd /try; $1"; }
fi
begun=$(date +%s)
run '
    kiln --version
    for i in 0 1 2 3 4 5 6; do mkdir disk$i; nodes="$nodes --node disk$i"; done
    kiln pool create pool.toml -c clay:4+2 $nodes -q
    head -c 20000000 /dev/urandom > film
    kiln put film -q
    rm -r disk3; mkdir disk3
    kiln pool add-node n03 --replace -q
    kiln repair -q
    kiln scrub -q
    kiln get film -o back -q
    cmp film back
' || fail "from the package to a repaired pool"
echo "from the package to a repaired pool: $(($(date +%s) - begun)) s"
echo "dist-test: good"

#!/bin/sh
# Builds what is shipped twice, from clones in folders of different names and depths, and compares
# every byte. `twice.sh WORK`. Only what is committed counts. Exit code 3: not possible here.
set -eu
rm -rf "$1"
mkdir -p "$1/one" "$1/another/folder"
work=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
for place in one another/folder; do
    git clone -q "$here" "$work/$place/kiln"
    (cd "$work/$place/kiln" && unset CARGO_TARGET_DIR && sh dist/dist.sh target "$work/$place/out")
done
cmp "$work/one/out/SHA256SUMS" "$work/another/folder/out/SHA256SUMS" ||
    { echo "FAILED: two builds of one commit differ"; exit 1; }
cat "$work/one/out/SHA256SUMS"
echo "dist-twice: the same bytes"

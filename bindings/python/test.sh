#!/bin/sh
# Tests kiln for Python, in an environment of its own: `test.sh WORK PROGRAM LIBRARY`. LIBRARY is
# the extension as the workspace builds it; `wheel`: a wheel is built by maturin and installed, as
# `pip install .` does. PROGRAM is kiln, to compare with. Exit code 3: not possible here, and said.
set -eu
work=$1 program=$(realpath "$2") library=$3
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
skip() { echo "python-test: SKIPPED: $*"; exit 3; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    skip "$("$python" --version 2>&1) is older than 3.11"
mkdir -p "$work"
work=$(cd "$work" && pwd)
if [ ! -x "$work/venv/bin/pip" ]; then
    rm -rf "$work/venv"
    "$python" -m venv "$work/venv" > "$work/venv.log" 2>&1 ||
        { tail -n 3 "$work/venv.log"; skip "no venv (on Debian: apt-get install python3-venv)"; }
fi
bin=$work/venv/bin
timeout 600 "$bin/pip" install -q -r "$here/tests/requirements.txt" > "$work/pip.log" 2>&1 ||
    { tail -n 3 "$work/pip.log"; skip "pip cannot install what the tests need"; }

if [ "$library" = wheel ]; then
    "$bin/pip" install -q 'maturin>=1.9,<2' > "$work/pip.log" 2>&1 || skip "no maturin"
    rm -rf "$work/wheels"
    # Both descriptions of the package make the same wheel.
    for source in "$here" "$here/../.."; do
        (cd "$source" && PATH="$bin:$PATH" MATURIN_PEP517_ARGS="${WHEEL_ARGS:-}" \
            "$bin/pip" wheel -q . --no-deps --no-build-isolation -w "$work/wheels") || exit 1
    done
    ls -l "$work"/wheels/kiln-*-cp311-abi3-*.whl
    "$bin/pip" install -q --force-reinstall --no-deps "$work"/wheels/kiln-*-cp311-abi3-*.whl
    site=
else
    site=$work/site
    rm -rf "$site"
    mkdir -p "$site"
    cp -r "$here/python/kiln" "$site/kiln"
    cp "$library" "$site/kiln/_kiln.abi3.so"
fi

cd "$here/tests"
export PYTHONPATH="$site" MYPYPATH="$site" KILN_PROGRAM="$program" PYTHONDONTWRITEBYTECODE=1
"$bin/python" -m mypy.stubtest kiln --ignore-disjoint-bases --mypy-config-file mypy.ini
"$bin/python" -m mypy --config-file mypy.ini typed_use.py
timeout 1200 "$bin/python" -m pytest -q -p no:cacheprovider --doctest-glob='*.md' \
    --basetemp "$work/tmp" . "$here/../../docs/guide/python.md" --doctest-modules --pyargs kiln

# Sourced by .ci/step and lab/run, from the root of the repository: names and functions they share.
CARGO=${CARGO:-cargo}
PYTHON=${PYTHON:-python3}
TARGET=${CARGO_TARGET_DIR:-target}
KILN=$TARGET/release/kiln
LOG_DIR=$TARGET
# RELEASE=18.2 or 20.2: Ceph of that release, in a Debian of its own, instead of this machine's.
RELEASE=${RELEASE:-}
CEPH=$TARGET/ceph${RELEASE:+-$RELEASE}
QUICK=${QUICK:-}
mkdir -p "$TARGET"
. .ci/packages.sh
export CARGO PYTHON

# possible COMMAND...: runs it; exit code 3 is no failure: it is not possible here, and has said so.
possible() {
    status=0
    "$@" || status=$?
    [ $status = 0 ] || [ $status = 3 ]
}

# try_packages NAME...: installs them where that can be done; what needs them says what it skips.
try_packages() {
    packages "$@" || true
}

# built PACKAGE:TARGET...: paths of programs as `cargo test --workspace` builds them, one a line.
built() {
    "$PYTHON" .ci/built.py --cargo "$CARGO" "$@"
}

# in_ceph COMMAND...: runs it where Ceph is of the wanted release.
in_ceph() {
    if [ -n "$RELEASE" ]; then
        sh bindings/ceph/root.sh "$RELEASE" "$TARGET/debian-ceph-$RELEASE" "$@"
    else
        "$@"
    fi
}

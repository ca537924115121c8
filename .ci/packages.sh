# Sourced by scripts: Debian packages and their versions. LOG_DIR is where apt-get's output goes.

# packages NAME...: installs those that are missing (Debian, as root); fails when it cannot.
# Maintainer scripts want a TMPDIR of their own, wherever they are called: some machines clean the
# common one under their feet.
packages() {
    missing=
    for package; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed' ||
            missing="$missing $package"
    done
    [ -z "$missing" ] && return 0
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
    mkdir -p "$LOG_DIR/tmp"
    # Steps that run beside each other take turns: apt-get does not wait for another one, and where
    # it is told to clean up after itself it removes what another one has just fetched.
    (
        tmp=$(cd "$LOG_DIR/tmp" && pwd)
        flock 9
        for attempt in install update; do
            [ $attempt = update ] && { apt-get -q update >>"$LOG_DIR/apt.log" 2>&1 || exit 1; }
            # shellcheck disable=SC2086 # several words are wanted
            TMPDIR="$tmp" DEBIAN_FRONTEND=noninteractive apt-get install -qy \
                -o DPkg::Lock::Timeout=600 \
                --no-install-recommends $missing >>"$LOG_DIR/apt.log" 2>&1 9>&- && exit 0
        done
        exit 1
    ) 9>/var/lock/kiln-packages
}

# The installed version of a package.
package_version() {
    dpkg-query -W -f '${Version}' "$1" 2>/dev/null | tr -d '"\\ '
}

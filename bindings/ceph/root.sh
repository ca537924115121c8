#!/bin/sh
# Runs a command where another release of Ceph is installed: in a folder with a Debian of its own,
# made when it is not there. So one machine builds and tests the plugin for every release.
#
#   bindings/ceph/root.sh RELEASE FOLDER COMMAND [WORD...]
#
# The command sees this machine's processes, network and working folder, and Ceph's programs,
# libraries and headers of that release. As root; exit code 3 where that is not possible, or where
# the packages cannot be had.
set -eu

RELEASE=${1:?usage: root.sh RELEASE FOLDER COMMAND...}
FOLDER=${2:?usage: root.sh RELEASE FOLDER COMMAND...}
shift 2
HERE=$(cd "$(dirname "$0")" && pwd)
REPO=$(cd "$HERE/../.." && pwd)

# One row a release: the Debian that has it. That of 20.2 is not released yet, so its lists may be
# past their date; they are signed all the same.
DATED=true
case $RELEASE in
    18.2) SUITE=trixie ;;
    20.2) SUITE=forky DATED=false ;;
    *) echo "no Debian known to have Ceph $RELEASE; known: 18.2, 20.2" >&2; exit 3 ;;
esac
PACKAGES=ceph-mon,ceph-mgr,ceph-osd,ceph-common,python3-rados,libradospp-dev,librados-dev,g++,\
fio,iproute2,e2fsprogs

mkdir -p "$(dirname "$FOLDER")"
FOLDER=$(cd "$(dirname "$FOLDER")" && pwd)/$(basename "$FOLDER")
if [ ! -d "$FOLDER" ]; then
    LOG_DIR=$(dirname "$FOLDER")
    . "$REPO/.ci/packages.sh"
    packages mmdebstrap || { echo "mmdebstrap cannot be installed (Debian, as root)" >&2; exit 3; }
    echo "making a Debian with Ceph $RELEASE in $FOLDER (0.9 GB, some minutes)" >&2
    rm -rf "$FOLDER.new"
    mmdebstrap --quiet --variant=minbase --include="$PACKAGES" \
        --aptopt="Acquire::Check-Valid-Until \"$DATED\"" "$SUITE" "$FOLDER.new" \
        >"$FOLDER.log" 2>&1 || {
        rm -rf "$FOLDER.new"
        echo "Ceph $RELEASE cannot be had, see $FOLDER.log" >&2
        exit 3
    }
    mv "$FOLDER.new" "$FOLDER"
fi

# Mounts are in a namespace of their own, which ends with the last process in it.
# shellcheck disable=SC2016 # expanded inside
exec unshare --mount sh -ec '
    root=$1 repo=$2 here=$PWD
    shift 2
    mount --make-rprivate /
    # ip netns wants a root that is mounted.
    mount --bind "$root" "$root"
    for folder in /proc /sys /dev "$repo" "$(dirname "$root")"; do
        mkdir -p "$root$folder"
        mount --rbind "$folder" "$root$folder"
    done
    exec chroot "$root" sh -ec "cd \"\$1\"; shift; exec \"\$@\"" sh "$here" "$@"
' sh "$FOLDER" "$REPO" "$@"

"""CephFS on the study's cluster: a metadata server, a pool of data for each target, and ceph-fuse
as the client, since the kernel's client is not everywhere."""

import os

from lab.ceph.clients import make_pool

from lab.online.files import Fuse

NAME, META, FIRST = "study", "study-meta", "study-data"
# What the client does not keep for itself: every request is one of the file system's.
CLIENT = ["--client_oc=false", "--fuse_disable_pagecache=true"]


def settings(folder):
    """Lines of the configuration."""
    return f"[mds]\nmds_data = {folder / 'mds'}\nmds_cache_memory_limit = 268435456\n"


class CephFs:
    """The file system, mounted."""

    def __init__(self, cluster, folder):
        self.cluster, self.fuse = cluster, None
        (cluster.folder / "mds").mkdir()
        for pool in (META, FIRST):
            make_pool(cluster, pool, None, pgs=8)
        cluster.command("fs new", fs_name=NAME, metadata=META, data=FIRST)
        cluster.start("mds.a")
        cluster.wait_for(self.active, "the metadata server")
        cluster.settle()
        at = folder / "cephfs"
        self.fuse = Fuse(at, ["ceph-fuse", "-f", "-c", cluster.conf, "-n", "client.admin",
                              *CLIENT, at], folder / "ceph-fuse.log")
        self.fuse.wait_for(lambda: os.path.ismount(at))

    def active(self):
        """Whether the metadata server serves."""
        ranks = self.cluster.command("fs dump")["filesystems"][0]["mdsmap"]["info"].values()
        return any(rank["state"] == "up:active" for rank in ranks)

    def folder_of(self, target, profile, pgs):
        """A folder whose files are in a pool of a target."""
        pool, at = f"files-{target.image}", self.fuse.at / target.image
        make_pool(self.cluster, pool, profile, pgs=pgs)
        self.cluster.command("fs add_data_pool", fs_name=NAME, pool=pool)
        self.cluster.settle()
        at.mkdir()
        os.setxattr(at, "ceph.dir.layout.pool", pool.encode())
        return at

    def end(self):
        """Unmounts it; the cluster ends the server."""
        if self.fuse:
            self.fuse.end()

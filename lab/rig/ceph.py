#!/usr/bin/env python3
"""A Ceph cluster of this machine's own: one monitor, one manager, some OSDs on sparse files.

    python3 -m lab.rig.ceph up FOLDER --plugins DIR [--osds 16]  makes or restarts it, in FOLDER
                                 [--partial-reads]   with 20.2's default, see WHOLE_READS
    python3 -m lab.rig.ceph down FOLDER              ends the daemons and removes FOLDER

No systemd, no containers, no root needed but for what Ceph itself wants. Everything that runs is
in FOLDER/pids and ended by process id. `Cluster` is what tests and benches drive.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path

from lab.rig.testbed import program
from lab.rig.tools import Failed, free_port

CONF = """\
[global]
fsid = {fsid}
mon_host = [v2:{address}:{port}/0]
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_bind_msgr1 = false
public_addr = {address}
erasure_code_dir = {plugins}
osd_class_dir = {classes}
run_dir = {folder}/run
admin_socket = {folder}/run/$name.asok
log_file = {folder}/log/$name.log
log_to_stderr = false
err_to_stderr = true
mon_cluster_log_file = {folder}/log/cluster.log
mon_allow_pool_delete = true
mon_max_pg_per_osd = 2000
mon_osd_down_out_interval = 86400
mon_osd_min_down_reporters = 1
mon_data_avail_crit = 1
mon_data_avail_warn = 1
mon_warn_on_pool_no_redundancy = false
osd_crush_chooseleaf_type = 0
osd_pool_default_size = 3
osd_pool_default_pg_autoscale_mode = off
osd_heartbeat_grace = 60
osd_pool_default_read_lease_ratio = 0.1
osd_deep_scrub_interval = 8640000
osd_max_backfills = 8
osd_recovery_max_active = 8
osd_recovery_sleep = 0
osd_op_num_shards = 2
osd_op_num_threads_per_shard = 1
osd_memory_target = 939524096
osd_max_object_size = 1073741824
bluestore_block_create = true
bluestore_block_size = {disk}
bluestore_cache_autotune = false
bluestore_cache_size = 33554432
bdev_aio_max_queue_depth = 128
[mon]
mon_data = {folder}/mon
[mgr]
mgr_data = {folder}/mgr
mgr_initial_modules =
[osd]
osd_data = {folder}/osd.$id
{reads}
[client]
admin_socket =
rados_osd_op_timeout = 300
rados_mon_op_timeout = 300
"""

# From 20.2 on OSDs read for a client only those data chunks that it wants, and ask for them as for
# a recovery. Where they do not, a profile says so, and kiln has data chunks repaired from parts.
WHOLE_READS = "osd_ec_partial_reads=false"
READS_SOME = 20

DISK = 8 << 30
WAIT = 600  # seconds that anything may take


class ClusterError(Failed):
    """Ends a run with one clear line."""


def object_classes():
    """The folder of what OSDs do for block devices. Debian's 20.2 looks for it below the folder in
    which it is started."""
    return min(Path("/usr/lib").glob("*/rados-classes"), default="/usr/lib/rados-classes")


class Cluster:
    """The cluster in a folder. Whoever wants it elsewhere than on this machine's own address and
    on sparse files says so in `address`, `settings`, `prefix` and `place_osd`."""

    address = "127.0.0.1"  # of the monitor

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.conf = self.folder / "ceph.conf"
        self.connection = None

    # What may differ

    def settings(self):
        """More of the configuration, with names of sections."""
        return ""

    def prefix(self, _name):
        """Words before those that start a daemon."""
        return []

    def place_osd(self, osd):
        """Prepares the folder of an OSD before its disk is made."""

    # Daemons

    def tool(self, *words, **options):
        """Runs one of Ceph's programs and returns what it prints."""
        done = subprocess.run(
            [words[0], "-c", str(self.conf), *map(str, words[1:])],
            capture_output=True, text=True, timeout=WAIT, **options)
        if done.returncode != 0:
            line = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise ClusterError(f"{' '.join(map(str, words))}: {' '.join(line)}")
        return done.stdout

    def start(self, name):
        """Starts a daemon (`mon.a`, `mgr.x`, `osd.3`) and notes its process id."""
        kind, instance = name.split(".")
        log = open(self.folder / "log" / f"{name}.out", "ab")
        daemon = subprocess.Popen(
            [*self.prefix(name), f"ceph-{kind}", "-c", str(self.conf), "-i", instance, "-f"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        (self.folder / "pids" / name).write_text(str(daemon.pid))

    def pid(self, name):
        """The process id of a daemon, if it runs and is what we started."""
        try:
            pid = int((self.folder / "pids" / name).read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if str(self.conf).encode() in words else None

    def kill(self, name, how=signal.SIGKILL):
        """Ends a daemon by its process id and waits for its end."""
        pid = self.pid(name)
        if pid is not None:
            os.kill(pid, how)
        for _ in range(WAIT * 10):
            try:
                os.waitpid(pid or 0, os.WNOHANG)
            except ChildProcessError:
                pass
            if self.pid(name) is None:
                (self.folder / "pids" / name).unlink(missing_ok=True)
                return
            time.sleep(0.1)
        raise ClusterError(f"{name} does not end")

    def names(self):
        """The daemons that were started."""
        return sorted(path.name for path in (self.folder / "pids").glob("*.*"))

    # Life of the cluster

    def make(self, osds, plugins, partial_reads=False):
        """Makes the cluster and waits until all OSDs are up."""
        for sub in ["run", "log", "pids", "mgr"]:
            (self.folder / sub).mkdir(parents=True)
        values = dict(fsid=uuid.uuid4(), port=free_port(), folder=self.folder, disk=DISK,
                      address=self.address, plugins=Path(plugins).resolve(), reads="",
                      classes=object_classes())
        if self.release() >= READS_SOME and not partial_reads:
            values["reads"] = WHOLE_READS
        self.conf.write_text(CONF.format(**values) + self.settings())
        keyring, monmap = self.folder / "keyring", self.folder / "monmap"
        self.tool("ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.")
        self.tool("monmaptool", "--create", "--fsid", values["fsid"], "--addv", "a",
                  f"[v2:{self.address}:{values['port']}/0]", monmap)
        self.tool("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring)
        self.start("mon.a")
        self.connect()
        self.start("mgr.x")
        for osd in range(osds):
            self.make_osd(osd)
        self.wait_for(lambda: self.up() == osds, "all OSDs to be up")

    def release(self):
        """The first number of Ceph's version."""
        done = subprocess.run(["ceph-osd", "--version"], capture_output=True, text=True, check=True)
        return int(done.stdout.split()[2].split(".")[0])

    def make_osd(self, osd):
        """Makes OSD number `osd` with an empty disk, and starts it."""
        identity = str(uuid.uuid4())
        self.command("osd new", uuid=identity, id=osd)
        (self.folder / f"osd.{osd}").mkdir()
        self.place_osd(osd)
        self.tool("ceph-osd", "-i", osd, "--mkfs", "--osd-uuid", identity)
        self.start(f"osd.{osd}")

    def lose_osd(self, osd):
        """Kills an OSD, as a machine that fails, and tells the monitor at once."""
        self.kill(f"osd.{osd}")
        self.command("osd down", ids=[str(osd)])

    def replace_osd(self, osd):
        """A new empty disk in the place of a lost OSD."""
        self.command("osd destroy-actual", id=osd, yes_i_really_mean_it=True)
        shutil.rmtree(self.folder / f"osd.{osd}")
        self.make_osd(osd)

    def restart(self):
        """Starts whatever does not run."""
        for name in ["mon.a", "mgr.x", *(p.name for p in sorted(self.folder.glob("osd.*")))]:
            if self.pid(name) is None:
                self.start(name)
        self.connect()

    def down(self):
        """Ends all daemons and removes everything."""
        if self.connection:
            self.connection.shutdown()
            self.connection = None
        for name in reversed(self.names()):
            self.kill(name)
        shutil.rmtree(self.folder)

    # Talking to it

    def connect(self):
        """Opens a connection as a client."""
        self.connection = rados().Rados(conffile=str(self.conf), name="client.admin")
        self.connection.connect(timeout=WAIT)

    def command(self, prefix, manager=False, **arguments):
        """A command of the monitor (or manager); returns its JSON, or text, and its message."""
        words = json.dumps({"prefix": prefix, "format": "json", **arguments})
        ask = self.connection.mgr_command if manager else self.connection.mon_command
        code, out, message = ask(words, b"", timeout=WAIT)
        if code != 0:
            raise ClusterError(f"{prefix}: {message or os.strerror(-code)}")
        self.message = message
        try:
            return json.loads(out)
        except ValueError:
            return out.decode()

    def up(self):
        """OSDs that are up."""
        state = self.command("osd stat")
        return state["num_up_osds"]

    def words(self, profile):
        """A profile given as `plugin=... k=...`, with what it needs here."""
        words = profile.split() + ["crush-failure-domain=osd"]
        sub_chunks = "plugin=kiln" in words and "code=rs" not in words
        return words + [WHOLE_READS] * (sub_chunks and WHOLE_READS in self.conf.read_text())

    def pool(self, name, profile, pgs=4):
        """Makes a pool with an erasure-code profile given as `plugin=... k=...`."""
        words = self.words(profile)
        self.command("osd erasure-code-profile set", name=name, profile=words)
        advice = self.message
        self.command("osd pool create", pool=name, pg_num=pgs, pgp_num=pgs,
                     pool_type="erasure", erasure_code_profile=name)
        # Losing m OSDs must not stop anything here; Ceph's default wants one chunk more.
        k = next(word[2:] for word in words if word.startswith("k="))
        for key, value in [("allow_ec_overwrites", "true"), ("min_size", k)]:
            self.command("osd pool set", pool=name, var=key, val=value)
        return advice

    def drop_pool(self, name):
        """Removes a pool and what is in it."""
        self.command("osd pool delete", pool=name, pool2=name, yes_i_really_really_mean_it=True)

    def states(self):
        """How many placement groups are in which state."""
        states = self.command("pg stat")
        summary = states.get("pg_summary", states)
        return {row["name"]: row["num"] for row in summary["num_pg_by_state"]}

    def clean(self):
        """Whether every placement group is active and clean."""
        states = self.states()
        if not states:  # not known yet, unless there is no pool
            return not self.command("osd lspools")
        return all(name.startswith("active+clean") for name in states)

    def wait_for(self, what, words):
        """Waits until `what()` holds."""
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            if what():
                return
            time.sleep(0.5)
        raise ClusterError(f"waited {WAIT} s for {words}: {self.states()}")

    def settle(self):
        """Waits until everything is active and clean, twice in a row."""
        calm = [0]

        def calm_now():
            calm[0] = calm[0] + 1 if self.clean() else 0
            return calm[0] >= 3
        self.wait_for(calm_now, "active+clean")


def rados():
    """Ceph's Python module, which comes with the system's own Python."""
    try:
        import rados as module
        return module
    except ImportError:
        raise ClusterError(
            "no Python module rados here; Debian's is for /usr/bin/python3") from None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make the cluster, or restart what does not run")
    up.add_argument("folder")
    up.add_argument("--plugins", required=True, help="folder of libec_*.so, kiln's among them")
    up.add_argument("--osds", type=int, default=16)
    up.add_argument("--partial-reads", action="store_true")
    down = commands.add_parser("down", help="end the daemons, remove the folder")
    down.add_argument("folder")
    options = parser.parse_args()
    cluster = Cluster(options.folder)
    if options.command == "down":
        cluster.down()
    elif cluster.conf.exists():
        cluster.restart()
        print(f"{cluster.up()} OSDs up; ceph -c {cluster.conf} -s")
    else:
        cluster.make(options.osds, options.plugins, options.partial_reads)
        print(f"{cluster.up()} OSDs up; ceph -c {cluster.conf} -s")


if __name__ == "__main__":
    program(main, "cluster")

"""HDFS's own erasure coding: what its client writes, and what it rebuilds by itself."""

import subprocess
import time

from lab.hdfs.watch import Watch
from lab.rig import hadoop
from lab.rig.hdfs import run
from lab.rig.testbed import TestbedError

MIB = 1 << 20
POLICY = "RS-10-4-1024k"
FOLDER = "rs"
LONGEST = 1800  # seconds that one thing may take
# Bytes on a link after which something has certainly begun: more than heartbeats and commands.
BEGUN = 256 << 10
# Files that a client puts at the same time, HDFS's and kiln's.
FILES_AT_ONCE = 4
# What was still on its way when the last block was known.
REST = 1.0


def folder(hdfs):
    """An empty folder whose files HDFS encodes."""
    hdfs.webhdfs("PUT", "/", "ENABLEECPOLICY", ecpolicy=POLICY)
    hdfs.webhdfs("DELETE", FOLDER, "DELETE", recursive="true")
    hdfs.mkdir(FOLDER)
    hdfs.webhdfs("PUT", FOLDER, "SETECPOLICY", ecpolicy=POLICY)


def encode(hdfs, files):
    """HDFS's client puts the files, on the NameNode's host; from its first bytes to its end."""
    folder(hdfs)
    client = hdfs.datanodes
    words = hdfs.java(client, hadoop.SHELL, "-put", "-t", FILES_AT_ONCE, *files, f"/{FOLDER}",
                      heap="1g", light=False)
    with Watch(hdfs) as watch:
        start = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST, check=False)
        end = time.monotonic()
        if done.returncode != 0:
            raise TestbedError(f"HDFS's put: {done.stderr.strip()[-300:]}")
        # With it what its last packets left behind.
        time.sleep(watch.every)
    return encoded(watch, client, start, end)


def encoded(watch, client, start, end):
    """What encoding took, HDFS's or kiln's: from the first bytes on the client's link on."""
    begin = watch.begins(client, 0, BEGUN, start)
    return dict(seconds=end - begin, starting_seconds=begin - start, **traffic(watch, start, end))


def traffic(watch, begin, end):
    """What all links carried, and how busy the machine was."""
    each = watch.passed(begin, end)
    return dict(bytes=sum(got for _, got in each), links=each, machine_cores=watch.machine_cores,
                load=watch.load)


def recover(hdfs, lost, spares, wanted):
    """A DataNode is killed; HDFS finds out, and rebuilds so many blocks on the spare ones."""
    with Watch(hdfs, counting=True) as watch:
        before = watch.counted(spares)
        killed = time.monotonic()
        hdfs.kill_daemon(lost)
        watch.until(lambda: watch.counted(spares) >= before + wanted,
                    f"HDFS to rebuild {wanted} blocks", LONGEST)
        time.sleep(REST)
    end = next(look[0] for look in watch.looks
               if look[0] > killed and watch.counted(spares, look[0]) >= before + wanted)
    begin = min(begins(watch, spare, killed, end) for spare in spares)
    return dict(seconds=end - begin, from_kill_seconds=end - killed,
                **traffic(watch, killed, end + REST))


def begins(watch, spare, killed, end):
    """When a spare DataNode began to receive; the end, if it never did."""
    try:
        return watch.begins(spare, 1, BEGUN, killed)
    except TimeoutError:
        return end


def renew(hdfs, host):
    """A DataNode that was killed comes back empty."""
    run("rm", "-rf", hdfs.daemon_folder(host) / "data")
    hdfs.start_daemon(host)


def settle(hdfs, live):
    """Waits until so many DataNodes live and nothing is left to delete or to rebuild."""
    hdfs.wait_until(lambda: hdfs.live() == live, f"{live} DataNodes to live")

    def quiet():
        state = hdfs.state()
        return not state["PendingDeletionBlocks"] and not state["PendingReconstructionBlocks"]

    hdfs.wait_until(quiet, "HDFS to be done with what was deleted")


def compare(hdfs, file):
    """What HDFS gives back is what was put."""
    back = hdfs.folder / "back"
    run(*hdfs.java(hdfs.datanodes, hadoop.SHELL, "-get", f"/{FOLDER}/{file.name}", back,
                   heap="512m"), timeout=LONGEST)
    if run("cmp", file, back, check=False).returncode != 0:
        raise TestbedError(f"HDFS gives back another {file.name}")
    back.unlink()

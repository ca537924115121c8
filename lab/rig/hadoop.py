"""Hadoop for tests and the bench: its artifacts by Maven, and how a NameNode and DataNodes run."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
INSTALL = 600  # seconds that Maven may take
NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
SHELL = "org.apache.hadoop.fs.FsShell"
# Small machines run many of them.
JVM = ["-XX:+UseSerialGC", "-Xss512k", "-Djava.net.preferIPv4Stack=true",
       "--add-opens=java.base/java.lang=ALL-UNNAMED"]
# Starts sooner, ends up slower: for what is not measured.
LIGHT = "-XX:TieredStopAtLevel=1"
ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
HA_ADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
EXCLUDED = "excluded"  # names what is to be taken out of service, in the NameNode's folder
RPC, HTTP, DATA_HTTP, DATA, DATA_IPC = 8020, 9870, 9864, 9866, 9867
LOG4J = """log4j.rootLogger=WARN,err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d %p %c{1}: %m%n
"""


class NoHadoop(Exception):
    """Hadoop, or a Java for it, cannot be had here."""


def classpath(cache):
    """The jars, by Maven; they stay in Maven's own repository, their list in the folder `cache`."""
    if shutil.which("java") is None:
        raise NoHadoop("no java here; on Debian: apt-get install openjdk-17-jre-headless")
    pom = HERE / "pom.xml"
    tag = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    known = Path(cache) / f"classpath-{tag}"
    if known.exists():
        jars = known.read_text().strip()
        if all(os.path.exists(jar) for jar in jars.split(":")):
            return jars
    if shutil.which("mvn") is None:
        raise NoHadoop("no mvn here; on Debian: apt-get install maven")
    Path(cache).mkdir(parents=True, exist_ok=True)
    fresh = known.with_suffix(".new")
    words = ["mvn", "-q", "-B", "-f", str(pom), "dependency:build-classpath",
             f"-Dmdep.outputFile={fresh.resolve()}"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL, check=False)
    except subprocess.TimeoutExpired as late:
        raise NoHadoop(f"Maven does not give Hadoop within {INSTALL} s") from late
    if done.returncode != 0 or not fresh.exists():
        said = [line for line in done.stdout.splitlines() if "ERROR" in line]
        raise NoHadoop("Maven does not give Hadoop: " + (said or [done.stderr])[0].strip()[:300])
    fresh.rename(known)
    return known.read_text().strip()


def site(values):
    """A configuration as Hadoop reads it."""
    rows = "".join(f"  <property><name>{name}</name><value>{value}</value></property>\n"
                   for name, value in values.items() if value is not None)
    return f"<?xml version=\"1.0\"?>\n<configuration>\n{rows}</configuration>\n"


def configure(folder, namenode, address, block_mib, more=None):
    """Writes the configuration of one daemon or client at an address; the folder of it. `more`
    takes the place of what HDFS is told; nothing stands for what it is not to be told."""
    conf = folder / "conf"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / EXCLUDED).touch()
    for sub in [conf, folder / "classes/webapps/hdfs/WEB-INF",
                folder / "classes/webapps/datanode/WEB-INF"]:
        sub.mkdir(parents=True, exist_ok=True)
    (conf / "log4j.properties").write_text(LOG4J)
    (conf / "core-site.xml").write_text(site({
        "fs.defaultFS": f"hdfs://{namenode}:{RPC}" if more is None else f"hdfs://{namenode}",
        "hadoop.tmp.dir": folder / "tmp",
        "hadoop.http.staticuser.user": "nobody",
        "ipc.client.connect.max.retries": 3,
    }))
    (conf / "hdfs-site.xml").write_text(site({
        "dfs.replication": 1,
        "dfs.blocksize": block_mib << 20,
        "dfs.namenode.fs-limits.min-block-size": 1 << 16,
        "dfs.namenode.name.dir": folder / "name",
        "dfs.namenode.rpc-address": f"{namenode}:{RPC}",
        "dfs.namenode.http-address": f"{namenode}:{HTTP}",
        "dfs.namenode.handler.count": 8,
        "dfs.namenode.service.handler.count": 4,
        # A node that the only writer writes to is the busiest: it must not be passed over.
        "dfs.namenode.redundancy.considerLoad": "false",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        # A dead DataNode is known for dead after 2 * 2 s + 10 * 1 s.
        "dfs.namenode.heartbeat.recheck-interval": 2000,
        "dfs.heartbeat.interval": 1,
        "dfs.namenode.redundancy.interval.seconds": "1s",
        "dfs.namenode.safemode.extension": 0,
        "dfs.hosts.exclude": folder / EXCLUDED,
        "dfs.namenode.decommission.interval": "1s",
        "dfs.datanode.data.dir": folder / "data",
        "dfs.datanode.hostname": address,
        "dfs.datanode.address": f"{address}:{DATA}",
        "dfs.datanode.http.address": f"{address}:{DATA_HTTP}",
        "dfs.datanode.ipc.address": f"{address}:{DATA_IPC}",
        "dfs.datanode.handler.count": 3,
        "dfs.datanode.scan.period.hours": -1,
        "dfs.datanode.synconclose": "true",
        # A file ends when its DataNode has told of the block: who asks too soon waits so long.
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": 20,
        **(more or {}),
    }))
    return conf


def command(jars, folder, main, *words, heap="64m", light=True):
    """The words that run a class of Hadoop with the configuration in a folder."""
    path = f"{folder}/conf:{folder}/classes:{jars}"
    options = [*JVM, *([LIGHT] if light else [])]
    return ["java", f"-Xmx{heap}", *options, "-cp", path, main, *map(str, words)]

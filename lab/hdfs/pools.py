"""kiln's pools over agents beside DataNodes: encoding, and recoveries by `kiln coordinator`."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

from lab.hdfs.native import FILES_AT_ONCE, LONGEST, encoded, traffic
from lab.hdfs.watch import Watch
from lab.rig.testbed import TestbedError, run

NODES = 14
AT_ONCE = 20  # objects repaired at once


class Agents:
    """Agents beside DataNodes, each with a folder of HDFS of its own."""

    def __init__(self, hdfs):
        self.hdfs, self.serial, self.folders = hdfs, 0, {}
        run(hdfs.kiln, "agent", "--init", "--key", hdfs.key)
        # The test-bed starts an agent in what it takes for the folder of its host.
        hdfs.disk = lambda host: self.folders[host]
        os.environ.update(HOME=str(hdfs.folder), XDG_STATE_HOME=str(hdfs.folder),
                          XDG_CACHE_HOME=str(hdfs.folder))

    def start(self, hosts):
        """Agents in new folders."""
        for host in hosts:
            self.hdfs.kill(host)
            self.serial += 1
            path = f"kiln/h{host}-{self.serial}"
            self.hdfs.mkdir(path)
            blocks = self.hdfs.daemon_folder(host) / "data"
            self.folders[host] = self.hdfs.place(host, path, blocks=blocks)
            self.hdfs.start(host)
        for host in hosts:
            self.hdfs.wait_for(lambda: self.hdfs.serving(host), f"the agent of host {host}")

    def clear(self):
        """Ends all and removes their folders."""
        for host in self.folders:
            self.hdfs.kill(host)
        self.folders.clear()
        self.hdfs.webhdfs("DELETE", "kiln", "DELETE", recursive="true")


class Pool:
    """A pool over the agents of the first hosts."""

    def __init__(self, agents, code, serial):
        self.agents, self.hdfs, self.code = agents, agents.hdfs, code
        self.file = self.hdfs.folder / f"pool-{serial}.toml"
        self.homes = {f"n{host}": host for host in range(NODES)}
        agents.start(self.homes.values())
        nodes = [word for node, host in self.homes.items()
                 for word in ["--node", f"{self.hdfs.address(host)},id={node}"]]
        self.ask("pool", "create", self.file, "-c", code, *nodes)

    def ask(self, *words, **options):
        """Runs kiln where the NameNode is, and gives its report."""
        return self.hdfs.ask(*words, host=self.hdfs.datanodes, **options)

    def encode(self, files):
        """Files become objects, some at a time: from the first bytes to the last program's end."""
        def put(file):
            self.ask("put", file, f"data/{file.name}", "--pool", self.file, timeout=LONGEST)

        with Watch(self.hdfs) as watch, ThreadPoolExecutor(FILES_AT_ONCE) as programs:
            start = time.monotonic()
            list(programs.map(put, files))
            end = time.monotonic()
            time.sleep(watch.every)
        return encoded(watch, self.hdfs.datanodes, start, end)

    def lose(self, node):
        """A node's DataNode and agent are killed; its host."""
        host = self.homes.pop(node)
        self.hdfs.kill(host)
        self.hdfs.kill_daemon(host)
        return host

    def replace(self, node, spare):
        """An empty DataNode takes a node's place."""
        self.lose(node)
        self.agents.start([spare])
        self.ask("pool", "add-node", node, self.hdfs.address(spare), "--replace", "--pool",
                 self.file)
        self.homes[node] = spare

    def add(self, node, spare):
        """A node more, on an empty DataNode."""
        self.agents.start([spare])
        self.ask("pool", "add-node", node, self.hdfs.address(spare), "--pool", self.file)
        self.homes[node] = spare

    def recover(self, strategy, stripes, spread=False):
        """What is lost is rebuilt; from the start of the coordinator to its end."""
        to = ["--to", "spread"] if spread else []
        with Watch(self.hdfs) as watch:
            start = time.monotonic()
            report = self.ask("coordinator", "--pool", self.file, "--strategy", strategy, *to,
                              "--wait", 0, "--jobs", AT_ONCE, timeout=LONGEST)
            end = time.monotonic()
            time.sleep(watch.every)
        # A folder's own object has no shards: its repair makes copies of its manifest.
        agents = sum(row["objects"] for row in report["strategies"].values())
        if agents < stripes or report["failed"] or report["central_bytes_written"]:
            raise TestbedError(f"{strategy}: {report}"[:2000])
        return dict(seconds=end - start, reported_seconds=report["seconds"],
                    plan_seconds=report["plan_seconds"], rebuilt=report["bytes_rebuilt"],
                    disk_bytes=report["bytes_read"], planned_bytes=report["planned_sent"],
                    planned_load=report["planned_max_node_load"],
                    metered_bytes=report["bytes_sent"], replanned=report["replanned_count"],
                    **traffic(watch, start, end))

    def forget(self, node):
        """A node that is lost is not of the pool any more."""
        self.ask("pool", "forget", node, "--pool", self.file)

    def compare(self, file):
        """What the pool gives back is what was put, and all of it is there."""
        back = self.hdfs.folder / "back"
        self.ask("get", f"data/{file.name}", "-o", back, "--pool", self.file, timeout=LONGEST)
        if run("cmp", file, back, check=False).returncode != 0:
            raise TestbedError(f"{file.name} came back changed")
        back.unlink()

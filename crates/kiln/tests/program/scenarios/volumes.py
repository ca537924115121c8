"""Volumes, served by the program to a client that speaks as little of the protocol as it can."""

import errno
import json
import signal
import socket
import struct
import time
from threading import Thread

from pools import Scene
from rig import asked, data, drained, flip, holds, metric, same, seeded, until, test

BLOCK = 4096
KIB, MIB = 1 << 10, 1 << 20


class Server:
    """`kiln nbd`."""

    def __init__(self, rig, flags="", volume="disk --socket disk.sock"):
        self.child = rig.start(f"nbd {volume} {flags}")
        self.line = self.child.stdout.readline().decode()
        self.said = drained(self.child.stderr)
        if not self.line.startswith("serving nbd+unix:///disk?socket=disk.sock"):
            raise AssertionError(self.line + self.said())

    def end(self):
        """Ends it as a person would; what it said on standard error."""
        self.child.send_signal(signal.SIGTERM)
        said = self.said()
        same(self.child.wait(), 0, said)
        return said

    def kill(self):
        self.child.kill()
        self.child.wait()


class Client:
    """A connection to the server."""

    def __init__(self, rig):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(rig / "disk.sock"))
        same(self.take(18)[:16], b"NBDMAGICIHAVEOPT")
        # No zeros; then the export by its name.
        self.socket.sendall(struct.pack(">I8sII4s", 3, b"IHAVEOPT", 1, 4, b"disk"))
        self.take(10)

    def take(self, size):
        bytes_ = bytearray()
        while len(bytes_) < size:
            more = self.socket.recv(size - len(bytes_))
            if not more:
                raise ConnectionError
            bytes_ += more
        return bytes(bytes_)

    def ask(self, kind, offset, size, bytes_=b""):
        """Sends a request; what it is answered, and data where it reads."""
        head = struct.pack(">IHH8sQI", 0x25609513, 0, kind, b"cookie..", offset, size)
        self.socket.sendall(head + bytes_)
        magic, error, cookie = struct.unpack(">II8s", self.take(16))
        same((magic, cookie), (0x67446698, b"cookie.."))
        if error:
            raise OSError(error, "refused by the server")
        return self.take(size if kind == 0 else 0)

    def read(self, offset, size):
        return self.ask(0, offset, size)

    def write(self, offset, bytes_):
        self.ask(1, offset, len(bytes_), bytes_)

    def refuses(self, offset, bytes_, *errors):
        """Expects that a write fails, with one of these errors if there are any."""
        try:
            self.write(offset, bytes_)
        except OSError as error:
            assert not errors or error.errno in errors, error
        else:
            raise AssertionError(f"a write at {offset} was acknowledged")


def small(rig):
    rig.pool("clay:4+2", 9)
    rig.kiln("volume create disk 4MiB --segment 64KiB -q").ok()


def killed(rig, bytes_):
    """A server that wrote this, and was killed."""
    small(rig)
    server = Server(rig)
    Client(rig).write(0, bytes_)
    server.kill()


def has(rig, bytes_, at=0, flags=""):
    """Expects that a new server reads this."""
    server = Server(rig, flags)
    assert Client(rig).read(at, len(bytes_)) == bytes_, f"other bytes at {at}"
    server.end()


def logs(rig):
    """Copies of logs: the file of each in the folder of its node."""
    return sorted(rig.folder.glob("d??/*.log"))


def node(log):
    """The node of a copy of a log."""
    return log.parent.name.replace("d", "n")


def stat(rig, flags=""):
    return rig.kiln(f"volume stat disk --json -q {flags}").ok().json()


def no_damage(rig):
    same(rig.kiln("volume check disk --json").ok().json()["damaged_count"], 0)


@test
def acknowledged_writes_survive_kills_and_lost_nodes(rig):
    small(rig)
    random, _ = seeded("acknowledged_writes_survive_kills_and_lost_nodes")
    model = bytearray(4 * MIB)
    for turn in range(6):
        server, client = Server(rig), Client(rig)
        assert client.read(0, len(model)) == model, f"round {turn}"
        for step in range(40):
            size = random.randint(1, 12) * BLOCK
            offset = random.randrange((len(model) - size) // BLOCK) * BLOCK
            bytes_ = data(size, turn * 1000 + step)
            client.write(offset, bytes_)
            model[offset:offset + size] = bytes_
        # Writes under way when it is killed are there block by block, or not.
        offset, bytes_ = random.randrange(900) * BLOCK, data(64 * BLOCK, turn + 77)

        def under_way():
            try:
                client.write(offset, bytes_)
            except OSError:
                pass

        thread = Thread(target=under_way)
        thread.start()
        time.sleep(random.randrange(4000) / 1e6)
        server.kill()
        thread.join()
        # Two nodes are lost for good, two others come in their place.
        lost = {random.randrange(9), random.randrange(9)}
        for at in lost:
            rig.remove(f"d{at:02}")
        server = Server(rig)
        found = Client(rig).read(offset, len(bytes_))
        for at in range(0, len(bytes_), BLOCK):
            block, end = found[at:at + BLOCK], at + BLOCK
            assert block in (model[offset + at:offset + end], bytes_[at:end]), f"round {turn}"
        model[offset:offset + len(bytes_)] = found
        server.end() if turn % 2 == 0 else server.kill()
        for at in lost:
            (rig / f"d{at:02}").mkdir()
            rig.kiln(f"pool add-node n{at:02} --replace -q").ok()
        rig.kiln("repair -q").ok()
    no_damage(rig)
    rig.kiln("scrub --deep -q")
    rig.kiln("status -q").ok()


@test
def volumes_of_agents_survive_agents_and_servers_that_are_killed(rig):
    scene = Scene(rig, "clay:4+2", 9)
    scene.ok("volume create disk 4MiB --segment 64KiB -q")
    model = bytearray(MIB)
    server, client = Server(rig, "--key cluster.key"), Client(rig)
    for step in range(40):
        if step % 16 == 8:
            # One with a copy of the log: the writer goes on with another one.
            scene.kill(int(stat(rig, "--key cluster.key")["log_nodes"][0][1:]))
        offset, bytes_ = step * 37 % 240 * BLOCK, data(5 * BLOCK, step)
        client.write(offset, bytes_)
        model[offset:offset + len(bytes_)] = bytes_
    second = rig.kiln("nbd disk --socket other.sock --key cluster.key -q")
    second.fails(5, "in use by kiln nbd on")
    server.kill()
    has(rig, model, flags="--key cluster.key")


@test
def a_log_leaves_nodes_that_leave_the_pool(rig):
    small(rig)
    server, bytes_ = Server(rig), data(9 * BLOCK)
    Client(rig).write(0, bytes_)
    for name in stat(rig)["log_nodes"]:
        rig.kiln(f"pool drain {name} -q").ok()
        assert name not in stat(rig)["log_nodes"], name
        rig.remove(name.replace("n", "d"))
    server.kill()
    has(rig, bytes_)


@test
def a_server_makes_nothing_in_the_empty_place_of_a_lost_node(rig):
    """A server has its pool open for days. A disk is lost, and an empty folder takes its place."""
    small(rig)
    server, client = Server(rig), Client(rig)
    model = bytearray(2 * MIB)

    def write(turn):
        """Writes more than the log holds, so segments are sealed."""
        for step in range(40):
            offset = (step * 37 + turn * 5) % 500 * BLOCK
            bytes_ = data(9 * BLOCK, turn * 100 + step)
            client.write(offset, bytes_)
            model[offset:offset + len(bytes_)] = bytes_
        assert client.read(0, len(model)) == model, f"round {turn}"

    write(0)
    # A node with the log and one without.
    having = [log.parent.name for log in logs(rig)]
    without = next(name for at in range(9) if (name := f"d{at:02}") not in having)
    for turn, folder in enumerate([having[0], without]):
        rig.remove(folder)
        (rig / folder).mkdir()
        write(turn + 1)
        same(rig.names(folder), [], f"round {turn}")
        rig.kiln(f"pool add-node {folder.replace('d', 'n')} --replace -q").ok()
        rig.kiln("repair -q").ok()
    write(3)
    server.end()
    rig.kiln("repair -q").ok()
    no_damage(rig)
    rig.kiln("status -q").ok()


@test
def a_log_that_lost_a_copy_is_seen_and_repaired(rig):
    """Writes that a dead server acknowledged are in no object yet. Nothing would miss the copies of
    its log one after the other."""
    bytes_ = data(9 * BLOCK)
    killed(rig, bytes_)
    rig.kiln("status -q").ok()
    lost = logs(rig)[1]
    lost.unlink()
    said = rig.kiln("status").exits(1).stdout
    holds(said, "volume disk: 2 of 3 copies of its log are here "
                f"({node(lost)} has no copy any more)", "tolerates 1 more loss")
    same(len(rig.kiln("status --json -q").exits(1).json()["logs"][0]["copies"]), 3)
    rig.kiln("repair --dry-run -q").ok()
    log = rig.kiln("repair --json -q").ok().json()["logs"][0]
    same((log["volume"], log["closed"]), ("disk", True))
    same(logs(rig), [])
    rig.kiln("status -q").ok()
    has(rig, bytes_)


@test
def a_scrub_looks_at_logs_and_compares_their_copies(rig):
    bytes_ = data(BLOCK)
    small(rig)
    server, client = Server(rig), Client(rig)
    for at in range(3):
        client.write(at * 8 * BLOCK, bytes_)
    same(rig.kiln("scrub --json").ok().json()["log_faults"], [])
    server.kill()
    rig.kiln("scrub").ok()
    # A block of the first batch rots on one node, and the second on another one.
    copies = logs(rig)
    for at in range(2):
        flip(copies[at], at * 2 * BLOCK + BLOCK, 2)
    rig.kiln("scrub --quick").ok()
    found = [f"{node(copies[at])} lacks batch {at + 1} of 3" for at in range(2)]
    holds(rig.kiln("scrub").exits(1).stdout, *found, "run kiln volume check disk")
    report = rig.kiln("scrub --json").exits(1).json()
    same((len(report["log_faults"][0]["faults"]), report["logs"]), (2, []))
    copies[2].unlink()
    said = rig.kiln("scrub").exits(1).stdout
    holds(said, "2 of 3 copies of its log are here", found[1])
    # The other one has all that each lacks.
    rig.kiln("volume check disk -q").ok()
    rig.kiln("scrub").ok()
    server, client = Server(rig), Client(rig)
    assert all(client.read(at * 8 * BLOCK, BLOCK) == bytes_ for at in range(3))
    server.end()


class Watcher:
    """A coordinator with a page."""

    def __init__(self, rig):
        self.child = rig.start("coordinator --stay --wait 0 --every 1 --http 127.0.0.1:0 "
                               "--key cluster.key")
        lines = (line.decode().strip() for line in self.child.stderr)
        page = next(line for line in lines if "page at http://" in line)
        self.host = page.split("page at http://")[1].rstrip("/")
        drained(self.child.stderr)

    def get(self, path):
        return asked(self.host, path)

    def status(self):
        """Reads its JSON once it has seen the logs of volumes."""
        def seen():
            status = json.loads(self.get("/status.json").split("\r\n\r\n")[1])
            begun = ((status.get("volume_logs") or {}).get("seen_ms"),
                     (status.get("coordinator") or {}).get("surveyed_ms"))
            return status if None not in begun else None
        return until("the coordinator looked", seen)

    def end(self):
        self.child.kill()
        self.child.wait()


@test
def the_page_of_a_coordinator_tells_of_logs(rig):
    scene = Scene(rig, "clay:4+2", 9)
    scene.ok("volume create disk 4MiB --segment 64KiB -q")
    server, bytes_ = Server(rig, "--key cluster.key"), data(BLOCK)
    Client(rig).write(0, bytes_)
    name = stat(rig, "--key cluster.key")["log_nodes"][0]
    whole = Watcher(rig)
    same(whole.status()["logs"], [])
    holds(whole.get("/"), "none lacks a copy")
    whole.end()
    next((rig / name.replace("n", "d")).glob("*.log")).unlink()
    # The same as kiln status says; the volume's writer is left alone.
    lacking = Watcher(rig)
    status = lacking.status()
    known = rig.kiln("status --json --key cluster.key").exits(1).json()
    same(status["logs"], known["logs"])
    same(status["logs"][0]["copies"][0][1], "missing")
    same(status["volume_logs"]["logs"][0]["in_use"], True)
    holds(lacking.get("/"), "the most endangered log survives 1 more loss", "who looks after it",
          f"{name} has no copy any more")
    metrics = lacking.get("/metrics").splitlines()
    missing = next(line for line in metrics if line.startswith("kiln_volume_log_copies_missing{"))
    assert 'volume="disk"' in missing and missing.endswith("} 1"), missing
    lacking.end()
    server.kill()
    closing = Watcher(rig)
    status = closing.status()
    same((status["logs"], status["volume_logs"]["logs"][0]["closed"]), ([], True))
    holds(closing.get("/"), "all of it is in objects now")
    closing.end()
    has(rig, bytes_, flags="--key cluster.key")


@test
def a_log_without_any_copy_is_a_loss(rig):
    killed(rig, data(9 * BLOCK))
    copies = logs(rig)
    for log in copies[:2]:
        rig.remove(log.parent)
    # They may be back, so that nothing is done.
    rig.kiln("status -q").exits(1)
    holds(rig.kiln("repair").exits(1).stdout, "1 of 3 copies", "waits for them")
    copies[2].unlink()
    said = rig.kiln("status").exits(2).stdout
    holds(said, "NO copy of its log", "NO: unsealed writes")


@test
def nodes_do_not_leave_with_the_log_of_a_dead_server(rig):
    bytes_ = data(9 * BLOCK)
    killed(rig, bytes_)
    copies = logs(rig)
    forget = rig.kiln("pool forget " + " ".join(node(log) for log in copies))
    forget.fails(5, 'what only the log of volume "disk" has')
    rig.kiln(f"pool drain {node(copies[0])}").ok()
    rig.remove(copies[0].parent)
    assert not copies[1].exists() and not copies[2].exists()
    has(rig, bytes_)


@test
def a_server_tells_its_metrics_and_long_writes_go_past_the_log(rig):
    small(rig)
    server, client = Server(rig, "--metrics 127.0.0.1:0"), Client(rig)
    long = data(40 * BLOCK)
    client.write(8 * BLOCK, long)
    client.write(0, long[:BLOCK])
    assert client.read(8 * BLOCK, len(long)) == long
    answer = asked(server.line.split("http://")[1].split("/")[0], "/metrics")
    for name, value in [("long_bytes_total", len(long)),
                        ("written_bytes_total", len(long) + BLOCK),
                        ("mapped_bytes", len(long) + BLOCK)]:
        same(metric(answer, f"kiln_volume_{name}", 'volume="disk"'), value, name)
    client.socket.close()
    server.end()


@test
def one_server_at_a_time_and_the_deposed_one_writes_nothing(rig):
    small(rig)
    Server(rig)
    client = Client(rig)
    client.write(0, data(BLOCK, 1))
    rig.kiln("nbd disk --socket other.sock").fails(5, "in use by kiln nbd on", "process")
    for command in ("rm disk", "check disk"):
        rig.kiln(f"volume {command}").fails(5, "in use")
    # The server's task is asked for.
    for command in ("snapshot disk a", "snapshot disk b", "rm disk@a"):
        rig.kiln(f"volume {command}").ok()
    rig.kiln("volume rm disk@a").fails(3, "no snapshot", "there are: b")
    rig.kiln("volume resize disk 1MiB").fails(3, "in use", "smaller only")
    rig.kiln("volume resize disk 8MiB").ok()
    listed = rig.kiln("volume ls").ok().stdout
    assert "disk@b" in listed and "disk@a" not in listed, listed
    # A connection of before has not grown.
    client.refuses(4 * MIB, data(BLOCK, 4))
    Client(rig).write(8 * MIB - BLOCK, data(BLOCK, 4))
    client.write(BLOCK, data(BLOCK, 2))
    rig.remove("disk.sock")
    taker = Server(rig, "--take-over")
    client.refuses(0, data(BLOCK, 3))
    client = Client(rig)
    assert client.read(0, 2 * BLOCK) == data(BLOCK, 1) + data(BLOCK, 2)
    assert client.read(8 * MIB - BLOCK, BLOCK) == data(BLOCK, 4)
    client.socket.close()
    taker.end()


@test
def snapshots_and_clones_keep_what_they_are_of(rig):
    small(rig)
    server, old, new = Server(rig), data(100 * BLOCK, 1), data(50 * BLOCK, 2)
    Client(rig).write(0, old)
    server.end()
    rig.kiln("volume snapshot disk monday").ok()
    rig.kiln("volume snapshot disk monday").fails(3, "has a snapshot")
    rig.kiln("volume clone disk@monday other").ok()
    rig.kiln("volume clone disk@monday other").fails(5, "exists already")
    rig.kiln("volume clone disk@sunday third").fails(3, "no snapshot", "monday")
    server = Server(rig)
    for _ in range(8):
        Client(rig).write(0, new)
    server.end()

    def served(name):
        server = Server(rig, "--read-only", f"{name} --export disk --socket disk.sock")
        client = Client(rig)
        client.refuses(0, b"\1" * BLOCK, errno.EPERM, errno.EACCES)
        bytes_ = client.read(0, len(old))
        client.socket.close()
        # One that is killed leaves files of what it was removing, until a scrub.
        server.end()
        return bytes_

    assert served("other") == old
    rig.kiln("volume rm disk@monday").fails(3, "clone")
    rig.kiln("volume rm disk").fails(3, "cloned from disk@monday")
    holds(rig.kiln("volume ls").ok().stdout, "disk@monday", "other")
    rig.kiln("volume rm other").fails(5, "of 4 MiB (not in use)", "--yes")
    for command in ("rm other --yes", "resize disk 1MiB", "rm disk@monday"):
        rig.kiln(f"volume {command}").ok()
    assert served("disk") == new + old[len(new):]
    rig.kiln("volume rm disk --yes").ok()
    same(rig.kiln("ls .volumes").ok().stdout, "")
    # Nothing is left on any node but what says that something was there. Parts are of those that
    # were killed; a scrub removes them.
    known = (".manifest", ".part", ".toml", "kiln-changes")
    left = [path for path in rig.folder.glob("d??/*") if not path.name.endswith(known)]
    same(left, [])


@test
def what_cannot_be_is_said(rig):
    small(rig)
    for words, code, *said in [
            ("volume create disk 1MiB", 5, "exists already"),
            ("volume create a/b 1MiB", 3, "without slashes"),
            ("volume create odd 5", 3, "blocks of 4096"),
            ("volume create odd 1MiB --segment 1KiB", 3, "64 KiB to 128 MiB"),
            ("volume stat none", 7, "no volume"),
            ("nbd none --socket x.sock", 7, 'no volume "none"'),
            ("nbd disk --listen 0.0.0.0:0", 3, "--tls-certificate", "--insecure")]:
        rig.kiln(words).fails(code, *said)
    (rig / "bad.pem").write_text("no certificate")
    tls = "--tls-certificate bad.pem --tls-key bad.pem"
    rig.kiln(f"nbd disk --listen 127.0.0.1:0 {tls}").fails(4, "bad.pem")
    (rig / "x.sock").write_text("a file")
    rig.kiln("nbd disk --socket x.sock").fails(4, "x.sock")
    same(rig.read("x.sock"), b"a file")
    found = stat(rig)
    same((found["size"], found["log"]), (4 * MIB, 256 * KIB))
    # Beyond the end, and a request that is none.
    server, client = Server(rig), Client(rig)
    try:
        client.ask(0, 4 * MIB, 1)
    except OSError as error:
        same(error.errno, errno.EINVAL)
    else:
        raise AssertionError("a read beyond the end was answered")
    client.refuses(4 * MIB, b"x", errno.ENOSPC)
    client.socket.sendall(bytes(28))
    same(client.socket.recv(1), b"")
    holds(server.end(), "does not keep to the protocol")


@test
def a_smaller_volume_keeps_what_was_written_until_that_is_given_up(rig):
    rig.pool("rs:3+2", 5)
    rig.kiln("volume create disk 16MiB -q").ok()
    # Nothing lies there.
    rig.kiln("volume resize disk 8MiB -q").ok()
    rig.kiln("volume resize disk 16MiB -q").ok()
    last, block = 16 * MIB - BLOCK, data(BLOCK)
    server = Server(rig)
    Client(rig).write(last, block)
    server.end()
    rig.kiln("volume resize disk 1MiB").fails(5, "1 block of 4 KiB", "past 1 MiB", "--yes")
    has(rig, block, last)
    rig.kiln("volume resize disk 1MiB --yes -q").ok()
    rig.kiln("volume rm disk").fails(5, "--yes")
    rig.kiln("volume rm disk --yes -q").ok()


@test
def volumes_keep_what_only_their_logs_have_when_keys_are_exchanged(rig):
    """The last writes of clients are in no object yet, and outlive each exchange of keys."""
    rig.pool("rs:4+2", 7)
    rig.kiln("volume create disk 4MiB --segment 64KiB -q").ok()
    writes = {0: data(8192, 1), 16_384: data(4096, 2), 32_768: data(12_288, 3)}
    server = Server(rig)
    Client(rig).write(0, writes[0])
    server.kill()
    # It is not in use: it is closed.
    rig.kiln("pool seal").ok()
    server, client = Server(rig), Client(rig)
    assert client.read(0, len(writes[0])) == writes[0]
    client.write(16_384, writes[16_384])
    # Its server goes on with a new log, and `seal` waits for that.
    rig.kiln("pool seal --new-key -q").ok()
    rig.kiln("pool seal --drop-old-keys -q").ok()
    client.write(32_768, writes[32_768])
    server.kill()
    server, client = Server(rig), Client(rig)
    for at, bytes_ in writes.items():
        assert client.read(at, len(bytes_)) == bytes_, f"at {at}"
    server.end()
    rig.kiln("scrub --deep").ok()

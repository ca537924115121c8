"""Clients of a volume's server that mean ill, or do nothing: others are served beside them."""

import socket
import struct

from rig import data, same, test
from volumes import BLOCK, KIB, MIB, Client, Server

MAGIC = b"NBDMAGICIHAVEOPT\0\x03"


def option(kind, data_, size=None):
    """An option; of another length than its data has, where `size` says so."""
    return struct.pack(">8sII", b"IHAVEOPT", kind, len(data_) if size is None else size) + data_


def request(kind, offset, size):
    return struct.pack(">IHH8sQI", 0x25609513, 0, kind, b"cookie..", offset, size)


def connected(rig):
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(str(rig / "disk.sock"))
    return stream


def greeted(rig):
    """A connection that negotiates."""
    stream = connected(rig)
    same(stream.recv(18, socket.MSG_WAITALL), MAGIC)
    stream.sendall(struct.pack(">I", 3))
    stream.settimeout(60)
    return stream


def served(rig):
    """An honest client reads, and writes what was there."""
    client = Client(rig)
    bytes_ = data(3 * BLOCK)
    same(client.read(BLOCK, len(bytes_)), bytes_)
    client.write(BLOCK, bytes_)
    client.socket.close()


def begun(rig, size):
    """A server of a volume with some data, which a client reads back."""
    rig.pool("rs:2+1", 5)
    rig.kiln(f"volume create disk {size} -q").ok()
    server = Server(rig)
    Client(rig).write(BLOCK, data(3 * BLOCK))
    served(rig)
    return server


@test
def hostile_clients_are_left_and_others_served(rig):
    server = begun(rig, "4MiB")
    export = option(1, b"disk")
    for bytes_ in (option(7, b"", 2**32 - 1), b"no option at all", export + bytes(28),
                   export + request(1, 0, 2**32 - 1)):
        stream = greeted(rig)
        stream.sendall(bytes_)
        # Earlier requests may be answered; then the connection ends.
        rest = b""
        try:
            while more := stream.recv(KIB):
                rest += more
        except ConnectionResetError:
            pass
        assert len(rest) <= 10, rest
    served(rig)
    server.end()


@test
def clients_that_say_nothing_keep_no_others_out(rig):
    server, silent = begun(rig, "4MiB"), []
    # Twice as many as may negotiate at a time; each has sent a part of an option.
    for at in range(128):
        silent.append(connected(rig))
        try:
            silent[-1].sendall(b"\0\0\0\x03I")
        except OSError:
            pass
        if at % 10 == 9:
            served(rig)
    for stream in silent:
        stream.close()
    server.end()


@test
def clients_that_read_nothing_keep_no_others_out(rig):
    server, deaf, size = begun(rig, "64MiB"), [], 32 * MIB
    for _ in range(12):
        client = Client(rig)
        client.socket.sendall(request(0, 0, size) * 3)
        deaf.append(client)
    # A short read is served at once, and a long one when those that hold memory are ended.
    for length in (512, size):
        client = Client(rig)
        client.socket.settimeout(60)
        found = client.read(0, length)
        assert not any(found[:BLOCK]) and len(found) == length
    served(rig)
    for client in deaf:
        client.socket.close()
    server.end()

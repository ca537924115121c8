"""Clients of one pool at the same time: none undoes what another one did meanwhile."""

import os
import random
import shutil
import time

from rig import same, test
from transfer_model import state

ROUNDS = 6
CLIENTS = 3
MOVES = 40
# All records are read before the first of them is written.
FOLDERS = 40


def tree(root, client, seed):
    """A tree of one client: names that the others do not have, but for the folders."""
    for folder in [root, *(root / f"shared{at}" for at in range(FOLDERS))]:
        folder.mkdir()
        path = folder / f"file{client}"
        path.write_bytes(b"%d" % seed)
        path.chmod(0o600 + 0o10 * client)
        os.utime(path, ns=(0, (seed * 100 + client) * 10**9))
        (folder / f"link{client}").symlink_to(f"file{client}")
        (folder / f"empty{client}").mkdir(mode=0o700 + client)
    for folder in root.rglob("*/"):
        os.utime(folder, ns=(0, 10**9))


def copies_keep_all_that_is_recorded(rig):
    """Each changes what is recorded of its own files, folders and links, and leaves the rest."""
    for turn in range(ROUNDS):
        words = ["cp", "sync", "cp"] if turn % 2 else ["cp", "cp", "cp"]
        for client in range(CLIENTS):
            tree(rig / f"in{turn}.{client}", client, turn)
        copies = [rig.start(f"{word} in{turn}.{client} pool:t{turn} --pool pool{client}.toml -q")
                  for client, word in enumerate(words)]
        for copy in copies:
            _, said = copy.communicate()
            same((copy.returncode, said), (0, b""), f"round {turn}")
        rig.kiln(f"cp pool:t{turn} out{turn} -q").ok()
        found = state(rig / f"out{turn}")
        for client in range(CLIENTS):
            for name, wanted in state(rig / f"in{turn}.{client}").items():
                same(found.get(name), wanted, f"round {turn}, client {client}: {name}")


def a_move_removes_no_later_version(rig):
    """A put that was acknowledged during a move is under one of the two names."""
    for turn in range(MOVES):
        (rig / "old").write_text(f"old {turn}")
        (rig / "new").write_text(f"new {turn}")
        rig.kiln("put old x --force -q").ok()
        move = rig.start("mv x y --force -q")
        time.sleep(random.random() * 0.08)
        rig.kiln("put new x --force -q --pool pool0.toml").ok()
        move.communicate()
        found = [rig.kiln(f"get {name} -o -").stdout for name in "xy"]
        assert f"new {turn}" in found, f"move {turn}, exit code {move.returncode}: {found}"


@test
def clients_at_once_undo_nothing_of_each_other(rig):
    places = " ".join(f"--node {rig / f'd{at}'}" for at in range(4))
    rig.kiln(f"pool create -c rs:2+2 {places}").ok()
    # Clients with one description wait for each other's index.
    for client in range(CLIENTS):
        shutil.copy(rig / "pool.toml", rig / f"pool{client}.toml")
    copies_keep_all_that_is_recorded(rig)
    a_move_removes_no_later_version(rig)

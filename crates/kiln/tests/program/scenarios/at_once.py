"""Several clients that copy into one folder at the same time: each of them changes what is recorded
of its own files, folders and links, and leaves the rest."""

import os
import shutil

from rig import same, test
from transfer_model import state

ROUNDS = 6
CLIENTS = 3
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


@test
def copies_into_one_folder_at_once_keep_all_that_is_recorded(rig):
    places = " ".join(f"--node {rig / f'd{at}'}" for at in range(4))
    rig.kiln(f"pool create -c rs:2+2 {places}").ok()
    # Clients with one description wait for each other's index.
    for client in range(CLIENTS):
        shutil.copy(rig / "pool.toml", rig / f"pool{client}.toml")
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

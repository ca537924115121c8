"""What the scripts about volumes share."""

import socket
import subprocess

MIB = 1 << 20


class Unable(Exception):
    """This machine cannot do it."""


class Failed(Exception):
    """Ends a run with what went wrong."""


def free_port():
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(*words, **options):
    """Runs a command to its end; what it printed."""
    ended = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, **options)
    if ended.returncode != 0:
        words = " ".join(str(word) for word in words)
        raise Failed(f"{words}: {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout

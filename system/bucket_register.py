#!/usr/bin/env python3
"""Conditional puts as a register: several servers of one pool, each killed again and again.

    bucket_register.py FOLDER --kiln PROGRAM [--kills N]

Clients read an object and replace it by `If-Match`, or make it by `If-None-Match`, through servers
that are killed meanwhile. All calls of a key must be explained by an order in which each takes
effect once between its begin and its end; one without an answer may take effect later, or never.
The last line counts in JSON: `cas_violations` are keys whose calls no order explains.
"""

import argparse
import hashlib
import itertools
import json
import random
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

from lab.rig import s3 as servers

SERVERS, CLIENTS = 3, 5
# Kills of one key, and seconds between them.
KILLS, APART = 5, 0.25
# Bytes of a value: behind its record, in the pool's manifest no more.
SIZES = (100, 100, 100, 90_000)


class Call:
    """A read of `value`, or a put of `value` over `over`; `done`: None without an answer."""

    def __init__(self, over, value, done, begin, end):
        self.over, self.value, self.done, self.begin, self.end = over, value, done, begin, end

    def after(self, state):
        """States after it where it takes effect in one; none: it cannot have had its answer."""
        if self.over is READ:
            return {state} if state == self.value else set()
        if self.done is False:
            return {state} if state != self.over else set()
        return {self.value} if state == self.over else set()


READ = object()


def is_linear(calls):
    """Whether one order explains all calls; each value is put once."""
    events = sorted([(call.begin, 0, at) for at, call in enumerate(calls)] +
                    [(call.end, 1, at) for at, call in enumerate(calls)
                     if call.done is not None])
    # States, each with the calls that are under way and have taken effect.
    open_calls, ways = set(), {(None, frozenset())}
    for _, ends, at in events:
        if not ends:
            open_calls.add(at)
            continue
        todo, found = list(ways), set(ways)
        while todo:
            state, had = todo.pop()
            for other in open_calls - had:
                for after in calls[other].after(state):
                    way = (after, had | {other})
                    if way not in found:
                        found.add(way)
                        todo.append(way)
        open_calls.discard(at)
        ways = {(state, had - {at}) for state, had in found if at in had}
        if not ways:
            return False
    return True


def check_checker():
    """The checker itself: what is no order, is none."""
    put = lambda over, value, begin, end, done=True: Call(over, value, done, begin, end)
    read = lambda value, begin, end: Call(READ, value, True, begin, end)
    first, lost = put(None, "a", 0, 1), put("a", "b", 2, 0, None)
    good = [[first, read("a", 2, 3)], [first, lost, read("a", 3, 4), read("b", 5, 6)],
            [first, put(None, "c", 0, 2, False)], [first, lost, put("b", "c", 3, 4)]]
    bad = [[first, read(None, 2, 3)], [first, lost, read("b", 3, 4), read("a", 5, 6)],
           [first, put(None, "c", 0, 2)], [first, put("a", "c", 2, 3, False)],
           [first, put("a", "b", 2, 5), put("a", "c", 3, 6)], [lost, read("b", 3, 4)]]
    assert all(map(is_linear, good)) and not any(map(is_linear, bad))


def play(client, name, key, calls, stop):
    """Calls of one client on a key, until told to stop."""
    from botocore.exceptions import BotoCoreError, ClientError
    chance = random.Random(f"{name} {key}")
    place = {"Bucket": "register", "Key": key}
    known = None
    for number in itertools.count():
        if stop.is_set():
            return
        reads = chance.random() < 0.4
        value = f"{name}-{number} ".encode()
        body = value.ljust(chance.choice(SIZES), b".")
        over, begin = known, time.monotonic()
        try:
            if reads:
                known = client.get_object(**place)["Body"].read()
            elif known is None:
                client.put_object(**place, Body=body, IfNoneMatch="*")
            else:
                etag = hashlib.md5(known).hexdigest()
                client.put_object(**place, Body=body, IfMatch=etag)
            known, done = known if reads else body, True
        except ClientError as error:
            code = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if reads and code == 404:
                known, done = None, True
            else:
                # Of other errors, such as 409, nothing is known.
                done = False if not reads and code in (404, 412) else None
        except (BotoCoreError, OSError):
            done = None
            time.sleep(0.05)
        if not reads or done:
            calls.append(Call(READ if reads else over, known if reads else body, done, begin,
                              time.monotonic()))
        if done is False:
            known = calls_read(client, place, known)


def calls_read(client, place, known):
    """The value after a put that came too late, unless no server says it."""
    from botocore.exceptions import BotoCoreError, ClientError
    try:
        return client.get_object(**place)["Body"].read()
    except (BotoCoreError, ClientError, OSError):
        return known


def register(rig, kills):
    """Plays with keys until so many servers were killed; returns what was counted."""
    check_checker()
    chance, ports = random.Random(4), [servers.free_port() for _ in range(SERVERS)]
    running = [rig.serve(port) for port in ports]
    count = {"kills": 0, "keys": 0, "calls": 0, "unanswered": 0, "cas_violations": 0}
    try:
        rig.client(port=ports[0]).create_bucket(Bucket="register")
        while count["kills"] < kills:
            key, calls, stop = f"k{count['keys']}", [], threading.Event()
            threads = [threading.Thread(target=play, args=(
                rig.client(1, ports[at % SERVERS]), f"c{at}", key, calls, stop))
                for at in range(CLIENTS)]
            for thread in threads:
                thread.start()
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.5, 1.5) * APART)
                at = chance.randrange(SERVERS)
                running[at].send_signal(signal.SIGKILL)
                running[at].wait(60)
                running[at] = rig.serve(ports[at])
            stop.set()
            for thread in threads:
                thread.join()
            begin = time.monotonic()
            last = rig.client(port=ports[0]).get_object(Bucket="register", Key=key)["Body"].read()
            calls.append(Call(READ, last, True, begin, time.monotonic()))
            count["kills"] += KILLS
            count["keys"] += 1
            count["calls"] += len(calls)
            count["unanswered"] += sum(call.done is None for call in calls)
            count["cas_violations"] += not is_linear(calls)
    finally:
        for server in running:
            server.terminate()
        for server in running:
            server.wait(60)
    print(f"buckets: {count['calls']} calls of a register by {SERVERS} servers, {count['kills']} "
          f"of them killed: {count['cas_violations']} keys without an order", flush=True)
    assert not count["cas_violations"], count
    return count


def main():
    from system.buckets_test import Rig
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=500)
    args = parser.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    args.folder.mkdir(parents=True)
    if extra := servers.install(str(args.folder.parent / "moto")):
        sys.path.insert(0, extra)
    print(json.dumps(register(Rig(args.folder, args.kiln.resolve()), args.kills)))


if __name__ == "__main__":
    main()

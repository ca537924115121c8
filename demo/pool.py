"""The pool part of the demo: a tree of files over 14 folders, one of which is lost."""

import hashlib
import shutil
from pathlib import Path

NODES = 14
LOST = 5
MOST_FILES = 300
MOST_LARGE = 5
MOST_LOOKED_AT = 50_000
LARGE = 5 << 20
LARGEST = 24 << 20


def choose(files):
    """Small files, and a few so large that they get the pool's own code."""
    small, large = [], []
    for number, path in enumerate(files):
        size = path.stat().st_size
        if LARGE <= size <= LARGEST and len(large) < MOST_LARGE:
            large.append(path)
        elif size < LARGE and len(small) < MOST_FILES:
            small.append(path)
        if len(small) == MOST_FILES and (len(large) == MOST_LARGE or number > MOST_LOOKED_AT):
            break
    return small + large


def take(files, target):
    """Copies some of the files; returns their hashes by name, and their bytes."""
    hashes, total = {}, 0
    for number, path in enumerate(choose(files)):
        name = f"{number % 7}/{number:05}-{path.name}"
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        hashes[name] = hashlib.sha256(copy.read_bytes()).hexdigest()
        total += copy.stat().st_size
    return hashes, total


def compare(folder, hashes, trouble):
    for name, digest in hashes.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            raise trouble(f"{name} came back different")
    shutil.rmtree(folder)


def show(kiln, files, out, trouble):
    """Puts a tree into a pool, loses a folder, gets it back, scrubs, repairs."""
    tree, back, description = out / "tree", out / "back", out / "pool.toml"
    hashes, total = take(files, tree)
    pool = ["--pool", description]
    nodes = [word for at in range(NODES) for word in ("--node", out / f"disk-{at:02}")]
    kiln.run("pool", "create", description, "-c", "clay:10+4", *nodes)
    copied, seconds = kiln.run("cp", tree, "pool:tree", *pool)
    print(f"a pool of {NODES} folders: {copied['copied']} files, {total / (1 << 20):.0f} MiB put "
          f"in {seconds:.1f} s (each durable on its own)")
    codes = {}
    for listed in kiln.run("ls", *pool)[0]["objects"]:
        code = listed["code"].split(",")[0]
        codes[code] = codes.get(code, 0) + 1
    print("  codes by size: " + ", ".join(f"{count} {code}" for code, count in codes.items()))

    shutil.rmtree(out / f"disk-{LOST:02}")
    _, seconds = kiln.run("cp", "pool:tree", back, *pool)
    compare(back, hashes, trouble)
    print(f"  disk-{LOST:02} lost: all files read back all the same, in {seconds:.1f} s")
    kiln.run("pool", "add-node", f"n{LOST:02}", "--replace", *pool)
    found, _ = kiln.run("scrub", "--quick", *pool, codes=(1,))
    planned, _ = kiln.run("repair", "--dry-run", *pool)
    repaired, seconds = kiln.run("repair", *pool)
    if repaired["repaired"] != planned["repaired"] or repaired["failed"]:
        raise trouble(f"the repair did not do what was planned: {repaired}")
    print(f"  scrub found {found['damaged']} damaged objects; {repaired['repaired']} repaired and "
          f"verified in {seconds:.1f} s: {repaired['bytes_read']:,} bytes read, "
          f"{repaired['bytes_written']:,} written")
    kiln.run("scrub", *pool)
    status, _ = kiln.run("status", *pool)
    if status["whole"] != status["objects"]:
        raise trouble(f"not whole: {status}")
    kiln.run("cp", "pool:tree", back, *pool)
    compare(back, hashes, trouble)
    print(f"  afterwards: {status['whole']} of {status['objects']} objects whole, every byte "
          "scrubbed, every file the same\n")
    for path in [tree, *out.glob("disk-*")]:
        shutil.rmtree(path)
    for path in out.glob("pool.*"):
        path.unlink()

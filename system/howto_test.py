#!/usr/bin/env python3
"""Runs the commands of the how-tos as they stand in the pages, each in order, to their end.

    howto_test.py FOLDER --kiln PROGRAM [--only WORD] [--first-change]

FOLDER is made, and emptied before. What a page takes for granted is in recipes.py; commands below
a heading without a recipe are an error. Where a page says what is printed, that is compared, but
for times and rates. What cannot be run here is said; then the exit code is 3. Before all that the
pages are looked through for what nothing runs (listing.py). (Commands after prompts of the tutorial
and of the page for operators are run and compared by crates/kiln/tests/program/sessions. The
first change of the tutorial builds the program anew, so it is made with --first-change only.)
"""

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from system import listing
from system import pages
from system.recipes import COMPARED, PAGES, RECIPES

from lab.rig import hadoop
from lab.rig import s3 as servers
from lab.rig import testbed
from lab.rig.hdfs import Hdfs

ROOT = Path(__file__).resolve().parents[1]
# Seconds that the commands below one heading may take.
LONGEST = 600
PORTS = 6


def found(table, text):
    """The value of the entry whose key a step begins with."""
    return next((value for key, value in table.items() if text.startswith(key)), None)


def replaced(recipe, text, work, ports):
    """A step as it is run here."""
    text = pages.spelled_out(text)
    for old, new in recipe.instead.items():
        text = text.replace(old, new)
    return filled(text, work, ports)


def filled(text, work, ports):
    """With folders and ports of this run; what HDFS's jars are kept by lies beside the folders."""
    known = {"{work}": work, "{root}": ROOT, "{cache}": work.parents[2] / "hadoop",
             "{ports}": " ".join(str(port) for port in ports)}
    known.update({f"{{port{at}}}": port for at, port in enumerate(ports)})
    for word, value in known.items():
        text = text.replace(word, str(value))
    return text


def script_of(recipe, steps, work, ports):
    """The steps of a recipe with what comes before and after, numbered by their lines."""
    listed = [(0, filled(recipe.first, work, ports))]
    for step in steps:
        before, after = found(recipe.before, step.text), found(recipe.after, step.text)
        if before:
            listed.append((0, filled(before, work, ports)))
        listed.append((step.line, replaced(recipe, step.text, work, ports)))
        if after:
            listed.append((0, filled(after, work, ports)))
        if step.said and step.text.endswith("&"):
            listed.append((0, spoken(step, work.parent / "log")))
    return pages.as_script(listed)


def spoken(step, log):
    """Waits for what goes on behind the shell to say what the page says of it, or to begin to."""
    word = shlex.quote(step.said.split()[0])
    return (f"for i in $(seq 600); do sed '1,/^@> {step.line}$/d' {log} | grep -qF -- {word}"
            " && break; sleep 0.1; done")


def why_not(recipe, cache):
    """Why a recipe cannot be run here, or None."""
    missing = [tool for tool in recipe.tools if not shutil.which(tool)]
    if missing:
        return f"there is no {', '.join(missing)}"
    if recipe.root and (os.geteuid() != 0 or not os.path.exists("/dev/fuse")):
        return "it wants root and FUSE"
    if recipe.hdfs:
        try:
            testbed.able()
            hadoop.classpath(cache)
        except (testbed.Unable, hadoop.NoHadoop) as why:
            return str(why)
    return None


def environment(recipe, folder, kiln):
    """What the commands find around them."""
    around = {key: value for key, value in os.environ.items() if not key.startswith("KILN_")}
    (folder / "bin").mkdir()
    (folder / "bin" / "kiln").symlink_to(kiln)
    around["PATH"] = f"{folder / 'bin'}:{around['PATH']}"
    around["HOME"] = str(folder)
    if recipe.s3:
        extra = servers.install(str(folder.parent / "moto"))
        around["PYTHONPATH"] = extra or around.get("PYTHONPATH", "")
    return around


def play(recipe, steps, folder, kiln):
    """Runs one recipe; says what went wrong, or None."""
    folder.mkdir(parents=True)
    work = folder / "work"
    work.mkdir()
    around = environment(recipe, folder, kiln)
    ports = [servers.free_port() for _ in range(PORTS)]
    script = script_of(recipe, steps, work, ports)
    (folder / "script").write_text(script, encoding="utf-8")
    with open(folder / "log", "w", encoding="utf-8") as log:
        shell = subprocess.Popen(["bash", str(folder / "script")], cwd=work, env=around,
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 start_new_session=True)
        try:
            shell.wait(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        finally:
            if recipe.hdfs:
                Hdfs(work / "target" / "hdfs").down()
    output = (folder / "log").read_text(encoding="utf-8", errors="replace")
    return first_wrong(recipe, steps, output, lambda text: replaced(recipe, text, work, ports))


def first_wrong(recipe, steps, output, here):
    """Which step ended or spoke otherwise than the page says, or None."""
    ended, said = pages.codes(output), pages.outputs(output)
    for step in steps:
        where = f"{recipe.page}:{step.line}: {step.text!r}"
        wanted = found(recipe.codes, step.text) or 0
        if ended.get(step.line) != wanted:
            code = ended.get(step.line, f"no end in {LONGEST} s, or an early one")
            return f"{where}: exit code {code}, not {wanted}\n{output[-3000:]}"
        if step.said and not pages.fits(here(step.said), said.get(step.line, "")):
            return f"{where} said\n{said.get(step.line)}\nthe page says\n{step.said}"
    if not pages.all_fine(output):
        return f"{recipe.page}: {recipe.heading}: the recipe failed\n{output[-3000:]}"
    return None


def complaints(kiln):
    """What nothing runs, and commands in the running text that there are not."""
    makefile = "\n".join((ROOT / name).read_text(encoding="utf-8")
                         for name in ("Makefile", ".ci/step", "lab/run"))
    program, found_all = listing.Program(kiln, makefile), []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        found_all += listing.complaints(page, text, program)
    return found_all


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kiln", required=True, type=Path)
    parser.add_argument("--only", default="", help="pages and headings with this word")
    args = parser.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    known = {(recipe.page, recipe.heading): recipe for recipe in RECIPES}
    failed, skipped, count = complaints(args.kiln.resolve()), [], 0
    for page in dict.fromkeys(recipe.page for recipe in RECIPES):
        listed = pages.steps((ROOT / page).read_text(encoding="utf-8"))
        if page in COMPARED:
            listed = [step for step in listed if step.fenced]
        for heading in dict.fromkeys(step.heading for step in listed):
            below = [step for step in listed if step.heading == heading]
            name = f"{page}: {heading}"
            recipe = known.get((page, heading))
            if args.only not in name:
                continue
            if recipe is None:
                failed.append(f"{page}:{below[0].line}: {heading!r} has no recipe")
                continue
            why = why_not(recipe, args.folder.resolve().parent / "hadoop")
            if why:
                skipped.append(f"{name}: {why}")
                continue
            count += len(below)
            # A folder by the steps so far: no two are alike, and sockets want short names.
            wrong = play(recipe, below, args.folder.resolve() / str(count), args.kiln.resolve())
            failed += [wrong] if wrong else []
            print(f"{'FAILED' if wrong else 'ok'}  {name}, {len(below)} steps", flush=True)
    for line in failed:
        print(f"FAILED: {line}")
    for line in skipped:
        print(f"SKIPPED: {line}")
    if failed:
        sys.exit(1)
    print(f"how-tos: {count} steps did what they say")
    sys.exit(3 if skipped else 0)


if __name__ == "__main__":
    main()

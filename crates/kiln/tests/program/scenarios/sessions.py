"""Sessions: commands with what they print, which have to be true.

Those in the folder `sessions` are tests alone; so are the tutorial and the page for operators
beside being read. A command is indented and begins with `$ `, its next lines with `> `; below it
stands what it prints. Text that was elided as `...` may be anything. In `sessions` each part under
a `## ` runs in an empty folder of its own, by bash with `helpers.sh`; output and errors stand
together, and a line `[3]` is an exit code that is not 0. With KILN_SESSIONS=write these files are
written anew, where they do not fit.
"""

import os
import shutil
import subprocess
from pathlib import Path

from rig import PROGRAM, Rig

HERE = Path(__file__).resolve().parents[1] / "sessions"
DOCS = Path(__file__).resolve().parents[5] / "docs"
PAGES = {"the_tutorial_is_true": DOCS / "guide" / "tutorial.md",
         "what_operators_read_is_true": DOCS / "operate" / "operators.md"}


class Step:
    """A command, and what it prints."""

    def __init__(self, command):
        self.command, self.output = command, ""

    def add(self, line):
        """Takes up a line below the command."""
        if line.startswith("> ") and not self.output:
            self.command += "\n" + line[2:]
        else:
            self.output += line + "\n"

    def __str__(self):
        """The step as the page has it."""
        output = "".join(f"    {line}\n" for line in self.output.splitlines())
        return "    $ " + self.command.replace("\n", "\n    > ") + "\n" + output


def parts(page):
    """A page's lines of text, and its steps."""
    found = []
    for line in page.removesuffix("\n").split("\n"):
        if line.startswith("    $ "):
            found.append(Step(line[6:]))
        elif found and isinstance(found[-1], Step) and line.startswith("    "):
            found[-1].add(line[4:])
        else:
            found.append(line)
    return found


def fits(wanted, said):
    """Whether the pieces between the `...` come in this order and leave nothing over."""
    first, *pieces = wanted.split("...")
    if not pieces:
        return wanted == said
    if not said.startswith(first):
        return False
    at = len(first)
    for piece in pieces[:-1]:
        found = said.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return len(said) - len(pieces[-1]) >= at and said.endswith(pieces[-1])


def run(shell, begin, commands, exits):
    """Runs commands one after the other by a shell in an empty folder; gives what each prints."""
    with Rig() as rig, Rig() as programs:
        (programs / "kiln").symlink_to(Path(shutil.which(PROGRAM) or PROGRAM).absolute())
        environment = {name: value for name, value in os.environ.items() if name != "KILN_POOL"}
        environment |= {"PATH": f"{programs.folder}:{os.environ.get('PATH', '')}",
                        "LC_ALL": "C.UTF-8"}
        steps = "".join(f"{command}\nprintf '\\036%d\\n' $?\n" for command in commands)
        ended = subprocess.run([*shell, "-c", f"{begin}\n{steps}"], cwd=rig.folder,
                               env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        text, *pieces = ended.stdout.decode(errors="replace").split("\x1e")
        here, said = str(rig.folder.resolve()), []
        for piece in pieces:
            code, _, after = piece.partition("\n")
            end = "" if not text or text.endswith("\n") else "\n"
            exit_code = f"[{code}]\n" if exits and code != "0" else ""
            said.append(text.replace(here, "...") + end + exit_code)
            text = after
    return said + ["the shell ended before this\n"] * (len(commands) - len(said))


def differing(page, shell, begin="", exits=False):
    """Compares the steps of a page with what they print, which they have from then on; gives what
    differs."""
    steps, wrong = [part for part in page if isinstance(part, Step)], []
    for step, said in zip(steps, run(shell, begin, [step.command for step in steps], exits)):
        if not fits(step.output, said):
            wrong.append(f"$ {step.command}\n{said}the page says\n{step.output}")
            step.output = said
    return wrong


def session(file):
    """Runs a file of sessions, each in a folder of its own."""
    page = parts(file.read_text())
    starts = [at for at, part in enumerate(page) if isinstance(part, str) and part[:3] == "## "]
    begin, wrong = f". {HERE / 'helpers.sh'}\nexec 2>&1", []
    for at, end in zip(starts, [*starts[1:], len(page)]):
        wrong += differing(page[at:end], ["bash"], begin, exits=True)
    if os.environ.get("KILN_SESSIONS") == "write":
        text = (str(part) if isinstance(part, Step) else part + "\n" for part in page)
        file.write_text("".join(text))
    else:
        assert not wrong, "\n".join(wrong)


def check(page):
    """Runs the commands of a page of the documentation."""
    page = parts(page.read_text())
    assert sum(isinstance(part, Step) for part in page) > 10, "where are the page's commands?"
    wrong = differing(page, ["sh"])
    assert not wrong, "\n".join(wrong)


def tests():
    """The tests, by name: pages, and files of sessions."""
    found = {name: lambda _, page=page: check(page) for name, page in PAGES.items()}
    files = sorted(HERE.glob("*.txt"))
    return found | {file.stem: lambda _, file=file: session(file) for file in files}

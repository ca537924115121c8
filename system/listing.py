"""What of the pages is run, and where: no command of theirs may be run by nobody.

A block is run by the recipes, or by a test that is named here. Commands in the running text are
looked up: there must be such a command with such flags, or such a target of make.
"""

import re
import subprocess

from system import pages

# Blocks that nothing here runs, by page and the word that their first line begins with, and why.
ELSEWHERE = {
    ("README.md", "make"): "targets of their own; `make demo` has a bar, CI runs all of the checks",
    ("docs/guide/ceph.md", "ceph"): "system/ceph_test.py, in a real cluster",
    ("README.md", "import"): "bindings/python/tests/test_readmes.py",
    ("docs/guide/python.md", "pip"): "`make python-test WHEEL=1` installs what pip builds",
    ("docs/guide/python.md", ">>>"): "`make python-test`, as doctests",
    ("docs/guide/tutorial.md", "git"): "how everybody begins; CI itself is a clone that is built",
    ("docs/guide/tutorial.md", "//!"): "a recipe writes it where it says (`make tutorial-test`)",
    ("docs/guide/tutorial.md", "cargo"): "a recipe runs it (`make tutorial-test`)",
}
# Languages of fences that are no commands.
SHOWN = ("text", "toml")
PLACEHOLDERS = ("COMMAND", "s3://...")


def unrun(page, text):
    """The blocks of a page that nobody runs, each as a line."""
    for block in pages.blocks(text):
        first = block.lines[0] if block.lines else ""
        prompted = block.language == "indented" and re.match(r"[$#] ", first)
        word = first.split(" ")[0]
        if not (block.language in ("sh", *SHOWN) or prompted or (page, word) in ELSEWHERE):
            yield f"{page}:{block.line}: nothing runs what begins with {first!r}"


class Program:
    """What a program says of itself."""

    def __init__(self, kiln, makefile):
        self.kiln, self.known = kiln, {}
        # Targets of the Makefile, and cases of the scripts behind it.
        names = re.findall(r"(?m)^([a-z][\w -]*):|^    ([a-z][\w| -]*)\)", makefile)
        self.targets = {word for pair in names for word in re.split(r"[ |]+", "".join(pair))}

    def help(self, *words):
        """The help of a command, or None if there is none."""
        if words not in self.known:
            done = subprocess.run([self.kiln, *words, "--help"], capture_output=True, text=True,
                                  check=False, timeout=60)
            self.known[words] = done.stdout if done.returncode == 0 else None
        return self.known[words]

    def wrong(self, span):
        """What is wrong with a command in the running text, or None."""
        program, *words = span.split(" ")
        if program == "make":
            target = next((word for word in words if "=" not in word), "demo")
            return None if target.strip(",") in self.targets else f"make has no target {target}"
        plain = [word for word in words if not word.startswith("-")]
        named = plain[:1] if plain and plain[0] not in PLACEHOLDERS else []
        text = self.help(*named)
        if text is None:
            return f"there is no kiln {' '.join(named)}"
        # The second word may be a command of a command.
        if plain[1:2] and re.search(rf"(?m)^  {re.escape(plain[1])}\b", text):
            text = self.help(*plain[:2]) or ""
        flags = {word.split("=")[0] for word in words if word.startswith("-")}
        unknown = [flag for flag in sorted(flags) if not re.search(rf"{flag}\b", text)]
        return f"no flag {', '.join(unknown)}" if unknown else None


def complaints(page, text, program):
    """All that is wrong with a page."""
    found = list(unrun(page, text))
    for span in pages.spans(text):
        why = program.wrong(span)
        if why:
            found.append(f"{page}: `{span}`: {why}")
    return found

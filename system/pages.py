"""Commands of a page: what stands in it, by heading, as a shell would be given it."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """What is run at once: a line after a prompt, or a fenced block of `sh`."""
    heading: str
    line: int
    text: str
    fenced: bool = False
    # What stands below a line after a prompt.
    said: str = ""


@dataclass(frozen=True)
class Block:
    """Lines that are set apart: in a fence, whose language is named, or indented."""
    heading: str
    line: int
    language: str
    lines: tuple


def as_one(lines):
    """A block that ends with its first command that fails."""
    return "\n".join(["set -e", *lines, "set +e"])


def blocks(page):
    """The blocks of a page, in order. What is indented in a list belongs to the list."""
    found, heading, lines, at, listed = [], "", page.split("\n"), 0, False
    while at < len(lines):
        line, begun = lines[at], at
        if line.startswith("## "):
            heading = line[3:].strip()
        if line.strip() and not line.startswith(" "):
            listed = bool(re.match(r"[-*] |\d+\. ", line))
        if line.startswith("```"):
            at = next(i for i in range(at + 1, len(lines)) if lines[i].startswith("```"))
            found.append(Block(heading, begun + 1, line[3:], tuple(lines[begun + 1:at])))
        elif line.startswith("    ") and not listed:
            while at + 1 < len(lines) and lines[at + 1].startswith("    "):
                at += 1
            block = tuple(part[4:] for part in lines[begun:at + 1])
            found.append(Block(heading, begun + 1, "indented", block))
        at += 1
    return found


def steps(page):
    """The steps of a page, in order."""
    found = []
    for block in blocks(page):
        if block.language == "sh":
            found.append(Step(block.heading, block.line, as_one(block.lines), True))
        elif block.language == "indented":
            found += prompted(block)
    return found


def prompted(block):
    """The steps of an indented block: what stands after prompts, with what is said below it."""
    found, at = [], 0
    while at < len(block.lines):
        start, line = at, block.lines[at]
        at += 1
        if not re.match(r"[$#] ", line):
            continue
        text, said = line[2:], []
        while text.endswith("\\"):
            text = f"{text}\n{block.lines[at].strip()}"
            at += 1
        while at < len(block.lines) and not re.match(r"[$#] ", block.lines[at]):
            said.append(block.lines[at])
            at += 1
        found.append(Step(block.heading, block.line + start, text, said="\n".join(said)))
    return found


def spans(page):
    """Commands in the running text, in order: what stands between backticks, in one line."""
    prose = re.sub(r"(?ms)^```.*?^```", "", page)
    prose = re.sub(r"(?m)^    .*$", "", prose)
    return [re.sub(r"\s+", " ", span) for span in re.findall(r"`((?:kiln|make)\s[^`]+)`", prose)]


def spelled_out(text):
    """A command with what its author elided: `d0 --node d1 ... --node d13` names all of them."""
    def all_of(match):
        option, stem, first, last = match["option"], match["stem"], match["first"], match["last"]
        return " ".join(f"{option} {stem}{at}" for at in range(int(first), int(last) + 1))
    return re.sub(r"(?P<option>--\w+) (?P<stem>\S*?)(?P<first>\d+) (?P=option) (?P=stem)\d+ "
                  r"\.\.\. (?P=option) (?P=stem)(?P<last>\d+)", all_of, text)


def as_script(listed):
    """A script of bash that runs steps one after the other and says how each ended. `listed` has
    pairs of the step's number and its text."""
    # What is said last may lack its end of line.
    script = "".join(f"echo '@> {at}'\n{text}\nprintf '\\n@@ {at} %s\\n' $?\n"
                     for at, text in listed)
    return f"trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT\n{script}"


def codes(output):
    """Exit codes of the steps that ended, by number."""
    ended = re.findall(r"^@@ (\d+) (\d+)$", output, re.MULTILINE)
    return {int(at): int(code) for at, code in ended}


def all_fine(output):
    """Whether what was put between the steps ended well, too."""
    ended = re.findall(r"^@@ 0 (\d+)$", output, re.MULTILINE)
    return set(ended) <= {"0"} and len(ended) == len(re.findall(r"^@> 0$", output, re.MULTILINE))


def outputs(output):
    """What the steps said, by number; what comes between two of them belongs to the first."""
    parts = re.split(r"^@> (\d+)\n", output, flags=re.MULTILINE)
    said, last = {}, 0
    for number, part in zip(parts[1::2], parts[2::2]):
        # Unnumbered ones wait for what the one before them has begun.
        last = int(number) or last
        said[last] = said.get(last, "") + re.sub(r"(?m)^@@ \d+ \d+\n", "", part)
    return said


def fits(wanted, said):
    """Whether a step said what the page says. Times and rates are those of a machine, `...` stands
    for anything, and lines may be wrapped otherwise."""
    def plain(text):
        text = re.sub(r"\d+\.\d+ s\b", "T s", text)
        text = re.sub(r"\d+\.\d+ [KMG]iB/s", "R", text)
        return " ".join(text.split())
    parts = (re.escape(part.strip()) for part in plain(wanted).split("..."))
    return re.fullmatch(r"\s*.*?\s*".join(parts), plain(said)) is not None

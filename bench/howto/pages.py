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


def as_one(lines):
    """A block that ends with its first command that fails."""
    return "\n".join(["set -e", *lines, "set +e"])


def steps(page):
    """The steps of a page, in order."""
    found, heading, lines = [], "", page.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("## "):
            heading = line[3:].strip()
        elif line.startswith("```"):
            end = next(i for i in range(at + 1, len(lines)) if lines[i].startswith("```"))
            if line == "```sh":
                found.append(Step(heading, at + 1, as_one(lines[at + 1:end]), True))
            at = end
        elif re.match(r"    [$#] ", line):
            start, text = at, line[6:]
            while text.endswith("\\"):
                at += 1
                text = f"{text}\n{lines[at].strip()}"
            found.append(Step(heading, start + 1, text))
        at += 1
    return found


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
    script = "".join(f"{text}\necho \"@@ {at} $?\"\n" for at, text in listed)
    return f"trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT\n{script}"


def codes(output):
    """Exit codes of the steps that ended, by number."""
    ended = re.findall(r"^@@ (\d+) (\d+)$", output, re.MULTILINE)
    return {int(at): int(code) for at, code in ended}

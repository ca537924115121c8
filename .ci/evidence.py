#!/usr/bin/env python3
"""Checks the numbers of lab/results against the data beside them, and the index of the papers.

    evidence.py [--write]

A number that has data is a link to it: `[1.49](bench-core-quick.json#rs_dram_over_klauspost)`. What
follows `#` is a number of `bench/headlines.py`, or the way to one inside the JSON, in steps
parted by `/`: a member (`recovery`), a place in a list (`0`, `-1`), or the one row that has some
values (`k=10&lost=[13]`); a space is `%20`. The text is the number as it is read: with its digits,
`48.0%` of a share, `0.82 to 0.97` of the least and the most of several. It must be the data's,
rounded to the digits that are shown.

Tables: each table of a page of lab/results is what its data says, or its numbers are links, or
it is known why there is no data; `evidence_tables/` says which. A table that it does not know is
wrong. Pictures that pages show are there, and each that is there is shown.

The index, lab/results/papers.md, is made from lab/results/papers/, a file for each paper; every
figure, table and claim of a paper must have its row there.

--write puts the data's numbers into the pages and makes the index anew. Needs a second.
"""

import argparse
import json
import re
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
RESULTS = DOCS / "results"
sys.path.insert(0, str(ROOT / "bench"))

import evidence_tables  # noqa: E402
import headlines  # noqa: E402

LINK = re.compile(r"\[([^\]\[]+)\]\(((?:[\w./-]+/)?[\w.-]+\.json)#([^)\s]+)\)")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+\.svg)\)")
NUMBER = re.compile(r"(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?")
VERDICTS = {
    "better": "better",
    "equal": "equal",
    "worse": "worse",
    "mixed": "better in part",
    "not comparable": "not comparable",
    "not done": "not done yet",
    "nothing": "nothing to measure",
}


@cache
def report(path):
    return json.loads(path.read_text())


def step(value, word):
    """One step of a way into data."""
    if isinstance(value, dict):
        return value[word]
    if re.fullmatch(r"-?\d+", word):
        return value[int(word)]
    wanted = [pair.partition("=")[::2] for pair in word.split("&")]
    rows = [row for row in value if all(shown(row.get(key)) == text for key, text in wanted)]
    if len(rows) != 1:
        raise KeyError(f"{len(rows)} rows with {word}")
    return rows[0]


def shown(value):
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def look_up(path, fragment):
    """The numbers that a link is about: one, or the least and the most."""
    if fragment in headlines.NUMBERS.get(path.name, {}):
        value = headlines.NUMBERS[path.name][fragment](report(path))
        value = value[0] if isinstance(value, tuple) else value
    else:
        value = report(path)
        for word in fragment.split("/"):
            value = step(value, unquote(word))
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(number, (int, float)) for number in values):
        raise KeyError(f"no number: {str(value)[:60]}")
    return values


def as_shown(value, old, percent):
    """A number with as many digits as `old` has."""
    digits = len(old.partition(".")[2])
    text = f"{value * (100 if percent else 1):,.{digits}f}"
    return text if "," in old else text.replace(",", "")


def corrected(text, values):
    """The text of a link with the data's numbers in place of its own."""
    found = list(NUMBER.finditer(text))
    if len(found) != len(values):
        raise KeyError(f"{len(found)} numbers for {len(values)} in the data")
    for match, value in reversed(list(zip(found, values))):
        number = as_shown(value, match[0], "%" in text)
        text = text[:match.start()] + number + text[match.end():]
    return text


def check_page(path, text, complaints, page=None):
    """The text of a file as it should be; what is wrong is added to the complaints. Links are from
    the folder of `page`, or of the file itself."""
    folder = (page or path).parent

    def number(match):
        words, file, fragment = match.groups()
        try:
            right = corrected(words, look_up((folder / file).resolve(), fragment))
        except (KeyError, IndexError, OSError, TypeError, StopIteration) as error:
            complaints.append(f"{where(path, text, match)}: {file}#{fragment}: {error}")
            return match[0]
        if right != words:
            complaints.append(f"{where(path, text, match)}: {words}, but {file}#{fragment} is "
                              f"{right}")
        return f"[{right}]({file}#{fragment})"

    return LINK.sub(number, text)


def check_pictures(pages, complaints):
    shown = {(page.parent / file).resolve() for page in pages
             for file in PICTURE.findall(page.read_text())}
    there = {path.resolve() for path in RESULTS.glob("*.svg")}
    for path in sorted(shown ^ there):
        problem = "no page shows it" if path in there else "a page shows it, and it is not there"
        complaints.append(f"{path.name}: {problem}")


def where(path, text, match):
    return f"{path.relative_to(ROOT)}:{text[:match.start()].count(chr(10)) + 1}"


def wanted_exhibits(paper):
    """Names of all that a paper shows or claims."""
    figures = [f"Fig. {number}" for number in range(1, paper["figures"] + 1)]
    roman = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII"]
    names = roman if paper.get("roman") else [str(number) for number in range(1, 9)]
    return figures + [f"Table {name}" for name in names[:paper["tables"]]] + paper["claims"]


def read_index(page, wrong, complaints, write):
    """The index; files whose numbers are not the data's are added to the wrong ones."""
    folder = page.with_suffix("")
    index = tomllib.loads((folder / "index.toml").read_text())
    index["paper"] = []
    for name in index["papers"]:
        path = folder / f"{name}.toml"
        text = path.read_text()
        right = check_page(path, text, complaints, page)
        if right != text:
            wrong[path] = right
        paper = tomllib.loads(right if write else text)
        index["paper"].append(paper)
    return index


def check_index(index, complaints):
    for paper in index["paper"]:
        rows = [row["exhibit"] for row in paper["row"]]
        for name in wanted_exhibits(paper):
            # A row may be about a part: "Fig. 13a".
            found = [row for row in rows if re.fullmatch(re.escape(name) + "[a-f]*", row)]
            if not found:
                complaints.append(f"{paper['name']}: {name} has no row")
        known = wanted_exhibits(paper)
        for row in rows:
            if rows.count(row) > 1 or not any(re.fullmatch(re.escape(name) + "[a-f]*", row)
                                              for name in known):
                complaints.append(f"{paper['name']}: {row} is there twice, or is no "
                                  "exhibit")
        for row in paper["row"]:
            if row["verdict"] not in VERDICTS:
                complaints.append(f"{paper['name']}: {row['exhibit']}: {row['verdict']!r}")
            measured = row["verdict"] not in ("not done", "nothing")
            if measured and not row.get("command"):
                complaints.append(f"{paper['name']}: {row['exhibit']} has no command")


def commit_of(row):
    """The commit of a row's data: said, or what its first file says of itself."""
    if "commit" in row:
        return row["commit"]
    for file in row.get("data", []):
        if file.endswith(".json"):
            data = report(RESULTS / file)
            return data.get("machine", data.get("about", {})).get("commit", "")
    return ""


def rendered(index):
    lines = [index["about"].strip(), ""]
    counts = [[paper["name"]] + [sum(row["verdict"] == verdict for row in paper["row"])
                                 for verdict in VERDICTS] for paper in index["paper"]]
    lines += table(["paper", *VERDICTS.values()], counts)
    for paper in index["paper"]:
        lines += ["", f"## {paper['name']}", "", paper["cite"].strip(), ""]
        rows, idle = [], []
        for row in paper["row"]:
            if row["verdict"] == "nothing":
                idle.append(f"{row['exhibit']} ({row['shows']})")
                continue
            data = ", ".join(f"[{file}]({file})" for file in row.get("data", []))
            command = f"`{row['command']}`" if row.get("command") else ""
            why = row.get("why", "")
            verdict = VERDICTS[row["verdict"]] + (f": {why}" if why else "")
            rows.append([row["exhibit"], row["shows"], row.get("paper", ""), row.get("ours", ""),
                         verdict, command, data, commit_of(row)])
        lines += table(["exhibit", "what it shows", "paper", "kiln", "verdict", "command", "data",
                        "commit"], rows)
        lines += ["", f"Nothing to measure: {', '.join(idle)}."]
    return "\n".join(lines) + "\n"


def table(head, rows):
    def line(cells):
        return "| " + " | ".join(" ".join(str(cell).split()) for cell in cells) + " |"
    return [line(head), "|" + "---|" * len(head), *map(line, rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="correct the pages")
    options = parser.parse_args()
    complaints, links, seen = [], 0, Counter()
    page, wrong = RESULTS / "papers.md", {}
    index = read_index(page, wrong, complaints, options.write)
    check_index(index, complaints)
    made = rendered(index)
    if not page.exists() or page.read_text() != made:
        complaints.append("lab/results/papers.md is not what papers/ says")
        wrong[page] = made
    pages = sorted([*DOCS.glob("*.md"), *RESULTS.glob("*.md"), ROOT / "README.md"])
    check_pictures(pages, complaints)
    for path in pages:
        text = path.read_text()
        links += len(LINK.findall(text))
        if path != page:
            right = check_page(path, text, complaints)
            if path.parent == RESULTS:
                right = evidence_tables.check(path, right, complaints, seen)
            if right != text:
                wrong[path] = right
    if options.write:
        for path, text in wrong.items():
            path.write_text(text)
            print(f"written: {path.relative_to(ROOT)}")
        return 0
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if complaints:
        print(f"{len(complaints)} numbers, rows or pictures are wrong; `python3 .ci/evidence.py "
              "--write` puts the data's numbers into the pages", file=sys.stderr)
        return 1
    print(f"evidence: {links} numbers are what their data says, "
          f"{sum(len(paper['row']) for paper in index['paper'])} exhibits have their row; "
          f"{evidence_tables.summary(seen)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

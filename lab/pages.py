#!/usr/bin/env python3
"""Makes lab/results/papers.md from the rows in lab/results/papers, a file for each paper.

    python3 -m lab.pages [--check]

Every figure, table and claim of a paper has its row; one that is missing, unknown or there twice is
an error. Every picture that a page of results shows is there, and each that is there is shown.
--check writes nothing and fails where the page is not what the rows say.
"""

import argparse
import json
import re
import sys
import tomllib
from pathlib import Path

from lab.rig.tables import table

RESULTS = Path(__file__).resolve().parent / "results"
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+\.svg)\)")
VERDICTS = {
    "better": "better",
    "equal": "equal",
    "worse": "worse",
    "mixed": "better in part",
    "not comparable": "not comparable",
    "not done": "not done yet",
    "nothing": "nothing to measure",
}
HEAD = ["exhibit", "what it shows", "paper", "kiln", "verdict", "command", "data", "commit"]


def exhibits(paper):
    """The names of all that a paper shows or claims."""
    roman = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII"]
    names = roman if paper.get("roman") else [str(number) for number in range(1, 9)]
    return [*(f"Fig. {number}" for number in range(1, paper["figures"] + 1)),
            *(f"Table {name}" for name in names[:paper["tables"]]), *paper["claims"]]


def wrong_rows(paper):
    """Complaints about the rows of a paper."""
    # A row may be about a part: "Fig. 13a".
    known = {name: re.compile(re.escape(name) + "[a-f]*") for name in exhibits(paper)}
    rows = [row["exhibit"] for row in paper["row"]]
    for name, form in known.items():
        if not any(form.fullmatch(row) for row in rows):
            yield f"{name} has no row"
    for row in paper["row"]:
        name = row["exhibit"]
        if rows.count(name) > 1 or not any(form.fullmatch(name) for form in known.values()):
            yield f"{name} is there twice, or is no exhibit"
        if row["verdict"] not in VERDICTS:
            yield f"{name}: {row['verdict']!r} is no verdict"
        elif row["verdict"] not in ("not done", "nothing") and not row.get("command"):
            yield f"{name} has no command"


def wrong_pictures():
    """Complaints about the pictures of all pages."""
    shown = {(page.parent / file).resolve() for page in RESULTS.glob("*.md")
             for file in PICTURE.findall(page.read_text())}
    there = {path.resolve() for path in RESULTS.glob("*.svg")}
    for path in sorted(shown ^ there):
        yield f"{path.name}: " + ("no page shows it" if path in there else "it is not there")


def commit_of(row):
    """The commit of a row's data: of the row, or of its first file."""
    if "commit" in row:
        return row["commit"]
    for file in row.get("data", []):
        if file.endswith(".json"):
            data = json.loads((RESULTS / file).read_text())
            return data.get("machine", data.get("about", {})).get("commit", "")
    return ""


def cells(row):
    """The cells of a row's line."""
    verdict = ": ".join(filter(None, [VERDICTS[row["verdict"]], row.get("why")]))
    command = f"`{row['command']}`" if row.get("command") else ""
    data = ", ".join(f"[{file}]({file})" for file in row.get("data", []))
    texts = [row["exhibit"], row["shows"], row.get("paper", ""), row.get("ours", ""), verdict,
             command, data, commit_of(row)]
    return [" ".join(str(text).split()) for text in texts]


def page(index, papers):
    """The whole page."""
    counts = [[paper["name"], *(sum(row["verdict"] == verdict for row in paper["row"])
                                for verdict in VERDICTS)] for paper in papers]
    lines = [index["about"].strip(), "", *table(["paper", *VERDICTS.values()], counts)]
    for paper in papers:
        idle = [row for row in paper["row"] if row["verdict"] == "nothing"]
        rows = [cells(row) for row in paper["row"] if row not in idle]
        nothing = ", ".join(f"{row['exhibit']} ({row['shows']})" for row in idle)
        lines += ["", f"## {paper['name']}", "", paper["cite"].strip(), "", *table(HEAD, rows), "",
                  f"Nothing to measure: {nothing}."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    folder = RESULTS / "papers"
    index = tomllib.loads((folder / "index.toml").read_text())
    papers = [tomllib.loads((folder / f"{name}.toml").read_text()) for name in index["papers"]]
    wrong = [f"{paper['name']}: {what}" for paper in papers for what in wrong_rows(paper)]
    wrong += wrong_pictures()
    made, file = page(index, papers), RESULTS / "papers.md"
    if options.check and file.read_text() != made:
        wrong.append("lab/results/papers.md is not what lab/results/papers says: run make pages")
    if wrong:
        sys.exit("\n".join(wrong))
    if not options.check:
        file.write_text(made)


if __name__ == "__main__":
    main()

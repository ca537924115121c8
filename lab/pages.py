#!/usr/bin/env python3
"""Makes lab/results/papers.md from the rows in lab/results/papers, a file for each paper.

    python3 -m lab.pages [--check | --json]

Every figure, table and claim of a paper has its row; one that is missing, unknown or there twice is
an error. Every picture that a page of results shows is there, and each that is there is shown. The
rows of a study that has `report` are judged from its data, by `lab/online/judged.py`; numbers in
braces are filled in from data, by `lab/bars.py`. --check writes nothing and fails where the page is
not what the rows say, or a headline lacks what has to stand beside it. --json prints one line with
the counts of verdicts, what the rows lack, and the bars that are numbers of data.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

from lab import bars
from lab.online import judged
from lab.rig.tables import table

RESULTS = Path(__file__).resolve().parent / "results"
VECTORS = RESULTS.parent.parent / "crates/code/tests/vectors/scalars.json"
# Profiles of Ceph's clay over its scalar codes, by their names in `make papers`.
SCALARS = {
    "cauchy_orig": "scalar_mds=jerasure,technique=cauchy_orig",
    "cauchy_good": "scalar_mds=jerasure,technique=cauchy_good",
    "liber8tion": "scalar_mds=jerasure,technique=liber8tion",
    "shec": "scalar_mds=shec,",
    "isa-cauchy": "scalar_mds=isa,technique=cauchy",
    "r6": "scalar_mds=jerasure,technique=reed_sol_r6_op",
}
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+\.svg)\)")
VERDICTS = {
    "better": "better",
    "equal": "equal",
    "worse": "worse",
    "mixed": "better in part",
    "part": "equal in part",
    "not comparable": "not comparable",
    "not done": "not done yet",
    "nothing": "nothing to measure",
}
REPRODUCED = ["reproduced", "reproduced in part", "not reproduced", "no number"]
HEAD = ["exhibit", "what it shows", "paper", "kiln", "verdict"]
STUDY = ["exhibit", "what it shows", "paper", "Ceph of today", "reproduced?", "kiln's volumes",
         "verdict"]
END = ["picture", "command", "data", "commit"]


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


def one_round(row):
    """Says of which data of a row there is one round only, unless the row does."""
    text = " ".join(f"{row.get('ours', '')} {row.get('why', '')}".split())
    files = [file for file in row.get("data", []) if file.endswith(".json")
             and bars.report(file).get("sizes", {}).get("rounds") == 1]
    return f"{', '.join(files)}: one round" if files and "one round" not in text else ""


def linked(files):
    """Links to files beside the page."""
    return ", ".join(f"[{file}]({file})" for file in files)


def cells(row):
    """The cells of a row's line."""
    note = ". ".join(filter(None, [row.get("why", "").strip(), one_round(row)]))
    verdict = ": ".join(filter(None, [VERDICTS[row["verdict"]], note]))
    ceph = [row["ceph"], row["reproduced"]] if "ceph" in row else []
    command = f"`{row['command']}`" if row.get("command") else ""
    texts = [row["exhibit"], row["shows"], row.get("paper", ""), *ceph,
             bars.filled(row.get("ours", "")), verdict, linked(row.get("picture", [])), command,
             linked(row.get("data", [])),
             commit_of(row)]
    return [" ".join(str(text).split()) for text in texts]


def judge(paper):
    """Fills the rows of a study from its data: Ceph of today, and kiln's volumes."""
    report, *files = [json.loads((RESULTS / file).read_text()) for file in paper["report"]]
    for row in paper["row"]:
        if row.get("verdict") == "nothing":
            continue
        figure = int(row.get("claims", row["exhibit"]).removeprefix("Fig. "))
        here, ours = judged.ceph(figure, report), judged.volumes(figure, report, files)
        if here:
            row["ceph"], row["reproduced"] = here
        if ours:
            row["ours"], row["verdict"] = ours
        row.setdefault("verdict", "not done")
        picture = f"online-{figure:02}.svg"
        row.setdefault("picture", [picture] if (RESULTS / picture).exists() else [])
        for key in ("command", "data", "commit"):
            row.setdefault(key, paper[key])


def page(index, papers):
    """The whole page."""
    counts = [[paper["name"], *(sum(row["verdict"] == verdict for row in paper["row"])
                                for verdict in VERDICTS)] for paper in papers]
    lines = [index["about"].strip(), "", *table(["paper", *VERDICTS.values()], counts)]
    for paper in papers:
        idle = [row for row in paper["row"] if row["verdict"] == "nothing"]
        found = [row for row in paper["row"] if row not in idle]
        lines += ["", f"## {paper['name']}", "", paper["cite"].strip(), ""]
        if "report" in paper:
            told = Counter(row["reproduced"] for row in found)
            lines += [", ".join(f"{word}: {told[word]}" for word in REPRODUCED) + ".", ""]
        head = STUDY if "report" in paper else HEAD
        nothing = ", ".join(f"{row['exhibit']} ({row['shows']})" for row in idle)
        lines += [*table([*head, *END], map(cells, found)), "", f"Nothing to measure: {nothing}."]
    lines += ["", "## Beyond the papers", "", index["beyond"].strip(), ""]
    rows = [[*map(bars.filled, (row["what"], row["paper"], row["ours"])), linked(row["picture"]),
             f"`{row['command']}`", linked(row["data"]), commit_of(row)] for row in index["row"]]
    lines += table(["what", "nearest in the papers", "kiln", *END],
                   [[" ".join(text.split()) for text in row] for row in rows])
    return "\n".join(lines) + "\n"


def known(commit):
    """Whether a commit is in this repository; a mark of changes beside it does not count."""
    name = commit.rstrip("+") + "^{commit}"
    return not subprocess.run(["git", "cat-file", "-e", name], cwd=RESULTS, check=False,
                              stderr=subprocess.DEVNULL).returncode


def clay_scalars():
    """For each scalar code the profiles whose chunks, made by Ceph's own tool, the test `vectors`
    of kiln-code compares byte for byte with kiln's."""
    made = [vector["profile_string"] for vector in json.loads(VECTORS.read_text())["vectors"]]
    return {name: sum(profile.startswith("plugin=clay,") and part in profile for profile in made)
            for name, part in SCALARS.items()}


def lost_commits(renamed):
    """Files of data whose commits are not in the repository, and have no other name there."""
    for path in sorted(RESULTS.glob("*.json")):
        found = set(bars.commits(bars.report(path.name)))
        if any(not known(renamed.get(commit, commit)) for commit in found):
            yield path.name


def summary(index, papers):
    """Counts of verdicts, and of what the rows lack."""
    rows = [row for paper in papers for row in paper["row"] if row["verdict"] != "nothing"]
    lost = [row for row in rows if commit_of(row) and not known(commit_of(row).split(",")[0])]
    figures = [row for row in rows if row["exhibit"].startswith("Fig")]
    return {
        "rows": len(rows),
        **Counter(VERDICTS[row["verdict"]].replace(" ", "_") for row in rows),
        "beyond": len(index["row"]),
        "online_rows_with_kiln": sum("ceph" in row and "ours" in row for row in rows),
        "worse_without_reason": sum(row["verdict"] == "worse" and not row.get("why")
                                    for row in rows),
        "unfair": len(list(bars.unfair(index["headline"]))), "headlines": len(index["headline"]),
        "missing_commits": len(lost),
        "files_of_missing_commits": len(list(lost_commits(index["renamed"]))),
        "rows_with_picture": sum(bool(row.get("picture")) for row in rows),
        "figures_without_picture": sum(not row.get("picture") for row in figures),
        **bars.numbers(),
        "clay_scalars": clay_scalars(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--json", action="store_true", help="print the counts as one line")
    options = parser.parse_args()
    folder = RESULTS / "papers"
    index = {}
    for name in ("index", "beyond", "headlines"):
        index |= tomllib.loads((folder / f"{name}.toml").read_text())
    papers = [tomllib.loads((folder / f"{name}.toml").read_text()) for name in index["papers"]]
    for paper in papers:
        if "report" in paper:
            judge(paper)
    wrong = [f"{paper['name']}: {what}" for paper in papers for what in wrong_rows(paper)]
    wrong += [*wrong_pictures(), *bars.unfair(index["headline"])]
    made, file = page(index, papers), RESULTS / "papers.md"
    if options.check and file.read_text() != made:
        wrong.append("lab/results/papers.md is not what lab/results/papers says: run make pages")
    if wrong:
        sys.exit("\n".join(wrong))
    if options.json:
        print(json.dumps(summary(index, papers)))
    elif not options.check:
        file.write_text(made)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Checks the house rules that a machine can check, in all texts of this checkout.

    tidy.py [NAME]...

Each rule is a function of the table RULES; NAME selects those whose names contain it. Exceptions
may only become fewer: what is counted has a ceiling, so lower it when you can. The checks are
themselves tested first. The exit code is 1 when a rule is broken.
"""

import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import modules

ROOT = Path(__file__).resolve().parent.parent

# Folders that hold no sources of ours.
SKIPPED = {".git", "target", "out", "vectors", "corpus", "__pycache__"}
# Texts that people write, by extension or name. Everything else is data.
TEXTS = {".rs", ".md", ".toml", ".py", ".sh", ".yml", ".yaml", ".c", ".h", ".cc"}
NAMES = {"Makefile", "help.txt", "miri", "reports.txt", "run", "setup", "slow", "step", "toolchain"}

FILE_LINES = 800
FUNCTION_LINES = 70
COLUMNS = 100
SUBJECT = 72
# The rule for subjects of commits is for those after this moment, in seconds since 1970.
SUBJECTS_SINCE = 1_795_315_686

# Functions longer than the limit, as (path, name). A row that is no longer needed is an error.
LONG_FUNCTIONS = set()

# Places of unsafe code: the kernels, the ring of reads (only its caller can vouch for the buffers),
# the bindings, and the door to other libraries in the bench with their drivers behind it.
UNSAFE_HOMES = ("crates/gf/", "crates/uring/", "bindings/", "lab/bench/src/peer.rs", "lab/peers/")
# Crates that deny unsafe code but for the one file among UNSAFE_HOMES.
UNSAFE_DENIED = {"lab/bench/src/main.rs"}

# Words that no identifier has in it any more, and what is said instead.
RETIRED_WORDS = {
    "aloof": "non_helpers: survivors that a repair does not read",
    "atom": "expr: a subexpression that accumulators share",
    "defeat": "FinalFailure",
    "guest": "IncomingConnection",
    "knock": "a credit request",
    "ledger": "RepairStatistics",
    "mend": "heal or repair",
    "mended": "healed or repaired",
    "menu": "candidates: candidate plans",
    "mishap": "ScheduledFault",
    "parcel": "fragment",
    "rotten": "corrupt",
    "shelf": "PlanCache; FetchQueue in agents",
    "slip": "FragmentHeader",
    "stranger": "foreign",
    "tally": "statistics, or TrafficTable",
    "team": "AggregatorGroup",
    "thin": "under_replicated",
    "trouble": "failure",
    "wish": "effect",
}
# A word stays, as (path, word), where users or other programs know the name.
KEPT_WORDS = {("crates/kiln/src/cmd/plan/recover.rs", "menu")}

# Clauses without a subject that may not open a sentence: name the subject instead.
OPENER = re.compile(r"[*\-> (]*(What|Where|Who|Whoever|Whose|How|Whether|Which|That of|Those of)"
                    r"[ ,]", re.IGNORECASE)
# Home-made phrases, and what the field says.
RETIRED_PHRASES = {
    "are told": "log, print or report",
    "at it": "the component that runs",
    "be had": "readable, recoverable, available",
    "bear": "tolerate",
    "bears": "tolerates",
    "believed": "trusted, valid, accepted",
    "belongs into": "must not be entered in, is part of",
    "is none": "invalid, absent",
    "is told": "log, print or report",
    "made up for": "rebuild, restore redundancy",
    "makes up for": "rebuild, restore redundancy",
    "nobody": "the component: no client, no agent",
    "somebody": "the component: a client, an operator",
    "stranger": "stale or foreign",
    "that one": "the component",
    "whoever": "the component: clients, holders of the key",
}
# Lines of doc comments, sentences of pages, and messages, help and other literals that open with a
# clause; and retired phrases in all of these.
MOST = {"doc openers": 9, "page openers": 3, "text openers": 9, "retired phrases": 200}


class Source:
    """A file: its text, and for Rust its code, blanked, and the lines that are tests alone."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.lines = text.removesuffix("\n").split("\n") if text else []
        self.rust = path.endswith(".rs")
        blank = modules.blank(text) if self.rust else ""
        self.code = blank.split("\n")[:len(self.lines)]
        self.all_tests = "/tests/" in path or path.startswith("crates/testkit/")
        self.gated = set()
        for at, line in enumerate(self.code):
            if modules.GATE.fullmatch(line.strip()):
                self.gated.update(range(at, modules.body_end(self.code, at + 1) + 1))
        # Results are the laboratory's; the history of changes and licences are as they are.
        self.prose = not path.startswith("lab/")

    def is_test(self, at):
        return self.all_tests or at in self.gated

    def test_modules(self):
        """The stems of the files of `#[cfg(test)] mod name;`."""
        path = PurePosixPath(self.path)
        root = path.name in ("lib.rs", "main.rs", "mod.rs")
        base = path.parent if root else path.with_suffix("")
        for gate, line in zip(self.code, self.code[1:]):
            found = re.search(r"\bmod (\w+);$", line.strip())
            if found and modules.GATE.fullmatch(gate.strip()):
                yield str(base / found[1])


def read_all():
    """All sources, sorted by path."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED]
        for name in names:
            path = Path(folder, name)
            if path.suffix in TEXTS or name in NAMES:
                found.append(path.relative_to(ROOT).as_posix())
    sources = [Source(path, (ROOT / path).read_text("utf-8")) for path in sorted(found)]
    stems = {stem for source in sources if source.rust for stem in source.test_modules()}
    for source in sources:
        path = PurePosixPath(source.path).with_suffix("")
        if any(str(above) in stems for above in (path, *path.parents)):
            source.all_tests = True
    return sources


def rust(sources):
    """(source, number, code) of all lines of Rust."""
    return ((source, at, line) for source in sources if source.rust
            for at, line in enumerate(source.code))


def at(source, number, what):
    return f"{source.path}:{number + 1}: {what}"


def literals(text):
    """The insides of string literals, each with the line that it begins on."""
    for found in modules.LITERAL.finditer(text):
        inside = re.fullmatch(r'b?r?(#*)"(.*)"\1', found[0], re.DOTALL)
        if inside:
            yield text.count("\n", 0, found.start()), inside[2]


def files_and_lines_are_short(sources):
    for source in sources:
        lines = len(source.lines)
        if lines > FILE_LINES:
            yield at(source, lines, f"{lines} lines, the limit is {FILE_LINES}")
        for number, line in enumerate(source.lines):
            if line.startswith(("<" * 7 + " ", ">" * 7 + " ")):
                yield at(source, number, "left behind by a merge")
            # Prose, tables and links in Markdown may not be breakable.
            if len(line) > COLUMNS and not source.path.endswith(".md"):
                yield at(source, number, f"longer than {COLUMNS} columns")


def functions_are_short(sources):
    used = set()
    for source, start, line in rust(sources):
        name = re.search(r"(?:^|\s)fn (\w+)", line)
        length = modules.body_end(source.code, start) - start + 1 if name else 0
        if length > FUNCTION_LINES:
            used.add((source.path, name[1]))
            if (source.path, name[1]) not in LONG_FUNCTIONS:
                yield at(source, start, f"fn {name[1]} has {length} lines, the limit is "
                                        f"{FUNCTION_LINES}")
    for row in sorted(LONG_FUNCTIONS - used):
        yield f"no longer needed in LONG_FUNCTIONS: {row}"


def unsafe_lives_only_in_its_homes(sources):
    """Reasons and `# Safety` sections are clippy's."""
    for source, number, line in rust(sources):
        if (re.search(r"\bunsafe\b", line) and not source.path.startswith(UNSAFE_HOMES)
                and not source.is_test(number)):
            yield at(source, number, "unsafe outside of its homes")


def every_other_crate_forbids_unsafe(sources):
    for source in sources:
        level = "deny" if source.path in UNSAFE_DENIED else "forbid"
        wanted = f"#![{level}(unsafe_code)]"
        if (source.path.endswith(("src/lib.rs", "src/main.rs")) and wanted not in source.code
                and not source.path.startswith(UNSAFE_HOMES)):
            yield at(source, 0, f"the crate must say {wanted}")


def unwrap_outside_tests_gives_its_reason(sources):
    for source, number, line in rust(sources):
        if ((".unwrap()" in line or ".expect(" in line) and not source.is_test(number)
                and "// " not in source.lines[number]
                and not (number and source.lines[number - 1].lstrip().startswith("// "))):
            yield at(source, number, "unwrap or expect without a comment with the reason")


def names_follow_the_house(sources):
    banned = ("fn get_", "mod utils;", "mod util;", "mod utils {", "mod util {", "#[ignore")
    for source, number, line in rust(sources):
        yield from (at(source, number, f"{word} must not stay") for word in banned if word in line)


def no_path_of_one_machine(sources):
    everywhere = re.compile("/(home|root)/")
    outside_tests = "/tmp" + "/"
    for source in sources:
        for number, line in enumerate(source.lines):
            if everywhere.search(line) or (outside_tests in line and not source.is_test(number)):
                yield at(source, number, "a path of one machine")


def dependencies_are_explained_and_lints_shared(sources):
    texts = {source.path: source.text for source in sources}
    section = texts["Cargo.toml"].split("[workspace.dependencies]\n")[1].split("\n[")[0]
    explained = texts["docs/internals/dependencies.md"]
    for name in re.findall(r"(?m)^([\w-]+)[ .]?.*=", section):
        if not name.startswith("kiln-") and not re.search(rf"\b{name}\b", explained):
            yield f"docs/internals/dependencies.md lacks {name}"
    for source in sources:
        if (re.fullmatch(r"crates/.*/Cargo\.toml", source.path)
                and "[lints]\nworkspace = true" not in source.text):
            yield at(source, 0, "must take the lints of the workspace")


def modules_stand_from_the_used_to_the_using(sources):
    """So that a crate can be read from the top, and there are no circles, either."""
    return modules.against({source.path: source.text for source in sources if source.rust})


def words(line):
    """The words of the identifiers in a line of code, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+[a-z]*|[a-z]+", line)]


def retired_words_do_not_come_back(sources):
    for source, number, line in rust(sources):
        for word in words(line):
            word = word if word.endswith("ss") else word.rstrip("s")
            if word in RETIRED_WORDS and (source.path, word) not in KEPT_WORDS:
                yield at(source, number, f"{word!r}: say {RETIRED_WORDS[word]}")


def prose(text):
    """Lines of a page outside fences, with their numbers."""
    fenced = False
    for number, line in enumerate(text.split("\n")):
        fenced ^= line.lstrip().startswith("```")
        if not fenced:
            yield number, line


def anchor(heading):
    """The anchor that a heading gets, as GitHub and mdBook make it."""
    return re.sub(r"[^\w -]", "", heading.lstrip("#").strip().lower()).replace(" ", "-")


def targets(line):
    """Targets of the links in a line, without those to other hosts."""
    return [target for target in re.findall(r"\]\(([^)]*)", line)
            if "://" not in target and " " not in target and not target.startswith("mailto:")]


def links_of_pages_lead_somewhere(sources):
    pages = {source.path: source for source in sources if source.path.endswith(".md")}
    anchors = {path: {anchor(line) for _, line in prose(page.text) if line.startswith("#")}
               for path, page in pages.items()}
    for page in (page for page in pages.values() if page.prose):
        lines = ((number, line) for number, line in prose(page.text) if line[:4] != "    ")
        for number, target in ((number, to) for number, line in lines for to in targets(line)):
            path, _, heading = target.partition("#")
            joined = os.path.join(os.path.dirname(page.path), path)
            to = os.path.normpath(joined) if path else page.path
            if not (ROOT / to).exists():
                yield at(page, number, f"{target}: there is no such file")
            elif heading and to in anchors and heading not in anchors[to]:
                yield at(page, number, f"{target}: there is no such heading")


def paragraphs(page):
    """Paragraphs of a page as (first line, text), without fences, indented blocks and headings."""
    found, fenced = [(0, "")], False
    for number, line in enumerate(page.split("\n")):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        apart = fence or fenced or not line.strip() or line.startswith(("#", "|"))
        if apart or line.startswith(("    ", "*", "-")):
            found.append((number, ""))
        if not apart and not line.startswith("    "):
            found[-1] = (found[-1][0], found[-1][1] + line.strip() + " ")
    return found


def headless(text):
    """Sentences of a paragraph that are no questions and open with a clause."""
    sentences = (sentence.strip() for sentence in re.split(r"(?<=[.?:])(?= )", text))
    return sum(1 for sentence in sentences if OPENER.match(sentence + " ")
               and sentence.lstrip("*-> (")[:1].isupper() and not sentence.endswith("?"))


def at_most(kind, found):
    """The complaints, when there are more than the ceiling allows."""
    if len(found) > MOST[kind]:
        yield f"{len(found)} {kind} where there may be {MOST[kind]}; the new ones are among these:"
        yield from found


def place(source, number, text):
    return at(source, number, text.strip()[:80])


def doc_comments_open_with_a_subject_or_a_verb(sources):
    doc = re.compile(r"\s*//[/!] ([A-Z].*)")
    found = []
    for source in (source for source in sources if source.rust and source.prose):
        for number, line in enumerate(source.lines):
            text = doc.match(line)
            if text and OPENER.match(text[1]):
                found.append(place(source, number, line))
    return at_most("doc openers", found)


def sentences_of_pages_have_subjects(sources):
    return at_most("page openers", [
        place(source, number, text) for source in sources
        if source.path.endswith(".md") and source.prose
        for number, text in paragraphs(source.text) for _ in range(headless(text))])


def messages_have_subjects(sources):
    return at_most("text openers", [
        place(source, number, text) for source in sources if source.rust and source.prose
        for number, text in literals(source.text)
        if OPENER.match(text) and not text.strip().endswith("?") and not source.is_test(number)])


def retired_phrases_do_not_come_back(sources):
    retired = re.compile(r"\b(" + "|".join(RETIRED_PHRASES) + r")\b")
    found = []
    for source in (source for source in sources if source.prose):
        texts = []
        if source.path.endswith((".md", "help.txt", "reports.txt")):
            texts = enumerate(source.lines)
        elif source.rust:
            comments = ((number, line.lstrip()[2:]) for number, line in enumerate(source.lines)
                        if line.lstrip().startswith("//"))
            texts = [(number, text) for number, text in (*comments, *literals(source.text))
                     if not source.is_test(number)]
        for number, text in texts:
            text = text.lower().replace("there is none", "")
            found += [f"{place(source, number, text)}: {phrase!r}: {RETIRED_PHRASES[phrase]}"
                      for phrase in sorted(set(retired.findall(text)))]
    return at_most("retired phrases", found)


def subjects_of_commits_are_short(_):
    """Skips, and says so, where there is no git or no history: in a package of the sources."""
    log = subprocess.run(["git", "-C", ROOT, "log", "--no-merges", "--format=%ct %h %s",
                          f"--since=@{SUBJECTS_SINCE}"], text=True, capture_output=True)
    if log.returncode:
        print("SKIPPED: git shows no commits here")
    for line in log.stdout.splitlines():
        time, name, subject = line.split(" ", 2)
        if int(time) > SUBJECTS_SINCE and len(subject) > SUBJECT:
            yield (f"{name} {subject}: a subject of more than {SUBJECT} characters; move the why "
                   "into the body")


RULES = (
    files_and_lines_are_short,
    functions_are_short,
    unsafe_lives_only_in_its_homes,
    every_other_crate_forbids_unsafe,
    unwrap_outside_tests_gives_its_reason,
    names_follow_the_house,
    no_path_of_one_machine,
    dependencies_are_explained_and_lints_shared,
    modules_stand_from_the_used_to_the_using,
    retired_words_do_not_come_back,
    links_of_pages_lead_somewhere,
    doc_comments_open_with_a_subject_or_a_verb,
    sentences_of_pages_have_subjects,
    messages_have_subjects,
    retired_phrases_do_not_come_back,
    subjects_of_commits_are_short,
)


def own_tests():
    """The scanner tells code from literals, sentences from questions, tests from the product."""
    code = modules.blank("let a = \"{ // }\"; // {\nlet b = '{'; r#\"unsafe {\"#; 'x: loop {}\n")
    assert "unsafe" not in code and '"' not in code and code.count("{") == 1
    assert code.count("\n") == 2
    assert modules.body_end(["fn f(", "    a: [u8; 3],", ") -> u8 {", "    g();", "}"], 0) == 4
    assert modules.body_end(["fn f() -> u8;", "{}"], 0) == 0
    assert anchor("## Wire, versions 1 to 5") == "wire-versions-1-to-5"
    assert anchor("### `POOL.toml`: a b") == "pooltoml-a-b"
    assert targets("[a](b.md#c) and [d](https://e.org)") == ["b.md#c"]
    assert words("let was_thin = Team::new(MENU_MAX);") == "let was thin team new menu max".split()
    assert OPENER.match("What is lost") and OPENER.match("Those of a pool")
    assert OPENER.match("whoever reads") and not OPENER.match("Whatever ")
    assert not OPENER.match("That is so") and not OPENER.match("A node that")
    assert headless("A disk died. What now? What is lost is back: Who reads it waits. ") == 2
    page = "# What it does\n\nWhere\nit is.\n\n    What\n* How it is\n```\nWhat\n```\n"
    assert sum(headless(text) for _, text in paragraphs(page)) == 2
    texts = list(literals("f(\"what\", r#\"a \"b\" c\"#); // \"not\"\n'\"'; \"two\\\nlines\""))
    assert texts[1] == (0, 'a "b" c') and len(texts) == 3, texts
    gated = Source("crates/x/src/lib.rs", "a();\n#[cfg(test)]\nmod t {\n  b();\n}\nc();\n")
    assert [gated.is_test(number) for number in range(6)] == [False, True, True, True, True, False]
    assert list(Source("x/src/a.rs", "#[cfg(test)]\nmod t;\n").test_modules()) == ["x/src/a/t"]


def main():
    own_tests()
    modules.own_tests()
    sources = read_all()
    broken = 0
    for rule in RULES:
        if any(word in rule.__name__ for word in sys.argv[1:] or [""]):
            found = list(rule(sources))
            broken += len(found)
            if found:
                print(f"---- {rule.__name__.replace('_', ' ')}", *found, sep="\n")
    if broken:
        sys.exit(f"{broken} house rules broken")


if __name__ == "__main__":
    main()

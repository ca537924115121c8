#!/usr/bin/env python3
"""Modules of a crate, and their uses of each other. Every path that starts at `crate`, `self`,
`super` or a module is followed through re-exports to the module that defines what it names.
Methods called without their type's module in sight are not seen, nor are modules inside of a file.
"""

import re
from collections import defaultdict
from pathlib import PurePosixPath

GATE = re.compile(r"#\[cfg\((test|any\(test, feature = .*)\)\]")
LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?<!\w)b?r(?P<hashes>\#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|"""
    r"""'(?:\\.[^']*|[^\\'])'""", re.DOTALL)
TOKEN = re.compile(r"\w+|::|[^\w\s]")
ITEMS = {"fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"}


def blank(text):
    """The text with comments and literals blanked; newlines stay."""
    return LITERAL.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def body_end(lines, start):
    """The last line of the braced item that begins at or after a line, or that line itself."""
    depth = brackets = 0
    for at in range(start, len(lines)):
        for sign in re.findall(r"[{}()\[\];]", lines[at]):
            if sign in "([":
                brackets += 1
            elif sign in ")]":
                brackets -= 1
            elif sign == "{":
                depth += 1
            elif sign == "}":
                depth -= 1
                if depth == 0:
                    return at
            elif depth == 0 and brackets == 0:
                return start
    return start


def product(code):
    """The lines of blanked code without items for tests alone."""
    lines = code.split("\n")
    for at, line in enumerate(lines):
        if GATE.fullmatch(line.strip()):
            end = body_end(lines, at + 1)
            lines[at:end + 1] = [""] * (end + 1 - at)
    return "\n".join(lines)


class Module:
    """A file: what it declares, imports and names."""

    def __init__(self, stem, parent, code):
        self.stem, self.parent, self.children = stem, parent, {}
        self.declared, self.defined, self.imports = [], set(), {}
        self.globs, self.paths = [], []
        tokens = TOKEN.findall(code) + [""] * 3
        at = 0
        while at < len(tokens) - 3:
            word, following = tokens[at], tokens[at + 1]
            if word == "use" and following != "<":
                at = self.read_use(tokens, at + 1, ())
                continue
            if word == "mod" and tokens[at + 2] == ";":
                self.declared.append(following)
            elif word == "macro_rules":
                self.defined.add(tokens[at + 2])
            elif word in ITEMS:
                modified = following in ("mut", "fn", "unsafe", "extern")
                self.defined.add(tokens[at + 1 + modified])
            elif following == "::" and re.match(r"[^\W\d]", word):
                path, end = [word], at + 1
                while tokens[end] == "::" and re.match(r"[^\W\d]", tokens[end + 1]):
                    path.append(tokens[end + 1])
                    end += 2
                if at == 0 or tokens[at - 1] not in ("in", "::"):
                    self.paths.append(tuple(path))
                at = end
                continue
            at += 1

    def read_use(self, tokens, at, path):
        """Reads one tree of a `use`; the token after it."""
        while at < len(tokens):
            word = tokens[at]
            if word == "{":
                at += 1
                while tokens[at] not in ("}", ""):
                    at = self.read_use(tokens, at, path)
                    at += tokens[at] == ","
                return at + 1
            if word == "*":
                self.globs.append(path)
                self.paths.append(path)
                return at + 1
            if word == "as":
                self.take(tokens[at + 1], path)
                return at + 2
            if word in (",", "}", ";", ""):
                break
            path += () if word == "::" else (word,)
            at += 1
        if path and path[-1] == "self":
            path = path[:-1]
        if path:
            self.take(path[-1], path)
        return at

    def take(self, name, path):
        self.paths.append(path)
        self.imports[name] = path


class Tree:
    """The modules of one crate; the first is its root."""

    def __init__(self, sources, root):
        self.sources, self.modules = sources, []
        self.add(root, str(PurePosixPath(root).parent), 0)

    def add(self, path, stem, parent):
        at = len(self.modules)
        module = Module(stem, parent, product(blank(self.sources[path])))
        self.modules.append(module)
        for name in module.declared:
            for file in (f"{stem}/{name}.rs", f"{stem}/{name}/mod.rs"):
                if file in self.sources:
                    module.children[name] = len(self.modules)
                    self.add(file, f"{stem}/{name}", at)
                    break

    def resolve(self, start, path, depth=8):
        """The module that defines what a path names; None for other crates."""
        first, rest = path[0], path[1:]
        known = {"crate": 0, "self": start, "super": self.modules[start].parent}
        at = known[first] if first in known else self.lookup(start, first, depth)
        for name in rest if at is not None else ():
            if name == "super":
                at = self.modules[at].parent
            elif name != "self":
                found = self.lookup(at, name, depth)
                if found is None:
                    break
                at = found
        return at

    def lookup(self, at, name, depth):
        """The module that a name is, or that defines it, as seen in a module."""
        module = self.modules[at]
        if name in module.children:
            return module.children[name]
        if name in module.defined:
            return at
        if depth == 0:
            return None
        path = module.imports.get(name)
        if path is not None:
            return None if path[0] == name else self.resolve(at, path, depth - 1)
        for glob in module.globs:
            target = self.resolve(at, glob, depth - 1)
            found = None if target in (None, at) else self.lookup(target, name, depth - 1)
            if found is not None:
                return found
        return None

    def line(self, at):
        """The chain of modules from the root."""
        line = [at]
        while at:
            at = self.modules[at].parent
            line.insert(0, at)
        return line

    def arrows(self):
        """{level: {(user, used)}} between modules of one level, by their numbers; and {(module,
        ancestor)} where a module uses what stands in the file of one above it."""
        beside, up = defaultdict(set), set()
        for at, module in enumerate(self.modules):
            own = self.line(at)
            for path in module.paths:
                target = self.resolve(at, path)
                if target is None:
                    continue
                other = self.line(target)
                fork = sum(1 for a, b in zip(own, other) if a == b)
                if fork < len(own) and fork < len(other):
                    beside[own[fork - 1]].add((own[fork], other[fork]))
                elif fork < len(own):
                    up.add((at, target))
        return beside, up

    def branches_used(self, at):
        """The children of a module that its own file uses, or re-exports from."""
        targets = (self.resolve(at, path) for path in self.modules[at].paths)
        lines = (self.line(target) for target in targets if target is not None)
        return {line[line.index(at) + 1] for line in lines if at in line[:-1]}

    def circles(self, arrows):
        """Sets of modules that reach each other."""
        reach = defaultdict(set)
        for user, used in arrows:
            reach[user].add(used)
        grown = True
        while grown:
            grown = False
            for user in list(reach):
                more = set().union(*(reach.get(used, set()) for used in reach[user]))
                if not more <= reach[user]:
                    reach[user] |= more
                    grown = True
        found = {frozenset(b for b in reach[a] if a in reach.get(b, ())) for a in list(reach)}
        return sorted((circle for circle in found if circle), key=sorted)


def trees(sources):
    """The trees of all crates. `sources`: {path: text}."""
    return [Tree(sources, path) for path in sorted(sources)
            if path.endswith(("/src/lib.rs", "/src/main.rs"))]


def against(sources):
    """Imports of modules that are declared below on the same level, in words."""
    found = []
    for tree in trees(sources):
        for level, arrows in sorted(tree.arrows()[0].items()):
            for user, used in sorted(arrows):
                names = [PurePosixPath(tree.modules[at].stem).name for at in (user, used)]
                if user < used:
                    found.append(f"{tree.modules[level].stem}: {names[0]} uses {names[1]}, which "
                                 "is declared below it")
    return found


def own_tests():
    """Arrows are seen through re-exports and by other names, and not in strings or tests."""
    def found(**texts):
        crate = {f"crates/x/src/{name.replace('_', '/')}.rs": text for name, text in texts.items()}
        return [re.sub(r".*: (\w+) uses (\w+),.*", r"\1 \2", arrow) for arrow in against(crate)]

    lib = "mod a; mod b; mod c; pub use a::One; pub use b::two as second;"
    a, b = "mod inner; pub struct One;", "use crate::One;"
    assert found(lib=lib, a=a + " use super::b;", b="pub fn two() -> crate::One { crate::c::C }",
                 c="use crate::{a, b::{self, two}}; pub(in crate::a) struct C;") == ["a b", "b c"]
    assert found(lib=lib, a=a, b=b, a_inner="use super::super::second;") == ["a b"]
    assert not found(lib=lib, a=a, b=b, a_inner="const A: &str = \"crate::b\";\n"
                     "#[cfg(test)]\nmod tests {\n    use crate::b;\n}")

//! Which modules of a crate use which: every path that starts at `crate`, `self`, `super` or a
//! module, followed through re-exports to the module that defines what it names. Methods that are
//! called without naming their type's module are not seen; nor are modules inside of a file.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;

/// The modules of one crate; the first one is its root.
pub struct Tree {
    modules: Vec<Module>,
}

#[derive(Default)]
struct Module {
    /// Path from the root of the repository without `.rs`: its children are below it.
    stem: String,
    parent: usize,
    children: BTreeMap<String, usize>,
    /// What `use` brings in, by the name that it has here.
    imports: BTreeMap<String, Vec<String>>,
    /// Paths of `use a::*`.
    globs: Vec<Vec<String>>,
    /// Items that stand in the file itself.
    defined: BTreeSet<String>,
    /// Every path outside tests, with its line.
    paths: Vec<(Vec<String>, usize)>,
}

/// An import of a module by one that stands above it on the same level.
pub struct Against {
    /// The folder that has both, or the file that declares them, without `.rs`.
    pub level: String,
    /// The module above.
    pub user: String,
    /// The module below.
    pub used: String,
    /// One line that is a reason for it.
    pub reason: String,
}

/// All imports against the order of modules, in all crates.
pub fn against(sources: &[Source]) -> Vec<Against> {
    let root =
        |source: &&Source| ["/src/lib.rs", "/src/main.rs"].iter().any(|r| source.path.ends_with(r));
    sources.iter().filter(root).flat_map(|root| Tree::new(sources, root).against()).collect()
}

impl Tree {
    fn new(sources: &[Source], root: &Source) -> Tree {
        let by_path: BTreeMap<&str, &Source> = sources.iter().map(|s| (&*s.path, s)).collect();
        let mut tree = Tree { modules: Vec::new() };
        let stem = root.path.rsplit_once('/').unwrap().0.to_owned();
        tree.add(&by_path, root, stem, 0);
        tree
    }

    fn add(
        &mut self,
        by_path: &BTreeMap<&str, &Source>,
        source: &Source,
        stem: String,
        parent: usize,
    ) {
        let at = self.modules.len();
        let mut module = Module { stem, parent, ..Module::default() };
        let children = module.read(source);
        let stem = module.stem.clone();
        self.modules.push(module);
        for name in children {
            let below = format!("{stem}/{name}");
            let files = [format!("{below}.rs"), format!("{below}/mod.rs")];
            if let Some(source) = files.iter().find_map(|file| by_path.get(&**file)) {
                let child = self.modules.len();
                self.modules[at].children.insert(name, child);
                self.add(by_path, source, below, at);
            }
        }
    }

    /// The module that defines what `path` names, seen from `from`; `None` for other crates.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<usize> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match &**first {
            "crate" => 0,
            "self" => from,
            "super" => self.modules[from].parent,
            _ => self.lookup(from, first, depth)?,
        };
        while let Some((name, after)) = rest.split_first() {
            rest = after;
            match &**name {
                "super" => at = self.modules[at].parent,
                "self" => {}
                // What is not found is something inside of an item: a variant, a method.
                _ => match self.lookup(at, name, depth) {
                    Some(next) => at = next,
                    None => return Some(at),
                },
            }
        }
        Some(at)
    }

    /// The module that `name` is, or that defines it, as seen in module `at`.
    fn lookup(&self, at: usize, name: &str, depth: usize) -> Option<usize> {
        let module = &self.modules[at];
        if let Some(child) = module.children.get(name) {
            return Some(*child);
        }
        if module.defined.contains(name) {
            return Some(at);
        }
        // A path that leads to itself is another crate's.
        let depth = depth.checked_sub(1)?;
        if let Some(path) = module.imports.get(name) {
            return if path[0] == name { None } else { self.resolve(at, path, depth) };
        }
        module.globs.iter().find_map(|glob| {
            let target = self.resolve(at, glob, depth)?;
            if target == at { None } else { self.lookup(target, name, depth) }
        })
    }

    /// The chain of modules from the root to `at`.
    fn line(&self, mut at: usize) -> Vec<usize> {
        let mut line = vec![at];
        while at != 0 {
            at = self.modules[at].parent;
            line.push(at);
        }
        line.reverse();
        line
    }

    /// Arrows between children of one module, each with a reason.
    fn arrows(&self) -> BTreeMap<(usize, usize), String> {
        let mut arrows = BTreeMap::new();
        for (at, module) in self.modules.iter().enumerate() {
            let own = self.line(at);
            for (path, number) in &module.paths {
                let Some(target) = self.resolve(at, path, 8) else { continue };
                let other = self.line(target);
                let fork = own.iter().zip(&other).take_while(|(a, b)| a == b).count();
                if let (Some(a), Some(b)) = (own.get(fork), other.get(fork)) {
                    let reason = format!("{}.rs:{number} {}", module.stem, path.join("::"));
                    arrows.entry((*a, *b)).or_insert(reason);
                }
            }
        }
        arrows
    }

    /// Modules are numbered as they are declared: an arrow to a later one is against the order.
    fn against(&self) -> Vec<Against> {
        let name = |at: usize| self.modules[at].stem.rsplit('/').next().unwrap().to_owned();
        let back = self.arrows().into_iter().filter(|((user, used), _)| user < used);
        back.map(|((user, used), reason)| Against {
            level: self.modules[self.modules[user].parent].stem.clone(),
            user: name(user),
            used: name(used),
            reason,
        })
        .collect()
    }
}

const ITEMS: &[&str] =
    &["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];

impl Module {
    /// Fills in what the file says outside tests; returns the modules that it declares.
    fn read(&mut self, source: &Source) -> Vec<String> {
        let tokens = tokens(source);
        let word = |at: usize| tokens.get(at).map_or("", |token: &(String, usize)| &*token.0);
        let mut children = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            let (text, number) = &tokens[at];
            match &**text {
                "use" if word(at + 1) != "<" => {
                    at = self.read_use(&tokens, at + 1, Vec::new(), *number);
                    continue;
                }
                "mod" if word(at + 2) == ";" => children.push(word(at + 1).to_owned()),
                "macro_rules" => _ = self.defined.insert(word(at + 2).to_owned()),
                item if ITEMS.contains(&item) => {
                    let modified = matches!(word(at + 1), "mut" | "fn" | "unsafe" | "extern");
                    self.defined.insert(word(at + 1 + usize::from(modified)).to_owned());
                }
                // A path outside `use`, but for `pub(in path)`.
                start if starts_word(start) && word(at + 1) == "::" => {
                    let mut path = vec![text.clone()];
                    let mut end = at + 1;
                    while word(end) == "::" && starts_word(word(end + 1)) {
                        path.push(word(end + 1).to_owned());
                        end += 2;
                    }
                    if at == 0 || !matches!(word(at - 1), "in" | "::") {
                        self.paths.push((path, *number));
                    }
                    at = end;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        children
    }

    /// Reads one tree of a `use` that starts at token `at`; returns where it ends.
    fn read_use(
        &mut self,
        tokens: &[(String, usize)],
        mut at: usize,
        mut path: Vec<String>,
        number: usize,
    ) -> usize {
        while at < tokens.len() {
            match &*tokens[at].0 {
                "::" => at += 1,
                "{" => {
                    at += 1;
                    while at < tokens.len() && tokens[at].0 != "}" {
                        at = self.read_use(tokens, at, path.clone(), number);
                        at += usize::from(tokens.get(at).is_some_and(|token| token.0 == ","));
                    }
                    return at + 1;
                }
                "*" => {
                    self.globs.push(path.clone());
                    self.paths.push((path, number));
                    return at + 1;
                }
                "as" => {
                    self.import(tokens[at + 1].0.clone(), path, number);
                    return at + 2;
                }
                "," | "}" | ";" => break,
                name => {
                    path.push(name.to_owned());
                    at += 1;
                }
            }
        }
        if path.last().is_some_and(|name| name == "self") {
            path.pop();
        }
        if let Some(name) = path.last().cloned() {
            self.import(name, path, number);
        }
        at
    }

    fn import(&mut self, name: String, path: Vec<String>, number: usize) {
        self.paths.push((path.clone(), number));
        self.imports.insert(name, path);
    }
}

fn starts_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words, `::` and single signs of the code outside tests, with their lines.
fn tokens(source: &Source) -> Vec<(String, usize)> {
    let mut tokens = Vec::new();
    for (number, line) in source.code.lines().enumerate() {
        if source.test_lines[number] {
            continue;
        }
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if first.is_alphanumeric() || first == '_' {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push((rest[..length].to_owned(), number + 1));
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

//! Names of objects as files and folders, and the numbers by which the kernel knows them.

use std::collections::{BTreeMap, HashMap};

use kiln_folders::ATTRIBUTES;
use kiln_stripe::Result;

use crate::setup::is_plain;
use crate::transfer::{is_internal, local_tree::joined, pool_tree::Listing, raw_names::to_file};

/// Names of objects, in order.
pub trait Names {
    /// Shows objects from a name on, as long as `see` returns `true`.
    fn each_from(&self, start: &str, see: &mut dyn FnMut(&str, Listing) -> bool) -> Result<()>;
}

impl Names for BTreeMap<String, Listing> {
    fn each_from(&self, start: &str, see: &mut dyn FnMut(&str, Listing) -> bool) -> Result<()> {
        let mut objects = self.range(start.to_owned()..);
        objects.all(|(name, object)| see(name, object.clone()));
        Ok(())
    }
}

/// Kind of a name that objects have, or begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    File(Listing),
    Folder,
}

/// Returns whether a word is shown in a folder: names that no file can have are not, nor kiln's
/// own.
pub fn is_shown(folder: &str, word: &str) -> bool {
    is_plain(word)
        && !word.contains('/')
        && word != ATTRIBUTES
        && to_file(word).is_some()
        && !is_internal(&format!("{}/", joined(folder, word)))
}

/// Finds what has a name; an object takes precedence over a folder.
pub fn find(names: &dyn Names, name: &str) -> Result<Option<Found>> {
    let mut found = None;
    let below = joined(name, "");
    names.each_from(name, &mut |there, object| {
        found = (there == name).then_some(Found::File(object));
        false
    })?;
    if found.is_none() {
        names.each_from(&below, &mut |there, _| {
            found = there.starts_with(&below).then_some(Found::Folder);
            false
        })?;
    }
    Ok(found)
}

/// Lists a folder. What is deep in it is skipped, not read.
pub fn children(names: &dyn Names, folder: &str) -> Result<BTreeMap<String, Found>> {
    let below = joined(folder, "");
    let (mut children, mut start) = (BTreeMap::new(), below.clone());
    loop {
        let mut next = None;
        names.each_from(&start, &mut |name, object| {
            let Some(inside) = name.strip_prefix(&below) else { return false };
            let (word, is_deep) = match inside.split_once('/') {
                Some((word, _)) => (word, true),
                None => (inside, false),
            };
            if is_shown(folder, word) {
                let found = if is_deep { Found::Folder } else { Found::File(object) };
                children.entry(word.to_owned()).or_insert(found);
            }
            // '0' comes next after '/'.
            next = is_deep.then(|| format!("{below}{word}0"));
            !is_deep
        })?;
        match next {
            Some(next) => start = next,
            None => return Ok(children),
        }
    }
}

/// Identity of what has a name: its kind, and of a file the size and the time of its put. Data that
/// another client puts under the name is another file.
pub type Identity = (u8, u64, u64);

/// Numbers of files and folders that the kernel knows.
pub struct Inodes {
    known: HashMap<u64, Inode>,
    by_name: BTreeMap<String, u64>,
    last: u64,
}

struct Inode {
    /// `None`: the name is gone, or something else has it.
    name: Option<String>,
    of: Identity,
    lookups: u64,
}

impl Inodes {
    /// Only the root is known; it has number 1.
    pub fn new(root: &str, of: Identity) -> Inodes {
        let mut inodes = Inodes { known: HashMap::new(), by_name: BTreeMap::new(), last: 0 };
        inodes.look_up(root, of);
        inodes
    }

    /// Returns the name of a number.
    pub fn name(&self, number: u64) -> Option<&str> {
        self.known.get(&number)?.name.as_deref()
    }

    /// Returns the identity of a number.
    pub fn identity(&self, number: u64) -> Option<Identity> {
        Some(self.known.get(&number)?.of)
    }

    /// Returns the number of a name, if the kernel knows one.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).copied()
    }

    /// Returns the number of a name for the kernel, which forgets it as often as it was given one.
    pub fn look_up(&mut self, name: &str, of: Identity) -> u64 {
        if let Some(number) = self.number(name)
            && let Some(inode) = self.known.get_mut(&number)
            && inode.of == of
        {
            inode.lookups += 1;
            return number;
        }
        self.remove(name);
        self.last += 1;
        self.known.insert(self.last, Inode { name: Some(name.to_owned()), of, lookups: 1 });
        self.by_name.insert(name.to_owned(), self.last);
        self.last
    }

    /// The file was written through this mount: it stays the same one.
    pub fn written(&mut self, number: u64, of: Identity) {
        self.known.entry(number).and_modify(|inode| inode.of = of);
    }

    /// The kernel forgets a number so many times.
    pub fn forget(&mut self, number: u64, times: u64) {
        let Some(inode) = self.known.get_mut(&number) else { return };
        inode.lookups = inode.lookups.saturating_sub(times);
        if inode.lookups == 0
            && number != 1
            && let Some(Inode { name: Some(name), .. }) = self.known.remove(&number)
        {
            self.by_name.remove(&name);
        }
    }

    /// A name is gone; its number is of nothing any more.
    pub fn remove(&mut self, name: &str) {
        let gone = self.by_name.remove(name).and_then(|number| self.known.get_mut(&number));
        gone.into_iter().for_each(|inode| inode.name = None);
    }

    /// What has a name, and all below it, has another one.
    pub fn rename(&mut self, from: &str, to: &str) {
        self.remove(to);
        let below = joined(from, "");
        let near = self.by_name.range(from.to_owned()..).map(|(name, number)| (name, *number));
        let near = near.take_while(|(name, _)| name.starts_with(from));
        let moved = near.filter(|(name, _)| *name == from || name.starts_with(&below));
        let moved: Vec<(String, u64)> = moved.map(|(name, at)| (name.clone(), at)).collect();
        for (old, number) in moved {
            self.by_name.remove(&old);
            let name = format!("{to}{}", &old[from.len()..]);
            self.known.entry(number).and_modify(|inode| inode.name = Some(name.clone()));
            self.by_name.insert(name, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(bytes: u64) -> Listing {
        Listing::new(bytes, 1, 1)
    }

    /// The entries of a folder, found name by name.
    fn model(names: &BTreeMap<String, Listing>, folder: &str) -> BTreeMap<String, Found> {
        let mut found = BTreeMap::new();
        for (name, object) in names {
            let Some(inside) = name.strip_prefix(&joined(folder, "")) else { continue };
            let word = inside.split('/').next().unwrap_or_default().to_owned();
            let is_file = word == inside;
            if is_shown(folder, &word) && (is_file || !found.contains_key(&word)) {
                let kind = if is_file { Found::File(object.clone()) } else { Found::Folder };
                found.insert(word, kind);
            }
        }
        found
    }

    #[test]
    fn names_are_folders_as_in_a_model() {
        let words = ["a", "b", "a0", "a.", "a!", "~", "", ".", ATTRIBUTES, "\u{ef80}", ".volumes"];
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..500 {
            let mut names = BTreeMap::new();
            for bytes in 0..random.u64(0..12) {
                let picks = (0..random.usize(1..4)).map(|_| words[random.usize(..words.len())]);
                names.insert(picks.collect::<Vec<_>>().join("/"), object(bytes));
            }
            let mut folders = vec![String::new()];
            while let Some(folder) = folders.pop() {
                let listed = children(&names, &folder).unwrap();
                assert_eq!(listed, model(&names, &folder), "{folder:?} of {names:?}");
                for (word, kind) in listed {
                    let name = joined(&folder, &word);
                    assert_eq!(find(&names, &name).unwrap().as_ref(), Some(&kind), "{name:?}");
                    folders.extend((kind == Found::Folder).then_some(name));
                }
            }
        }
    }

    #[test]
    fn numbers_stay_with_what_they_are_of() {
        let (file, other) = ((0, 5, 1), (0, 5, 2));
        let mut inodes = Inodes::new("root", (1, 0, 0));
        let a = inodes.look_up("root/a", file);
        assert_eq!((inodes.look_up("root/a", file), inodes.number("root")), (a, Some(1)));
        inodes.written(a, other);
        assert_eq!(inodes.look_up("root/a", other), a);
        // Another client put it.
        let b = inodes.look_up("root/a", file);
        assert_eq!((inodes.name(a), inodes.name(b)), (None, Some("root/a")));
        inodes.forget(a, 3);
        assert_eq!((inodes.identity(a), inodes.identity(b)), (None, Some(file)));
        let [folder, deep, near] =
            ["root/f", "root/f/x", "root/f.x"].map(|name| inodes.look_up(name, file));
        inodes.rename("root/f", "root/a");
        let names = [folder, deep, near, b].map(|number| inodes.name(number).map(str::to_owned));
        let moved = [Some("root/a"), Some("root/a/x"), Some("root/f.x"), None];
        assert_eq!(names, moved.map(|name| name.map(str::to_owned)));
        inodes.remove("root/a/x");
        inodes.forget(deep, 1);
        inodes.forget(1, 9);
        assert_eq!((inodes.name(deep), inodes.name(1)), (None, Some("root")));
    }
}

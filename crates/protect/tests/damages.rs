//! Random damage against a model: every file comes back bit for bit, or is named as lost and left
//! alone.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use kiln_protect::{Check, Geometry, OWN, Report, Update, check, protect};
use kiln_store::SplitMix64;

type Tree = BTreeMap<PathBuf, (Vec<u8>, i64, u32)>;

fn bytes(random: &mut SplitMix64, len: u64) -> Vec<u8> {
    (0..len).map(|_| random.next() as u8).collect()
}

/// Content, times and modes of all files.
fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.metadata().unwrap();
        if meta.is_file() {
            let time = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
            let name = path.file_name().unwrap().into();
            found.insert(name, (fs::read(&path).unwrap(), time, meta.mode()));
        }
    }
    found
}

/// Changes a file as a bad disk does: its time stays.
fn rot(path: &Path, damage: impl Fn(&File)) {
    let file = File::options().write(true).open(path).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    damage(&file);
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
}

fn repair(root: &Path) -> Report {
    check(root, &Check { repair: true, threads: 2, ..Check::default() }, &()).unwrap()
}

/// Sizes of files: some alike, some not, some empty, one of many extents.
const SIZES: [u64; 11] = [0, 1, 100, 4096, 70_001, 70_000, 69_000, 150_000, 90_000, 33_333, 8000];

#[test]
fn random_damage_is_repaired_or_named() {
    let (mut lost, mut whole) = (0, 0);
    for seed in 0..30u64 {
        let (place, mut random) = (tempfile::tempdir().unwrap(), SplitMix64(seed));
        let root = place.path();
        for at in 0..44 {
            let path = root.join(format!("f{at:02}"));
            fs::write(path, bytes(&mut random, SIZES[at % SIZES.len()])).unwrap();
        }
        fs::write(root.join("large"), bytes(&mut random, 1_500_000)).unwrap();
        let geometry = [None, Geometry::new(20.0, 2), Geometry::new(25.0, 1)][seed as usize % 3];
        let options = Update { geometry, threads: 2, ..Update::default() };
        protect(root, &options, &()).unwrap();
        let model = tree(root);
        let mut next = |below: u64| random.next() % below.max(1);
        for _ in 0..1 + seed {
            let at = next(model.len() as u64) as usize;
            let (name, (content, ..)) = model.iter().nth(at).unwrap();
            let (path, len) = (root.join(name), content.len() as u64);
            let (kind, from, run) = (next(4), next(len), 1 + next(3000).min(len / 2) as usize);
            match kind {
                _ if !path.exists() || len == 0 => {}
                0 => fs::remove_file(path).unwrap(),
                1 => rot(&path, |file| file.set_len(from).unwrap()),
                _ => rot(&path, |file| file.write_all_at(&vec![from as u8; run], from).unwrap()),
            }
        }
        let burst = next(50_000);
        rot(&root.join(OWN).join("parity"), |file| file.write_all_at(&[1; 40], burst).unwrap());
        let before = tree(root);
        let done = repair(root);
        let after = tree(root);
        let named = done.lists.get("lost").cloned().unwrap_or_default();
        assert!(after.keys().all(|name| model.contains_key(name)), "{seed}: a part is left");
        for (name, file) in &model {
            if named.contains(&name.display().to_string()) {
                assert_eq!(after.get(name), before.get(name), "{seed}: {name:?}");
                lost += 1;
            } else {
                assert!(after.get(name) == Some(file), "{seed}: {name:?}");
                whole += usize::from(before.get(name) != Some(file));
            }
        }
    }
    assert!(lost > 20 && whole > 100, "{lost} lost, {whole} restored");
}

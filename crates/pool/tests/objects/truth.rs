//! Record of what a survey says of objects is what reading them shows: for random losses, from an
//! index that knew the pool before and from one that is made afterwards.

use std::collections::{BTreeMap, BTreeSet};

use kiln_pool::NodeFile;
use kiln_store::Backend;

use crate::{pairs::subsets, world::*};
use kiln_testkit::Random;

const SIZES: [usize; 8] = [0, 40, 90, 99, 300, 4_000, 9_000, 20_000];

/// Returns which objects can be read with these nodes away besides.
fn readable(world: &mut World, more: &BTreeSet<usize>) -> BTreeSet<usize> {
    let before = world.away.clone();
    world.away.extend(more);
    let pool = world.pool();
    let read = |at: &usize| {
        let (name, mut out) = (format!("o{at}"), Vec::new());
        let req = kiln_pool::GetRequest { name: &name, range: None };
        let is_read = pool.get(&req, &mut out, &settings()).is_ok();
        assert!(!is_read || out == data(SIZES[*at], *at as u64), "{name}");
        is_read
    };
    let all = (0..SIZES.len()).filter(read).collect();
    world.away = before;
    all
}

/// Further losses that each readable object tolerates, up to `most`.
fn margins(world: &mut World, most: i32) -> BTreeMap<usize, i32> {
    let here: Vec<usize> = (0..world.disks.len()).filter(|at| !world.away.contains(at)).collect();
    let mut margins: BTreeMap<usize, i32> =
        readable(world, &BTreeSet::new()).into_iter().map(|at| (at, most)).collect();
    for size in (1..=most as usize).rev() {
        for set in subsets(&here, size) {
            let left = readable(world, &set);
            for (at, margin) in &mut margins {
                if !left.contains(at) {
                    *margin = (*margin).min(size as i32 - 1);
                }
            }
        }
    }
    margins
}

/// Number of states; the environment may ask for more.
fn states() -> u64 {
    let given = std::env::var("KILN_STATES").ok();
    given.map_or(24, |text| text.parse().expect("KILN_STATES is a number"))
}

#[test]
fn what_a_survey_says_is_what_reading_shows() {
    let mut seen = BTreeSet::new();
    for seed in 0..states() {
        let mut random = Random(seed);
        let code = ["rs:3+2", "clay:3+2", "rs:2+1"][seed as usize % 3];
        let most = if code == "rs:2+1" { 1 } else { 2 };
        let mut world = World::new(code, 7);
        for (at, size) in SIZES.iter().enumerate() {
            world.put(&format!("o{at}"), &data(*size, at as u64)).unwrap();
        }
        let before = world.index();
        for _ in 0..random.below(6) {
            let node = random.index(7);
            let files = world.files(node);
            let data = |name: &&String| {
                let file = NodeFile::parse(name);
                matches!(file, Some(NodeFile::Shard { .. } | NodeFile::Manifest { .. }))
            };
            let files: Vec<&String> = files.iter().filter(data).collect();
            if !files.is_empty() {
                let file = files[random.index(files.len())];
                world.disks[node].memory.remove(file).unwrap();
            }
        }
        for _ in 0..random.below(4) {
            world.away.insert(random.index(7));
        }
        let mut truth: BTreeMap<i32, u64> = BTreeMap::new();
        let margins = margins(&mut world, most);
        margins.values().for_each(|margin| *truth.entry(*margin).or_default() += 1);
        let after = world.index();
        for (index, knew) in [(&before, true), (&after, false)] {
            let status = world.survey(index);
            let what = format!("seed {seed} knew {knew}: {margins:?} {status:#?}");
            let mut said = status.endangered.clone();
            // An object that lacks only a surplus copy is as good as whole.
            *said.entry(most).or_default() += status.whole;
            said.retain(|_, objects| *objects > 0);
            assert_eq!(said, truth, "{what}");
            let not = (SIZES.len() - margins.len()) as u64;
            let told = status.unreadable + status.unasked;
            assert!(if knew { told == not } else { told <= not }, "{what}");
            assert!(status.unasked == 0 || status.incomplete, "{what}");
            seen.extend(status.endangered.keys().copied());
            seen.extend((status.unreadable > 0).then_some(-1));
            seen.extend((status.unasked > 0).then_some(-2));
        }
    }
    // All of it came about.
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [-2, -1, 0, 1]);
}

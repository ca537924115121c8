//! Any sequence of writes, zeros, work, crashes and lost nodes gives what was acknowledged.

use crate::common::*;
use kiln_volume::{Op, OwnedOp, Volume};

/// A write or a range of zeros somewhere, mostly in whole blocks, mostly in a part that is hot.
fn planned(random: &mut Random, size: u64) -> OwnedOp {
    let block = BLOCK as u64;
    let blocks = size / block;
    let hot = if random.below(3) == 0 { blocks } else { (blocks / 8).max(1) };
    let first = random.below(hot) * block;
    let (offset, len) = match random.below(8) {
        0 => (first + random.below(block), 1 + random.below(3 * block)),
        1 => (first, (1 + random.below(40)) * block),
        _ => (first, (1 + random.below(3)) * block),
    };
    let offset = offset.min(size - 1);
    let len = len.min(size - offset);
    match random.below(6) {
        0 => OwnedOp::Zero { offset, len },
        _ => OwnedOp::Write { offset, bytes: random.bytes(len as usize).into() },
    }
}

fn work(volume: &Volume, random: &mut Random) {
    for _ in 0..random.below(3) {
        volume.seal().unwrap();
    }
    for _ in 0..random.below(3) {
        volume.keep().unwrap();
    }
}

fn play(code: &str, nodes: usize, m: usize, seed: u64) {
    let (mut random, size) = (Random(seed), 3 << 20);
    let mut cluster = Cluster::new(code, nodes);
    let mut model = Model(vec![0; size as usize]);
    Volume::create(&cluster.rim(&[], seed), "v", &small(size)).unwrap();
    let mut volume = open(&cluster.rim(&[], seed));
    for step in 0..600 {
        let what = format!("{code}, seed {seed}, step {step}");
        let all: Vec<OwnedOp> =
            (0..1 + random.below(4)).map(|_| planned(&mut random, size)).collect();
        let ops: Vec<Op<'_>> = all.iter().map(OwnedOp::as_op).collect();
        volume.write(&ops).unwrap_or_else(|error| panic!("{what}: {error}"));
        model.apply(&ops);
        work(&volume, &mut random);
        match random.below(60) {
            0..=2 => {
                if random.below(3) == 0 {
                    volume.close().unwrap_or_else(|error| panic!("{what}: {error}"));
                }
                drop(volume);
                cluster.crash(random.next());
                // Some nodes do not come back for a while.
                let all = cluster.nodes();
                let mut away: Vec<&str> = Vec::new();
                for _ in 0..random.below(m as u64 + 1) {
                    away.push(&all[random.below(all.len() as u64) as usize]);
                }
                volume = open(&cluster.rim(&away, random.next()));
                model.check(&volume, &what);
            }
            3..=8 => model.check(&volume, &what),
            _ => {}
        }
    }
    model.check(&volume, "in the end");
}

/// Power cuts that meet a write, at any operation of any disk.
fn play_cuts(code: &str, nodes: usize, seed: u64) {
    let (mut random, size) = (Random(seed), 1 << 20);
    let mut cluster = Cluster::new(code, nodes);
    let mut model = Model(vec![0; size as usize]);
    Volume::create(&cluster.rim(&[], seed), "v", &small(size)).unwrap();
    for turn in 0..25 {
        let what = format!("{code}, cuts, seed {seed}, turn {turn}");
        let volume = open(&cluster.rim(&[], random.next()));
        model.check(&volume, &what);
        let cut = random.below(8);
        for step in 0.. {
            if step == cut {
                cluster.cut(&mut random, 80);
            }
            let all: Vec<OwnedOp> =
                (0..1 + random.below(3)).map(|_| planned(&mut random, size)).collect();
            let ops: Vec<Op<'_>> = all.iter().map(OwnedOp::as_op).collect();
            if volume.write(&ops).is_ok() {
                model.apply(&ops);
                // Failures in the background lose nothing.
                let _ = (volume.seal(), volume.keep());
                continue;
            }
            drop(volume);
            cluster.crash(random.next());
            model.settle(&ops, &open(&cluster.rim(&[], random.next())), &what);
            break;
        }
        // The reader's log is left as after a crash.
        cluster.crash(random.next());
    }
}

#[test]
fn a_cut_that_meets_a_write_leaves_old_or_new_blocks() {
    let (seeds, first) = seeds();
    for seed in first..first + seeds {
        match seed % 3 {
            0 => play_cuts("rs:2+1", 5, seed),
            1 => play_cuts("rep:3", 7, seed),
            _ => play_cuts("clay:4+2", 9, seed),
        }
    }
}

/// Returns the number of seeds, and the first.
pub fn seeds() -> (u64, u64) {
    let number = |name, usual| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    (number("KILN_VOLUME_SEEDS", 4), number("KILN_VOLUME_FIRST", 0))
}

#[test]
fn what_was_acknowledged_is_read() {
    let (seeds, first) = seeds();
    for seed in first..first + seeds {
        // With 2 m + 1 nodes more, so that a log has other nodes to go to.
        match seed % 4 {
            0 => play("rs:4+2", 9, 2, seed),
            1 => play("clay:4+2", 9, 2, seed),
            2 => play("rep:3", 7, 2, seed),
            _ => play("rs:2+1", 5, 1, seed),
        }
    }
}

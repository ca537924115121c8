//! The fault sweep: a power cut, a failure, a full disk and a lost disk at any operation of
//! all that a writer does; and another writer that comes at any of them. A process that opens the
//! volume then finds what was acknowledged, and of what was not, each block whole or as it
//! was.

use std::sync::{Arc, Mutex};

use kiln_testkit::{Failing, Fuse};
use kiln_volume::{OpenRequest, Statistics, Volume, VolumeError};

use crate::common::*;
use crate::history::{Change, History};

const SIZE: u64 = 768 << 10;
const CODE: &str = "rs:3+2";
const NODES: usize = 8;

/// A pool with a volume that was written over and over, so that all that a writer does is due.
fn prepared() -> (Cluster, History) {
    let cluster = Cluster::new(CODE, NODES);
    let rim = cluster.rim(&[], 1);
    let (mut history, mut random) = (History::new(SIZE), Random(9));
    Volume::create(&rim, "v", &small(SIZE)).unwrap();
    let volume = open(&rim);
    for step in 0..130 {
        let plan = history.plan(&mut random);
        history.write(&volume, &plan).unwrap();
        volume.seal().unwrap();
        if step < 120 {
            volume.keep().unwrap();
        }
    }
    drop(volume);
    (cluster, history)
}

/// Plays a writer, whatever fails, until it is fenced.
fn play(volume: &Volume, history: &mut History, random: &mut Random, stop: bool) -> bool {
    for step in 0..28 {
        let plan = history.plan(random);
        match history.write(volume, &plan) {
            Ok(()) => {}
            Err(VolumeError::Deposed { .. }) => return false,
            Err(_) if stop => return true,
            Err(_) => {}
        }
        // Failures in the background lose nothing.
        let _ = (volume.seal(), volume.keep(), volume.keep());
        let _ = volume.attend();
        let _ = match step {
            14 => volume.keep_snapshot("half"),
            19 => volume.drop_snapshot("half"),
            22 => history.grow(volume, SIZE as usize / BLOCK + 1),
            24 => volume.keep_snapshot("late"),
            _ => Ok(()),
        };
    }
    let _ = volume.close();
    true
}

/// Returns the number of operations, and the history.
fn length(cluster: &Cluster, history: &History) -> (i64, Statistics) {
    let fuse = Fuse::new(Failing::Kill, 1 << 40);
    let (cluster, mut history) = (cluster.copy(5), history.clone());
    let volume = opened(&cluster, &fuse);
    history.opened(&volume, "without faults");
    assert!(play(&volume, &mut history, &mut Random(3), true));
    let after = cluster.copy(6);
    history.opened(&open(&after.rim(&[], 4)), "without faults, afterwards");
    ((1 << 40) - fuse.left(), volume.status().statistics)
}

fn opened(cluster: &Cluster, fuse: &Arc<Fuse>) -> Volume {
    open(&through(cluster, fuse))
}

fn through(cluster: &Cluster, fuse: &Arc<Fuse>) -> Arc<kiln_volume::Rim> {
    let (memory, fuse) = (cluster.memory.clone(), Arc::clone(fuse));
    cluster.rim_on(&[], 2, move |id| fuse.wrap(id, Arc::new(memory[id].clone())))
}

/// Returns whether all operations are struck, or one in some.
fn stride(usual: usize) -> usize {
    std::env::var("KILN_VOLUME_SWEEP").map_or(usual, |text| text.parse().unwrap())
}

fn strike(cluster: &Cluster, history: &History, failing: Failing, at: i64) {
    let what = format!("{failing:?} at {at}");
    let (cluster, mut history) = (cluster.copy(5), history.clone());
    let fuse = Fuse::new(failing, at);
    let rim = through(&cluster, &fuse);
    match Volume::open(&rim, "v", &OpenRequest::of("struck")) {
        Ok(volume) => {
            let cut = failing == Failing::Kill;
            // The power may go in what an opening does last, and can do without.
            if !(cut && fuse.left() < 0) {
                history.opened(&volume, &what);
            }
            assert!(play(&volume, &mut history, &mut Random(3), cut), "{what}: deposed by nobody");
            if !cut {
                history.check(&volume, &what);
            }
        }
        Err(error) => assert!(fuse.left() < 0, "{what}: {error}"),
    }
    // The power goes; a disk that was lost stays lost.
    let after = cluster.copy(at as u64);
    let lost = fuse.struck().filter(|_| failing == Failing::Lost);
    let without: Vec<&str> = lost.iter().map(String::as_str).collect();
    let volume = Volume::open(&after.rim(&without, 4), "v", &OpenRequest::of("after"));
    let volume = volume.unwrap_or_else(|error| panic!("{what}: afterwards: {error}"));
    history.opened(&volume, &what);
    // And it goes on.
    assert!(play(&volume, &mut history, &mut Random(8), false), "{what}: afterwards deposed");
    let last = after.copy(7);
    history.opened(&open(&last.rim(&without, 5)), &format!("{what}, in the end"));
}

#[test]
fn a_fault_at_any_operation_loses_nothing_that_was_acknowledged() {
    let (cluster, history) = prepared();
    let (all, did) = length(&cluster, &history);
    let each = [did.sealed, did.long, did.cleaned, did.checkpoints, did.removed];
    assert!(each.iter().all(|count| *count > 0), "{did:?}");
    for (from, failing) in
        [Failing::Kill, Failing::Error, Failing::Full, Failing::Lost].into_iter().enumerate()
    {
        let step = stride(331);
        for at in (from * step / 4..all as usize).step_by(step) {
            strike(&cluster, &history, failing, at as i64);
        }
    }
}

/// Findings and writes of a rival.
struct Found {
    history: History,
    volume: Volume,
}

/// Another writer comes while an operation of the first one is under way.
fn rival(cluster: &Cluster, history: &History, at: i64) {
    let what = format!("a rival at {at}");
    let (cluster, history) = (Arc::new(cluster.copy(5)), history.clone());
    let history = Arc::new(Mutex::new(history));
    let fuse = Fuse::new(Failing::Rival, at);
    let found: Arc<Mutex<Option<Found>>> = Arc::default();
    let first = opened(&cluster, &fuse);
    history.lock().unwrap().opened(&first, &what);
    fuse.then({
        let (cluster, history, found) = (cluster.clone(), history.clone(), found.clone());
        let what = what.clone();
        move || {
            let take = OpenRequest { take_over: true, ..OpenRequest::of("rival") };
            let volume = Volume::open(&cluster.rim(&[], 11), "v", &take).unwrap();
            let mut history = history.lock().unwrap();
            history.opened(&volume, &what);
            let seen = history.clone();
            for _ in 0..3 {
                let plan = history.plan(&mut Random(at as u64));
                history.write(&volume, &plan).unwrap();
            }
            *found.lock().unwrap() = Some(Found { history: seen, volume });
        }
    });
    let mut random = Random(3);
    for _ in 0..28 {
        let plan: Vec<Change> = history.lock().unwrap().plan(&mut random);
        let before = found.lock().unwrap().is_some();
        if !before {
            history.lock().unwrap().begin(&plan);
        }
        let end = first.write(&plan.iter().map(Change::op).collect::<Vec<_>>());
        let now = found.lock().unwrap();
        match (&*now, end) {
            (None, end) => {
                end.unwrap_or_else(|error| panic!("{what}: {error}"));
                history.lock().unwrap().acknowledge(&plan);
            }
            (Some(_), Ok(())) if before => panic!("{what}: a deposed writer acknowledged"),
            // It came while this was under way: then it has seen it.
            (Some(found), Ok(())) => assert!(found.history.has(&plan), "{what}: not seen"),
            (Some(_), Err(VolumeError::Deposed { .. })) => break,
            (Some(_), Err(error)) => panic!("{what}: {error}"),
        }
        drop(now);
        let _ = (first.seal(), first.keep(), first.keep());
    }
    let before = found.lock().unwrap().is_some();
    let end = first.close();
    let Some(Found { volume, .. }) = found.lock().unwrap().take() else { return };
    // Else it may have come when all was closed but for the log's files.
    let deposed = matches!(end, Err(VolumeError::Deposed { .. }));
    assert!(deposed || !before, "{what}: {end:?}");
    let mut history = history.lock().unwrap().clone();
    history.check(&volume, &what);
    assert!(play(&volume, &mut history, &mut Random(8), false), "{what}: the rival is deposed");
    history.opened(&open(&cluster.copy(3).rim(&[], 5)), &format!("{what}, in the end"));
}

#[test]
fn a_rival_at_any_operation_finds_what_was_acknowledged_and_is_the_only_one() {
    let (cluster, history) = prepared();
    let (all, _) = length(&cluster, &history);
    for at in (0..all as usize).step_by(stride(97)) {
        rival(&cluster, &history, at as i64);
    }
}

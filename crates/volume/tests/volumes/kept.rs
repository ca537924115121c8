//! Snapshots and clones, and what else is done with a volume in use.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use kiln_pool::{NodeConfig, Pool};
use kiln_testkit::{Failing, Fuse};
use kiln_volume::{LiveChange, Op, OpenRequest, Rim, Volume, VolumeError};

use crate::common::*;
use crate::history::History;

const SIZE: u64 = 768 << 10;

/// A volume with a writer, with all that is done behind it.
fn begun() -> (Cluster, Volume, History, Random) {
    let cluster = Cluster::new("rs:3+2", 8);
    let rim = cluster.rim(&[], 1);
    Volume::create(&rim, "v", &small(SIZE)).unwrap();
    (cluster, open(&rim), History::new(SIZE), Random(21))
}

fn write(volume: &Volume, history: &mut History, random: &mut Random, steps: usize) {
    for _ in 0..steps {
        let plan = history.plan(random);
        history.write(volume, &plan).unwrap();
        volume.seal().unwrap();
        volume.keep().unwrap();
    }
}

#[test]
fn a_volume_in_use_is_kept_and_cloned_and_its_writer_goes_on() {
    let (cluster, volume, mut history, mut random) = begun();
    write(&volume, &mut history, &mut random, 60);
    volume.keep_snapshot("one").unwrap();
    let mut kept = history.clone();
    write(&volume, &mut history, &mut random, 60);
    // A clone changes what is said of its origin, under the writer.
    let other = cluster.rim(&[], 2);
    Volume::clone_snapshot(&other, "v", "one", "clone").unwrap();
    write(&volume, &mut history, &mut random, 60);
    let clone = Volume::open(&other, "clone", &OpenRequest::of("clone")).unwrap();
    kept.opened(&clone, "the clone");
    write(&clone, &mut kept, &mut random, 30);
    clone.close().unwrap();
    history.check(&volume, "the origin");
    let error = volume.keep_snapshot("one").unwrap_err();
    assert!(error.to_string().contains("already"), "{error}");
    // After a power cut all of it is there.
    let after = cluster.copy(5);
    history.opened(&open(&after.rim(&[], 3)), "the origin, after a cut");
    let clone = Volume::open(&after.rim(&[], 4), "clone", &OpenRequest::of("after")).unwrap();
    kept.opened(&clone, "the clone, after a cut");
}

/// Sends a change to the volume's server, which answers at the second wait.
fn asked(rim: &Rim, volume: &Volume, change: LiveChange<'_>) -> Result<(), VolumeError> {
    let mut waited = 0;
    Volume::ask(rim, "v", change, || {
        waited += 1;
        if waited == 2 {
            volume.answer().unwrap();
        }
        waited < 5
    })
}

fn snapshots(rim: &Rim, name: &str) -> Vec<String> {
    let info = Volume::info(rim, name).unwrap();
    info.snapshots.into_iter().map(|kept| kept.name).collect()
}

#[test]
fn whoever_wants_a_change_asks_who_uses_the_volume() {
    let (cluster, volume, mut history, mut random) = begun();
    write(&volume, &mut history, &mut random, 20);
    let rim = cluster.rim(&[], 2);
    let error = Volume::snapshot(&rim, "v", "one", "test").unwrap_err();
    assert!(matches!(error, VolumeError::InUse { .. }), "{error}");
    // No server answers: nothing stays.
    let (one, away) = (LiveChange::Snapshot("one"), LiveChange::RemoveSnapshot("one"));
    let error = Volume::ask(&rim, "v", one, || false).unwrap_err();
    assert!(error.to_string().contains("did not answer"), "{error}");
    volume.answer().unwrap();
    assert!(snapshots(&rim, "v").is_empty());
    asked(&rim, &volume, one).unwrap();
    assert_eq!(snapshots(&rim, "v"), ["one"]);
    for (wrong, why) in [
        (one, "already"),
        (LiveChange::Snapshot("a@b"), "cannot be a snapshot's name"),
        (LiveChange::RemoveSnapshot("two"), "there are: one"),
        (LiveChange::Grow(SIZE + 1), "whole blocks"),
        (LiveChange::Grow(SIZE - 4096), "smaller only when nobody uses it"),
    ] {
        let error = Volume::ask(&rim, "v", wrong, || true).unwrap_err();
        assert!(matches!(error, VolumeError::Usage { .. }), "{wrong}: {error}");
        assert!(error.to_string().contains(why), "{wrong}: {error}");
    }
    asked(&rim, &volume, away).unwrap();
    assert!(snapshots(&rim, "v").is_empty());
    asked(&rim, &volume, LiveChange::Snapshot("old")).unwrap();
    // A refusal stays for the client that asked.
    let refused = Volume::ask(&rim, "v", LiveChange::RemoveSnapshot("old"), || {
        Volume::clone_snapshot(&rim, "v", "old", "clone").unwrap();
        volume.answer().unwrap();
        let busy = Volume::ask(&rim, "v", one, || false).unwrap_err();
        assert!(busy.to_string().contains("another client asks"), "{busy}");
        true
    });
    assert!(refused.unwrap_err().to_string().contains("is a clone of"));
    // Two at once: the second one gets an error that names the first.
    let end = Volume::ask(&rim, "v", LiveChange::Grow(2 * SIZE), || {
        let error = Volume::ask(&rim, "v", one, || true).unwrap_err();
        assert!(error.to_string().contains("asks for a size of 1572864 bytes"), "{error}");
        volume.answer().unwrap();
        true
    });
    end.unwrap();
    asked(&rim, &volume, LiveChange::Grow(2 * SIZE)).unwrap();
    assert_eq!((volume.size(), Volume::info(&rim, "v").unwrap().size), (2 * SIZE, 2 * SIZE));
    volume.write(&[Op::Write { offset: 2 * SIZE - 4096, bytes: &[5; 4096] }]).unwrap();
    let mut there = [1; 8192];
    volume.read(2 * SIZE - 8192, &mut there).unwrap();
    assert!(there[..4096] == [0; 4096] && there[4096..] == [5; 4096]);
    // As a checkpoint and a power cut leave it, too.
    write(&volume, &mut history, &mut random, 60);
    let after = open(&cluster.copy(5).rim(&[], 3));
    let [mut before, mut now] = [1, 2].map(|fill| vec![fill; 2 * SIZE as usize]);
    volume.read(0, &mut before).unwrap();
    after.read(0, &mut now).unwrap();
    assert!(after.size() == 2 * SIZE && before == now && now.ends_with(&[5; 4096]));
    volume.close().unwrap();
}

#[test]
fn a_client_that_asks_between_look_and_put_of_another_one_keeps_its_request() {
    let (cluster, volume, ..) = begun();
    let later = cluster.rim(&[], 3);
    let ((asks, is_asked), (go, goes)) = (mpsc::channel(), mpsc::channel::<()>());
    let later = std::thread::spawn(move || {
        let _ = goes.recv();
        Volume::ask(&later, "v", LiveChange::Snapshot("two"), || {
            asks.send(()).is_ok() && goes.recv().is_ok()
        })
    });
    let open = |node: &NodeConfig| Ok(Arc::new(cluster.disks[&node.id].clone()) as _);
    let (turns, ids) = (Mutex::new((go.clone(), Some(is_asked))), AtomicU8::new(1));
    // The first client wants an identity when it has looked, and is about to put.
    let id = move || {
        let (go, is_asked) = &mut *turns.lock().unwrap();
        is_asked.take().into_iter().for_each(|is_asked| {
            go.send(()).unwrap();
            is_asked.recv().unwrap();
        });
        [ids.fetch_add(1, Ordering::Relaxed); 16]
    };
    let pool = Pool::open(cluster.config.clone(), &open).unwrap();
    let first = Rim::new(pool, id, || 1_700_000_000_000);
    let end = Volume::ask(&first, "v", LiveChange::Snapshot("one"), || false);
    assert!(end.unwrap_err().to_string().contains("asks for a snapshot \"two\""));
    volume.answer().unwrap();
    go.send(()).unwrap();
    later.join().unwrap().unwrap();
    assert_eq!(snapshots(&cluster.rim(&[], 4), "v"), ["two"]);
}

#[test]
fn what_a_removed_snapshot_alone_needed_goes_while_the_volume_is_in_use() {
    let (cluster, volume, mut history, mut random) = begun();
    write(&volume, &mut history, &mut random, 60);
    volume.keep_snapshot("one").unwrap();
    write(&volume, &mut history, &mut random, 60);
    volume.keep_snapshot("two").unwrap();
    let second = history.clone();
    write(&volume, &mut history, &mut random, 60);
    let removed_by = |removes: bool| {
        let volume = open(&cluster.copy(5).rim(&[], 7));
        if removes {
            volume.drop_snapshot("one").unwrap();
        }
        volume.close().unwrap();
        volume.status().statistics.removed
    };
    assert!(removed_by(true) > removed_by(false));
    let other = cluster.rim(&[], 2);
    Volume::clone_snapshot(&other, "v", "two", "clone").unwrap();
    let error = volume.drop_snapshot("two").unwrap_err();
    assert!(error.to_string().contains("\"clone\" is a clone of v@two"), "{error}");
    volume.drop_snapshot("one").unwrap();
    write(&volume, &mut history, &mut random, 200);
    let error = Volume::clone_snapshot(&other, "v", "one", "late").unwrap_err();
    assert!(error.to_string().contains("there are: two"), "{error}");
    // What the other one needs is there, before and after a power cut.
    let mut kept = second.clone();
    let clone = Volume::open(&other, "clone", &OpenRequest::of("clone")).unwrap();
    kept.opened(&clone, "the clone");
    clone.close().unwrap();
    history.check(&volume, "the origin");
    let after = cluster.copy(5);
    history.clone().opened(&open(&after.rim(&[], 3)), "the origin, after a cut");
    let clone = Volume::open(&after.rim(&[], 4), "clone", &OpenRequest::of("after")).unwrap();
    second.clone().opened(&clone, "the clone, after a cut");
    // The rest goes when its clone is gone.
    let none = |_: &str| Ok(Vec::new());
    Volume::remove(&other, "clone", &none, "test").unwrap();
    volume.drop_snapshot("two").unwrap();
    write(&volume, &mut history, &mut random, 60);
    volume.close().unwrap();
    history.opened(&open(&cluster.rim(&[], 6)), "in the end");
}

#[test]
fn a_clones_snapshot_leaves_its_origin_what_both_share() {
    let (cluster, volume, mut history, mut random) = begun();
    write(&volume, &mut history, &mut random, 60);
    volume.keep_snapshot("one").unwrap();
    let kept = history.clone();
    write(&volume, &mut history, &mut random, 60);
    let rim = cluster.rim(&[], 2);
    // Its first snapshot has the map that it was cloned with.
    for (clone, in_use) in [("quiet", false), ("busy", true)] {
        Volume::clone_snapshot(&rim, "v", "one", clone).unwrap();
        Volume::snapshot(&rim, clone, "first", "test").unwrap();
        let opened = Volume::open(&rim, clone, &OpenRequest::of("clone")).unwrap();
        let mut changed = kept.clone();
        changed.opened(&opened, clone);
        write(&opened, &mut changed, &mut random, 30);
        if in_use {
            opened.drop_snapshot("first").unwrap();
        }
        opened.close().unwrap();
        if !in_use {
            Volume::remove_snapshot(&rim, clone, "first", "test").unwrap();
        }
        assert!(snapshots(&rim, clone).is_empty());
    }
    drop(volume);
    let after = cluster.copy(5);
    history.opened(&open(&after.rim(&[], 3)), "the origin");
    let rim = after.rim(&[], 4);
    Volume::clone_snapshot(&rim, "v", "one", "again").unwrap();
    let again = Volume::open(&rim, "again", &OpenRequest::of("again")).unwrap();
    kept.clone().opened(&again, "another clone");
}

#[test]
fn a_clone_that_never_came_to_be_keeps_no_snapshot() {
    let (cluster, volume, mut history, mut random) = begun();
    write(&volume, &mut history, &mut random, 20);
    volume.keep_snapshot("one").unwrap();
    volume.close().unwrap();
    // The maker of a clone dies at some operation; only one that was made stands in the way.
    let (mut made, mut cut) = (0, 0);
    for at in 0.. {
        let cluster = cluster.copy(at);
        let fuse = Fuse::new(Failing::Kill, at as i64);
        let (memory, wrap) = (cluster.memory.clone(), fuse.clone());
        let rim = cluster.rim_on(&[], 2, move |id| wrap.wrap(id, Arc::new(memory[id].clone())));
        let end = Volume::clone_snapshot(&rim, "v", "one", "clone");
        let after = cluster.copy(at);
        let rim = after.rim(&[], 3);
        match Volume::open(&rim, "clone", &OpenRequest::of("test")) {
            Ok(clone) => {
                history.clone().opened(&clone, "the clone");
                clone.close().unwrap();
                let error = Volume::remove_snapshot(&rim, "v", "one", "test").unwrap_err();
                assert!(error.to_string().contains("is a clone of v@one"), "{error}");
                Volume::remove(&rim, "clone", &|_| Ok(Vec::new()), "test").unwrap();
                made += 1;
            }
            Err(VolumeError::NoVolume { .. }) => {
                assert!(end.is_err(), "at {at}: a clone that was made is gone");
                cut += 1;
            }
            Err(error) => panic!("at {at}: {error}"),
        }
        Volume::remove_snapshot(&rim, "v", "one", "test").unwrap();
        history.clone().opened(&open(&rim), "the origin");
        if fuse.left() > 0 {
            end.unwrap();
            break;
        }
    }
    assert!(made > 5 && cut > 5, "{made} made, {cut} cut off");
}

//! Snapshots and clones of a volume in use.

use kiln_volume::{Op, OpenRequest, Volume, VolumeError};

use crate::common::*;
use crate::history::History;

const SIZE: u64 = 768 << 10;

/// A volume that somebody writes, with all that is done behind it.
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

#[test]
fn whoever_wants_a_snapshot_asks_who_uses_the_volume() {
    let (cluster, volume, mut history, mut random) = begun();
    write(&volume, &mut history, &mut random, 20);
    let rim = cluster.rim(&[], 2);
    let error = Volume::snapshot(&rim, "v", "one", "test").unwrap_err();
    assert!(matches!(error, VolumeError::InUse { .. }), "{error}");
    // Nobody answers: nothing stays.
    let error = Volume::ask_for_snapshot(&rim, "v", "one", || false).unwrap_err();
    assert!(error.to_string().contains("did not answer"), "{error}");
    volume.answer().unwrap();
    assert!(Volume::info(&rim, "v").unwrap().snapshots.is_empty());
    let mut asked = 0;
    Volume::ask_for_snapshot(&rim, "v", "one", || {
        asked += 1;
        if asked == 2 {
            volume.answer().unwrap();
        }
        asked < 5
    })
    .unwrap();
    let names: Vec<String> =
        Volume::info(&rim, "v").unwrap().snapshots.into_iter().map(|kept| kept.name).collect();
    assert_eq!(names, ["one"]);
    let error = Volume::ask_for_snapshot(&rim, "v", "one", || true).unwrap_err();
    assert!(error.to_string().contains("already"), "{error}");
    let error = Volume::ask_for_snapshot(&rim, "v", "a@b", || true).unwrap_err();
    assert!(matches!(error, VolumeError::Usage { .. }), "{error}");
    volume.write(&[Op::Zero { offset: 0, len: 4096 }]).unwrap();
    volume.close().unwrap();
}

//! The contract of backends for every row of the table of places, for wrappers, and with faults.

use kiln_store::{
    Absent, BACKENDS, Backend, MemoryBackend, NewFile, Opening, Operation, PacedBackend, ReadMode,
    StagedBackend, open_place, write_whole,
};
use kiln_testkit::{
    Bucket, Fault, FaultAction, FaultyBackend, battery::check_all, battery::read, pattern,
};
use std::{io::ErrorKind, sync::Arc};

fn files(disk: &dyn Backend) -> &dyn Backend {
    disk
}

/// Makes a fresh place.
type Fresh<'a> = &'a mut dyn FnMut() -> Arc<dyn Backend>;

/// Every row in every way of opening it, and a place that can do little.
fn each_place(see: &mut dyn FnMut(&str, Fresh<'_>)) {
    for row in BACKENDS {
        for reads in [ReadMode::Cached, ReadMode::DIRECT] {
            for absent in [Absent::Create, Absent::CreateWhenWritten] {
                let example = row.examples()[0];
                let mut folders = Vec::new();
                let (scheme, _) = example.split_once("://").unwrap();
                see(&format!("{example} {reads:?} {absent:?}"), &mut || {
                    let folder = tempfile::tempdir().unwrap();
                    let url = format!("{scheme}://{}/x", folder.path().display());
                    folders.push(folder);
                    let confined = absent == Absent::Create;
                    let opening = Opening { absent, reads, confined };
                    open_place(BACKENDS, url.as_ref(), opening).unwrap()
                });
            }
        }
    }
    see("bucket", &mut || Arc::new(Bucket::default()));
    see("bucket, served", &mut || {
        Arc::new(StagedBackend::new(Arc::new(Bucket::default()), Arc::new(MemoryBackend::new())))
    });
}

#[test]
fn every_backend_keeps_the_contract() {
    each_place(&mut |what, fresh| {
        check_all(what, fresh);
        let wrapped = &mut || Arc::new(FaultyBackend::new(fresh())) as Arc<dyn Backend>;
        check_all(&format!("{what}, wrapped"), wrapped);
        let paced = &mut || Arc::new(PacedBackend::new(fresh(), 1 << 40)) as Arc<dyn Backend>;
        check_all(&format!("{what}, limited"), paced);
    });
    assert!(BACKENDS.iter().all(|row| !row.about().is_empty()));
}

/// The old file, or the new one whole: whatever step fails, and however often.
#[test]
fn a_file_that_fails_at_any_step_leaves_the_old_one() {
    each_place(&mut |what, fresh| {
        for step in 0..20 {
            for always in [false, true] {
                let disk = FaultyBackend::new(fresh());
                write_whole(&disk, "a", b"old").unwrap();
                let fault = Fault::new(FaultAction::Fail(ErrorKind::Other)).after(step);
                disk.inject(if always { fault.always() } else { fault });
                let outcome = files(&disk).create(&NewFile::named("a")).and_then(|mut file| {
                    file.write(&pattern(600))?;
                    file.write(&pattern(40))?;
                    // An error that nobody looks at must not make the file.
                    let _ = file.sync();
                    file.complete()
                });
                disk.heal();
                let expected = if outcome.is_ok() {
                    [pattern(600), pattern(40)].concat()
                } else {
                    b"old".to_vec()
                };
                assert!(read(&disk, "a") == expected, "{what}: step {step}, {always}");
                assert!(outcome.is_ok() || step < 8, "{what}: step {step}");
            }
        }
    });
}

#[test]
fn a_power_cut_leaves_the_old_file_or_the_new_one() {
    let disk = MemoryBackend::new();
    write_whole(&disk, "a", b"old").unwrap();
    let check = |completed: bool| {
        for seed in 0..200 {
            let bytes = disk.crash(seed).bytes("a");
            let (old, new) = (bytes.as_deref() == Some(b"old"), bytes == Some(pattern(3000)));
            assert!(if completed { new } else { old }, "seed {seed}, {completed}");
        }
    };
    let mut file = files(&disk).create(&NewFile::named("a")).unwrap();
    check(false);
    file.write(&pattern(3000)).unwrap();
    check(false);
    file.sync().unwrap();
    check(false);
    file.complete().unwrap();
    check(true);
}

#[test]
fn faults_find_uploads_by_operation() {
    let disk = FaultyBackend::new(Arc::new(Bucket::default()));
    let full = FaultAction::Fail(ErrorKind::StorageFull);
    for operation in [Operation::Create, Operation::Write, Operation::Sync, Operation::Complete] {
        disk.inject(Fault::new(full.clone()).on(operation));
        let failed = files(&disk).create(&NewFile::named("a")).and_then(|mut file| {
            file.write(b"a")?;
            file.sync()?;
            file.complete()
        });
        assert!(failed.unwrap_err().is_full() && disk.list().unwrap().is_empty());
    }
    write_whole(&disk, "a", b"a").unwrap();
}

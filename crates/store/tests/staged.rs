//! Places of objects that are served as places of files.

use kiln_store::{
    Backend, BatchFiles, MemoryBackend, SERVED_BY, StagedBackend, StoreError, write_whole,
};
use kiln_testkit::{Bucket, Fault, FaultAction, FaultyBackend, battery::read};
use std::{io::ErrorKind, sync::Arc};

/// A name is that of the old file, or of the new one whole, wherever it fails, in the store or
/// in the folder; and doing it again completes it.
#[test]
fn a_rename_that_fails_at_any_step_can_be_done_again() {
    let new: Vec<u8> = (0..9_000_000u32).map(|i| (i % 251) as u8).collect();
    for in_folder in [false, true] {
        for step in 0..12 {
            let store = FaultyBackend::new(Arc::new(Bucket::default()));
            let parts = FaultyBackend::new(Arc::new(MemoryBackend::new()));
            let served = StagedBackend::new(Arc::new(store.clone()), Arc::new(parts.clone()));
            write_whole(&served, "a", b"old").unwrap();
            served.write_all(&[(".a.part", &new)])[0].as_ref().unwrap();
            let fault = Fault::new(FaultAction::Fail(ErrorKind::Other)).after(step);
            if in_folder {
                parts.inject(fault)
            } else {
                store.inject(fault)
            }
            let end = served.rename(".a.part", "a");
            parts.heal();
            store.heal();
            let now = read(&served, "a");
            assert!(now == new || (end.is_err() && now == b"old"), "step {step}");
            if end.is_err() {
                served.rename(".a.part", "a").unwrap();
            }
            assert!(read(&served, "a") == new);
            assert_eq!(served.list().unwrap(), ["a"]);
        }
    }
}

#[test]
fn an_object_that_is_added_to_is_taken_and_hidden_until_it_is_renamed() {
    let bucket = Arc::new(Bucket::default());
    write_whole(&*bucket, "log", b"0123456789").unwrap();
    let served = StagedBackend::new(bucket.clone(), Arc::new(MemoryBackend::new()));
    let error = served.append("log", 11).err().unwrap();
    assert!(matches!(error, StoreError::Truncated { need: 11, have: 10, .. }), "{error}");
    served.append("log", 7).unwrap().append(b"x").unwrap();
    assert_eq!((read(&served, "log"), read(&*bucket, "log").len()), (b"0123456x".into(), 10));
    served.append(".log.part", 0).unwrap().append(b"new").unwrap();
    served.rename(".log.part", "log").unwrap();
    assert_eq!((read(&served, "log"), read(&*bucket, "log")), (b"new".into(), b"new".into()));
    served.append("log", 3).unwrap().append(b"er").unwrap();
    served.remove("log").unwrap();
    assert!(served.list().unwrap().is_empty() && bucket.list().unwrap().is_empty());
}

#[test]
fn a_folder_is_of_one_place_and_one_program_at_a_time() {
    let bucket = Arc::new(Bucket::default());
    let parts = Arc::new(MemoryBackend::new());
    write_whole(&*parts, "hint", b"old").unwrap();
    let serve = |store: Arc<dyn Backend>| {
        StagedBackend::serve(store, parts.clone(), "host a", "1", false, &["hint"])
    };
    let served = serve(bucket.clone()).unwrap();
    assert!(served.list().unwrap().is_empty(), "what says so is not shown");
    assert_eq!(StagedBackend::served_by(&*bucket).unwrap().unwrap(), "host a");
    assert!(serve(bucket.clone()).unwrap_err().to_string().contains("another program"));
    drop(served);
    assert_eq!(StagedBackend::served_by(&*bucket).unwrap(), None);
    let other = Arc::new(MemoryBackend::new());
    assert!(serve(other).unwrap_err().to_string().contains("parts of bucket"));
    // One that was killed leaves its word, and is known by it.
    write_whole(&*bucket, SERVED_BY, b"1\nhost a").unwrap();
    serve(bucket).unwrap();
}

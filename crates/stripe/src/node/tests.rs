use super::*;
use crate::Observer;
use kiln_store::{Extensions, Locks, MemoryBackend, Result as Stored};
use std::{sync::Mutex, sync::atomic::AtomicUsize, sync::atomic::Ordering::Relaxed, time::Instant};

/// Keeps what is said.
#[derive(Default)]
struct Said(Mutex<Vec<String>>);

impl Observer for Said {
    fn warn(&self, message: &str) {
        self.0.lock().unwrap().push(message.to_owned());
    }
}

impl Said {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A folder on a file system without locks, or one whose lock a process holds for so many tries.
#[derive(Debug)]
struct Odd {
    memory: MemoryBackend,
    lockless: bool,
    /// Waiting takes no time here.
    held: Mutex<Duration>,
    /// Set if it answers later; counts places asked before the first answer was taken.
    far: Option<Arc<Asked>>,
}

/// Most places asked at once.
#[derive(Debug, Default)]
struct Asked {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Odd {
    fn node(lockless: bool, held: Duration) -> Node {
        let (memory, held) = (MemoryBackend::new(), Mutex::new(held));
        Node::new("odd", Arc::new(Odd { memory, lockless, held, far: None }))
    }

    fn far(held: Duration, asked: &Arc<Asked>) -> Node {
        let (memory, held) = (MemoryBackend::new(), Mutex::new(held));
        let far = Some(Arc::clone(asked));
        Node::new("far", Arc::new(Odd { memory, lockless: false, held, far }))
    }
}

impl Backend for Odd {
    kiln_store::forward_backend!(memory: capabilities list open append remove);

    fn place(&self) -> String {
        "/odd".to_owned()
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions { locks: Some(self), ..Extensions::default() }
    }
}

impl Locks for Odd {
    fn lock(&self, wait: bool) -> Stored<Option<WriteLock>> {
        if self.lockless {
            let source = std::io::ErrorKind::Unsupported.into();
            return Err(StoreError::NoLocks { place: self.place(), source });
        }
        if self.held.lock().unwrap().is_zero() { self.memory.lock(wait) } else { Ok(None) }
    }

    fn begin_lock(&self) -> Option<LockAnswer<'_>> {
        let far = self.far.as_ref()?;
        far.most.fetch_max(1 + far.now.fetch_add(1, Relaxed), Relaxed);
        Some(LockAnswer::of(|| {
            far.now.fetch_sub(1, Relaxed);
            self.lock(false)
        }))
    }

    fn lock_within(&self, time: Duration) -> Stored<LockAttempt> {
        let mut held = self.held.lock().unwrap();
        if *held > time {
            *held -= time;
            return Ok(LockAttempt::Busy { holder: Some("process 7".to_owned()) });
        }
        let waited = std::mem::take(&mut *held);
        drop(held);
        let lock = self.memory.lock(false)?.unwrap();
        Ok(LockAttempt::Granted { lock, waited })
    }
}

#[test]
fn waiting_is_told_and_ends() {
    let said = Said::default();
    let settings = Settings::new(&said);
    // A short one is not worth a word.
    let node = Odd::node(false, Duration::from_secs(1));
    assert!(lock(&[node], &settings, false).unwrap().1);
    assert!(said.all().is_empty());
    let node = Odd::node(false, Duration::from_secs(20));
    let (locks, waited) = lock(&[node], &settings, false).unwrap();
    assert_eq!((locks.0.len(), waited), (1, true));
    let [told] = &said.all()[..] else { panic!("{:?}", said.all()) };
    assert!(told.contains("/odd") && told.contains("process 7") && told.contains("60 s"), "{told}");
    // Of several together it is no more than of one.
    let half = || Odd::node(false, Duration::from_secs(40));
    let error = lock(&[half(), half()], &settings, false).unwrap_err();
    let PoolError::Locked { seconds: 60, .. } = error else { panic!("{error}") };
    let text = error.to_string();
    assert!(text.contains("/odd") && text.contains("process 7"), "{text}");
}

#[test]
fn whoever_holds_a_real_lock_is_waited_for_as_long_as_is_set() {
    let said = Said::default();
    let settings = Settings { lock_wait: Duration::from_millis(120), ..Settings::new(&said) };
    let node = Node::new("a", Arc::new(MemoryBackend::new()));
    let held = node.store.lock(false).unwrap();
    let begin = Instant::now();
    let error = lock(std::slice::from_ref(&node), &settings, false).unwrap_err();
    assert!(matches!(error, PoolError::Locked { .. }) && error.is_retryable());
    assert!(begin.elapsed() >= Duration::from_millis(120));
    drop(held);
    assert!(!lock(&[node], &settings, false).unwrap().1);
}

#[test]
fn where_there_are_no_locks_pools_are_refused_and_single_folders_warned_of() {
    let said = Said::default();
    let settings = Settings::new(&said);
    let nodes = [Odd::node(true, Duration::ZERO), Node::new("b", Arc::new(MemoryBackend::new()))];
    let text = lock(&nodes, &settings, false).unwrap_err().to_string();
    assert!(text.contains("/odd") && text.contains("flock"), "{text}");
    assert!(nodes[1].store.lock(false).unwrap().is_some(), "nothing is locked then");
    let (locks, _) = lock(&nodes, &settings, true).unwrap();
    assert_eq!((locks.0.len(), said.all().len()), (1, 1));
}

#[test]
fn places_that_are_far_away_are_asked_at_once_and_all_or_none_is_held() {
    let (said, asked) = (Said::default(), Arc::new(Asked::default()));
    let settings = Settings::new(&said);
    let nodes: Vec<Node> = (0..5).map(|_| Odd::far(Duration::ZERO, &asked)).collect();
    let (locks, waited) = lock(&nodes, &settings, false).unwrap();
    assert_eq!((locks.0.len(), waited, asked.most.load(Relaxed)), (5, false, 5));
    drop(locks);
    // One that another holds is waited for while nothing is held, one after the other.
    let busy = Odd::far(Duration::from_secs(1), &asked);
    let nodes = [&nodes[..2], &[busy], &nodes[3..]].concat();
    let (locks, waited) = lock(&nodes, &settings, false).unwrap();
    assert_eq!((locks.0.len(), waited), (5, true));
    drop(locks);
    let never = Odd::far(Duration::from_secs(1_000), &asked);
    let stuck = [&nodes[..2], &[never]].concat();
    assert!(matches!(lock(&stuck, &settings, false), Err(PoolError::Locked { .. })));
    let free = |node: &Node| node.store.lock(false).unwrap().is_some();
    assert!(nodes.iter().all(free), "nothing is locked then");
    // An answer that nobody takes gives its lock back.
    drop(nodes[0].store.begin_lock());
    assert!(free(&nodes[0]) && asked.now.load(Relaxed) == 0);
}

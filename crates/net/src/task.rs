//! A node's share of a placed repair, window by window, as a state machine.
//!
//! Windows are independent, so several are under way at once: while one is computed, the next is
//! read from disk and the one before travels. A task has room for the pieces of so many windows
//! from its lowest one on, and senders are told up to which; that is the back-pressure that keeps
//! all nodes within a few windows of the slowest, and it cannot deadlock: what the slowest node
//! waits for belongs to its lowest window, which no limit holds back. How many windows are
//! under way follows what gets done: as many as a fast network needs, and few on a slow one, where
//! pieces of later windows would fill the links before those that complete the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use kiln_store::Layout;

use crate::proto::assignment::{Assignment, Cost, RoundInfo, WINDOWS_MAX};
use crate::{NetError, Result, pace::Pace, throttle::Throttle};

/// Bytes that a task may take at a node unless its least windows take more.
const MEMORY: u64 = 256 << 20;

/// Windows under way at least: one is read or computed while another one travels.
const REACH: u64 = 3;
/// Windows under way may be as many as were done in this time, twice: where links are slow, what is
/// further ahead only keeps back what is needed next.
const PERIOD: Duration = Duration::from_millis(100);
/// A piece arrives in few parts, so that what is kept about them is small beside their bytes.
const PART_LEAST: usize = 4 << 10;
const PARTS_MIN: usize = 64;
/// Most bytes of a fragment: on a slow link an urgent one must not wait long for another.
pub(crate) const FRAGMENT_MAX: usize = 64 << 10;

/// Windows that a repair is cut into, as far as they stay long.
const WINDOWS: u64 = 256;
/// Windows of a repair at least, unless slices would be shorter than [`SLICE_LEAST`].
const WINDOWS_LEAST: u64 = 8;
const SLICE_LEAST: u64 = 512;

/// Bytes of every sub-chunk that travel together by default, where each has `sub_bytes` in all
/// stripes: windows of a mebibyte of each chunk at most, and of a fragment at least. Much smaller
/// ones cost time for messages. Of fewer ones the first takes long to go through all nodes, and
/// meanwhile the last links idle: a hub's plan takes 2.6 windows more than its load.
///
/// ```
/// # use kiln_net::task::default_slice;
/// assert_eq!(default_slice(256, 1 << 20), 4096); // windows of a mebibyte of a chunk of 256
/// assert_eq!(default_slice(256, 64 << 10), 512); // of 128 KiB of a chunk of 16 MiB
/// assert_eq!(default_slice(1, 1 << 30), 64 << 10);
/// ```
pub fn default_slice(alpha: usize, sub_bytes: u64) -> u32 {
    let alpha = alpha.clamp(1, 1 << 10) as u64;
    let least = (FRAGMENT_MAX as u64 / alpha).min(sub_bytes / WINDOWS_LEAST).max(SLICE_LEAST);
    (sub_bytes / WINDOWS / 64 * 64).max(least).min(most_of(alpha)) as u32
}

/// The longest slice by default.
fn most_of(alpha: u64) -> u64 {
    ((1 << 20) / alpha).min(FRAGMENT_MAX as u64)
}

/// Windows of such slices that hold as many bytes as `windows` of the longest ones.
pub fn as_many(windows: u32, alpha: usize, slice: u32) -> u32 {
    let times = most_of(alpha.clamp(1, 1 << 10) as u64) as u32 / slice.max(1);
    windows.saturating_mul(times.max(1)).min(WINDOWS_MAX.max(windows))
}

/// An effect that a task asks for.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug)]
pub enum Effect {
    /// Read the window's pieces from disk.
    Load(u64),
    /// Run the program of a round.
    Compute { window: u64, round: usize, inputs: Vec<Bytes> },
    /// Keep what a round persists.
    Persist {
        window: u64,
        round: usize,
        /// The pieces, in the round's order.
        pieces: Vec<Bytes>,
    },
    /// Send a piece (or a part of one) to another node.
    Push(Fragment),
    /// Compare and complete what was written.
    Finish,
}

/// A fragment: a part of a piece on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// The window.
    pub window: u64,
    /// The piece.
    pub piece: u32,
    /// The receiver.
    pub to: u32,
    /// Offset in the piece.
    pub at: u32,
    /// Bytes of the whole piece.
    pub total: u32,
    /// Its bytes.
    pub bytes: Bytes,
}

/// The progress of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransferCounters {
    /// Windows that are done.
    pub windows: u64,
    /// Bytes read from disk.
    pub read: u64,
    /// Bytes sent to other nodes.
    pub sent: u64,
    /// Bytes received from other nodes.
    pub received: u64,
    /// Bytes of rebuilt chunks.
    pub written: u64,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskPhase {
    /// Assigned; pieces may arrive already.
    Ready,
    /// At work.
    Running,
    /// All windows are done; what was written is being completed.
    Finishing,
    /// All is done and verified.
    Done,
}

#[derive(Debug, Default)]
struct Window {
    started: bool,
    round: usize,
    computed: bool,
    busy: bool,
    unsent: usize,
    unkept: usize,
    have: BTreeMap<u32, Bytes>,
    parts: BTreeMap<u32, BTreeMap<u32, Bytes>>,
}

/// See the module.
#[derive(Debug)]
pub struct Task {
    spec: Arc<Assignment>,
    layout: Layout,
    total: u64,
    limit: u64,
    /// Bytes that it takes with so many windows under way.
    memory: u64,
    least: u64,
    /// Windows done lately.
    pace: Pace,
    noted: u64,
    base: u64,
    next: u64,
    upto: u64,
    state: TaskPhase,
    windows: BTreeMap<u64, Window>,
    done: BTreeSet<u64>,
    /// For each piece, the rank of the last round that uses it.
    last_use: BTreeMap<u32, usize>,
    rate: u64,
    clocks: Throttle,
    amounts: TransferCounters,
    effects: Vec<Effect>,
}

impl Task {
    /// A task for an assignment that was checked.
    pub fn new(spec: Arc<Assignment>) -> Result<Task> {
        Task::within(spec, u64::MAX)
    }

    /// The same where so many bytes of memory are left for tasks: of these it takes a part, and
    /// has as many windows under way as that suffices for.
    /// Errors: [`NetError::Memory`]: it takes more than is left.
    pub fn within(spec: Arc<Assignment>, left: u64) -> Result<Task> {
        let layout = spec.layout()?;
        let total = spec.window_count(&layout);
        let mut last_use = BTreeMap::new();
        for (rank, round) in spec.rounds.iter().enumerate() {
            let lists = round.inputs.iter().chain(round.sends.iter().map(|s| &s.piece));
            for piece in lists.chain(round.persists.iter().map(|p| &p.piece)) {
                last_use.insert(*piece, rank);
            }
        }
        let cost = Cost::of(&spec, &layout)?;
        let need = cost.memory(1);
        if need > left {
            let what = "an assignment".to_owned();
            return Err(NetError::Memory { what, need, left });
        }
        let programs = cost.programs();
        let share = MEMORY.min((left - programs) / 4);
        let limit = cost.windows_within(share, spec.windows.into());
        let memory = cost.memory(limit);
        let rate = spec.rate;
        Ok(Task {
            spec,
            layout,
            total,
            limit,
            memory,
            least: REACH,
            pace: Pace::new(PERIOD),
            noted: 0,
            base: 0,
            next: 0,
            upto: if rate == 0 { limit.min(REACH) } else { 0 },
            state: TaskPhase::Ready,
            windows: BTreeMap::new(),
            done: BTreeSet::new(),
            last_use,
            rate,
            clocks: Throttle::default(),
            amounts: TransferCounters::default(),
            effects: Vec::new(),
        })
    }

    /// The same task, that shares its limit with others.
    #[must_use]
    pub fn under(self, clocks: Throttle) -> Task {
        Task { clocks, ..self }
    }

    /// The same task, that takes pieces of as many windows as its assignment allows from the start.
    #[must_use]
    pub fn reaching_far(self) -> Task {
        Task { least: WINDOWS_MAX.into(), ..self }
    }

    /// Its state.
    pub fn state(&self) -> TaskPhase {
        self.state
    }

    /// Bytes of memory that it takes at most.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Its progress.
    pub fn amounts(&self) -> TransferCounters {
        self.amounts
    }

    /// Returns whether the lowest window that is not done waits for pieces of others, and for
    /// nothing else.
    pub fn waits(&self) -> bool {
        let entry = self.windows.get(&self.base).filter(|entry| entry.started && !entry.busy);
        let round = entry.and_then(|entry| Some((entry, self.spec.rounds.get(entry.round)?)));
        round.is_some_and(|(entry, round)| {
            let have = |id: &u32| entry.have.contains_key(id);
            round.reads.iter().all(have) && !round.receives.iter().all(have)
        })
    }

    /// There is room for the pieces of windows below this one. What was said once holds.
    pub fn upto(&self) -> u64 {
        self.upto
    }

    /// The lowest window that is not done.
    pub fn lowest(&self) -> u64 {
        self.base
    }

    /// Windows in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The assignment.
    pub fn spec(&self) -> &Arc<Assignment> {
        &self.spec
    }

    /// Begins.
    pub fn start(&mut self, now: Duration) -> Vec<Effect> {
        if self.state == TaskPhase::Ready {
            self.state = TaskPhase::Running;
        }
        self.go_on(now)
    }

    /// Changes the limit of bytes a second (0: none).
    pub fn throttle(&mut self, now: Duration, rate: u64) -> Vec<Effect> {
        self.rate = rate;
        self.clocks.restart(now);
        self.go_on(now)
    }

    /// When [`Task::go_on`] has something to do although nothing arrived.
    pub fn wake_at(&self) -> Option<Duration> {
        let waits = self.state == TaskPhase::Running
            && self.next < self.total
            && self.next < self.base + self.reach();
        waits.then(|| self.start_at())
    }

    /// A fragment from another node.
    /// Errors: it does not belong to this task, or there is no room for it.
    pub fn fragment(&mut self, now: Duration, fragment: Fragment) -> Result<Vec<Effect>> {
        let wrong = |what: &str| Err(NetError::protocol(format!("a fragment {what}")));
        let (spec, window) = (Arc::clone(&self.spec), fragment.window);
        let awaited = spec.rounds.iter().any(|round| round.receives.contains(&fragment.piece));
        if window >= self.total || !awaited {
            return wrong("that nobody waits for");
        }
        let total = self.piece_len(window, fragment.piece)?;
        let end = fragment.at as usize + fragment.bytes.len();
        if fragment.total as usize != total || end > total || fragment.bytes.is_empty() {
            return wrong("of another size than planned");
        }
        if window < self.base || self.done.contains(&window) {
            // Sent again since our answer was lost.
            return Ok(Vec::new());
        }
        if window >= self.upto {
            return wrong("for which there is no room");
        }
        let entry = self.windows.entry(window).or_default();
        if entry.have.contains_key(&fragment.piece) {
            return Ok(Vec::new());
        }
        let parts = entry.parts.entry(fragment.piece).or_default();
        if parts.len() > PARTS_MIN + total / PART_LEAST {
            return wrong("of a piece in too many parts");
        }
        self.amounts.received += fragment.bytes.len() as u64;
        if self.rate > 0 {
            self.clocks.received(fragment.bytes.len() as u64);
        }
        parts.insert(fragment.at, fragment.bytes);
        let have: usize = parts.values().map(Bytes::len).sum();
        if have >= total
            && let Some(parts) = entry.parts.remove(&fragment.piece)
        {
            let whole = join(parts, total);
            if whole.len() != total {
                return wrong("whose parts overlap");
            }
            entry.have.insert(fragment.piece, whole);
            self.advance(window);
        }
        Ok(self.go_on(now))
    }

    /// Pieces that were read and verified.
    pub fn loaded(&mut self, now: Duration, window: u64, pieces: Vec<(u32, Bytes)>) -> Vec<Effect> {
        if let Some(entry) = self.windows.get_mut(&window) {
            self.amounts.read += pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
            entry.have.extend(pieces);
            self.advance(window);
        }
        self.go_on(now)
    }

    /// Pieces that a round made.
    pub fn computed(&mut self, now: Duration, window: u64, made: Vec<Bytes>) -> Vec<Effect> {
        if let Some(entry) = self.windows.get_mut(&window)
            && let Some(round) = self.spec.rounds.get(entry.round)
        {
            entry.have.extend(round.outputs.iter().copied().zip(made));
            (entry.busy, entry.computed) = (false, true);
            self.advance(window);
        }
        self.go_on(now)
    }

    /// A fragment has arrived.
    pub fn sent(&mut self, now: Duration, window: u64, bytes: usize) -> Vec<Effect> {
        self.amounts.sent += bytes as u64;
        if let Some(entry) = self.windows.get_mut(&window) {
            entry.unsent = entry.unsent.saturating_sub(1);
            self.advance(window);
        }
        self.go_on(now)
    }

    /// Notes that the pieces that a round persists are kept.
    pub fn kept(&mut self, now: Duration, window: u64, bytes: u64) -> Vec<Effect> {
        self.amounts.written += bytes;
        if let Some(entry) = self.windows.get_mut(&window) {
            entry.unkept = entry.unkept.saturating_sub(1);
            self.advance(window);
        }
        self.go_on(now)
    }

    /// Notes that the written shards are complete and verified.
    pub fn finished(&mut self) {
        self.state = TaskPhase::Done;
    }

    /// Starts windows as far as limits allow; returns the effects asked for since.
    pub fn go_on(&mut self, now: Duration) -> Vec<Effect> {
        if self.noted < self.amounts.windows {
            self.pace.note(now, self.amounts.windows - self.noted);
            self.noted = self.amounts.windows;
        }
        while self.state == TaskPhase::Running
            && self.next < self.total
            && self.next < self.base + self.reach()
            && self.start_at() <= now
        {
            let window = self.next;
            self.next += 1;
            self.pace(now, window);
            let entry = self.windows.entry(window).or_default();
            entry.started = true;
            if self.spec.rounds.iter().any(|round| !round.reads.is_empty()) {
                self.effects.push(Effect::Load(window));
            }
            self.advance(window);
        }
        // Under a limit only what has been paid for may come: many can send to one at once.
        let room = if self.rate == 0 { self.base + self.reach() } else { self.next };
        self.upto = self.upto.max(room.min(self.total));
        if self.state == TaskPhase::Running && self.base == self.total {
            self.state = TaskPhase::Finishing;
            self.effects.push(Effect::Finish);
        }
        std::mem::take(&mut self.effects)
    }

    /// Windows from the lowest one on that may be under way.
    fn reach(&self) -> u64 {
        (2 * self.pace.lately()).max(self.least).min(self.limit)
    }

    /// When the next window may start.
    fn start_at(&self) -> Duration {
        if self.rate == 0 { Duration::ZERO } else { self.clocks.ready_at() }
    }

    /// The next window starts when this one's bytes have had their time.
    fn pace(&mut self, now: Duration, window: u64) {
        if self.rate == 0 {
            return;
        }
        let len = |id: u32| self.piece_len(window, id).unwrap_or(0) as u64;
        let rounds = &self.spec.rounds;
        let sent: u64 = rounds.iter().flat_map(|r| &r.sends).map(|s| len(s.piece)).sum();
        let received: u64 = rounds.iter().flat_map(|r| &r.receives).map(|id| len(*id)).sum();
        self.clocks.reserve(now, sent, received, self.rate);
    }

    fn piece_len(&self, window: u64, id: u32) -> Result<usize> {
        let (_, range) = self.spec.window(&self.layout, window);
        self.spec.piece_bytes(id, &range)
    }

    /// Does the rounds of a window as far as their pieces are there.
    fn advance(&mut self, window: u64) {
        let spec = Arc::clone(&self.spec);
        loop {
            let Some(entry) = self.windows.get_mut(&window) else { return };
            if !entry.started || entry.busy {
                return;
            }
            let Some(round) = spec.rounds.get(entry.round) else {
                if entry.unsent == 0 && entry.unkept == 0 {
                    self.complete(window);
                }
                return;
            };
            let mut needed = round.reads.iter().chain(&round.receives);
            if !needed.all(|piece| entry.have.contains_key(piece)) {
                return;
            }
            if !round.outputs.is_empty() && !entry.computed {
                let inputs = round.inputs.iter().filter_map(|id| entry.have.get(id).cloned());
                let (inputs, round) = (inputs.collect(), entry.round);
                entry.busy = true;
                self.effects.push(Effect::Compute { window, round, inputs });
                return;
            }
            pass_on(entry, window, round, &mut self.effects);
            let rank = entry.round;
            entry.have.retain(|piece, _| self.last_use.get(piece).is_some_and(|last| *last > rank));
            (entry.round, entry.computed) = (rank + 1, false);
        }
    }

    fn complete(&mut self, window: u64) {
        self.windows.remove(&window);
        self.done.insert(window);
        self.amounts.windows += 1;
        while self.done.remove(&self.base) {
            self.base += 1;
        }
    }
}

/// Sends and keeps what a round says.
fn pass_on(entry: &mut Window, window: u64, round: &RoundInfo, effects: &mut Vec<Effect>) {
    for send in &round.sends {
        let Some(whole) = entry.have.get(&send.piece) else { continue };
        let (piece, to, total) = (send.piece, send.to, whole.len() as u32);
        for at in (0..whole.len()).step_by(FRAGMENT_MAX) {
            let bytes = whole.slice(at..whole.len().min(at + FRAGMENT_MAX));
            entry.unsent += 1;
            let at = at as u32;
            effects.push(Effect::Push(Fragment { window, piece, to, at, total, bytes }));
        }
    }
    if !round.persists.is_empty() {
        let pieces = round.persists.iter().filter_map(|p| entry.have.get(&p.piece).cloned());
        entry.unkept += 1;
        let (pieces, round) = (pieces.collect(), entry.round);
        effects.push(Effect::Persist { window, round, pieces });
    }
}

fn join(mut parts: BTreeMap<u32, Bytes>, total: usize) -> Bytes {
    if parts.len() == 1
        && let Some((_, only)) = parts.pop_first()
    {
        return only;
    }
    let mut whole = BytesMut::with_capacity(total);
    parts.values().for_each(|part| whole.extend_from_slice(part));
    whole.freeze()
}

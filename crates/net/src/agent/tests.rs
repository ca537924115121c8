use super::*;
use crate::prefix::CHANGES;

const SECOND: Duration = Duration::from_secs(1);

/// An agent with a connection that has said Hello.
struct Rig {
    agent: Agent,
    now: Duration,
    next: u64,
}

impl Rig {
    fn new(limits: Limits) -> Rig {
        let mut rig = Rig { agent: Agent::new("here", limits), now: Duration::ZERO, next: 1 };
        rig.connect(1);
        rig
    }

    fn connect(&mut self, connection: ConnectionId) {
        let actions = self.greet(connection, PeerInfo::KEYLESS, 9);
        let [Action::Send { session: 0, frame, .. }] = &actions[..] else { panic!("{actions:?}") };
        assert!(matches!(&frame.message, Message::Welcome { session: 7, .. }));
    }

    /// Connects, and says Hello for versions up to this one.
    fn greet(&mut self, connection: ConnectionId, peer: PeerInfo, highest: u8) -> Vec<Action> {
        assert!(self.event(Event::Connected { connection, session: 7, peer }).is_empty());
        self.of(connection, 0, Message::Hello { lowest: 1, highest, place: String::new() })
    }

    fn of(&mut self, connection: ConnectionId, id: u64, message: Message) -> Vec<Action> {
        self.event(Event::Frame { connection, frame: Frame::new(id, message) })
    }

    fn event(&mut self, event: Event) -> Vec<Action> {
        self.agent.handle(self.now, event)
    }

    fn ask(&mut self, frame: Frame) -> Vec<Action> {
        let frame = Frame { id: self.next, ..frame };
        self.next += 1;
        self.event(Event::Frame { connection: 1, frame })
    }

    fn say(&mut self, message: Message) -> Vec<Action> {
        self.ask(Frame::new(0, message))
    }

    fn finish(&mut self, job: JobId, done: DiskDone) -> Vec<Action> {
        self.event(Event::Finished { job, outcome: Ok(done) })
    }
}

fn started(actions: &[Action]) -> (JobId, Disk) {
    match actions {
        [Action::Start { job, work }] => (*job, work.clone()),
        other => panic!("one job expected: {other:?}"),
    }
}

fn answer(actions: &[Action]) -> Message {
    match actions {
        [Action::Send { frame, .. }, ..] => frame.message.clone(),
        other => panic!("an answer expected: {other:?}"),
    }
}

fn closes(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Close { .. }))
}

fn data(bytes: &'static [u8]) -> Frame {
    Frame::new(0, Message::Write { handle: 1, at: 0 }).with(Bytes::from_static(bytes))
}

#[test]
fn writes_to_a_file_keep_their_order_and_close_comes_last() {
    let mut rig = Rig::new(Limits::default());
    let (job, work) = started(&rig.say(Message::Append { name: "a".into(), at: 0 }));
    assert!(matches!(work, Disk::Append { .. }));
    let opened = rig.finish(job, DiskDone::Opened { len: 0 });
    assert_eq!(answer(&opened), Message::Opened { handle: 1, len: 0 });
    let (first, _) = started(&rig.ask(data(b"one")));
    let second = Frame::new(0, Message::Write { handle: 1, at: 3 });
    assert!(rig.ask(second.with(Bytes::from_static(b"two"))).is_empty());
    assert!(rig.say(Message::Sync { handle: 1 }).is_empty());
    assert!(rig.say(Message::Close { handle: 1 }).is_empty());
    let actions = rig.finish(first, DiskDone::Done);
    assert_eq!(answer(&actions), Message::Done {});
    let (second, work) = started(&actions[1..]);
    assert!(matches!(work, Disk::Write { bytes, .. } if bytes == "two"));
    let (sync, work) = started(&rig.finish(second, DiskDone::Done)[1..]);
    assert!(matches!(work, Disk::Sync { .. }));
    let actions = rig.finish(sync, DiskDone::Done);
    assert!(
        matches!(actions[..], [Action::Send { .. }, Action::Drop { .. }, Action::Send { .. }]),
        "{actions:?}"
    );
}

#[test]
fn after_a_failed_or_misplaced_write_nothing_is_written() {
    let mut rig = Rig::new(Limits::default());
    let (job, _) = started(&rig.say(Message::Append { name: "a".into(), at: 0 }));
    rig.finish(job, DiskDone::Opened { len: 0 });
    let (job, _) = started(&rig.ask(data(b"one")));
    rig.ask(Frame::new(0, Message::Write { handle: 1, at: 3 }));
    let full = std::io::ErrorKind::StorageFull.into();
    let full = StoreError::Io {
        op: kiln_store::Operation::Write,
        place: "x".into(),
        name: "a".into(),
        source: full,
    };
    let actions = rig.event(Event::Finished { job, outcome: Err(full) });
    assert_eq!(actions.len(), 2, "{actions:?}");
    for action in &actions {
        assert!(matches!(action, Action::Send { frame, .. }
            if matches!(frame.message, Message::Failed { .. })));
    }
    assert!(matches!(answer(&rig.say(Message::Sync { handle: 1 })), Message::Failed { .. }));
    // A replayed write: its place in the file is taken already.
    let (job, _) = started(&rig.say(Message::Append { name: "a".into(), at: 5 }));
    rig.finish(job, DiskDone::Opened { len: 5 });
    let replayed = rig.say(Message::Write { handle: 2, at: 0 });
    assert!(matches!(answer(&replayed), Message::Failed { .. }));
}

#[test]
fn whoever_breaks_a_rule_is_let_go_and_changes_nothing() {
    let breaches: &[fn(&mut Rig) -> Vec<Action>] = &[
        // A request number that was used before: a replay.
        |rig| {
            rig.say(Message::Ping {});
            rig.next = 1;
            rig.say(Message::Remove { name: "a".into() })
        },
        |rig| rig.say(Message::Done {}),
        |rig| rig.say(Message::Read { handle: 5, offset: 0, len: 1 }),
        |rig| rig.ask(data(b"to nothing open")),
        |rig| rig.say(Message::Close { handle: 1 }),
        |rig| rig.say(Message::Hello { lowest: 1, highest: 1, place: String::new() }),
        |rig| rig.ask(Frame { message: Message::Ping {}, ..data(b"payload") }),
        |rig| {
            let (job, _) = started(&rig.say(Message::Open { name: "a".into() }));
            rig.finish(job, DiskDone::Opened { len: 1 << 40 });
            rig.say(Message::Read { handle: 1, offset: 0, len: PAYLOAD_MAX as u32 + 1 })
        },
        |rig| {
            let (job, _) = started(&rig.say(Message::CreateLog { name: "a".into(), size: 4096 }));
            rig.finish(job, DiskDone::Opened { len: 4096 });
            let zeros = crate::proto::PADDING_MAX as u32 + 1;
            rig.say(Message::WritePadded { handle: 1, offset: 0, zeros })
        },
        // A client that begins with something else than Hello.
        |rig| {
            rig.event(Event::Connected { connection: 2, session: 1, peer: PeerInfo::KEYLESS });
            let frame = Frame::new(1, Message::Remove { name: "a".into() });
            rig.event(Event::Frame { connection: 2, frame })
        },
    ];
    for (number, breach) in breaches.iter().enumerate() {
        let mut rig = Rig::new(Limits::default());
        let actions = breach(&mut rig);
        assert!(closes(&actions), "breach {number}: {actions:?}");
        let starts = actions.iter().any(|action| matches!(action, Action::Start { .. }));
        assert!(!starts, "breach {number}: {actions:?}");
        assert_eq!(rig.agent.counts().expelled, 1);
    }
}

#[test]
fn credit_is_a_limit_and_comes_back_when_replies_are_sent() {
    let mut rig = Rig::new(Limits { credit: 100, requests: 3, ..Limits::default() });
    let (job, _) = started(&rig.say(Message::Open { name: "a".into() }));
    rig.finish(job, DiskDone::Opened { len: 1000 });
    rig.event(Event::Sent { connection: 1, request: 1 });
    for _ in 0..2 {
        let (job, _) = started(&rig.say(Message::Read { handle: 1, offset: 0, len: 50 }));
        rig.finish(job, DiskDone::Bytes(vec![0; 50].into()));
    }
    rig.event(Event::Sent { connection: 1, request: 2 });
    started(&rig.say(Message::Read { handle: 1, offset: 0, len: 50 }));
    assert!(closes(&rig.say(Message::Read { handle: 1, offset: 0, len: 1 })));
}

#[test]
fn clients_go_first_and_repair_is_never_starved() {
    let mut rig = Rig::new(Limits { jobs: 1, ..Limits::default() });
    let list = || Frame::new(0, Message::List { after: String::new() });
    let (mut job, _) = started(&rig.ask(list()));
    rig.ask(list().at(Priority::Repair));
    let repair = rig.next - 1;
    for _ in 0..20 {
        assert!(rig.ask(list()).is_empty());
    }
    let mut answered = Vec::new();
    for _ in 0..22 {
        let actions = rig.finish(job, DiskDone::Names { names: Vec::new(), more: false });
        if let Action::Send { frame, .. } = &actions[0] {
            answered.push(frame.id);
        }
        if let Some(Action::Start { job: next, .. }) = actions.get(1) {
            job = *next;
        }
    }
    let turn = answered.iter().position(|id| *id == repair).unwrap();
    assert!((1..=8).contains(&turn), "{answered:?}");
}

#[test]
fn late_and_cancelled_requests_are_not_begun() {
    let mut rig = Rig::new(Limits { jobs: 1, ..Limits::default() });
    let (job, _) = started(&rig.say(Message::List { after: String::new() }));
    let late = Frame::new(0, Message::Remove { name: "a".into() });
    rig.ask(Frame { deadline_ms: 100, ..late });
    rig.say(Message::Remove { name: "b".into() });
    let cancelled = rig.next - 1;
    let actions = rig.say(Message::Cancel { request: cancelled });
    assert!(matches!(answer(&actions), Message::Failed { .. }));
    rig.now += SECOND;
    let actions = rig.finish(job, DiskDone::Names { names: Vec::new(), more: false });
    assert_eq!(actions.len(), 2, "{actions:?}");
    assert!(actions.iter().all(|action| matches!(action, Action::Send { .. })));
    assert_eq!(rig.agent.counts().late, 1);
}

#[test]
fn locks_wait_and_are_given_back_with_their_connection() {
    let mut rig = Rig::new(Limits::default());
    rig.connect(2);
    let (job, _) = started(&rig.say(Message::Lock { wait: false }));
    rig.finish(job, DiskDone::Locked(true));
    let (job, _) = started(&rig.say(Message::Lock { wait: false }));
    let held = Message::Held { by: "a client".into() };
    assert_eq!(answer(&rig.finish(job, DiskDone::Locked(false))), held);
    let frame = Frame::new(1, Message::Lock { wait: true });
    let (job, _) = started(&rig.event(Event::Frame { connection: 2, frame }));
    assert!(rig.finish(job, DiskDone::Locked(false)).is_empty());
    assert_eq!(rig.agent.wake_at(), Some(LOCK_RETRY));
    let actions = rig.event(Event::Closed { connection: 1 });
    assert!(matches!(actions[..], [Action::Drop { slot: 1 }]), "{actions:?}");
    let (job, work) = started(&rig.event(Event::Tick));
    assert!(matches!(work, Disk::Lock { slot: 3 }));
    let actions = rig.finish(job, DiskDone::Locked(true));
    assert!(matches!(answer(&actions), Message::Opened { .. }));
}

#[test]
fn the_silent_are_let_go_and_what_they_open_late_is_dropped() {
    let mut rig = Rig::new(Limits::default());
    let (job, _) = started(&rig.say(Message::Open { name: "a".into() }));
    rig.now += rig.agent.limits.idle;
    assert_eq!(rig.agent.wake_at(), Some(rig.now));
    assert!(closes(&rig.event(Event::Tick)));
    let actions = rig.finish(job, DiskDone::Opened { len: 1 });
    assert!(matches!(actions[..], [Action::Drop { slot: 1 }]), "{actions:?}");
    assert_eq!(rig.agent.load(), (0, 0, 0));
    // One who never says Hello has less time.
    rig.event(Event::Connected { connection: 9, session: 1, peer: PeerInfo::KEYLESS });
    rig.now += rig.agent.limits.hello;
    assert!(closes(&rig.event(Event::Tick)));
}

#[test]
fn open_files_are_limited() {
    let mut rig = Rig::new(Limits { handles: 2, ..Limits::default() });
    for _ in 0..2 {
        started(&rig.say(Message::Open { name: "a".into() }));
    }
    assert!(matches!(answer(&rig.say(Message::Open { name: "a".into() })), Message::Failed { .. }));
}

#[test]
fn credit_of_all_connections_is_bounded_and_each_can_carry_a_payload() {
    let limits = Limits { memory: 64 << 20, ..Limits::default() };
    let mut rig = Rig { agent: Agent::new("here", limits), now: Duration::ZERO, next: 1 };
    let mut grant = |connection| {
        let actions = rig.greet(connection, PeerInfo::KEYLESS, 1);
        let Message::Welcome { credit, .. } = answer(&actions) else { panic!("{actions:?}") };
        u64::from(credit)
    };
    let credits: Vec<u64> = (0..200).map(&mut grant).collect();
    assert_eq!(credits[0], 16 << 20);
    assert!(credits.iter().all(|credit| *credit >= PAYLOAD_MAX as u64));
    assert!(credits.iter().sum::<u64>() <= (64 << 20) + 200 * PAYLOAD_MAX as u64);
    // Who leaves gives it back.
    (0..199).for_each(|connection| drop(rig.event(Event::Closed { connection })));
    assert!(rig.agent.credit_left() > 15 << 20);
}

#[test]
fn assignments_are_bounded_for_each_connection_and_end_with_it() {
    let limits =
        Limits { assignments: 4 << 20, tasks: 5, tasks_per_connection: 3, ..Limits::default() };
    let mut rig = Rig::new(limits);
    rig.connect(2);
    let piece = |task: u8, at: u64, bytes: usize| {
        let total = 64 << 20;
        Frame::new(0, Message::Assign { task: [task; 16], at, total }).with(vec![0; bytes].into())
    };
    let refused = |actions: &[Action], words: &str| match answer(actions) {
        Message::Failed { text, .. } => assert!(text.contains(words), "{text}"),
        other => panic!("{other:?}"),
    };
    let mib = 1 << 20;
    assert_eq!(answer(&rig.ask(piece(1, 0, mib))), Message::Done {});
    assert_eq!(answer(&rig.ask(piece(1, mib as u64, mib))), Message::Done {});
    refused(&rig.ask(piece(2, 0, 1)), "2097152 of this connection");
    // The one that grows beyond the limit is forgotten, so there is room again.
    refused(&rig.ask(piece(1, 2 * mib as u64, 1)), "bytes are here");
    for task in 3..6 {
        assert_eq!(answer(&rig.ask(piece(task, 0, 10))), Message::Done {});
    }
    refused(&rig.ask(piece(6, 0, 10)), "3 tasks of this connection");
    let second = |rig: &mut Rig, task: u8, id| {
        let frame = Frame { id, ..piece(task, 0, 10) };
        answer(&rig.event(Event::Frame { connection: 2, frame }))
    };
    assert_eq!(second(&mut rig, 7, 1), Message::Done {});
    assert_eq!(second(&mut rig, 8, 2), Message::Done {});
    assert!(matches!(second(&mut rig, 9, 3), Message::Failed { .. }));
    rig.event(Event::Closed { connection: 1 });
    assert_eq!(rig.agent.tasks.len(), 2);
    assert_eq!(second(&mut rig, 9, 4), Message::Done {});
}

#[test]
fn a_name_is_one_connections_until_it_ends_or_gives_it_back() {
    let mut rig = Rig::new(Limits::default());
    let address = Some("192.0.2.7:4000".parse().unwrap());
    let peer = PeerInfo { address, ..PeerInfo::KEYLESS };
    rig.greet(2, peer, 2);
    let claim = |by: &str| {
        let claimant = [by.len() as u8; 16];
        Message::Claim { name: "repairs".into(), claimant, by: by.into() }
    };
    let second = |rig: &mut Rig, id, message| answer(&rig.of(2, id, message));
    assert_eq!(second(&mut rig, 1, claim("process 5")), Message::Opened { handle: 1, len: 0 });
    rig.now += 3 * SECOND;
    let by = "process 5 at 192.0.2.7:4000, for 3 s".to_owned();
    assert_eq!(answer(&rig.say(claim("me"))), Message::Held { by });
    let other = Message::Claim { name: "other".into(), claimant: [9; 16], by: "me".into() };
    assert!(matches!(answer(&rig.say(other)), Message::Opened { .. }));
    let actions = rig.of(2, 2, Message::Close { handle: 1 });
    assert!(matches!(actions[..], [Action::Drop { .. }, Action::Send { .. }]), "{actions:?}");
    assert!(matches!(answer(&rig.say(claim("me"))), Message::Opened { .. }));
    assert!(matches!(second(&mut rig, 3, claim("it!")), Message::Held { .. }));
    rig.event(Event::Closed { connection: 1 });
    assert!(matches!(second(&mut rig, 4, claim("it!")), Message::Opened { .. }));
    // On a new connection the same one has it again, and the end of the old one changes nothing.
    rig.connect(3);
    assert!(matches!(answer(&rig.of(3, 1, claim("it!"))), Message::Opened { .. }));
    rig.event(Event::Closed { connection: 2 });
    rig.connect(4);
    assert!(matches!(answer(&rig.of(4, 1, claim("another"))), Message::Held { .. }));
}

#[test]
fn peers_of_version_1_are_spoken_to_as_they_know() {
    let mut rig = Rig { agent: Agent::new("here", Limits::default()), now: SECOND, next: 1 };
    let actions = rig.greet(1, PeerInfo::KEYLESS, 1);
    assert!(matches!(answer(&actions), Message::Welcome { version: 1, .. }), "{actions:?}");
    let (job, _) = started(&rig.say(Message::Lock { wait: false }));
    assert_eq!(answer(&rig.finish(job, DiskDone::Locked(false))), Message::Busy {});
    let claim = Message::Claim { name: "a".into(), claimant: [0; 16], by: "b".into() };
    assert!(closes(&rig.say(claim)));
    // One who knows only later versions is refused.
    rig.event(Event::Connected { connection: 2, session: 7, peer: PeerInfo::KEYLESS });
    let lowest = crate::proto::VERSION + 1;
    assert!(closes(&rig.of(2, 0, Message::Hello { lowest, highest: 9, place: String::new() })));
}

/// Requests, and whether reader, writer, operator, client, agent and administrator may make each.
fn requests() -> Vec<(Message, [bool; 6])> {
    let task = [1; 16];
    let file = |name: &str| name.to_owned();
    let append = |name| Message::Append { name: file(name), at: 0 };
    let remove = |name| Message::Remove { name: file(name) };
    let rename = |from, to| Message::Rename { from: file(from), to: file(to) };
    let close = |name, to| Message::CloseLog { name: file(name), to: file(to), force: true };
    let (shard, part) = ("0a.01.03.kiln", ".0a.01.03.kiln.1.part");
    let (map, node) = ("kiln-pool.toml", "kiln-node.toml");
    let (map_part, node_part) = (".kiln-pool.toml.part", ".kiln-node.toml.part");
    let all = [true; 6];
    let reads = [true, true, true, true, false, true];
    let writes = [false, true, true, true, false, true];
    let repairs = [false, false, true, true, false, true];
    let orders = [false, false, true, false, false, true];
    let members = [false, false, false, true, false, true];
    let agents = [false, false, false, false, true, true];
    vec![
        (Message::Ping {}, all),
        (Message::Cancel { request: 9 }, all),
        (Message::Push { task, window: 0, piece: 0, at: 0, total: 0 }, agents),
        (Message::Space {}, reads),
        (Message::Reads {}, reads),
        (Message::List { after: String::new() }, reads),
        (Message::Open { name: file(node) }, reads),
        (Message::Locate { name: file(shard) }, reads),
        (Message::Assign { task, at: 0, total: 9 }, reads),
        (Message::Start { task }, reads),
        (Message::Watch { task, seen: 0, wait_ms: 0 }, reads),
        (Message::Fetch { task, below: 1, max: 1 << 16 }, reads),
        (Message::Abort { task }, reads),
        (Message::Lock { wait: false }, writes),
        (append(part), writes),
        (append(".0a.01.17.manifest.part"), writes),
        (append(".kiln-changes"), writes),
        (append(".object.0.part"), writes),
        (Message::CreateLog { name: file("0a.0000001f.0b.log"), size: 4096 }, writes),
        (close("0a.0000001f.0b.log", "0a.0000001f.0b.log"), writes),
        (rename(part, shard), writes),
        (remove("0a.manifest"), writes),
        (Message::CopyHome { from: file(map), to: file(shard) }, writes),
        (append(".0a.01.03.kiln.7.repair.part"), repairs),
        (rename(".0a.01.03.kiln.repair.part", shard), repairs),
        (append(".0a.01.03.kiln.damaged"), repairs),
        (remove(".0a.01.03.kiln.damaged"), repairs),
        (rename(shard, ".0a.01.03.kiln.9.quarantine"), repairs),
        (rename(".0a.manifest.9.quarantine", "0a.manifest"), repairs),
        (Message::Throttle { task, rate: 1 }, repairs),
        (append(map_part), repairs),
        (rename(map_part, map), repairs),
        (rename(part, map), repairs),
        (rename(map, shard), repairs),
        (remove(map), repairs),
        (close(shard, map), repairs),
        (Message::CopyHome { from: file(shard), to: file(map) }, repairs),
        (Message::Claim { name: file("a"), claimant: [0; 16], by: file("b") }, orders),
        (Message::Commit { task }, orders),
        (append(node_part), members),
        (rename(node_part, node), members),
        (rename(part, node), members),
        (remove(node), members),
        (append(".kiln-agent"), members),
        (remove(".kiln-place"), members),
        (Message::CreateLog { name: file(node), size: 4096 }, members),
    ]
}

#[test]
fn peers_may_ask_for_what_their_role_is_for() {
    for (message, may) in requests() {
        for (role, may) in PeerRole::ALL.into_iter().zip(may) {
            let mut rig = Rig::new(Limits::default());
            rig.greet(2, PeerInfo { rights: role.into(), ..PeerInfo::KEYLESS }, 9);
            let is_refused = is_refused(&rig.of(2, 1, message.clone()));
            assert_eq!(is_refused, !may, "{role}: {}", message.name());
        }
    }
}

/// A peer whose key is one of a writer for names that begin with `photos/`.
fn limited() -> PeerInfo {
    let rights = Rights { role: PeerRole::Writer, prefix: Some("photos/".into()) };
    PeerInfo { rights, ..PeerInfo::KEYLESS }
}

fn is_refused(actions: &[Action]) -> bool {
    assert!(!closes(actions), "{actions:?}");
    matches!(actions, [Action::Send { frame, .. }]
        if matches!(&frame.message, Message::Failed { text, .. } if text.contains("role")))
}

fn hash_of(name: &str) -> String {
    kiln_store::names::hex(&kiln_store::names::object_key(name))
}

#[test]
fn a_limited_key_uses_files_of_objects_whose_names_it_has_shown() {
    let kept = kiln_store::names::kept_name("photos/a", &[5; 16]);
    let [own, past, other] = ["photos/a", &kept, "letters/a"].map(hash_of);
    let file = format!("{own}.manifest");
    let part = |of: &str| format!(".{of}.{own}.1.manifest.part");
    let named = |of: &str| {
        let (name, file) = (format!("{of}.{own}.03.kiln"), file.clone());
        vec![
            Message::Open { name: name.clone() },
            Message::Locate { name: name.clone() },
            Message::Remove { name: name.clone() },
            Message::Append { name: part(of), at: 0 },
            Message::Rename { from: part(of), to: file.clone() },
            Message::Rename { from: part(&own), to: name.clone() },
            Message::CopyHome { from: name.clone(), to: file.clone() },
            Message::CopyHome { from: file, to: name },
        ]
    };
    let name = |name: &str| Message::Name { name: name.into() };
    let mut never = vec![
        Message::Open { name: format!("{own}x") },
        Message::Rename { from: file.clone(), to: CHANGES.into() },
        Message::CreateLog { name: file.clone(), size: 4096 },
        Message::CloseLog { name: file.clone(), to: file.clone(), force: true },
        Message::WriteAt { handle: 1, offset: 0 },
        Message::WritePadded { handle: 1, offset: 0, zeros: 1 },
        name("photo"),
        name("letters/a"),
        name(&kept.replace("/a", "")),
    ];
    // All others that are no matter of names, or are about a task, or about what all may read.
    let free = ["Ping", "Cancel", "Space", "Reads", "Lock", "Assign", "Start", "Watch", "Fetch"];
    let free = |message: &Message| {
        let common = Message::Append { name: CHANGES.into(), at: 0 };
        let node = Message::Open { name: "kiln-node.toml".into() };
        free.contains(&message.name())
            || matches!(message, Message::Abort { .. })
            || [common, node].contains(message)
    };
    never.extend(requests().into_iter().map(|(message, _)| message).filter(|asked| !free(asked)));
    for (messages, may) in
        [(named(&own), true), (named(&past), true), (named(&other), false), (never, false)]
    {
        for message in messages {
            let mut rig = Rig::new(Limits::default());
            rig.greet(2, limited(), 9);
            rig.greet(3, limited(), 9);
            for (at, shown) in (1..).zip(["photos/a", &kept]) {
                assert_eq!(answer(&rig.of(2, at, name(shown))), Message::Done {});
            }
            assert!(is_refused(&rig.of(3, 1, message.clone())), "{message:?}");
            assert_eq!(is_refused(&rig.of(2, 3, message.clone())), !may, "{message:?}");
        }
    }
}

#[test]
fn what_a_limited_key_needs_beside_objects_it_may_ask_for() {
    let mut rig = Rig { agent: Agent::new("here", Limits::default()), now: SECOND, next: 1 };
    rig.greet(1, limited(), 9);
    for message in [Message::Space {}, Message::Lock { wait: false }] {
        started(&rig.say(message));
    }
    for name in ["kiln-pool.toml", CHANGES] {
        let (job, _) = started(&rig.say(Message::Open { name: name.into() }));
        rig.finish(job, DiskDone::Opened { len: 64 });
    }
    // The lock has handle 1. The log of changes holds the keys of others, and is not cut.
    started(&rig.say(Message::Read { handle: 2, offset: 0, len: 9 }));
    assert!(is_refused(&rig.say(Message::Read { handle: 3, offset: 0, len: 9 })));
    let (_, work) = started(&rig.say(Message::Append { name: CHANGES.into(), at: 64 }));
    assert!(matches!(work, Disk::Append { whole: true, .. }));
    // A task is of the objects that its files are of.
    rig.say(Message::Name { name: "photos/a".into() });
    for (name, may) in [("letters/a", false), ("photos/a", true)] {
        let mut share = crate::proto::assignment::tests::shares().swap_remove(0);
        share.sources[0].name = format!("{0}.{0}.00.kiln", hash_of(name));
        let bytes = share.encode();
        let assign = Message::Assign { task: [1; 16], at: 0, total: bytes.len() as u64 };
        let actions = rig.ask(Frame::new(0, assign).with(bytes.into()));
        assert_eq!(is_refused(&actions), !may, "{actions:?}");
    }
}

#[test]
fn a_log_of_changes_is_only_appended_to() {
    let backend = std::sync::Arc::new(kiln_store::MemoryBackend::new());
    let disks = crate::DiskSet::new(backend.clone());
    // A record that was cut short is written over, and a log that is long begins anew.
    for (len, end) in [(0, 0), (64, 64), (70, 64), (1 << 20, 1 << 20), ((1 << 20) + 32, 0)] {
        backend.put(CHANGES, vec![1; len]);
        let append = Disk::Append { slot: 1, name: CHANGES.into(), at: 0, whole: true };
        assert_eq!(disks.run(append).unwrap(), DiskDone::Opened { len: end });
    }
}

use super::*;

const NOW: Duration = Duration::ZERO;

fn coordinator(nodes: usize) -> (Coordinator, Vec<AgentRequest>) {
    let share = |node| Share { node, assignment: vec![7; 10].into(), writes: node == nodes - 1 };
    let mut coordinator = Coordinator::new([1; 16], (0..nodes).map(share).collect());
    let requests = coordinator.begin(NOW);
    (coordinator, requests)
}

fn progress(state: TaskState, done: u64) -> Message {
    let (text, peer, chunk, stripe) = (String::new(), None, None, 0);
    let (total, read, sent, received, written) = (10, 1, 2, 3, 4);
    Message::Progress {
        state,
        done,
        total,
        read,
        sent,
        received,
        written,
        text,
        peer,
        chunk,
        stripe,
        waits: false,
    }
}

/// Answers all orders, as long as there are some, by what `reply` says.
fn play(
    coordinator: &mut Coordinator,
    mut requests: Vec<AgentRequest>,
    mut reply: impl FnMut(&AgentRequest) -> Result<Message>,
) -> Vec<&'static str> {
    let mut names = Vec::new();
    while !requests.is_empty() {
        let request = requests.remove(0);
        names.push(request.message.name());
        let answer = reply(&request);
        requests.extend(coordinator.answered(NOW, &request, answer));
    }
    names
}

fn well(request: &AgentRequest) -> Result<Message> {
    Ok(match request.message {
        Message::Watch { seen: 0, .. } => progress(TaskState::Running, 5),
        Message::Watch { .. } => progress(TaskState::Done, 10),
        _ => Message::Done {},
    })
}

#[test]
fn all_are_ready_before_one_starts_and_all_are_done_before_one_commits() {
    let (mut coordinator, requests) = coordinator(3);
    let names = play(&mut coordinator, requests, well);
    let first = |name: &str| names.iter().position(|n| *n == name).unwrap();
    let last = |name: &str| names.iter().rposition(|n| *n == name).unwrap();
    assert!(last("Assign") < first("Start") && last("Watch") < first("Commit"), "{names:?}");
    assert_eq!(names.iter().filter(|n| **n == "Commit").count(), 1);
    assert!(last("Commit") < first("Abort"));
    let Some(Outcome::Done(amounts)) = coordinator.outcome() else { panic!() };
    assert_eq!(amounts.len(), 3);
    assert_eq!(amounts[0].1.windows, 10);
    assert!(coordinator.outcome().is_none());
}

#[test]
fn whoever_fails_at_any_request_is_named_and_nothing_is_committed_after() {
    let total = {
        let (mut coordinator, requests) = coordinator(3);
        play(&mut coordinator, requests, well).len()
    };
    for at in 0..total {
        let (mut coordinator, requests) = coordinator(3);
        let (mut count, mut failed) = (0, None);
        let names = play(&mut coordinator, requests, |request| {
            count += 1;
            if count == at + 1 {
                failed = Some((request.rank, request.message.name()));
                let (what, place) = (String::new(), String::new());
                return Err(NetError::Late { what, place });
            }
            well(request)
        });
        let (rank, request) = failed.unwrap();
        match coordinator.outcome().unwrap() {
            // It is too late to fail when all is committed.
            Outcome::Done(_) => assert_eq!(request, "Abort"),
            Outcome::Failed(RepairFailure::Node(node, _)) => assert_eq!(node, rank),
            Outcome::Failed(other) => panic!("{other:?}"),
        }
        let commits = names.iter().skip(at + 1).filter(|name| **name == "Commit").count();
        assert_eq!(commits, 0, "{at}: {names:?}");
    }
}

#[test]
fn failures_say_what_is_in_the_way() {
    let cases = [(Some(2), None, "node 2"), (None, Some(4), "chunk 4"), (None, None, "disk 0")];
    for (peer, chunk, wanted) in cases {
        let (mut coordinator, requests) = coordinator(2);
        play(&mut coordinator, requests, |request| match request.message {
            Message::Watch { .. } => {
                let mut message = progress(TaskState::Failed, 1);
                if let Message::Progress { peer: p, chunk: c, .. } = &mut message {
                    (*p, *c) = (peer, chunk);
                }
                Ok(message)
            }
            _ => well(request),
        });
        let found = match coordinator.outcome() {
            Some(Outcome::Failed(RepairFailure::Node(node, _))) => format!("node {node}"),
            Some(Outcome::Failed(RepairFailure::Chunk(chunk, ..))) => format!("chunk {chunk}"),
            Some(Outcome::Failed(RepairFailure::Disk(node, _))) => format!("disk {node}"),
            other => panic!("{other:?}"),
        };
        assert_eq!(found, wanted);
    }
}

/// When a repair of two nodes that gets no window done is given up, with this much read for it and
/// this much done beside it.
fn given_up(read: impl Fn(Duration) -> u64, beside: impl Fn(Duration) -> u64) -> Duration {
    let (mut coordinator, requests) = coordinator(2);
    let mut now = NOW;
    let mut queue = requests;
    while !queue.is_empty() {
        let request = queue.remove(0);
        now += Duration::from_secs(1);
        coordinator.beside(now, beside(now));
        let answer = match request.message {
            Message::Watch { .. } => {
                let mut message = progress(TaskState::Running, 5 + request.rank as u64);
                if let Message::Progress { read: bytes, .. } = &mut message {
                    *bytes = read(now);
                }
                message
            }
            _ => Message::Done {},
        };
        queue.extend(coordinator.answered(now, &request, Ok(answer)));
    }
    let Some(Outcome::Failed(RepairFailure::Node(0, NetError::Late { .. }))) =
        coordinator.outcome()
    else {
        panic!()
    };
    now
}

#[test]
fn when_nothing_moves_the_one_furthest_behind_is_in_the_way() {
    let now = given_up(|_| 1, |_| 7);
    assert!(now > STALL && now < 3 * STALL, "{now:?}");
    // Others get on for a while, then for ever.
    let now = given_up(|_| 1, |now| now.as_secs().min(100));
    assert!(now > Duration::from_secs(100) + STALL && now < 6 * STALL, "{now:?}");
    let now = given_up(|_| 1, |now| now.as_secs());
    assert!(now > CROWDED && now < CROWDED + STALL, "{now:?}");
    // A large window that is still being read is progress.
    let now = given_up(|now| now.as_secs().min(100), |_| 7);
    assert!(now > Duration::from_secs(100) + STALL && now < 6 * STALL, "{now:?}");
}

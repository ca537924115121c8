use super::*;
use kiln_code::Codec;
use kiln_net::proto::assignment::{FragmentHeader, Geometry, Peer, SourceFile};
use kiln_plan::{Problem, SearchBudget, strategy};

/// A read of chunk 0 of rs:2+1 in windows of 512 bytes: node 1 sends to node 2, which sends the
/// sum to the reader, node 0.
fn reader(windows: u32) -> DegradedReader {
    let codec = Codec::new(&"rs:2+1".parse().unwrap()).unwrap();
    let problem = Problem::on_own_nodes(codec.repair_dag(&[0], &[1, 2]).unwrap().1).unwrap();
    let plan = strategy("pipeline").unwrap().plan(&problem, &mut SearchBudget::default()).unwrap();
    let execution = plan.execution().unwrap();
    let geometry = Geometry {
        spec: "rs:2+1".into(),
        object: "object".into(),
        k: 2,
        n: 3,
        alpha: 1,
        sub_chunk: 8192,
        segment_stripes: 1,
        size: 4 * 16_384,
        digests: vec![[0; 16]; 3],
        ..Geometry::default()
    };
    let assignment = |node: usize| {
        let bare = Assignment::of(&execution, node).unwrap();
        let sends = bare.rounds.iter().flat_map(|round| &round.sends);
        let peers = sends.map(|send| Peer { node: send.to, address: String::new() }).collect();
        let sources = match node {
            0 => Vec::new(),
            _ => vec![SourceFile { chunk: node as u32, name: format!("shard.{node}") }],
        };
        let geometry = geometry.clone();
        Assignment { first: 0, end: 4, slice: 512, windows, geometry, peers, sources, ..bare }
    };
    let share = |node| Share { node, assignment: assignment(node).encode().into(), writes: false };
    DegradedReader::new([7; 16], vec![share(1), share(2)], assignment(0)).unwrap()
}

fn requests(todo: Vec<ReaderAction>) -> Vec<AgentRequest> {
    let request = |next| match next {
        ReaderAction::Request(request) => Some(request),
        ReaderAction::Compute { .. } | ReaderAction::Keep { .. } => None,
    };
    todo.into_iter().filter_map(request).collect()
}

fn names(requests: &[AgentRequest]) -> Vec<&'static str> {
    requests.iter().map(|request| request.message.name()).collect()
}

const NOW: Duration = Duration::ZERO;

fn done() -> Result<Frame> {
    Ok(Frame::new(1, Message::Done {}))
}

/// The part of a window that node 2 sends.
fn taken(window: u64) -> Result<Frame> {
    let header = FragmentHeader { piece: 2, at: 0, total: 512, len: 512 };
    let frame = Frame::new(1, Message::Fetched { window, headers: vec![header] });
    Ok(frame.with(vec![7; 512].into()))
}

/// Assigned and started; the questions for pieces.
fn running(reader: &mut DegradedReader) -> Vec<AgentRequest> {
    let assign = requests(reader.begin(NOW));
    assert_eq!(names(&assign), ["Assign", "Assign"]);
    assert!(requests(reader.answered(NOW, &assign[0], done())).is_empty());
    let started = requests(reader.answered(NOW, &assign[1], done()));
    assert_eq!(names(&started), ["Start", "Start", "Fetch", "Fetch"]);
    started
}

#[test]
fn only_who_sends_to_the_reader_is_asked_and_no_further_than_it_takes() {
    let mut reader = reader(8);
    let started = running(&mut reader);
    let takes = &started[2..];
    for take in takes {
        let Message::Fetch { below, .. } = take.message else { unreachable!() };
        assert_eq!((take.rank, below), (1, 8));
    }
    // Windows in any order; every answer is followed by another question, for more windows when
    // the lowest is done.
    let todo = reader.answered(NOW, &takes[0], taken(1));
    assert!(todo.iter().any(|next| matches!(next, ReaderAction::Keep { window: 1, .. })));
    assert_eq!(names(&requests(todo)), ["Fetch"]);
    assert_eq!(names(&requests(reader.kept(NOW, 1, 512))), [""; 0]);
    reader.answered(NOW, &takes[1], taken(0));
    reader.kept(NOW, 0, 512);
    let again = requests(reader.answered(NOW, &takes[0], taken(2)));
    let Message::Fetch { below, .. } = again[0].message else { unreachable!() };
    assert_eq!((below, reader.received()), (10, 3 * 512));
    // An agent with nothing to send for a long time gets leave to go on.
    for window in 3..6 {
        let take = requests(reader.answered(NOW, &takes[0], taken(window)));
        assert_eq!(names(&take), ["Fetch"]);
        reader.kept(NOW, window, 512);
    }
    assert!(reader.over().is_none());
}

#[test]
fn pieces_that_nobody_asked_for_and_failure_end_it() {
    let mut early = reader(8);
    let started = running(&mut early);
    assert!(early.answered(NOW, &started[2], taken(8)).is_empty());
    assert!(early.over().unwrap().contains("no room"));
    let mut failed = reader(8);
    let started = running(&mut failed);
    let gone = || Err(NetError::Late { what: "Watch".into(), place: "kiln://far:1".into() });
    let aborts = requests(failed.answered(NOW, &started[0], gone()));
    assert_eq!(names(&aborts), ["Abort", "Abort"]);
    assert!(failed.over().unwrap().contains("kiln://far:1"));
    assert!(!failed.is_clear());
    // All that was asked is answered, some way or other.
    for request in started[1..2].iter().chain(&aborts) {
        failed.answered(NOW, request, done());
    }
    assert!(failed.is_clear() && failed.end().is_empty());
}

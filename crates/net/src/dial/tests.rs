//! Tests of calls on connections that are over.

use super::*;
use crate::proto::{Message, Priority};
use std::{io::Write, net::TcpListener, sync::mpsc};

/// Asks a peer for a list and waits for the answer, at most so many seconds.
fn list(peer: &Peer, seconds: u64) -> Result<(), NetError> {
    let (tell, told) = mpsc::channel();
    peer.ask(PendingRequest {
        message: Message::List { after: String::new() },
        payload: bytes::Bytes::new(),
        priority: Priority::Client,
        patience: Duration::from_secs(seconds),
        token: Box::new(move |answer| tell.send(answer.map(|_| ())).unwrap()),
    });
    told.recv().unwrap()
}

/// A runtime, and a listener with its address in this scheme.
fn awaited(scheme: &str) -> (tokio::runtime::Runtime, TcpListener, Address) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("{scheme}://{}", listener.local_addr().unwrap()).parse().unwrap();
    (runtime, listener, address)
}

/// Requests after the end get the same error as those before it.
#[test]
fn the_reason_of_the_end_is_kept_for_who_comes_later() {
    // Refused before a byte is sent: there is no key.
    let (runtime, _listener, address) = awaited("kiln");
    let peer = Peer::connect(runtime.handle(), &address, None, &Arc::default());
    while !peer.has_ended() {
        std::thread::yield_now();
    }
    // The first may still reach the task, the last comes after it.
    for pause in [0, 0, 50] {
        std::thread::sleep(Duration::from_millis(pause));
        let error = list(&peer, 5).unwrap_err();
        assert!(error.to_string().contains("--key"), "{error}");
    }
}

/// A caller with a broken connection looks whether to ask on a new one: the answer must not
/// be there before the end can be seen.
#[test]
fn the_end_can_be_seen_when_its_answer_comes() {
    let (runtime, listener, address) = awaited("kiln+plain");
    let peer = Arc::new(Peer::connect(runtime.handle(), &address, None, &Arc::default()));
    let (tell, told) = mpsc::channel();
    let asked = Arc::clone(&peer);
    peer.ask(PendingRequest {
        message: Message::List { after: String::new() },
        payload: bytes::Bytes::new(),
        priority: Priority::Client,
        patience: Duration::from_secs(5),
        token: Box::new(move |answer| {
            tell.send((answer.map(|_| ()), asked.has_ended())).unwrap();
        }),
    });
    drop(listener.accept().unwrap());
    let (answer, seen) = told.recv().unwrap();
    assert!(
        matches!(answer, Err(NetError::Io { op: crate::NetOperation::Talk, .. })),
        "{answer:?}"
    );
    assert!(seen, "the answer came before the end");
}

/// A connection that the other side refused stays refused for requests that come when it is over:
/// they must not be told that it broke, which has another exit code.
#[test]
fn a_refusal_is_kept_for_later_requests() {
    let (runtime, listener, address) = awaited("kiln+plain");
    let peer = Peer::connect(runtime.handle(), &address, None, &Arc::default());
    let mut stream = listener.accept().unwrap().0;
    let hello = runtime.block_on(async {
        stream.set_nonblocking(true).unwrap();
        let mut stream = TcpStream::from_std(stream.try_clone().unwrap()).unwrap();
        read_frame(&mut stream, 0, (BODY_MAX, PAYLOAD_MAX)).await.unwrap().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.write_all(&hello.reply(crate::agent::refused("this is \"d0\"")).encode(0)).unwrap();
    while !peer.has_ended() {
        std::thread::yield_now();
    }
    for pause in [0, 0, 50] {
        std::thread::sleep(Duration::from_millis(pause));
        let answer = list(&peer, 5);
        assert!(matches!(&answer, Err(NetError::Refused { .. })), "{answer:?}");
    }
}

/// A stopped process: the system accepts connections for it, and nothing answers. Once others have
/// answered, it costs little, and the next one that asks nothing at all.
#[test]
fn a_silent_agent_is_noticed_soon_and_remembered() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for scheme in ["kiln+plain", "kiln"] {
        let greetings = Arc::new(Greetings::default());
        greetings.answered("another", Duration::from_millis(5));
        let folder = tempfile::tempdir().unwrap();
        let key = ClusterKey::create(&folder.path().join("key")).unwrap();
        let address = format!("{scheme}://{}", listener.local_addr().unwrap());
        let (begin, parsed) = (Instant::now(), address.parse().unwrap());
        let peer = Peer::connect(runtime.handle(), &parsed, Some(key), &greetings);
        let error = list(&peer, 60).unwrap_err();
        assert!(begin.elapsed() < Duration::from_secs(9), "{scheme}: {:?}", begin.elapsed());
        assert!(error.to_string().contains("silent"), "{error}");
        assert!(matches!(error, NetError::Io { op: crate::NetOperation::Connect, .. }));
        assert!(greetings.check(&address).is_err());
    }
}

//! Hostile frames, and their effects on an agent: no panic, no disk job before a
//! proper Hello, and what is accepted is written back the same.

use std::time::Duration;

use bytes::Bytes;
use kiln_net::agent::{Action, Agent, Disk, Event, Limits, PeerInfo};
use kiln_net::proto::{Frame, HEADER, Header, Message};
use kiln_store::check_name;

const SESSION: u64 = 42;

/// Checksums would keep a fuzzer out: they are set right before the frame is parsed.
fn frame(bytes: &[u8], session: u64) -> Option<(Frame, usize)> {
    let head = bytes.first_chunk::<HEADER>()?;
    let body = u32::from_le_bytes(*head[20..].first_chunk()?) as usize;
    let payload = u32::from_le_bytes(*head[24..].first_chunk()?) as usize;
    let rest = &bytes[HEADER..];
    let (body, rest) = rest.split_at_checked(body)?;
    let (payload, _) = rest.split_at_checked(payload)?;
    let mut head = *head;
    let crc = crc_fast::crc32_iscsi;
    head[28..32].copy_from_slice(&crc(body).to_le_bytes());
    head[32..36].copy_from_slice(&crc(payload).to_le_bytes());
    let sum = crc(&[&session.to_le_bytes()[..], &head[..36]].concat());
    head[36..].copy_from_slice(&sum.to_le_bytes());
    let header = Header::parse(&head, session).ok()?;
    let frame = Frame::parse(&header, body, Bytes::copy_from_slice(payload)).ok()?;
    let all = HEADER + body.len() + payload.len();
    assert_eq!(frame.encode(session)[..], [&head[..], body, payload].concat()[..]);
    Some((frame, all))
}

pub fn run(bytes: &[u8]) {
    // As it comes.
    if let Some(head) = bytes.first_chunk::<HEADER>() {
        let _ = Header::parse(head, 0);
    }
    let mut agent = Agent::new("here", Limits::default());
    let now = Duration::ZERO;
    agent
        .handle(now, Event::Connected { connection: 1, session: SESSION, peer: PeerInfo::KEYLESS });
    let (mut rest, mut greeted) = (bytes, false);
    while let Some((frame, len)) = frame(rest, if greeted { SESSION } else { 0 }) {
        let hello = matches!(frame.message, Message::Hello { .. });
        for action in agent.handle(now, Event::Frame { connection: 1, frame }) {
            if let Action::Start { work, .. } = action {
                assert!(greeted);
                // The backend checks names; nothing here may get around it by other means.
                if let Disk::Open { name, .. } = work {
                    let _ = check_name(&name);
                }
            }
        }
        greeted |= hello;
        rest = &rest[len..];
    }
}

/// A greeting, and what may follow it.
pub fn seeds() -> Vec<Vec<u8>> {
    let hello = Message::Hello { lowest: 1, highest: 1, place: String::new() };
    let hello = Frame::new(0, hello).encode(0);
    let after = |message: Message| [&hello[..], &Frame::new(7, message).encode(SESSION)].concat();
    let name = || "x.00.kiln".to_owned();
    vec![
        hello.to_vec(),
        after(Message::List { after: name() }),
        after(Message::Open { name: name() }),
        after(Message::Read { handle: 1, offset: 4096, len: 512 }),
        after(Message::Append { name: name(), at: 0 }),
    ]
}

//! The asking side of a connection against an agent that answers whatever it likes: no panic, every
//! request is answered exactly once, and not by what was never asked.

use bytes::Bytes;
use kiln_net::link::{Action, Event, Link, Request};
use kiln_net::proto::{Frame, Message, Priority};
use std::{collections::BTreeSet, io::ErrorKind, time::Duration};

/// The client, and what it waits for.
struct Client {
    link: Link<u64>,
    now: Duration,
    /// Requests without an answer.
    waiting: BTreeSet<u64>,
    asked: u64,
    /// Frames that it sent, by number.
    sent: Vec<u64>,
}

impl Client {
    fn handle(&mut self, event: Event<u64>) {
        for action in self.link.handle(self.now, event) {
            match action {
                Action::Send { frame, .. } => self.sent.push(frame.id),
                Action::Answer { token, answer } => {
                    assert!(self.waiting.remove(&token), "{token} is not waited for");
                    let is_failure =
                        |frame: &Frame| matches!(frame.message, Message::Failed { .. });
                    assert!(!answer.as_ref().is_ok_and(is_failure), "a failure is an error");
                }
                Action::Session(_) => {}
                Action::Close => assert!(self.link.has_ended()),
            }
        }
        assert!(!self.link.has_ended() || self.waiting.is_empty(), "a request is left waiting");
        assert!(self.link.wake_at() > Duration::ZERO);
    }
}

pub fn run(input: &[u8]) {
    let link = Link::new("kiln://far:1", "here", Duration::ZERO);
    let (waiting, sent) = (BTreeSet::new(), Vec::new());
    let mut client = Client { link, now: Duration::ZERO, waiting, asked: 0, sent };
    let mut rest = input.iter().map(|byte| u64::from(*byte));
    while let Some(step) = rest.next() {
        let (a, b) = (rest.next().unwrap_or(0), rest.next().unwrap_or(0));
        let event = match step % 16 {
            0 => Event::Connected,
            1 => Event::Closed(ErrorKind::ConnectionReset.into()),
            2 | 3 => {
                client.now += Duration::from_millis(a * 100);
                Event::Tick
            }
            4..=7 => {
                client.asked += 1;
                client.waiting.insert(client.asked);
                Event::Request(request(client.asked, a, b))
            }
            kind => {
                // Mostly an answer to something that was asked.
                let at = usize::try_from(a).unwrap_or(0);
                let known = client.sent.iter().rev().nth(at % 8).copied().filter(|_| at < 240);
                let (id, payload) = (known.unwrap_or(a << 56), vec![7; b as usize * 16]);
                Event::Frame(Frame::new(id, reply(kind, a, b)).with(Bytes::from(payload)))
            }
        };
        client.handle(event);
    }
    client.handle(Event::Closed(ErrorKind::UnexpectedEof.into()));
    assert!(client.link.has_ended());
}

fn request(token: u64, a: u64, b: u64) -> Request<u64> {
    let name = || "x.00.kiln".to_owned();
    let message = match a % 7 {
        0 => Message::Open { name: name() },
        1 => Message::Read { handle: 1, offset: b << 50, len: (b as u32) << 12 },
        2 => Message::List { after: name() },
        3 => Message::Write { handle: 1, at: b },
        4 => Message::Fetch { task: [1; 16], below: b, max: (b as u32) << 24 },
        5 => Message::Space {},
        _ => Message::Ping {},
    };
    let payload = if a % 7 == 3 { vec![5; b as usize * 64] } else { Vec::new() };
    let priority = if b.is_multiple_of(2) { Priority::Client } else { Priority::Repair };
    let patience = Duration::from_millis(a / 7 * 500);
    Request { payload: payload.into(), priority, ..Request::new(token, message, patience) }
}

fn reply(kind: u64, a: u64, b: u64) -> Message {
    let text = |what: u64| "y".repeat(what as usize);
    match kind {
        8 | 9 => Message::Welcome {
            version: (b % 4) as u8,
            place: if a < 200 { "here".into() } else { text(b) },
            session: a << 40,
            requests: (b % 5) as u32,
            credit: if a.is_multiple_of(3) { u32::MAX } else { (b as u32) << 12 },
        },
        10 => Message::Opened { handle: a as u32, len: b << 56 },
        11 => Message::Names { names: vec![text(a), "../up".into()], more: b.is_multiple_of(2) },
        12 => Message::Data {},
        13 => Message::Failed {
            kind: b as u8,
            op: text(a % 9),
            name: "../up".into(),
            text: text(b),
            need: a << 56,
            have: b << 56,
        },
        14 => Message::Done {},
        // Requests, where only replies may come.
        _ => Message::Hello { lowest: 0, highest: 255, place: text(a) },
    }
}

/// A greeting, requests and their answers; silence; a connection that ends.
pub fn seeds() -> Vec<Vec<u8>> {
    let greeted = [0, 0, 0, 8, 0, 3];
    let asked = [4, 0, 0, 10, 0, 1, 5, 1, 2, 12, 0, 9, 6, 2, 0, 11, 0, 1, 7, 3, 4, 14, 0, 0];
    let refused = [4, 100, 1, 13, 0, 6, 4, 5, 1, 14, 250, 0];
    let silent = [5, 15, 1, 2, 200, 0, 2, 255, 0, 1, 0, 0];
    [&asked[..], &refused, &silent].map(|after| [&greeted[..], after].concat()).to_vec()
}

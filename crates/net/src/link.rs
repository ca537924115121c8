//! The asking side of a connection as a state machine: requests, replies and the time go in,
//! frames and answers come out.
//!
//! It stays within the credit that the other side granted, sends clients' requests before those of
//! repair, gives up requests whose deadline has passed, and notices when the other side is dead.

use std::collections::{BTreeMap, VecDeque};
use std::{io, time::Duration};

use bytes::Bytes;

use crate::proto::{Frame, Message, Priority, Role, VERSION, VERSION_LEAST};
use crate::{NetError, NetOperation, Result, agent::store_error};

/// Questions that wait for credit, at most.
const WAITING_MAX: usize = 4096;
/// After this time without a frame from the other side a ping is sent.
const QUIET: Duration = Duration::from_secs(5);
/// After this time the connection counts as dead.
const DEAD: Duration = Duration::from_secs(15);
/// The text for a connection that ended before the other side answered the greeting.
const UNGREETED: &str = "it ended the connection without an answer; \
    kiln:// is for agents with a key, kiln+plain:// for those without";

/// A request, with what its answer is given to.
#[derive(Debug, Clone)]
pub struct Request<T> {
    /// Comes back with the answer.
    pub token: T,
    /// The request.
    pub message: Message,
    /// Bytes that go with it.
    pub payload: Bytes,
    /// Priority of the answer.
    pub priority: Priority,
    /// Time limit of the answer; zero: as long as the other side lives.
    pub patience: Duration,
}

impl<T> Request<T> {
    /// A client's request without payload.
    pub fn new(token: T, message: Message, patience: Duration) -> Request<T> {
        Request { token, message, payload: Bytes::new(), priority: Priority::Client, patience }
    }

    /// Bytes of credit that it takes.
    fn cost(&self) -> u32 {
        match self.message {
            Message::Read { len, .. } | Message::Fetch { max: len, .. } => len,
            _ => self.payload.len() as u32,
        }
    }
}

/// An input of the state machine.
#[derive(Debug)]
pub enum Event<T> {
    /// The connection is made (and, with TLS, proven).
    Connected,
    /// A request.
    Request(Request<T>),
    /// A frame arrived.
    Frame(Frame),
    /// The connection ended.
    Closed(io::Error),
    /// Time passed, see [`Link::wake_at`].
    Tick,
}

/// An action for the caller.
#[derive(Debug)]
pub enum Action<T> {
    /// Send a frame with this session.
    Send {
        /// The session.
        session: u64,
        /// The frame.
        frame: Frame,
    },
    /// A request is answered: the frame, or why there is none.
    Answer {
        /// The request's.
        token: T,
        /// Its answer; never `Failed`, which is an error here.
        answer: Result<Frame>,
    },
    /// Frames of this session may now arrive.
    Session(u64),
    /// Close the connection. All requests have been answered.
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Greeting,
    Ready,
    Ended,
}

/// The reason why a link ended, for requests that wait and for those that come later.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Broken(NetOperation, io::ErrorKind, String),
    Refused(String),
    Protocol(String),
    Silent,
}

impl End {
    /// Returns the end of a connection that was closed on this side.
    pub(crate) fn shutdown() -> End {
        let kind = io::ErrorKind::ConnectionAborted;
        End::Broken(NetOperation::Talk, kind, kind.to_string())
    }

    /// Returns the error for a request of this kind.
    pub(crate) fn error(&self, address: &str, what: &str) -> NetError {
        let place = address.to_owned();
        match self {
            End::Broken(op, kind, text) => {
                NetError::Io { op: *op, place, source: io::Error::new(*kind, text.clone()) }
            }
            End::Refused(why) => NetError::Refused { place, why: why.clone() },
            End::Protocol(what) => NetError::protocol(what.clone()),
            End::Silent => NetError::Late { what: what.to_owned(), place },
        }
    }
}

#[derive(Debug)]
struct Asked<T> {
    /// `None`: its time was over, but the other side may still work on it.
    token: Option<T>,
    deadline: Option<Duration>,
    what: &'static str,
    cost: u32,
}

/// The asking side of one connection; it ends with the connection.
#[derive(Debug)]
pub struct Link<T> {
    address: String,
    place: String,
    state: State,
    ended: Option<End>,
    /// The version of the protocol that the other side chose.
    version: u8,
    /// The latest version that this side speaks.
    latest: u8,
    session: u64,
    requests: usize,
    credit: u64,
    used: u64,
    next_request: u64,
    under_way: BTreeMap<u64, Asked<T>>,
    waiting: [VecDeque<(Option<Duration>, Request<T>)>; 2],
    heard: Duration,
    pinged: Duration,
    /// Since when answers are owed without a break.
    owed: Duration,
    /// Silence that ends the connection while an answer is owed; `None`: as long as without one.
    patience: Option<Duration>,
    actions: Vec<Action<T>>,
}

impl<T> Link<T> {
    /// A link to an address, where the place of this name is expected (empty: any).
    pub fn new(address: &str, place: &str, now: Duration) -> Link<T> {
        Link {
            address: address.to_owned(),
            place: place.to_owned(),
            state: State::Connecting,
            ended: None,
            version: VERSION_LEAST,
            latest: VERSION,
            session: 0,
            requests: 0,
            credit: 0,
            used: 0,
            next_request: 1,
            under_way: BTreeMap::new(),
            waiting: [VecDeque::new(), VecDeque::new()],
            heard: now,
            pinged: now,
            owed: now,
            patience: None,
            actions: Vec::new(),
        }
    }

    /// Ends the connection after so much silence while an answer is owed: an agent that lives
    /// answers a ping at once, whatever its disk does.
    pub(crate) fn limit_silence(&mut self, patience: Duration) {
        self.patience = Some(patience.min(DEAD));
    }

    /// When the other side is to be asked whether it lives, and when it counts as dead.
    fn silence(&self) -> (Duration, Duration) {
        let is_owed = || self.under_way.values().any(|asked| asked.token.is_some());
        match self.patience {
            Some(patience) if self.state == State::Ready && is_owed() => {
                let since = self.heard.max(self.owed);
                (since + patience / 4, since + patience)
            }
            _ => (self.heard + QUIET, self.heard + DEAD),
        }
    }

    /// The same, as a program that speaks no later version than this one.
    #[must_use]
    pub fn speaking(self, latest: u8) -> Link<T> {
        Link { latest, ..self }
    }

    /// Takes note of an event; gives what is to be done, in order.
    pub fn handle(&mut self, now: Duration, event: Event<T>) -> Vec<Action<T>> {
        match event {
            Event::Connected if self.state == State::Connecting => {
                self.state = State::Greeting;
                self.heard = now;
                let (lowest, highest, place) = (VERSION_LEAST, self.latest, self.place.clone());
                let hello = Message::Hello { lowest, highest, place };
                let frame = Frame::new(0, hello).at(Priority::Control);
                self.actions.push(Action::Send { session: 0, frame });
            }
            Event::Connected => {}
            Event::Request(ask) => self.ask(now, ask),
            Event::Frame(frame) => {
                self.heard = now;
                match self.frame(frame) {
                    Err(NetError::Protocol { what }) => self.end(End::Protocol(what)),
                    Err(other) => self.end(End::Protocol(other.to_string())),
                    Ok(()) => {}
                }
            }
            Event::Closed(error) => self.closed(&error),
            Event::Tick => self.tick(now),
        }
        self.send_waiting(now);
        std::mem::take(&mut self.actions)
    }

    /// When a [`Event::Tick`] is due.
    pub fn wake_at(&self) -> Duration {
        let asked = self.under_way.values().filter(|asked| asked.token.is_some());
        let waiting = self.waiting.iter().flatten();
        let deadlines = asked.filter_map(|a| a.deadline).chain(waiting.filter_map(|(d, _)| *d));
        // Only where there is a connection can the other side be asked.
        let (ask, dead) = self.silence();
        let quiet = match self.pinged > self.heard || self.state != State::Ready {
            true => dead,
            false => ask,
        };
        deadlines.fold(quiet, Duration::min)
    }

    /// Returns whether the link is over; a new one is needed.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Returns whether the other side has yet to answer the greeting.
    pub(crate) fn is_greeting(&self) -> bool {
        self.state == State::Greeting
    }

    /// Returns the reason of the end, once the link is over.
    pub(crate) fn end_reason(&self) -> Option<&End> {
        self.ended.as_ref()
    }

    fn ask(&mut self, now: Duration, ask: Request<T>) {
        let what = ask.message.name();
        let refused = if let Some(why) = &self.ended {
            Some(why.error(&self.address, what))
        } else if self.waiting.iter().map(VecDeque::len).sum::<usize>() >= WAITING_MAX {
            let (what, place) = (what.to_owned(), self.address.clone());
            Some(NetError::GaveUp { what, place, why: "too many requests wait".to_owned() })
        } else {
            None
        };
        if let Some(error) = refused {
            self.actions.push(Action::Answer { token: ask.token, answer: Err(error) });
            return;
        }
        let deadline = (!ask.patience.is_zero()).then(|| now + ask.patience);
        self.waiting[usize::from(ask.priority == Priority::Repair)].push_back((deadline, ask));
    }

    /// Sends what waits, as far as the credit goes; in order, so that nothing large starves.
    fn send_waiting(&mut self, now: Duration) {
        while self.state == State::Ready {
            let class = usize::from(self.waiting[0].is_empty());
            let Some((_, ask)) = self.waiting[class].front() else { return };
            let cost = u64::from(ask.cost());
            let fits = self.used + cost <= self.credit && self.under_way.len() < self.requests;
            if !fits {
                return;
            }
            let Some((deadline, ask)) = self.waiting[class].pop_front() else { return };
            let since = ask.message.since();
            if since > self.version {
                let (theirs, ours) = (self.version.to_string(), format!("{since} for this"));
                let place = self.address.clone();
                let answer = Err(NetError::Version { place, theirs, ours });
                self.actions.push(Action::Answer { token: ask.token, answer });
                continue;
            }
            if self.under_way.values().all(|asked| asked.token.is_none()) {
                self.owed = now;
            }
            self.used += cost;
            let id = self.next_request;
            self.next_request += 1;
            let what = ask.message.name();
            let (cost, token) = (ask.cost(), Some(ask.token));
            self.under_way.insert(id, Asked { token, deadline, what, cost });
            let deadline_ms = deadline.map_or(0, |at| {
                u32::try_from(at.saturating_sub(now).as_millis()).unwrap_or(u32::MAX).max(1)
            });
            let frame = Frame { id, deadline_ms, ..Frame::new(id, ask.message) };
            let frame = frame.at(ask.priority).with(ask.payload);
            self.actions.push(Action::Send { session: self.session, frame });
        }
    }

    fn frame(&mut self, frame: Frame) -> Result<()> {
        if frame.message.role() != Role::Reply {
            return Err(NetError::protocol("a request where only replies may come"));
        }
        if self.state == State::Greeting {
            return self.welcome(frame);
        }
        let Some(asked) = self.under_way.remove(&frame.id) else {
            return Err(NetError::protocol("a reply to nothing that was asked"));
        };
        self.used -= u64::from(asked.cost);
        let Some(token) = asked.token else { return Ok(()) };
        let answer = match frame.message {
            Message::Failed { ref name, .. } => {
                let name = name.clone();
                Err(store_error(frame.message, &self.address, asked.what, &name))
            }
            _ => Ok(frame),
        };
        self.actions.push(Action::Answer { token, answer });
        Ok(())
    }

    fn welcome(&mut self, frame: Frame) -> Result<()> {
        match frame.message {
            Message::Welcome { version, place, session, requests, credit }
                if (VERSION_LEAST..=self.latest).contains(&version) =>
            {
                self.version = version;
                if !self.place.is_empty() && place != self.place {
                    let what = format!("{} is {place:?}, not {:?}", self.address, self.place);
                    return Err(NetError::protocol(what));
                }
                self.state = State::Ready;
                (self.session, self.requests) = (session, requests.max(1) as usize);
                self.credit = u64::from(credit);
                self.actions.push(Action::Session(session));
                Ok(())
            }
            Message::Failed { text, .. } => {
                self.end(End::Refused(text));
                Ok(())
            }
            other => Err(NetError::protocol(format!("{} where Welcome belongs", other.name()))),
        }
    }

    fn tick(&mut self, now: Duration) {
        let late = |what: &str, place: &str| NetError::Late {
            what: what.to_owned(),
            place: place.to_owned(),
        };
        if now >= self.silence().1 && self.state != State::Ended {
            return self.end(End::Silent);
        }
        for queue in &mut self.waiting {
            let over = |at: &Option<Duration>| at.is_some_and(|at| at <= now);
            while let Some(at) = queue.iter().position(|(deadline, _)| over(deadline)) {
                let Some((_, ask)) = queue.remove(at) else { break };
                let answer = Err(late(ask.message.name(), &self.address));
                self.actions.push(Action::Answer { token: ask.token, answer });
            }
        }
        let mut given_up = Vec::new();
        for (id, asked) in &mut self.under_way {
            if asked.deadline.is_some_and(|at| at <= now)
                && let Some(token) = asked.token.take()
            {
                let answer = Err(late(asked.what, &self.address));
                self.actions.push(Action::Answer { token, answer });
                given_up.push(*id);
            }
        }
        for request in given_up {
            self.control(Message::Cancel { request });
        }
        if now >= self.silence().0 && self.pinged <= self.heard && self.state == State::Ready {
            self.pinged = now;
            let id = self.control(Message::Ping {});
            let asked = Asked { token: None, deadline: None, what: "Ping", cost: 0 };
            self.under_way.insert(id, asked);
        }
    }

    /// Sends something that takes no credit.
    fn control(&mut self, message: Message) -> u64 {
        let id = self.next_request;
        self.next_request += 1;
        let frame = Frame::new(id, message).at(Priority::Control);
        self.actions.push(Action::Send { session: self.session, frame });
        id
    }

    fn closed(&mut self, error: &io::Error) {
        let op = match self.state {
            State::Connecting => NetOperation::Connect,
            // Silent: as good as not connected, and not to be tried again at once.
            State::Greeting if error.kind() == io::ErrorKind::TimedOut => NetOperation::Connect,
            _ => NetOperation::Talk,
        };
        let (kind, text) = match (self.state, error.kind()) {
            // One error for what is the same to the caller: a reset may overtake the alert and the
            // end of the stream by which an agent with TLS ends a connection without.
            (
                State::Greeting,
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe,
            ) => (io::ErrorKind::ConnectionAborted, UNGREETED.to_owned()),
            (_, kind) => (kind, error.to_string()),
        };
        self.end(End::Broken(op, kind, text));
    }

    /// Answers everything by an error and closes.
    fn end(&mut self, why: End) {
        if self.ended.is_some() {
            return;
        }
        self.state = State::Ended;
        for asked in std::mem::take(&mut self.under_way).into_values() {
            if let Some(token) = asked.token {
                self.actions.push(Action::Answer {
                    token,
                    answer: Err(why.error(&self.address, asked.what)),
                });
            }
        }
        for (_, ask) in self.waiting.iter_mut().flat_map(|queue| queue.drain(..)) {
            let answer = Err(why.error(&self.address, ask.message.name()));
            self.actions.push(Action::Answer { token: ask.token, answer });
        }
        self.ended = Some(why);
        self.actions.push(Action::Close);
    }
}

#[cfg(test)]
mod tests;

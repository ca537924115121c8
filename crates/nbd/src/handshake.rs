//! The negotiation: options come in, answers go out. No sockets here.

use crate::wire::{self, Style, can, info, option, reply};

/// The context that says what is data and what zeros, and the number that it has here.
const ALLOCATION: &[u8] = b"base:allocation";
const ALLOCATION_ID: u32 = 1;
/// Most contexts that a client may ask for at once.
const MAX_QUERIES: u32 = 64;

/// Description of an export, for the negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name; clients that name none get it too.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// Nothing can be written.
    pub read_only: bool,
}

impl About {
    fn flags(&self) -> u16 {
        let all = can::HAS_FLAGS | can::FLUSH | can::FUA | can::MULTI_CONN | can::DONT_FRAGMENT;
        all | if self.read_only { can::READ_ONLY } else { can::TRIM | can::WRITE_ZEROES }
    }
}

/// The step after an option.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// More options.
    Option,
    /// The connection is to be encrypted from here on; the negotiation begins again.
    Tls,
    /// Requests.
    Transmission,
    /// The end.
    End,
}

/// The negotiation with one client.
#[derive(Clone, Debug)]
pub struct Handshake {
    about: About,
    /// The client has to ask for encryption before anything else.
    needs_tls: bool,
    has_tls: bool,
    zeroes: bool,
    style: Style,
    context: bool,
}

impl Handshake {
    /// With a client that has sent nothing yet.
    pub fn new(about: About, needs_tls: bool) -> Handshake {
        let style = Style::default();
        Handshake { about, needs_tls, has_tls: false, zeroes: true, style, context: false }
    }

    /// The same over a connection that is encrypted now: what was negotiated before is forgotten.
    pub fn encrypted(&mut self) {
        (self.has_tls, self.style, self.context) = (true, Style::default(), false);
    }

    /// Takes the client's answer to the greeting; `false`: it is invalid.
    #[must_use]
    pub fn client_flags(&mut self, flags: u32) -> bool {
        self.zeroes = flags & wire::CLIENT_NO_ZEROES == 0;
        flags & !wire::CLIENT_KNOWN == 0
    }

    pub(crate) fn style(&self) -> Style {
        self.style
    }

    /// The number of the context, where the client asked for it.
    pub(crate) fn context(&self) -> Option<u32> {
        self.context.then_some(ALLOCATION_ID)
    }

    /// Answers an option; the answer is added to `out`.
    pub fn option(&mut self, kind: u32, data: &[u8], out: &mut Vec<u8>) -> Next {
        let mut answer = |what: u32, data: &[u8]| wire::option_reply(kind, what, data, out);
        if self.needs_tls && !self.has_tls {
            match kind {
                option::STARTTLS | option::ABORT => {}
                // It has no way of being refused.
                option::EXPORT_NAME => return Next::End,
                _ => {
                    answer(reply::TLS_REQUIRED, b"this server serves encrypted connections only");
                    return Next::Option;
                }
            }
        }
        match kind {
            option::EXPORT_NAME => return self.export_name(data, out),
            option::ABORT => {
                answer(reply::ACK, &[]);
                return Next::End;
            }
            option::LIST if !data.is_empty() => answer(reply::INVALID, b"it has no data"),
            option::LIST => {
                let name = self.about.name.as_bytes();
                answer(reply::SERVER, &[&(name.len() as u32).to_be_bytes(), name].concat());
                answer(reply::ACK, &[]);
            }
            option::STARTTLS if !data.is_empty() => answer(reply::INVALID, b"it has no data"),
            option::STARTTLS if self.has_tls => answer(reply::INVALID, b"it is encrypted already"),
            option::STARTTLS if !self.needs_tls => {
                answer(reply::POLICY, b"this server has no certificate");
            }
            option::STARTTLS => {
                answer(reply::ACK, &[]);
                return Next::Tls;
            }
            option::INFO | option::GO => return self.go(kind, data, out),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.style.structured = true;
                answer(reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY => answer(reply::INVALID, b"it has no data"),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(kind, data, out),
            _ => answer(reply::UNSUPPORTED, b"there is no such option here"),
        }
        Next::Option
    }

    fn is_named(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.about.name.as_bytes()
    }

    fn export_name(&self, name: &[u8], out: &mut Vec<u8>) -> Next {
        if !self.is_named(name) {
            return Next::End;
        }
        out.extend_from_slice(&self.about.size.to_be_bytes());
        out.extend_from_slice(&self.about.flags().to_be_bytes());
        if self.zeroes {
            out.resize(out.len() + 124, 0);
        }
        Next::Transmission
    }

    fn go(&self, kind: u32, data: &[u8], out: &mut Vec<u8>) -> Next {
        let mut answer = |what: u32, data: &[u8]| wire::option_reply(kind, what, data, out);
        let Some((name, rest)) = name_of(data) else {
            answer(reply::INVALID, b"its length is not that of its parts");
            return Next::Option;
        };
        let wanted = match rest.split_first_chunk::<2>() {
            Some((count, list)) if list.len() == 2 * usize::from(u16::from_be_bytes(*count)) => {
                list
            }
            _ => {
                answer(reply::INVALID, b"its length is not that of its parts");
                return Next::Option;
            }
        };
        if !self.is_named(name) {
            let text = format!("there is no such export; there is {:?}", self.about.name);
            answer(reply::UNKNOWN, text.as_bytes());
            return Next::Option;
        }
        let (size, flags) = (self.about.size.to_be_bytes(), self.about.flags().to_be_bytes());
        answer(reply::INFO, &[&info::EXPORT.to_be_bytes()[..], &size, &flags].concat());
        if wanted.chunks(2).any(|kind| kind == info::BLOCK_SIZE.to_be_bytes()) {
            let sizes = [1, crate::BLOCK, wire::MAX_PAYLOAD].map(u32::to_be_bytes).concat();
            answer(reply::INFO, &[&info::BLOCK_SIZE.to_be_bytes()[..], &sizes].concat());
        }
        answer(reply::ACK, &[]);
        if kind == option::GO { Next::Transmission } else { Next::Option }
    }

    fn contexts(&mut self, kind: u32, data: &[u8], out: &mut Vec<u8>) {
        let mut answer = |what: u32, data: &[u8]| wire::option_reply(kind, what, data, out);
        let set = kind == option::SET_META_CONTEXT;
        let queries = name_of(data).and_then(|(name, rest)| Some((name, queries(rest)?)));
        let Some((name, queries)) = queries else {
            return answer(reply::INVALID, b"its length is not that of its parts");
        };
        if !self.style.structured {
            return answer(reply::INVALID, b"ask for structured replies first");
        }
        if !self.is_named(name) {
            return answer(reply::UNKNOWN, b"there is no such export");
        }
        // To list without a question is to ask for all of them.
        let asked = (queries.is_empty() && !set)
            || queries.iter().any(|query| *query == ALLOCATION || (!set && *query == b"base:"));
        if asked {
            let id = if set { ALLOCATION_ID } else { 0 };
            answer(reply::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION].concat());
        }
        if set {
            self.context = asked;
        }
        answer(reply::ACK, &[]);
    }
}

/// A name with its length before it, and what follows.
fn name_of(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = data.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*len) as usize)
}

/// Questions, with their number before them.
fn queries(data: &[u8]) -> Option<Vec<&[u8]>> {
    let (count, mut rest) = data.split_first_chunk::<4>()?;
    let count = u32::from_be_bytes(*count);
    if count > MAX_QUERIES {
        return None;
    }
    let mut all = Vec::new();
    for _ in 0..count {
        let (query, more) = name_of(rest)?;
        all.push(query);
        rest = more;
    }
    rest.is_empty().then_some(all)
}

//! One client: negotiation, then requests until it ends.

use std::io::{BufReader, BufWriter, Read, Write};
use std::{sync::Arc, thread::Builder};

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use rustls::ServerConfig;

use crate::error::{Result, protocol};
use crate::handshake::{Handshake, Next};
use crate::stream::{Incoming, Outgoing, Socket, encrypt, halves};
use crate::wire::{self, Command, Errno, MAX_OPTION, REQUEST, Request, Style, flag};
use crate::{About, Change, Export, budget::Budget, payloads::Payloads};

/// Options that a client may send.
const MAX_OPTIONS: usize = 1000;
/// Bytes that a request takes of its client's budget beside its data.
const EACH: u64 = 4 << 10;
/// Threads that read for one client.
const READERS: usize = 4;
/// Most extents in a reply.
const MAX_EXTENTS: usize = 8192;

/// A reply on its way.
struct Reply {
    head: Vec<u8>,
    data: Vec<u8>,
    cost: u64,
}

/// Serves one client to its end. `negotiated` is asked when its requests begin whether it may
/// send them; the server ends clients that take too long until then.
pub(crate) fn serve(
    socket: Socket,
    export: &Arc<dyn Export>,
    tls: Option<&Arc<ServerConfig>>,
    budget: Budget,
    negotiated: impl FnOnce() -> bool,
) -> Result<()> {
    let ends = socket.try_clone()?;
    let (mut incoming, mut outgoing) = halves(socket)?;
    incoming.prepare()?;
    let about = export.about();
    let mut handshake = Handshake::new(about.clone(), tls.is_some());
    outgoing.write_all(&wire::HELLO)?;
    outgoing.write_all(&wire::GREETING_FLAGS.to_be_bytes())?;
    let mut flags = [0; 4];
    incoming.read_exact(&mut flags)?;
    if !handshake.client_flags(u32::from_be_bytes(flags)) {
        return protocol("flags that nobody knows");
    }
    if !negotiate(&mut handshake, &mut incoming, &mut outgoing, tls)? {
        return Ok(());
    }
    if !negotiated() {
        return protocol("more connections than the server serves");
    }
    let (style, context) = (handshake.style(), handshake.context());
    let (replies, to_write) = unbounded();
    let budget = Arc::new(budget);
    std::thread::scope(|scope| {
        let (todo, reads) = unbounded::<Request>();
        Builder::new()
            .spawn_scoped(scope, || write_replies(outgoing, &to_write, &budget, &ends))?;
        for at in 0..READERS {
            let (reads, replies, budget) = (reads.clone(), replies.clone(), &budget);
            let started = Builder::new().spawn_scoped(scope, move || {
                for request in reads {
                    reply_data(&**export, style, &request, &replies, budget);
                }
            });
            match started {
                // Fewer will do.
                Err(_) if at > 0 => break,
                started => drop(started?),
            }
        }
        let client = Client { export, about, style, context, replies, todo, budget: &budget };
        client.requests(incoming)
    })
}

/// Answers options until requests come; `false`: the client ended.
fn negotiate(
    handshake: &mut Handshake,
    incoming: &mut Incoming,
    outgoing: &mut Outgoing,
    tls: Option<&Arc<ServerConfig>>,
) -> Result<bool> {
    for _ in 0..MAX_OPTIONS {
        let mut head = [0; 16];
        incoming.read_exact(&mut head)?;
        let field = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| head[at + i]));
        let magic = u64::from(field(0)) << 32 | u64::from(field(4));
        let (kind, len) = (field(8), field(12));
        if magic != wire::OPTION_MAGIC {
            return protocol("no option");
        }
        if len > MAX_OPTION {
            return protocol("an option longer than 64 KiB");
        }
        let mut data = vec![0; len as usize];
        incoming.read_exact(&mut data)?;
        let mut out = Vec::new();
        let next = handshake.option(kind, &data, &mut out);
        outgoing.write_all(&out)?;
        match (next, tls) {
            (Next::Option, _) => {}
            (Next::Tls, Some(config)) => {
                encrypt(incoming, outgoing, config)?;
                handshake.encrypted();
            }
            (Next::Transmission, _) => return Ok(true),
            (Next::End | Next::Tls, _) => return Ok(false),
        }
    }
    protocol("options without end")
}

/// Writes replies as they come; what waits goes together.
fn write_replies(outgoing: Outgoing, replies: &Receiver<Reply>, budget: &Budget, socket: &Socket) {
    let mut outgoing = BufWriter::with_capacity(64 << 10, outgoing);
    let mut broken = false;
    while let Ok(first) = replies.recv() {
        let mut next = Some(first);
        while let Some(reply) = next {
            budget.writing(true);
            broken = broken
                || outgoing.write_all(&reply.head).is_err()
                || outgoing.write_all(&reply.data).is_err();
            budget.give(reply.cost);
            next = replies.try_recv().ok();
        }
        broken = broken || outgoing.flush().is_err();
        budget.writing(false);
        if broken {
            // The reader of requests sees the end; replies to those under way are dropped.
            socket.end();
        }
    }
}

fn reply_data(
    export: &dyn Export,
    style: Style,
    request: &Request,
    replies: &Sender<Reply>,
    budget: &Budget,
) {
    let mut data = vec![0; request.len as usize];
    let mut head = Vec::new();
    match export.read(request.offset, &mut data) {
        Ok(()) => wire::data(style, request, &mut head),
        Err(errno) => {
            data = Vec::new();
            wire::end(style, request.cookie, Err(errno), &mut head);
        }
    }
    send(replies, budget, Reply { head, data, cost: cost(request) });
}

fn send(replies: &Sender<Reply>, budget: &Budget, reply: Reply) {
    let cost = reply.cost;
    if replies.send(reply).is_err() {
        budget.give(cost);
    }
}

fn cost(request: &Request) -> u64 {
    match request.command {
        Command::Read | Command::Write => EACH + u64::from(request.len),
        _ => EACH,
    }
}

/// A client that sends requests.
struct Client<'a> {
    export: &'a Arc<dyn Export>,
    /// As it was when the client came, which is what the client was told.
    about: About,
    style: Style,
    context: Option<u32>,
    replies: Sender<Reply>,
    todo: Sender<Request>,
    budget: &'a Arc<Budget>,
}

impl Client<'_> {
    fn requests(self, incoming: Incoming) -> Result<()> {
        let mut incoming = BufReader::with_capacity(64 << 10, incoming);
        let mut payloads = Payloads::default();
        loop {
            let mut bytes = [0; REQUEST];
            match incoming.read_exact(&mut bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
                read => read?,
            }
            let Some(request) = Request::parse(&bytes) else { return protocol("no request") };
            if request.command == Command::Disconnect {
                return Ok(());
            }
            let checked = request.check(self.about.size, self.about.read_only);
            if request.command == Command::Write && request.len > wire::MAX_PAYLOAD {
                return protocol("a write of more than 32 MiB");
            }
            self.budget.take(cost(&request));
            let mut data = Bytes::new();
            if request.command == Command::Write {
                // What follows must be read even where it cannot be written.
                data = payloads.read(request.len as usize, &mut incoming)?;
            }
            match checked {
                Err(errno) => self.end(&request, Err(errno)),
                Ok(()) => self.act(request, data, incoming.buffer().is_empty()),
            }
        }
    }

    fn act(&self, request: Request, bytes: Bytes, alone: bool) {
        let (offset, len) = (request.offset, request.len);
        match request.command {
            // Nothing else waits: a thread less to wake.
            Command::Read if alone => {
                reply_data(&**self.export, self.style, &request, &self.replies, self.budget);
            }
            Command::Read => {
                // The readers live as long as this client.
                let _ = self.todo.send(request);
            }
            Command::Write => self.change(&request, Change::Write { offset, bytes }),
            Command::Trim | Command::WriteZeroes => {
                self.change(&request, Change::Zero { offset, len: len.into() });
            }
            // All that was acknowledged is durable already.
            Command::Flush => self.end(&request, Ok(())),
            Command::BlockStatus => self.status(&request),
            Command::Disconnect | Command::Unknown(_) => {
                self.end(&request, Err(Errno::Unsupported));
            }
        }
    }

    fn change(&self, request: &Request, change: Change) {
        let (style, cookie, cost) = (self.style, request.cookie, cost(request));
        let (replies, budget) = (self.replies.clone(), Arc::clone(self.budget));
        let done = move |end| {
            let mut head = Vec::new();
            wire::end(style, cookie, end, &mut head);
            send(&replies, &budget, Reply { head, data: Vec::new(), cost });
        };
        self.export.change(change, Box::new(done));
    }

    fn status(&self, request: &Request) {
        let Some(context) = self.context else { return self.end(request, Err(Errno::Invalid)) };
        let most = if request.flags & flag::ONE != 0 { 1 } else { MAX_EXTENTS };
        match self.export.extents(request.offset, request.len.into(), most) {
            Ok(extents) => {
                // They lie within what was asked for, which has 32 bits.
                let extents: Vec<(u32, bool)> =
                    extents.into_iter().map(|(len, data)| (len as u32, data)).collect();
                let mut head = Vec::new();
                wire::status(context, request.cookie, &extents, &mut head);
                send(&self.replies, self.budget, Reply { head, data: Vec::new(), cost: EACH });
            }
            Err(errno) => self.end(request, Err(errno)),
        }
    }

    fn end(&self, request: &Request, end: Result<(), Errno>) {
        let mut head = Vec::new();
        wire::end(self.style, request.cookie, end, &mut head);
        let cost = cost(request);
        send(&self.replies, self.budget, Reply { head, data: Vec::new(), cost });
    }
}

//! A connection as two halves, plain or encrypted.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::{ServerConfig, ServerConnection};

/// A socket that was accepted.
#[derive(Debug)]
pub enum Socket {
    /// From another machine, or this one.
    Tcp(TcpStream),
    /// From this machine.
    Unix(UnixStream),
}

impl Socket {
    pub(crate) fn try_clone(&self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(socket) => Socket::Tcp(socket.try_clone()?),
            Socket::Unix(socket) => Socket::Unix(socket.try_clone()?),
        })
    }

    /// Ends both directions; readers and writers get an error.
    pub(crate) fn end(&self) {
        // It may have ended already.
        let _ = match self {
            Socket::Tcp(socket) => socket.shutdown(Shutdown::Both),
            Socket::Unix(socket) => socket.shutdown(Shutdown::Both),
        };
    }

    /// Small messages go at once.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.set_nodelay(true),
            Socket::Unix(_) => Ok(()),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(buf),
            Socket::Unix(socket) => socket.read(buf),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The TLS session, shared by both halves: it is never locked while a socket waits.
type Session = Arc<Mutex<ServerConnection>>;

fn lock(session: &Session) -> MutexGuard<'_, ServerConnection> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The half that reads from the client.
pub(crate) struct Incoming {
    socket: Socket,
    session: Option<Session>,
}

/// The half that writes to the client.
pub(crate) struct Outgoing {
    socket: Socket,
    session: Option<Session>,
}

/// Both halves of a connection.
pub(crate) fn halves(socket: Socket) -> io::Result<(Incoming, Outgoing)> {
    let other = socket.try_clone()?;
    Ok((Incoming { socket, session: None }, Outgoing { socket: other, session: None }))
}

/// Encrypts a connection from here on.
pub(crate) fn encrypt(
    incoming: &mut Incoming,
    outgoing: &mut Outgoing,
    config: &Arc<ServerConfig>,
) -> crate::Result<()> {
    let mut session = ServerConnection::new(Arc::clone(config))?;
    while session.is_handshaking() {
        session.complete_io(&mut incoming.socket)?;
    }
    let session = Arc::new(Mutex::new(session));
    incoming.session = Some(Arc::clone(&session));
    outgoing.session = Some(session);
    Ok(())
}

impl Incoming {
    pub fn prepare(&self) -> io::Result<()> {
        self.socket.prepare()
    }
}

impl Read for Incoming {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Some(session) = &self.session else { return self.socket.read(buf) };
        let mut sealed = [0; 16 << 10];
        loop {
            match lock(session).reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                got => return got,
            }
            let got = self.socket.read(&mut sealed)?;
            let mut rest = &sealed[..got];
            let mut session = lock(session);
            loop {
                let taken = session.read_tls(&mut rest)?;
                session.process_new_packets().map_err(io::Error::other)?;
                if taken == 0 || rest.is_empty() {
                    break;
                }
            }
        }
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = &self.session else { return self.socket.write(bytes) };
        let mut sealed = Vec::new();
        let taken = {
            let mut session = lock(session);
            let taken = session.writer().write(bytes)?;
            while session.wants_write() {
                session.write_tls(&mut sealed)?;
            }
            taken
        };
        self.socket.write_all(&sealed)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

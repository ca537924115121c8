//! A server of bytes in memory, asked as clients ask. Clients that mean ill are a scenario of the
//! program's tests, options and requests of all kinds a target of the fuzzer.

use kiln_nbd::{About, Change, Done, Errno, Export, Listener, Server, tls};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

struct Memory(Mutex<Vec<u8>>);

impl Export for Memory {
    fn about(&self) -> About {
        About { name: "disk".into(), size: self.0.lock().unwrap().len() as u64, read_only: false }
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        let start = offset as usize;
        bytes.copy_from_slice(&self.0.lock().unwrap()[start..start + bytes.len()]);
        Ok(())
    }

    fn change(&self, change: Change, done: Done) {
        let mut all = self.0.lock().unwrap();
        match change {
            Change::Write { offset, bytes } => {
                all[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
            }
            Change::Zero { offset, len } => {
                all[offset as usize..(offset + len) as usize].fill(0);
            }
        }
        drop(all);
        done(Ok(()));
    }

    fn extents(&self, _: u64, len: u64, _: usize) -> Result<Vec<(u64, bool)>, Errno> {
        Ok(vec![(len, true)])
    }
}

fn start(config: Option<Arc<rustls::ServerConfig>>) -> (Server, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let export = Arc::new(Memory(Mutex::new((0..=255).cycle().take(1 << 20).collect())));
    (Server::start(Listener::Tcp(listener), export, config, |_| ()).unwrap(), address)
}

fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u32).to_be_bytes();
    [&b"IHAVEOPT"[..], &kind.to_be_bytes(), &len, data].concat()
}

fn request(kind: u16, offset: u64, len: u32) -> Vec<u8> {
    let (kind, offset, len) = (kind.to_be_bytes(), offset.to_be_bytes(), len.to_be_bytes());
    [&0x2560_9513u32.to_be_bytes()[..], &[0, 0], &kind, &[7; 8], &offset, &len].concat()
}

fn take(socket: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    socket.read_exact(&mut bytes).unwrap();
    bytes
}

/// A reply to an option: its kind and data.
fn answer(socket: &mut impl Read) -> (u32, Vec<u8>) {
    let head = take(socket, 20);
    let kind = u32::from_be_bytes(head[12..16].try_into().unwrap());
    let len = u32::from_be_bytes(head[16..].try_into().unwrap());
    (kind, take(socket, len as usize))
}

/// `GO` for an export, with the sizes of blocks.
fn go(name: &str) -> Vec<u8> {
    let len = (name.len() as u32).to_be_bytes();
    option(7, &[&len, name.as_bytes(), &[0, 1, 0, 3]].concat())
}

/// Negotiates and reads over what may be encrypted.
fn talk(socket: &mut (impl Read + Write)) {
    socket.write_all(&option(8, &[])).unwrap();
    assert_eq!(answer(socket).0, 1);
    socket.write_all(&go("other")).unwrap();
    assert_eq!(answer(socket).0, (1 << 31) + 6);
    socket.write_all(&go("disk")).unwrap();
    let (kind, info) = answer(socket);
    assert_eq!((kind, &info[..10]), (3, &[0, 0, 0, 0, 0, 0, 0, 16, 0, 0][..]));
    assert_eq!(answer(socket), (3, vec![0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]));
    assert_eq!(answer(socket).0, 1);
    // Several requests at once, of which one is refused; replies come as they are ready.
    let many = [request(0, 100, 300), request(0, 1 << 20, 1), request(6, 8192, 4096)].concat();
    socket.write_all(&many).unwrap();
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let head = take(socket, 20);
        assert_eq!((&head[..6], &head[8..16]), (&[0x66, 0x8e, 0x33, 0xef, 0, 1][..], &[7; 8][..]));
        let kind = u16::from_be_bytes(head[6..8].try_into().unwrap());
        let data = take(socket, u32::from_be_bytes(head[16..].try_into().unwrap()) as usize);
        match kind {
            1 => assert!(data[8..].iter().enumerate().all(|(at, byte)| *byte == (at + 100) as u8)),
            0x8001 => assert_eq!(data, [0, 0, 0, 22, 0, 0]),
            _ => assert!(data.is_empty()),
        }
        kinds.push(kind);
    }
    kinds.sort_unstable();
    assert_eq!(kinds, [0, 1, 0x8001]);
    socket.write_all(&request(0, 8192, 4096)).unwrap();
    assert!(take(socket, 28 + 4096)[28..].iter().all(|byte| *byte == 0));
}

fn greeted(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    assert_eq!(take(&mut socket, 18), b"NBDMAGICIHAVEOPT\0\x03");
    socket.write_all(&3u32.to_be_bytes()).unwrap();
    socket
}

#[test]
fn a_client_negotiates_reads_and_writes() {
    let (server, address) = start(None);
    talk(&mut greeted(address));
    server.end();
}

#[test]
fn with_a_certificate_nothing_is_said_before_encryption() {
    let folder = std::env::temp_dir().join(format!("kiln-nbd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (pem, key) = (folder.join("server.pem"), folder.join("server.key"));
    std::fs::write(&pem, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let config = tls(&pem, &key, None).unwrap();
    let (server, address) = start(Some(config));
    let mut socket = greeted(address);
    socket.write_all(&go("disk")).unwrap();
    assert_eq!(answer(&mut socket).0, (1 << 31) + 5);
    socket.write_all(&option(5, &[])).unwrap();
    assert_eq!(answer(&mut socket).0, 1);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let session = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
    talk(&mut rustls::StreamOwned::new(session, socket));
    server.end();
    assert!(tls(&key, &pem, None).is_err() && tls(&folder, &key, None).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}

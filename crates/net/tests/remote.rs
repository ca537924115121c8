//! An agent and its clients over the loopback interface, in one process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::{sync::Arc, time::Duration};

use kiln_net::agent::Limits;
use kiln_net::proto::{Frame, Message};
use kiln_net::{Address, AgentSetup, Agents, ClusterKey, Network, RemoteBackend, Serving, serve};
use kiln_store::{
    BACKENDS, Backend, BackendKind, BatchRead, FileBackend, Locks, Logs, MemoryBackend, Opening,
    Operation, StoreError, open_place,
};
use kiln_testkit::{Fault, FaultAction, FaultyBackend, battery::check_all, battery::read, pattern};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A runtime with agents on it, and a network to reach them by.
struct Rig {
    runtime: Runtime,
    network: Network,
    key: Option<ClusterKey>,
    folder: TempDir,
}

impl Rig {
    fn new(tls: bool) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let key = tls.then(|| ClusterKey::create(&folder.path().join("cluster.key")).unwrap());
        let network = Network::new(key.clone(), 1).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
        Rig { runtime, network, key, folder }
    }

    fn agent(&self, backend: Arc<dyn Backend>, listen: &str) -> Serving {
        let setup = AgentSetup { key: self.key.clone(), ..AgentSetup::plain("here", backend) };
        self.runtime.block_on(serve(setup, listen)).unwrap()
    }

    fn address(&self, agent: &Serving) -> Address {
        let scheme = if self.key.is_some() { "kiln" } else { "kiln+plain" };
        format!("{scheme}://{}/here", agent.address()).parse().unwrap()
    }

    fn start(&self, backend: Arc<dyn Backend>) -> (Serving, RemoteBackend) {
        let agent = self.agent(backend, "127.0.0.1:0");
        let remote = self.network.open(&self.address(&agent));
        (agent, remote)
    }
}

fn write(disk: &dyn Backend, name: &str, bytes: &[u8]) {
    let mut file = disk.append(name, 0).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

#[test]
fn a_remote_place_keeps_the_contract_of_backends() {
    for tls in [false, true] {
        let rig = Rig::new(tls);
        let agents = Agents(|_: &Address| Ok(rig.network.clone()));
        // A place by its address, from the table that a program would have.
        let kinds = [BACKENDS, &[&agents as &dyn BackendKind]].concat();
        let (mut serving, mut number) = (Vec::new(), 0);
        let mut fresh = |backend: Arc<dyn Backend>| {
            let agent = rig.agent(backend, "127.0.0.1:0");
            let address = rig.address(&agent).to_string();
            serving.push(agent);
            open_place(&kinds, address.as_ref(), Opening::default()).unwrap()
        };
        check_all(&format!("folder, TLS {tls}"), &mut || {
            number += 1;
            let folder = rig.folder.path().join(number.to_string());
            fresh(Arc::new(FileBackend::create(folder).unwrap()))
        });
        check_all(&format!("memory, TLS {tls}"), &mut || fresh(Arc::new(MemoryBackend::new())));
    }
}

#[test]
fn large_files_travel_in_many_frames_and_long_lists_in_many_pages() {
    let rig = Rig::new(true);
    let memory = Arc::new(MemoryBackend::new());
    let (agent, remote) = rig.start(memory.clone());
    let bytes = pattern((9 << 20) + 12_345);
    write(&remote, "large", &bytes);
    assert_eq!(memory.bytes("large").unwrap(), bytes);
    assert_eq!(read(&remote, "large"), bytes);
    memory.remove("large").unwrap();
    let names: Vec<String> = (0..5000).map(|i| format!("{i:05}{}", "x".repeat(90))).collect();
    names.iter().for_each(|name| memory.put(name, Vec::new()));
    assert_eq!(remote.list().unwrap(), names);
    let report = rig.runtime.block_on(agent.report());
    assert_eq!(report.counts.bytes_sent, bytes.len() as u64);
    assert_eq!(report.counts.bytes_received, bytes.len() as u64);
    assert_eq!(report.counts.expelled, 0);
}

#[test]
fn many_reads_of_one_batch_are_each_what_they_ask_for() {
    let rig = Rig::new(true);
    let memory = Arc::new(MemoryBackend::new());
    let (agent, remote) = rig.start(memory.clone());
    let bytes = pattern(5 << 20);
    write(&remote, "a", &bytes);
    let file = remote.open("a").unwrap();
    // Short ones in no order, more than go at once, and one of several frames among them.
    let place = |i: usize| ((i * 1_234_567) % (bytes.len() - 5000), 1 + i * 37 % 5000);
    let mut places: Vec<(usize, usize)> = (0..300).map(place).collect();
    places.insert(100, (12_345, (3 << 20) + 1));
    places.insert(200, (bytes.len(), 0));
    let mut found: Vec<Vec<u8>> = places.iter().map(|(_, len)| vec![0; *len]).collect();
    let reads = places.iter().zip(&mut found);
    let mut batch: Vec<BatchRead<'_>> =
        reads.map(|((at, _), buf)| BatchRead::new(*at as u64, buf)).collect();
    file.read_batch(&mut batch).unwrap();
    for ((at, len), found) in places.iter().zip(&found) {
        assert!(found == &bytes[*at..at + len], "{len} bytes at {at}");
    }
    let (mut one, mut two) = ([0; 10], [0; 10]);
    let past = BatchRead::new(bytes.len() as u64 - 9, &mut two);
    let error = file.read_batch(&mut [BatchRead::new(0, &mut one), past]).unwrap_err();
    assert!(matches!(error, StoreError::Truncated { .. }), "{error}");
    drop(agent);
    let error = file.read_batch(&mut [BatchRead::new(0, &mut one)]).unwrap_err();
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
}

#[test]
fn failures_of_the_disk_arrive_as_what_they_are() {
    let rig = Rig::new(false);
    let faulty = FaultyBackend::new(Arc::new(MemoryBackend::new()));
    let (_agent, remote) = rig.start(Arc::new(faulty.clone()));
    faulty.limit_space(100_000);
    let mut file = remote.append("a", 0).unwrap();
    file.append(&pattern(200_000)).unwrap();
    let error = file.sync().unwrap_err();
    assert!(error.is_full() && !error.is_retryable(), "{error}");
    assert!(file.sync().is_err(), "a file that failed once stays failed");
    drop(file);
    faulty.heal();
    write(&remote, "b", b"fine");
    let fault = Fault::new(FaultAction::Fail(std::io::ErrorKind::PermissionDenied));
    faulty.inject(fault.on(Operation::Open));
    let error = remote.open("b").err().unwrap();
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
    assert!(matches!(error, StoreError::Io { op: Operation::Open, .. }), "{error:?}");
    assert_eq!(read(&remote, "b"), b"fine");
}

/// Passes on what one client and an agent say, but the client knows version 4 alone.
fn of_version_4(agent: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        let mut agent = TcpStream::connect(agent).unwrap();
        let mut header = [0; 40];
        client.read_exact(&mut header).unwrap();
        let body = u32::from_le_bytes(header[20..24].try_into().unwrap());
        client.read_exact(&mut vec![0; body as usize]).unwrap();
        let hello = Message::Hello { lowest: 1, highest: 4, place: "here".into() };
        agent.write_all(&Frame::new(0, hello).encode(0)).unwrap();
        let (mut answers, mut back) = (agent.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
        let _ = std::io::copy(&mut client, &mut agent);
        let _ = agent.shutdown(std::net::Shutdown::Both);
    });
    address
}

#[test]
fn zeros_at_the_end_of_a_write_to_a_log_travel_only_to_agents_of_before() {
    for old in [false, true] {
        let rig = Rig::new(false);
        let memory = Arc::new(MemoryBackend::new());
        let agent = rig.agent(memory.clone(), "127.0.0.1:0");
        let address = if old { of_version_4(agent.address()) } else { agent.address() };
        let address: Address = format!("kiln+plain://{address}/here").parse().unwrap();
        let remote = rig.network.open(&address);
        let mut log = remote.create_log("log", 1 << 20).unwrap();
        // Written over something else: the zeros count.
        log.write_at(0, &[9; 300_000]).unwrap();
        let (mut want, mut sent) = (vec![9; 300_000], 300_000);
        for (at, data, zeros) in [(4096, 5000, 3192), (20_000, 0, 4096), (40_000, 7, 200_000)] {
            let bytes = [pattern(data + 1)[1..].to_vec(), vec![0; zeros]].concat();
            log.write_at(at as u64, &bytes).unwrap();
            want[at..at + bytes.len()].copy_from_slice(&bytes);
            sent += bytes.len() - if old { 0 } else { zeros.min(64 << 10) };
        }
        log.sync().unwrap();
        assert!(memory.bytes("log").unwrap()[..300_000] == want, "old {old}");
        let report = rig.runtime.block_on(agent.report());
        assert_eq!(report.counts.bytes_received, sent as u64, "old {old}");
    }
}

#[test]
fn an_agent_that_ends_breaks_locks_and_appends_but_not_reads() {
    let rig = Rig::new(true);
    let memory: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
    let (agent, remote) = rig.start(Arc::clone(&memory));
    let bytes = pattern(3 << 20);
    write(&remote, "a", &bytes);
    let reader = remote.open("a").unwrap();
    let lock = remote.lock(false).unwrap().unwrap();
    let mut appender = remote.append("b", 0).unwrap();
    appender.append(b"one").unwrap();
    appender.sync().unwrap();

    let address = agent.address();
    drop(agent);
    // The listening socket is closed when the task has ended.
    let agent = loop {
        let setup =
            AgentSetup { key: rig.key.clone(), ..AgentSetup::plain("here", memory.clone()) };
        match rig.runtime.block_on(serve(setup, &address.to_string())) {
            Ok(agent) => break agent,
            Err(_) => std::thread::yield_now(),
        }
    };
    let mut piece = vec![0; 70_000];
    reader.read_at(1_000_000, &mut piece).unwrap();
    assert_eq!(piece, bytes[1_000_000..1_070_000]);
    assert!(appender.append(b"two").and_then(|()| appender.sync()).is_err());
    let error = remote.remove("a").unwrap_err().to_string();
    assert!(error.contains("lock"), "{error}");
    assert!(remote.append("c", 0).is_err());
    drop((lock, appender));
    remote.remove("a").unwrap();
    assert_eq!(remote.list().unwrap(), ["b"]);
    drop(agent);
}

#[test]
fn locks_of_two_clients_exclude_each_other() {
    let rig = Rig::new(false);
    let folder = rig.folder.path().join("disk");
    let (_agent, one) = rig.start(Arc::new(FileBackend::create(folder).unwrap()));
    let network = Network::new(None, 1).unwrap();
    let two = network.open(&one.place().parse().unwrap());
    let lock = one.lock(true).unwrap().unwrap();
    assert!(two.lock(false).unwrap().is_none());
    let waiter = std::thread::spawn(move || two.lock(true).unwrap().is_some());
    drop(lock);
    assert!(waiter.join().unwrap());
    // The other one's lock ended with its network.
    drop(network);
    assert!(one.lock(true).unwrap().is_some());
}

/// Sends bytes and says what comes back until the agent hangs up.
fn provoke(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The agent may have hung up before everything was sent: that is what is wanted.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn foreign_peers_change_nothing() {
    for tls in [false, true] {
        let rig = Rig::new(tls);
        let memory = Arc::new(MemoryBackend::new());
        let (agent, remote) = rig.start(memory.clone());
        write(&remote, "a", b"precious");
        let hello = Message::Hello { lowest: 1, highest: 1, place: String::new() };
        let remove = Frame::new(1, Message::Remove { name: "a".into() });
        let mut oversized = Frame::new(0, hello.clone());
        oversized.payload = vec![1; 2 << 20].into();
        let elsewhere = Message::Hello { lowest: 1, highest: 1, place: "elsewhere".into() };
        let mut huge = Frame::new(0, hello.clone()).encode(0);
        huge[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        let session = [Frame::new(0, hello.clone()).encode(0), remove.encode(0)].concat();
        let guessed = [Frame::new(0, hello).encode(0), remove.encode(12_345)].concat();
        let elsewhere = [Frame::new(0, elsewhere).encode(0), remove.encode(0)].concat();
        let attempts = [
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            pattern(100_000),
            remove.encode(0),
            oversized.encode(0),
            huge,
            session,
            guessed,
            elsewhere,
        ];
        for bytes in &attempts {
            provoke(agent.address(), bytes);
            assert_eq!(memory.bytes("a").unwrap(), b"precious");
        }
        assert_eq!(read(&remote, "a"), b"precious");
        assert_eq!(rig.runtime.block_on(agent.report()).counts.bytes_received, 8);
    }
}

#[test]
fn other_clusters_and_misdirected_clients_are_refused() {
    let rig = Rig::new(true);
    let (agent, remote) = rig.start(Arc::new(MemoryBackend::new()));
    remote.list().unwrap();
    let other = ClusterKey::create(&rig.folder.path().join("other.key")).unwrap();
    let refused = |network: Network, address: &str, words: &str| {
        let error = network.open(&address.parse().unwrap()).list().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(!error.is_not_found() && !error.is_retryable(), "{error}");
    };
    let socket = agent.address();
    let url = format!("kiln://{socket}");
    // The exact words are those of rustls.
    refused(Network::new(Some(other), 1).unwrap(), &url, "certificate");
    refused(Network::new(None, 1).unwrap(), &url, "--key");
    refused(rig.network.clone(), &format!("kiln://{socket}/there"), "this is \"here\"");
    let plain = rig.network.open(&format!("kiln+plain://{socket}").parse().unwrap());
    assert!(plain.list().is_err());
    let error = rig.network.open(&"kiln+plain://192.0.2.1:9".parse().unwrap()).list().unwrap_err();
    assert!(error.to_string().contains("loopback"), "{error}");
}

#[test]
fn without_a_key_only_loopback_is_served() {
    let rig = Rig::new(false);
    let setup = AgentSetup::plain("here", Arc::new(MemoryBackend::new()));
    let error = rig.runtime.block_on(serve(setup, "0.0.0.0:0")).unwrap_err();
    assert!(error.to_string().contains("loopback"), "{error}");
}

#[test]
fn one_connection_more_than_allowed_waits_until_another_ends() {
    let rig = Rig::new(false);
    let limits = Limits { connections: 1, ..Limits::default() };
    let setup = AgentSetup { limits, ..AgentSetup::plain("here", Arc::new(MemoryBackend::new())) };
    let agent = rig.runtime.block_on(serve(setup, "127.0.0.1:0")).unwrap();
    let address = rig.address(&agent);
    let first = Network::new(None, 1).unwrap();
    first.open(&address).list().unwrap();
    let second = rig.network.open(&address);
    let waits = std::thread::spawn(move || second.list().unwrap());
    drop(first);
    assert!(waits.join().unwrap().is_empty());
}

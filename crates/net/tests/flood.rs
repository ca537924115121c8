//! Peers that open connections and say nothing: members do not notice them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{collections::VecDeque, net::SocketAddr, sync::Arc};

use kiln_net::{Address, AgentSetup, ClusterKey, Network, Serving, agent::Limits, serve};
use kiln_store::{Backend, MemoryBackend};
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;

/// Connections that the other side has closed are closed here too, the oldest first.
const KEPT: usize = 400;

struct Rig {
    runtime: Runtime,
    key: ClusterKey,
    agent: Serving,
    _folder: TempDir,
}

impl Rig {
    fn new(limits: Limits) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let key = ClusterKey::create(&folder.path().join("cluster.key")).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
        let memory = MemoryBackend::new();
        memory.put("a", b"precious".to_vec());
        let setup = AgentSetup::plain("here", Arc::new(memory));
        let setup = AgentSetup { key: Some(key.clone()), limits, ..setup };
        let agent = runtime.block_on(serve(setup, "127.0.0.1:0")).unwrap();
        Rig { runtime, key, agent, _folder: folder }
    }

    fn address(&self) -> Address {
        format!("kiln://{}/here", self.agent.address()).parse().unwrap()
    }

    /// Reads the file on a connection of its own.
    fn get(&self) -> Result<Vec<u8>, kiln_store::StoreError> {
        let network = Network::new(Some(self.key.clone()), 1).unwrap();
        let place = network.open(&self.address());
        let file = place.open("a")?;
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Opens so many silent connections, in turn from the addresses 127.0.0.2 and following.
    fn flood(&self, connections: usize, addresses: usize, over: &AtomicBool) {
        let to = self.agent.address();
        self.runtime.block_on(async {
            let mut open = VecDeque::new();
            for number in 0..connections {
                open.push_back(silent(to, 2 + (number % addresses) as u8).await);
                if open.len() > KEPT {
                    open.pop_front();
                }
            }
            while !over.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }
}

async fn silent(to: SocketAddr, from: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, from], 0))).unwrap();
    socket.connect(to).await.unwrap()
}

#[test]
fn silent_connections_do_not_keep_members_away() {
    for (connections, addresses) in [(1500, 1), (1500, 60)] {
        let rig = Rig::new(Limits::default());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| rig.flood(connections, addresses, &over));
            let begin = Instant::now();
            let mut gets = Vec::new();
            while gets.len() < 30 || begin.elapsed() < Duration::from_secs(2) {
                gets.push(rig.get());
            }
            over.store(true, Ordering::Relaxed);
            for (number, got) in gets.iter().enumerate() {
                let good = got.as_ref().is_ok_and(|got| got == b"precious");
                assert!(good, "{addresses} addresses, get {number}: {got:?}");
            }
        });
    }
}

#[test]
fn members_of_one_address_leave_places_to_others() {
    let limits = Limits {
        connections: 3,
        connections_per_address: 2,
        hello: Duration::from_millis(300),
        ..Limits::default()
    };
    let rig = Rig::new(limits);
    let member = || {
        let network = Network::new(Some(rig.key.clone()), 1).unwrap();
        let place = network.open(&rig.address());
        (place.list(), place, network)
    };
    let (first, second) = (member(), member());
    assert!(first.0.is_ok() && second.0.is_ok());
    let (refused, ..) = member();
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("2 connections of this address"), "{text}");
    // Its place is free a moment after it has ended.
    drop(first);
    let begin = Instant::now();
    while member().0.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
    drop(second);
}

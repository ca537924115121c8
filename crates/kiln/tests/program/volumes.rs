//! Volumes, served by the program to a client that speaks as little of the protocol as it can.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Stdio};

use crate::agent_pool::Scene;
use crate::pool::create;
use crate::rig::{Random, Rig, data, flip, seed};

const BLOCK: usize = 4096;

/// `kiln nbd`, until it is dropped: then it is killed.
pub struct Server {
    pub child: Child,
    errors: Option<ChildStderr>,
    line: String,
}

impl Server {
    /// Starts it and waits until it says that it serves.
    pub fn start(rig: &Rig, flags: &str) -> Server {
        let words = format!("nbd disk --socket disk.sock {flags}");
        let mut command = rig.command(&words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut errors = child.stderr.take();
        if !line.starts_with("serving nbd+unix:///disk?socket=disk.sock") {
            let mut said = String::new();
            errors.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("{line}{said}");
        }
        Server { child, errors, line }
    }

    /// Ends it as a person would; what it said on standard error.
    pub fn end(mut self) -> String {
        let told = std::process::Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(told.unwrap().success());
        let mut said = String::new();
        self.errors.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct Client(UnixStream);

impl Client {
    pub fn new(rig: &Rig) -> Client {
        let mut socket = UnixStream::connect(rig.path("disk.sock")).unwrap();
        let mut hello = [0; 18];
        socket.read_exact(&mut hello).unwrap();
        assert_eq!(&hello[..16], b"NBDMAGICIHAVEOPT");
        // No zeros; then the export by its name.
        socket.write_all(&3u32.to_be_bytes()).unwrap();
        socket.write_all(b"IHAVEOPT").unwrap();
        socket.write_all(&[0, 0, 0, 1, 0, 0, 0, 4]).unwrap();
        socket.write_all(b"disk").unwrap();
        socket.read_exact(&mut [0; 10]).unwrap();
        Client(socket)
    }

    /// Sends a request; what it is answered, and data where it reads.
    fn ask(&mut self, kind: u16, offset: u64, len: usize, data: &[u8]) -> io::Result<Vec<u8>> {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend_from_slice(&[0, 0]);
        request.extend_from_slice(&kind.to_be_bytes());
        request.extend_from_slice(b"cookie..");
        request.extend_from_slice(&offset.to_be_bytes());
        request.extend_from_slice(&(len as u32).to_be_bytes());
        request.extend_from_slice(data);
        self.0.write_all(&request)?;
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply)?;
        assert_eq!((&reply[..4], &reply[8..]), (&[0x67, 0x44, 0x66, 0x98][..], &b"cookie.."[..]));
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error as i32));
        }
        let mut bytes = vec![0; if kind == 0 { len } else { 0 }];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        self.ask(0, offset, len, &[]).unwrap()
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.ask(1, offset, bytes.len(), bytes).map(drop)
    }
}

fn small(rig: &Rig) {
    create(rig, "clay:4+2", 9);
    rig.kiln("volume create disk 4MiB --segment 64KiB -q").ok();
}

#[test]
fn acknowledged_writes_survive_kills_and_lost_nodes() {
    let rig = Rig::new();
    small(&rig);
    let mut random = Random::new(seed("acknowledged_writes_survive_kills_and_lost_nodes"));
    let mut model = vec![0; 4 << 20];
    for round in 0..6 {
        let server = Server::start(&rig, "");
        let mut client = Client::new(&rig);
        assert!(client.read(0, model.len()) == model, "round {round}");
        for step in 0..40 {
            let len = (1 + random.below(12) as usize) * BLOCK;
            let offset = random.below(((model.len() - len) / BLOCK) as u64) as usize * BLOCK;
            let bytes = data(len, round * 1000 + step);
            client.write(offset as u64, &bytes).unwrap();
            model[offset..offset + len].copy_from_slice(&bytes);
        }
        // What is under way when it is killed is there block by block, or not.
        let (offset, bytes) = (random.below(900) as usize * BLOCK, data(64 * BLOCK, round + 77));
        let mut server = server;
        std::thread::scope(|scope| {
            let under_way = scope.spawn(|| client.write(offset as u64, &bytes));
            std::thread::sleep(std::time::Duration::from_micros(random.below(4000)));
            server.child.kill().unwrap();
            let _ = under_way.join().unwrap();
        });
        drop(server);
        // Two nodes are lost for good, two others come in their place.
        let lost = std::collections::BTreeSet::from([random.below(9), random.below(9)]);
        lost.iter().for_each(|at| rig.remove(format!("d{at:02}")));
        let server = Server::start(&rig, "");
        let found = Client::new(&rig).read(offset as u64, bytes.len());
        let old = &model[offset..offset + bytes.len()];
        for (at, block) in found.chunks(BLOCK).enumerate() {
            let within = at * BLOCK..(at + 1) * BLOCK;
            assert!(block == &old[within.clone()] || block == &bytes[within], "round {round}");
        }
        model[offset..offset + bytes.len()].copy_from_slice(&found);
        if round % 2 == 0 {
            server.end();
        } else {
            drop(server);
        }
        for at in lost {
            std::fs::create_dir(rig.path(format!("d{at:02}"))).unwrap();
            rig.kiln(&format!("pool add-node n{at:02} --replace -q")).ok();
        }
        rig.kiln("repair -q").ok();
    }
    let report = rig.kiln("volume check disk --json").ok().json();
    assert_eq!(report["damaged_count"], 0);
    rig.kiln("scrub --deep -q");
    rig.kiln("status -q").ok();
}

#[test]
fn volumes_of_agents_survive_agents_and_servers_that_are_killed() {
    let mut scene = Scene::new("clay:4+2", 9, &[]);
    scene.ok("volume create disk 4MiB --segment 64KiB -q");
    let mut model = vec![0; 1 << 20];
    let server = Server::start(&scene.rig, "--key cluster.key");
    let mut client = Client::new(&scene.rig);
    for step in 0..40 {
        if step % 16 == 8 {
            // One with a copy of the log: the writer goes on with another one.
            let stat = scene.ok("volume stat disk --json -q").json();
            let node = stat["log_nodes"][0].as_str().unwrap()[1..].parse().unwrap();
            scene.kill(node);
        }
        let (offset, bytes) = (step * 37 % 240 * BLOCK, data(5 * BLOCK, step as u64));
        client.write(offset as u64, &bytes).unwrap();
        model[offset..offset + bytes.len()].copy_from_slice(&bytes);
    }
    let second = "nbd disk --socket other.sock --key cluster.key -q";
    scene.rig.kiln(second).fails(5, &["in use by kiln nbd on"]);
    drop(server);
    let server = Server::start(&scene.rig, "--key cluster.key");
    assert!(Client::new(&scene.rig).read(0, model.len()) == model);
    server.end();
}

#[test]
fn a_log_leaves_nodes_that_leave_the_pool() {
    let rig = Rig::new();
    small(&rig);
    let server = Server::start(&rig, "");
    let bytes = data(9 * BLOCK, 7);
    Client::new(&rig).write(0, &bytes).unwrap();
    let log_nodes = || {
        let stat = rig.kiln("volume stat disk --json -q").ok().json();
        let nodes = stat["log_nodes"].as_array().unwrap().clone();
        nodes.iter().map(|node| node.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for node in log_nodes() {
        rig.kiln(&format!("pool drain {node} -q")).ok();
        assert!(!log_nodes().contains(&node), "{node}");
        rig.remove(node.replace('n', "d"));
    }
    drop(server);
    let server = Server::start(&rig, "");
    assert!(Client::new(&rig).read(0, bytes.len()) == bytes);
    server.end();
}

/// A server has its pool open for days. A disk is lost, and an empty folder comes in its place.
#[test]
fn a_server_makes_nothing_in_the_empty_place_of_a_lost_node() {
    let rig = Rig::new();
    small(&rig);
    let server = Server::start(&rig, "");
    let mut client = Client::new(&rig);
    let mut model = vec![0; 2 << 20];
    // More than the log holds, so segments are sealed; a node with the log and one without.
    let mut write = |round: usize| {
        for step in 0..40 {
            let offset = (step * 37 + round * 5) % 500 * BLOCK;
            let bytes = data(9 * BLOCK, (round * 100 + step) as u64);
            client.write(offset as u64, &bytes).unwrap();
            model[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
        assert!(client.read(0, model.len()) == model, "round {round}");
    };
    write(0);
    let with = logs(&rig)[0].0.clone();
    let log_folders: Vec<String> = logs(&rig).into_iter().map(|(folder, _)| folder).collect();
    let mut all = (0..9).map(|at| format!("d{at:02}"));
    let without = all.find(|folder| !log_folders.contains(folder)).unwrap();
    for (round, folder) in [with, without].iter().enumerate() {
        rig.remove(folder);
        std::fs::create_dir(rig.path(folder)).unwrap();
        write(round + 1);
        assert_eq!(rig.names(folder), Vec::<String>::new(), "round {round}");
        rig.kiln(&format!("pool add-node {} --replace -q", folder.replace('d', "n"))).ok();
        rig.kiln("repair -q").ok();
    }
    write(3);
    server.end();
    rig.kiln("repair -q").ok();
    assert_eq!(rig.kiln("volume check disk --json").ok().json()["damaged_count"], 0);
    rig.kiln("status -q").ok();
}

/// Copies of logs: the folder of each, and the file.
fn logs(rig: &Rig) -> Vec<(String, String)> {
    let folders = (0..9).map(|at| format!("d{at:02}")).filter(|folder| rig.path(folder).exists());
    let of = |folder: String| {
        let names = rig.names(&folder).into_iter().filter(|name| name.ends_with(".log"));
        names.map(|name| (folder.clone(), name)).collect::<Vec<_>>()
    };
    folders.flat_map(of).collect()
}

/// A server that wrote this, and was killed.
fn killed(rig: &Rig, bytes: &[u8]) {
    small(rig);
    let mut server = Server::start(rig, "");
    Client::new(rig).write(0, bytes).unwrap();
    server.child.kill().unwrap();
}

fn holds(rig: &Rig, bytes: &[u8]) {
    let server = Server::start(rig, "");
    assert!(Client::new(rig).read(0, bytes.len()) == bytes);
    server.end();
}

/// Writes that a dead server acknowledged are in no object yet. Nothing would miss the copies of
/// its log one after the other.
#[test]
fn a_log_that_lost_a_copy_is_seen_and_repaired() {
    let (rig, bytes) = (Rig::new(), data(9 * BLOCK, 3));
    killed(&rig, &bytes);
    rig.kiln("status -q").ok();
    let (folder, file) = logs(&rig)[1].clone();
    let node = folder.replace('d', "n");
    rig.remove(format!("{folder}/{file}"));
    let said = rig.kiln("status").code(1).stdout;
    let found =
        format!("volume disk: 2 of 3 copies of its log are here ({node} has no copy any more)");
    assert!(said.contains(&found) && said.contains("tolerates 1 more loss"), "{said}");
    let json = rig.kiln("status --json -q").code(1).json();
    assert_eq!(json["logs"][0]["copies"].as_array().unwrap().len(), 3);
    rig.kiln("repair --dry-run -q").ok();
    let json = rig.kiln("repair --json -q").ok().json();
    assert_eq!(
        (&json["logs"][0]["volume"], &json["logs"][0]["closed"]),
        (&"disk".into(), &true.into())
    );
    assert_eq!(logs(&rig), []);
    rig.kiln("status -q").ok();
    holds(&rig, &bytes);
}

#[test]
fn a_scrub_looks_at_logs_and_compares_their_copies() {
    let (rig, bytes) = (Rig::new(), data(BLOCK, 3));
    small(&rig);
    let mut server = Server::start(&rig, "");
    let mut client = Client::new(&rig);
    (0..3).for_each(|at| client.write(at * 8 * BLOCK as u64, &bytes).unwrap());
    assert_eq!(rig.kiln("scrub --json").ok().json()["log_faults"], serde_json::json!([]));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    rig.kiln("scrub").ok();
    // A block of the first batch rots on one node, and the second on another one.
    let logs = logs(&rig);
    let batch = 2 * BLOCK as u64;
    for (at, (folder, file)) in logs[..2].iter().enumerate() {
        flip(&rig.path(format!("{folder}/{file}")), at as u64 * batch + BLOCK as u64, 2);
    }
    rig.kiln("scrub --quick").ok();
    let said = rig.kiln("scrub").code(1).stdout;
    let nodes = |at: usize| logs[at].0.replace('d', "n");
    let found = |at: usize| format!("{} lacks batch {} of 3", nodes(at), at + 1);
    let all = [found(0), found(1), "run kiln volume check disk".to_owned()];
    assert!(all.iter().all(|words| said.contains(words)), "{said}");
    let json = rig.kiln("scrub --json").code(1).json();
    assert_eq!(json["log_faults"][0]["faults"].as_array().unwrap().len(), 2);
    assert_eq!(json["logs"], serde_json::json!([]));
    let (folder, file) = &logs[2];
    rig.remove(format!("{folder}/{file}"));
    let said = rig.kiln("scrub").code(1).stdout;
    assert!(
        said.contains("2 of 3 copies of its log are here") && said.contains(&found(1)),
        "{said}"
    );
    // What each lacks the other one has.
    rig.kiln("volume check disk -q").ok();
    rig.kiln("scrub").ok();
    let server = Server::start(&rig, "");
    let mut client = Client::new(&rig);
    assert!((0..3).all(|at| client.read(at * 8 * BLOCK as u64, BLOCK) == bytes));
    server.end();
}

/// A coordinator with a page, until it is dropped.
struct Watcher {
    child: Child,
    host: String,
    _errors: BufReader<ChildStderr>,
}

impl Watcher {
    fn start(rig: &Rig) -> Watcher {
        let words = "coordinator --stay --wait 0 --every 1 --http 127.0.0.1:0 --key cluster.key";
        let mut child = rig.start(words);
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let (mut line, at) = (String::new(), "page at http://");
        while !line.contains(at) {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "it never says where its page is");
        }
        let host = line.split(at).nth(1).unwrap().trim_end().trim_end_matches('/').to_owned();
        Watcher { child, host, _errors: errors }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let asked = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        stream.write_all(asked.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Reads its JSON once it has seen the logs of volumes.
    fn status(&self) -> serde_json::Value {
        loop {
            let answer = self.get("/status.json");
            let body = answer.split("\r\n\r\n").nth(1).unwrap();
            let status: serde_json::Value = serde_json::from_str(body).unwrap();
            let seen = |what: &serde_json::Value| !what.is_null();
            if seen(&status["volume_logs"]["seen_ms"])
                && seen(&status["coordinator"]["surveyed_ms"])
            {
                return status;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_of_a_coordinator_tells_of_logs() {
    let scene = Scene::new("clay:4+2", 9, &[]);
    let rig = &scene.rig;
    scene.ok("volume create disk 4MiB --segment 64KiB -q");
    let mut server = Server::start(rig, "--key cluster.key");
    let bytes = data(BLOCK, 5);
    Client::new(rig).write(0, &bytes).unwrap();
    let node = scene.ok("volume stat disk --json -q").json()["log_nodes"][0].clone();
    let folder = node.as_str().unwrap().replace('n', "d");
    let file = rig.names(&folder).into_iter().find(|name| name.ends_with(".log")).unwrap();
    let whole = Watcher::start(rig);
    assert_eq!(whole.status()["logs"], serde_json::json!([]));
    assert!(whole.get("/").contains("none lacks a copy"), "{}", whole.get("/"));
    drop(whole);
    rig.remove(format!("{folder}/{file}"));
    // The same as kiln status says; the volume's writer is left alone.
    let lacking = Watcher::start(rig);
    let status = lacking.status();
    let known = rig.kiln("status --json --key cluster.key").code(1).json();
    assert_eq!(
        (&status["logs"], status["logs"][0]["copies"][0][1].as_str()),
        (&known["logs"], Some("missing"))
    );
    assert_eq!(status["volume_logs"]["logs"][0]["in_use"], true);
    let page = lacking.get("/");
    for words in ["the most endangered log survives 1 more loss", "who looks after it"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(page.contains(&format!("{} has no copy any more", node.as_str().unwrap())), "{page}");
    let metrics = lacking.get("/metrics");
    let line = |name: &str| metrics.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    let missing = line("kiln_volume_log_copies_missing{").unwrap();
    assert!(missing.contains("volume=\"disk\"") && missing.ends_with("} 1"), "{missing}");
    drop(lacking);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let closing = Watcher::start(rig);
    let status = closing.status();
    assert_eq!(
        (&status["logs"], &status["volume_logs"]["logs"][0]["closed"]),
        (&serde_json::json!([]), &true.into())
    );
    let page = closing.get("/");
    assert!(page.contains("all of it is in objects now"), "{page}");
    drop(closing);
    let server = Server::start(rig, "--key cluster.key");
    assert!(Client::new(rig).read(0, BLOCK) == bytes);
    server.end();
}

#[test]
fn a_log_without_any_copy_is_a_loss() {
    let rig = Rig::new();
    killed(&rig, &data(9 * BLOCK, 3));
    let logs = logs(&rig);
    for (folder, _) in &logs[..2] {
        rig.remove(folder);
    }
    // They may be back, so that nothing is done.
    rig.kiln("status -q").code(1);
    let said = rig.kiln("repair").code(1).stdout;
    assert!(said.contains("1 of 3 copies") && said.contains("waits for them"), "{said}");
    let (folder, file) = &logs[2];
    rig.remove(format!("{folder}/{file}"));
    let said = rig.kiln("status").code(2).stdout;
    assert!(said.contains("NO copy of its log") && said.contains("NO: unsealed writes"), "{said}");
}

#[test]
fn nodes_do_not_leave_with_the_log_of_a_dead_server() {
    let (rig, bytes) = (Rig::new(), data(9 * BLOCK, 5));
    killed(&rig, &bytes);
    let logs = logs(&rig);
    let node = |at: usize| logs[at].0.replace('d', "n");
    let all = format!("pool forget {} {} {}", node(0), node(1), node(2));
    rig.kiln(&all).fails(5, &["what only the log of volume \"disk\" has"]);
    rig.kiln(&format!("pool drain {}", node(0))).ok();
    rig.remove(&logs[0].0);
    for (folder, file) in &logs[1..] {
        assert!(!rig.path(format!("{folder}/{file}")).exists());
    }
    holds(&rig, &bytes);
}

#[test]
fn a_server_tells_its_metrics_and_long_writes_go_past_the_log() {
    let rig = Rig::new();
    small(&rig);
    let server = Server::start(&rig, "--metrics 127.0.0.1:0");
    let mut client = Client::new(&rig);
    let long = data(40 * BLOCK, seed("metrics"));
    client.write(8 * BLOCK as u64, &long).unwrap();
    client.write(0, &long[..BLOCK]).unwrap();
    assert!(client.read(8 * BLOCK as u64, long.len()) == long);
    let host = server.line.split("http://").nth(1).unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let value = |name: &str| -> usize {
        let wanted = format!("{name}{{volume=\"disk\"}} ");
        let line = answer.lines().find_map(|line| line.strip_prefix(&wanted));
        line.unwrap_or_else(|| panic!("{name}: {answer}")).parse().unwrap()
    };
    assert_eq!(value("kiln_volume_long_bytes_total"), long.len());
    assert_eq!(value("kiln_volume_written_bytes_total"), long.len() + BLOCK);
    assert_eq!(value("kiln_volume_mapped_bytes"), long.len() + BLOCK);
    drop(client);
    server.end();
}

#[test]
fn one_server_at_a_time_and_the_deposed_one_writes_nothing() {
    let rig = Rig::new();
    small(&rig);
    let first = Server::start(&rig, "");
    let mut client = Client::new(&rig);
    client.write(0, &data(BLOCK, 1)).unwrap();
    let second = "nbd disk --socket other.sock";
    rig.kiln(second).fails(5, &["in use by kiln nbd on", "process"]);
    for command in ["rm disk", "check disk"] {
        rig.kiln(&format!("volume {command}")).fails(5, &["in use"]);
    }
    // What who serves it must do is asked for.
    rig.kiln("volume snapshot disk a").ok();
    rig.kiln("volume snapshot disk b").ok();
    rig.kiln("volume rm disk@a").ok();
    rig.kiln("volume rm disk@a").fails(3, &["no snapshot", "there are: b"]);
    rig.kiln("volume resize disk 1MiB").fails(3, &["in use", "smaller only"]);
    rig.kiln("volume resize disk 8MiB").ok();
    let listed = rig.kiln("volume ls").ok().stdout;
    assert!(listed.contains("disk@b") && !listed.contains("disk@a"), "{listed}");
    assert!(client.write(4 << 20, &data(BLOCK, 4)).is_err(), "a connection of before has grown");
    Client::new(&rig).write((8 << 20) - BLOCK as u64, &data(BLOCK, 4)).unwrap();
    client.write(BLOCK as u64, &data(BLOCK, 2)).unwrap();
    std::fs::remove_file(rig.path("disk.sock")).unwrap();
    let taker = Server::start(&rig, "--take-over");
    assert!(client.write(0, &data(BLOCK, 3)).is_err());
    let mut client = Client::new(&rig);
    assert!(client.read(0, 2 * BLOCK) == [data(BLOCK, 1), data(BLOCK, 2)].concat());
    assert!(client.read((8 << 20) - BLOCK as u64, BLOCK) == data(BLOCK, 4));
    drop(client);
    taker.end();
    drop(first);
}

#[test]
fn snapshots_and_clones_keep_what_they_are_of() {
    let rig = Rig::new();
    small(&rig);
    let server = Server::start(&rig, "");
    let (old, new) = (data(100 * BLOCK, 1), data(50 * BLOCK, 2));
    Client::new(&rig).write(0, &old).unwrap();
    server.end();
    rig.kiln("volume snapshot disk monday").ok();
    rig.kiln("volume snapshot disk monday").fails(3, &["has a snapshot"]);
    rig.kiln("volume clone disk@monday other").ok();
    rig.kiln("volume clone disk@monday other").fails(5, &["exists already"]);
    rig.kiln("volume clone disk@sunday third").fails(3, &["no snapshot", "monday"]);
    let server = Server::start(&rig, "");
    for _ in 0..8 {
        Client::new(&rig).write(0, &new).unwrap();
    }
    server.end();
    let served = |name: &str| {
        let words = format!("nbd {name} --export disk --socket disk.sock --read-only");
        let mut command = rig.command(&words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let errors = child.stderr.take();
        let mut client = Client::new(&rig);
        let refused = client.write(0, &[1; BLOCK]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let bytes = client.read(0, old.len());
        drop(client);
        // One that is killed leaves files of what it was removing, until a scrub.
        Server { child, errors, line }.end();
        bytes
    };
    assert!(served("other") == old);
    rig.kiln("volume rm disk@monday").fails(3, &["clone"]);
    rig.kiln("volume rm disk").fails(3, &["cloned from disk@monday"]);
    let listed = rig.kiln("volume ls").ok().stdout;
    assert!(listed.contains("disk@monday") && listed.contains("other"), "{listed}");
    rig.kiln("volume rm other").fails(5, &["of 4 MiB (not in use)", "--yes"]);
    rig.kiln("volume rm other --yes").ok();
    rig.kiln("volume resize disk 1MiB").ok();
    rig.kiln("volume rm disk@monday").ok();
    assert!(served("disk") == [&new[..], &old[new.len()..]].concat());
    rig.kiln("volume rm disk --yes").ok();
    assert_eq!(rig.kiln("ls .volumes").ok().stdout, "");
    // Nothing is left on any node but what says that something was there.
    for at in 0..9 {
        let names = rig.names(&format!("d{at:02}"));
        let left = |name: &&String| {
            // Parts are of those that were killed; a scrub removes them.
            let known = [".manifest", ".part", ".toml", "kiln-changes"];
            !known.iter().any(|end| name.ends_with(end))
        };
        assert_eq!(names.iter().find(left), None, "{names:?}");
    }
}

#[test]
fn what_cannot_be_is_said() {
    let rig = Rig::new();
    small(&rig);
    rig.kiln("volume create disk 1MiB").fails(5, &["exists already"]);
    rig.kiln("volume create a/b 1MiB").fails(3, &["without slashes"]);
    rig.kiln("volume create odd 5").fails(3, &["blocks of 4096"]);
    rig.kiln("volume create odd 1MiB --segment 1KiB").fails(3, &["64 KiB to 128 MiB"]);
    rig.kiln("nbd none --socket x.sock").fails(7, &["no volume \"none\""]);
    rig.kiln("nbd disk --listen 0.0.0.0:0").fails(3, &["--tls-certificate", "--insecure"]);
    std::fs::write(rig.path("bad.pem"), "no certificate").unwrap();
    rig.kiln("nbd disk --listen 127.0.0.1:0 --tls-certificate bad.pem --tls-key bad.pem")
        .fails(4, &["bad.pem"]);
    std::fs::write(rig.path("x.sock"), "a file").unwrap();
    rig.kiln("nbd disk --socket x.sock").fails(4, &["x.sock"]);
    assert_eq!(rig.read("x.sock"), b"a file");
    let stat = rig.kiln("volume stat disk --json").ok().json();
    assert_eq!((&stat["size"], &stat["log"]), (&(4 << 20).into(), &(256 << 10).into()));
    rig.kiln("volume stat none").fails(7, &["no volume"]);
    // Beyond the end, and a request that is none.
    let server = Server::start(&rig, "");
    let mut client = Client::new(&rig);
    let error = client.ask(0, 4 << 20, 1, &[]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(client.write(4 << 20, b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
    client.0.write_all(&[0; 28]).unwrap();
    assert_eq!(client.0.read(&mut [0; 1]).unwrap(), 0);
    let said = server.end();
    assert!(said.contains("does not keep to the protocol"), "{said}");
}

#[test]
fn a_smaller_volume_keeps_what_was_written_until_that_is_given_up() {
    let rig = Rig::new();
    create(&rig, "rs:3+2", 5);
    rig.kiln("volume create disk 16MiB -q").ok();
    // Nothing lies there.
    rig.kiln("volume resize disk 8MiB -q").ok();
    rig.kiln("volume resize disk 16MiB -q").ok();
    let (last, block) = ((16 << 20) - 4096, data(4096, 3));
    let server = Server::start(&rig, "");
    Client::new(&rig).write(last, &block).unwrap();
    server.end();
    rig.kiln("volume resize disk 1MiB").fails(5, &["1 block of 4 KiB", "past 1 MiB", "--yes"]);
    let server = Server::start(&rig, "");
    assert_eq!(Client::new(&rig).read(last, 4096), block);
    server.end();
    rig.kiln("volume resize disk 1MiB --yes -q").ok();
    rig.kiln("volume rm disk").fails(5, &["--yes"]);
    rig.kiln("volume rm disk --yes -q").ok();
}

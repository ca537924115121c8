//! Real S3 servers on this machine, each on a port of its own: moto (a Python package), and s3s-fs
//! (a crate) where `KILN_S3S_FS` names its program. They end with their values.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kiln_remote::s3::BucketBackend;
use kiln_store::{Location, Result};

/// Set where a missing server is an error: in CI.
const MUST: &str = "KILN_S3_MUST";
/// Buckets have this name.
const BUCKET: &str = "test-bucket";

/// A server that runs.
pub struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All servers that can be had; if there are none, that is said.
pub fn servers() -> Vec<(&'static str, Server)> {
    let mut servers = Vec::new();
    servers.extend(moto().map(|server| ("moto", server)));
    servers.extend(s3s().map(|server| ("s3s-fs", server)));
    if servers.is_empty() {
        assert!(std::env::var_os(MUST).is_none(), "no S3 server, and {MUST} is set");
        println!("SKIPPED: there is no S3 server here; pip install 'moto[server,s3]'");
    }
    servers
}

fn moto() -> Option<Server> {
    let python = |code: &str| Command::new("python3").args(["-c", code]).output();
    let there = python("import moto.server").is_ok_and(|found| found.status.success());
    there.then(|| {
        let server = Server::start(&mut |_, port| {
            let mut command = Command::new("python3");
            command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", port]);
            command
        });
        let answer = server.ask(&format!("PUT /{BUCKET} HTTP/1.1"));
        assert!(answer.contains(" 200 "), "{answer}");
        server
    })
}

fn s3s() -> Option<Server> {
    let program = std::env::var_os("KILN_S3S_FS")?;
    Some(Server::start(&mut |folder, port| {
        std::fs::create_dir(folder.join(BUCKET)).unwrap();
        let mut command = Command::new(&program);
        command.args(["--host", "127.0.0.1", "--port", port]);
        command.args(["--access-key", "key", "--secret-key", "secret"]).arg(folder);
        command
    }))
}

impl Server {
    fn start(command: &mut dyn FnMut(&Path, &str) -> Command) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = command(folder.path(), &port.to_string());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Server { child, port, _folder: folder };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(60), "the server does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// Sends a request without a body as it stands; gives the start of the answer.
    fn ask(&self, line: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "{line}\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n").unwrap();
        write!(stream, "Connection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub fn url(&self, bucket: &str, prefix: &str) -> String {
        format!("s3://{bucket}/{prefix}?endpoint=http://127.0.0.1:{}&timeout=20", self.port)
    }

    /// A place in the bucket that is there.
    pub fn place(&self, prefix: &str) -> BucketBackend {
        open(&self.url(BUCKET, prefix), "secret").unwrap()
    }
}

/// Opens a place by its URL.
pub fn open(url: &str, secret: &str) -> Result<BucketBackend> {
    BucketBackend::with_credentials(&Location::of(url.as_ref()), "key", secret)
}

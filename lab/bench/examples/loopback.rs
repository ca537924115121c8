//! Measures an agent beside a bare TLS copy: both over the loopback interface, with the same
//! ciphers. Run it on one core:
//! `taskset -c 0 cargo run --release --manifest-path lab/Cargo.toml --example loopback`.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use kiln_net::{AgentSetup, ClusterKey, Network, serve};
use kiln_store::{Backend, FileBackend};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const BLOCK: usize = 1 << 20;
const BLOCKS: usize = 1024;
type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = { builder }.worker_threads(1).enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let key = ClusterKey::create(&folder.path().join("key"))?;
    let disk = FileBackend::create(folder.path().join("disk"))?;
    let data: Vec<u8> = (0..BLOCK).map(|i| (i * 167 + i / 256 * 13) as u8).collect();
    let mut file = disk.append("a", 0)?;
    for _ in 0..64 {
        file.append(&data)?;
    }
    drop(file);
    let setup = AgentSetup { key: Some(key.clone()), ..AgentSetup::plain("here", Arc::new(disk)) };
    let agent = runtime.block_on(serve(setup, "127.0.0.1:0"))?;
    let network = Network::new(Some(key), 1)?;
    let remote = network.open(&format!("kiln://{}", agent.address()).parse()?);
    // For a profiler: only this.
    if let Some(only) = std::env::args().nth(1) {
        for _ in 0..4 {
            let rate = match only.as_str() {
                "read" => read(&remote)?,
                "write" => write(&remote, &data)?,
                "keep" => runtime.block_on(copy(&data, Some(folder.path().join("copy"))))?,
                _ => runtime.block_on(copy(&data, None))?,
            };
            println!("{only} {rate:.2} GB/s");
        }
        return Ok(());
    }
    for round in 0..3 {
        let bare = runtime.block_on(copy(&data, None))?;
        let kept = runtime.block_on(copy(&data, Some(folder.path().join("copy"))))?;
        let read = read(&remote)?;
        let written = write(&remote, &data)?;
        println!(
            "round {round}: TLS copy {bare:.2} GB/s, into a file {kept:.2}; agent read {read:.2} \
             ({:.0}%), agent write {written:.2} ({:.0}%, of the copy into a file {:.0}%)",
            100.0 * read / bare,
            100.0 * written / bare,
            100.0 * written / kept,
        );
    }
    Ok(())
}

fn rate(start: Instant) -> f64 {
    (BLOCK * BLOCKS) as f64 / start.elapsed().as_secs_f64() / 1e9
}

/// The same file again and again, from the page cache, in reads of four blocks.
fn read(remote: &dyn Backend) -> Result<f64, Failure> {
    let file = remote.open("a")?;
    let mut buffer = vec![0; 4 * BLOCK];
    let start = Instant::now();
    for block in 0..BLOCKS / 4 {
        file.read_at((block % 16 * 4 * BLOCK) as u64, &mut buffer)?;
    }
    Ok(rate(start))
}

/// To a file that is begun anew every 64 blocks, so that it stays in the page cache.
fn write(remote: &dyn Backend, data: &[u8]) -> Result<f64, Failure> {
    let start = Instant::now();
    for _ in 0..BLOCKS / 64 {
        let mut file = remote.append("b", 0)?;
        for _ in 0..64 {
            file.append(data)?;
        }
    }
    Ok(rate(start))
}

/// Blocks through a TLS connection; thrown away at the other end, or written to a file that is
/// begun anew every 64 blocks, as the agent's is.
async fn copy(data: &[u8], keep: Option<PathBuf>) -> Result<f64, Failure> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["here".to_owned()])?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone())?;
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let sink = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let mut stream = TlsAcceptor::from(Arc::new(server)).accept(stream).await?;
        let mut buffer = vec![0; BLOCK];
        let (mut file, mut room) = (None, 0);
        loop {
            let got = stream.read(&mut buffer).await?;
            if got == 0 {
                break;
            }
            let Some(path) = &keep else { continue };
            if room < got {
                (file, room) = (Some(File::create(path)?), 64 * BLOCK);
            }
            if let Some(file) = &mut file {
                file.write_all(&buffer[..got])?;
                room -= got;
            }
        }
        Ok::<(), std::io::Error>(())
    });
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("here")?;
    let mut stream = TlsConnector::from(Arc::new(client)).connect(name, stream).await?;
    let start = Instant::now();
    for _ in 0..BLOCKS {
        stream.write_all(data).await?;
    }
    stream.shutdown().await?;
    sink.await??;
    Ok(rate(start))
}

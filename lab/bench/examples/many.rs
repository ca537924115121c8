//! Time and memory of listing, status and planning of a large pool.
//!
//! `cargo run --release --manifest-path lab/Cargo.toml --example many -- FOLDER OBJECTS` makes a
//! pool of 14 folders with so many tiny objects (manifests are written as a put would write them,
//! but not synced), and prints one line of JSON. With five copies 200,000 objects have 1,000,000
//! manifests.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use kiln_pool::layout::{Body, Candidate, place};
use kiln_pool::repair::queue::{RepairQueue, Rules};
use kiln_pool::{Index, Key, Manifest, NodeConfig, NodeFile, Policy, Pool, PoolConfig, PutRequest};
use kiln_store::{Backend, FileBackend, StoreError};
use kiln_stripe::{PoolError, Settings, Silent, StreamSource};

const NODES: usize = 14;
/// Objects put and changed by the ordinary way.
const PUTS: usize = 200;

fn open(node: &NodeConfig) -> Result<Arc<dyn Backend>, StoreError> {
    Ok(Arc::new(FileBackend::create(node.url.trim_start_matches("file://"))?))
}

/// The pool, and all its manifests.
fn make(folder: &Path, objects: usize) -> Result<PoolConfig, PoolError> {
    let mut config = PoolConfig::new([1; 16], "many", Policy::for_code("clay:10+4")?);
    for at in 0..NODES {
        let url = format!("file://{}/d{at:02}", folder.display());
        config.node.push(NodeConfig::new(&format!("n{at:02}"), &url));
    }
    let config = Pool::create(config, &open)?.config().clone();
    let candidates: Vec<Candidate<'_>> = config.node.iter().map(NodeConfig::candidate).collect();
    for number in 0..objects {
        let name = format!("folder-{:03}/object-{number:07}", number % 997);
        let key = Key::of(&name)?;
        let chosen = place(&key, &candidates, config.policy.manifest_copies, &[]);
        let ids = chosen.iter().map(|&at| config.node[at].id.clone());
        let bytes = format!("contents of {number}").into_bytes();
        let manifest = Manifest {
            pool: config.id_bytes(),
            name,
            version: 1,
            run: (number as u128 + 1).to_be_bytes(),
            created_ms: 0,
            size: bytes.len() as u64,
            copies: ids.collect(),
            body: Body::Inline(bytes),
            kept: None,
            key: None,
        };
        let bytes = manifest.to_bytes();
        for &at in &chosen {
            let file = folder.join(format!("d{at:02}")).join(NodeFile::Manifest { key }.name());
            std::fs::write(file, &bytes).map_err(|source| PoolError::Output { source })?;
        }
    }
    Ok(config)
}

/// Peak of the process's memory in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

fn timed<T>(body: impl FnOnce() -> Result<T, PoolError>) -> Result<(T, f64), PoolError> {
    let start = Instant::now();
    Ok((body()?, start.elapsed().as_secs_f64()))
}

fn list(index: &Index) -> Result<u64, PoolError> {
    let mut objects = 0;
    index.each("", None, |_| {
        objects += 1;
        Ok(true)
    })?;
    Ok(objects)
}

fn main() -> Result<(), PoolError> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().unwrap_or_else(|| "many.pool".into());
    let objects = words.next().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let folder = std::path::absolute(folder).map_err(|source| PoolError::Output { source })?;
    let (config, made) = timed(|| make(&folder, objects))?;
    let before_kib = peak_kib();
    let pool = Pool::open(config.clone(), &open)?;
    let index = Index::open(&folder.join("index.redb"))?;
    let (first, scan) = timed(|| index.refresh(&pool, b"boot", &Silent))?;
    let (listed, listing) = timed(|| list(&index))?;
    let survey = || {
        let mut queue = RepairQueue::new(Rules::default());
        Ok((pool.repairer().survey(&index, &mut queue, 0)?, queue.len()))
    };
    let ((status, _), whole) = timed(survey)?;
    let (_, putting) = timed(|| {
        for at in 0..PUTS {
            let (name, run) = (format!("put/{at}"), (at as u128 + 1 + (1 << 64)).to_be_bytes());
            let req = PutRequest { name: &name, run, now_ms: 0, replace: true };
            pool.put(&req, &mut StreamSource::new(&b"small"[..]), &Settings::new(&Silent))?;
        }
        Ok(())
    })?;
    let (next, follow) = timed(|| index.refresh(&pool, b"boot", &Silent))?;
    // One node loses its disk: what a repair would do.
    let lost = folder.join("d03");
    std::fs::rename(&lost, folder.join("lost")).map_err(|source| PoolError::Output { source })?;
    let node = config.node[3].clone();
    let config = pool.members().replace_disk(node, [3; 16], &open, &Settings::new(&Silent))?;
    let pool = Pool::open(config, &open)?;
    let (planned, planning) = timed(|| {
        let mut queue = RepairQueue::new(Rules::default());
        let status = pool.repairer().survey(&index, &mut queue, 0)?;
        Ok((status.objects - status.whole, queue.len()))
    })?;
    println!(
        "{{\"objects\":{objects},\"manifests\":{},\"made_s\":{made:.2},\"scan_s\":{scan:.2},\
         \"list_s\":{listing:.2},\"listed\":{listed},\"status_s\":{whole:.2},\"whole\":{},\
         \"put_ms\":{:.2},\"follow_s\":{follow:.3},\"plan_s\":{planning:.2},\"endangered\":{},\
         \"queued\":{},\"peak_kib\":{},\"peak_before_kib\":{before_kib},\
         \"refreshed\":\"{first:?} {next:?}\"}}",
        objects * 5,
        status.whole,
        putting * 1000.0 / PUTS as f64,
        planned.0,
        planned.1,
        peak_kib(),
    );
    Ok(())
}

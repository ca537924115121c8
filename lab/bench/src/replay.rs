//! `kiln-bench replay TRACE FILE`: the requests of a trace again, to a file or block device; and
//! `kiln-bench traces FILE...`: what is in traces.

mod trace;

use crate::BenchError;
use rustix::fs::OFlags;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use trace::{Operation, Request, Trace};

pub const REPLAY: &str = "replay";
pub const REPLAY_ABOUT: &str =
    "a trace again: replay TRACE FILE [--speed 1] onto a file or device, which is overwritten";
pub const TRACES: &str = "traces";
pub const TRACES_ABOUT: &str = "what is in traces: a line of JSON for each FILE";

/// Threads that a trace may ask for.
const DEPTH_MAX: u64 = 1024;
/// Working sets are counted in these.
const BLOCK: u64 = 4096;
/// A trace of random bytes shall not take all memory; about as many are counted.
const BLOCKS_MAX: usize = 1 << 24;

/// Plays a trace and prints what came out as one line of JSON. `speed` 1 keeps the times of the
/// trace, 2 halves them; 0 asks as fast as answers come, with the depth of the trace.
///
/// # Errors
/// There are not two files; the trace is none; the other one cannot be read or written, or is too
/// small.
pub fn run(files: &[PathBuf], speed: f64) -> Result<(), BenchError> {
    let [trace, file] = files else {
        return Err(failed(Path::new(REPLAY), "it needs a trace and what it is played onto"));
    };
    println!("{}", play(&Trace::open(trace)?, file, speed)?);
    Ok(())
}

/// Prints what traces have in them.
///
/// # Errors
/// One of them is none.
pub fn summarise(files: &[PathBuf]) -> Result<(), BenchError> {
    for file in files {
        println!("{}", summary(&Trace::open(file)?));
    }
    Ok(())
}

fn failed(path: &Path, reason: impl ToString) -> BenchError {
    let source = std::io::Error::other(reason.to_string());
    BenchError::Report { path: path.to_path_buf(), source }
}

/// Plays a trace onto a file; writes are on disk when they count as done.
fn play(trace: &Trace, path: &Path, speed: f64) -> Result<Value, BenchError> {
    let flags = OFlags::DSYNC.bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    let mut file = file.map_err(|error| failed(path, error))?;
    let size = file.seek(SeekFrom::End(0)).map_err(|error| failed(path, error))?;
    let wanted = trace.requests.iter().map(Request::end).max().unwrap_or(0);
    if size < wanted {
        return Err(failed(path, format!("it has {size} bytes, the trace needs {wanted}")));
    }
    let (next, took) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let largest = trace.requests.iter().map(|request| request.bytes).max().unwrap_or(0) as usize;
    let start = Instant::now();
    let worker = || -> std::io::Result<()> {
        let (mut buffer, mut mine) = (vec![0; largest], Vec::new());
        while let Some(request) = trace.requests.get(next.fetch_add(1, Ordering::Relaxed)) {
            if speed > 0.0 {
                let due = Duration::try_from_secs_f64(request.issue_us as f64 / 1e6 / speed);
                thread::sleep(due.unwrap_or(Duration::MAX).saturating_sub(start.elapsed()));
            }
            let began = Instant::now();
            one(&file, request, &mut buffer)?;
            mine.push(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        // A thread that panics holds nothing: it was not among those that add.
        took.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(mine);
        Ok(())
    };
    let threads = trace.depth().min(DEPTH_MAX);
    let ends: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    for end in ends {
        end.map_err(|_| failed(path, "a thread panicked"))?.map_err(|error| failed(path, error))?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut took = took.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    took.sort_unstable();
    let mut recorded: Vec<u64> = trace.requests.iter().map(|request| request.took_us).collect();
    recorded.sort_unstable();
    Ok(json!({
        "about": trace.about, "requests": took.len(), "depth": threads, "seconds": seconds,
        "iops": took.len() as f64 / seconds.max(1e-9),
        "p50_us": percentile(&took, 50), "p99_us": percentile(&took, 99),
        "recorded_p50_us": percentile(&recorded, 50), "recorded_p99_us": percentile(&recorded, 99),
    }))
}

/// One request. Written bytes differ from place to place, so that a place that was missed shows.
fn one(file: &File, request: &Request, buffer: &mut [u8]) -> std::io::Result<()> {
    let part = &mut buffer[..request.bytes as usize];
    match request.operation {
        Operation::Read => file.read_exact_at(part, request.offset),
        Operation::Write => {
            for (at, byte) in part.iter_mut().enumerate() {
                *byte = pattern(request.offset + at as u64);
            }
            file.write_all_at(part, request.offset)
        }
        // What is asked of a device is not of its content.
        Operation::Trim | Operation::Names => Ok(()),
    }
}

/// The byte that is written at a place.
fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The number at a share of sorted numbers; 0 of none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(0)
}

/// What is in a trace.
fn summary(trace: &Trace) -> Value {
    let (mut sizes, mut ends) = (BTreeMap::<u32, u64>::new(), HashMap::<u32, u64>::new());
    let (mut blocks, mut sequential) = (HashSet::new(), 0u64);
    let (mut names, mut reads, mut read_bytes, mut written_bytes) = (0u64, 0u64, 0u64, 0u64);
    for request in &trace.requests {
        if request.operation == Operation::Names {
            names += 1;
            continue;
        }
        *sizes.entry(request.bytes).or_default() += 1;
        sequential += u64::from(ends.insert(request.job, request.end()) == Some(request.offset));
        if blocks.len() < BLOCKS_MAX {
            blocks.extend(request.offset / BLOCK..request.end().div_ceil(BLOCK));
        }
        match request.operation {
            Operation::Read => {
                reads += 1;
                read_bytes += u64::from(request.bytes);
            }
            _ => written_bytes += u64::from(request.bytes),
        }
    }
    let mut took: Vec<u64> = trace.requests.iter().map(|request| request.took_us).collect();
    took.sort_unstable();
    let count = trace.requests.len().max(1) as f64;
    let ended =
        trace.requests.iter().map(|request| request.issue_us.saturating_add(request.took_us));
    let ended = ended.max();
    let sizes: BTreeMap<String, u64> =
        sizes.into_iter().map(|(size, count)| (size.to_string(), count)).collect();
    json!({
        "about": trace.about, "requests": trace.requests.len(),
        "seconds": ended.unwrap_or(0) as f64 / 1e6,
        "name_share": names as f64 / count, "read_share": reads as f64 / count,
        "sequential_share": sequential as f64 / count,
        "read_bytes": read_bytes, "written_bytes": written_bytes, "sizes": sizes,
        "touched_bytes": blocks.len() as u64 * BLOCK,
        "p50_us": percentile(&took, 50), "p99_us": percentile(&took, 99),
    })
}

#[cfg(test)]
mod tests {
    use super::trace::tests::text;
    use super::*;

    fn trace(rows: &str) -> Trace {
        Trace::read(text(rows).as_bytes()).unwrap()
    }

    #[test]
    fn a_replay_writes_where_the_trace_says_and_keeps_its_times() -> Result<(), BenchError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![0; 16384]).unwrap();
        let trace = trace("0,w,4096,512,10,0\n100,r,0,1024,30,0\n60000,w,8192,100,20,1\n");
        let found = play(&trace, &path, 2.0)?;
        assert_eq!((&found["requests"], &found["recorded_p99_us"]), (&json!(3), &json!(30)));
        assert!(found["seconds"].as_f64() >= Some(0.03), "{found}");
        let bytes = std::fs::read(&path).unwrap();
        for (at, byte) in bytes.iter().enumerate() {
            let written = (4096..4608).contains(&at) || (8192..8292).contains(&at);
            assert_eq!(*byte, if written { pattern(at as u64) } else { 0 }, "{at}");
        }
        assert!(play(&trace, &path, 0.0)?["iops"].as_f64() > Some(0.0));
        std::fs::write(&path, [0; 100]).unwrap();
        let error = play(&trace, &path, 0.0).unwrap_err().to_string();
        assert!(error.contains("8292"), "{error}");
        assert!(run(&[path], 0.0).unwrap_err().to_string().contains("needs a trace"));
        Ok(())
    }

    #[test]
    fn a_summary_counts_sizes_blocks_and_runs_of_each_job() {
        let found = summary(&trace(
            "0,w,0,4096,1,0\n1,r,100,512,1,1\n2,w,4096,4096,1,0\n3,w,4096,4096,9,0\n",
        ));
        assert_eq!(found["sizes"], json!({"4096": 3, "512": 1}));
        assert_eq!(
            (&found["read_share"], &found["sequential_share"]),
            (&json!(0.25), &json!(0.25))
        );
        assert_eq!(found["touched_bytes"], json!(8192));
        assert_eq!(found["written_bytes"], json!(12288));
        assert_eq!(found["p99_us"], json!(9));
        assert_eq!(summary(&trace(""))["requests"], json!(0));
    }
}

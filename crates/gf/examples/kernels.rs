//! Speed of every kernel that runs here, in the cache: source bytes per second, one thread.
//!
//! `cargo run --release -p kiln-gf --example kernels [KERNEL]`; with `--others` it measures nothing
//! and prints the names of all kernels but the one that is used when nobody asks for another.

use kiln_gf::{AlignedBuf, KERNELS, Kernel, Product, active, available, by_name, generator};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long each number is measured; the best of its rounds counts.
const TIME: Duration = Duration::from_millis(60);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("--others") {
        let active = active()?.name();
        KERNELS.iter().filter(|row| row.name != active).for_each(|row| println!("{}", row.name));
        return Ok(());
    }
    let kernels = match argument {
        Some(name) => vec![by_name(&name)?],
        None => available(),
    };
    println!("{:8} {:>6} {:>8} {:>10} {:>10}", "kernel", "shape", "bytes", "GB/s", "ns a call");
    for kernel in kernels {
        for (rows, cols) in [(1, 1), (1, 2), (2, 2), (4, 4), (4, 10), (4, 12), (8, 16), (10, 20)] {
            for len in [512, 1024, 4096, 16384, 65536] {
                let nanoseconds = measure(kernel, rows, cols, len)?;
                let rate = (cols * len) as f64 / nanoseconds;
                let (name, shape) = (kernel.name(), format!("{rows}x{cols}"));
                println!("{name:8} {shape:>6} {len:>8} {rate:>10.1} {nanoseconds:>10.1}");
            }
        }
    }
    Ok(())
}

/// Nanoseconds per call.
fn measure(
    kernel: &'static dyn Kernel,
    rows: usize,
    cols: usize,
    len: usize,
) -> Result<f64, kiln_gf::GfError> {
    let product = Product::new(kernel, &generator("cauchy")?.parity(cols, rows)?);
    // Staggered by some lines, as operands at equal offsets of pages compete for cache sets.
    let pitch = len + 320;
    let mut buffer = AlignedBuf::zeroed((rows + cols) * pitch);
    buffer.iter_mut().enumerate().for_each(|(i, byte)| *byte = ((i * i) >> 5) as u8);

    let (head, tail) = buffer.split_at_mut(cols * pitch);
    let srcs: Vec<&[u8]> = head.chunks(pitch).map(|chunk| &chunk[..len]).collect();
    let mut dsts: Vec<&mut [u8]> = tail.chunks_mut(pitch).map(|chunk| &mut chunk[..len]).collect();
    best(|| product.run(black_box(&srcs), &mut dsts))
}

/// Nanoseconds of one call, the least over rounds of 100 calls.
fn best<E>(mut call: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let start = Instant::now();
    let mut least = f64::INFINITY;
    while start.elapsed() < TIME {
        let round = Instant::now();
        for _ in 0..100 {
            call()?;
        }
        least = least.min(round.elapsed().as_nanos() as f64 / 100.0);
    }
    Ok(least)
}

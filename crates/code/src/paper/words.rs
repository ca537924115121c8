//! Running a schedule with 64-bit words and no vector instructions, as the paper does.
//!
//! Only for measuring orders against each other: [`crate::Program`] is what kiln works with. Words
//! are atomics because a compiler does not join accesses to those into vectors; relaxed ones are
//! plain loads and stores of the machine.

use super::Schedule;
use super::fans::{Fan, fans};
use crate::CodeError;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A schedule made ready for 64-bit words: loops with one source and up to three destinations.
///
/// ```
/// use kiln_code::{Codec, paper::{WordKernel, schedule}};
/// use std::sync::atomic::AtomicU64;
/// let codec = Codec::new(&"rdp:2+2,p=3".parse()?)?;
/// let plan = codec.encode_plan()?;
/// let kernel = WordKernel::new(&(schedule("traditional")?.make)(plan.dag())?);
/// // Two data chunks and two parity chunks of two packets of one word each; nothing temporary.
/// let data = [[1, 2], [4, 8]].map(|chunk| chunk.map(AtomicU64::new));
/// let parity = [[0, 0], [0, 0]].map(|chunk| chunk.map(AtomicU64::new));
/// kernel.run(&[&data[0], &data[1], &parity[0], &parity[1], &[]])?;
/// assert_eq!(parity[0][0].load(std::sync::atomic::Ordering::Relaxed), 1 ^ 4);
/// # Ok::<(), kiln_code::CodeError>(())
/// ```
#[derive(Debug)]
pub struct WordKernel {
    schedule: Schedule,
    fans: Vec<Fan>,
}

impl WordKernel {
    /// Makes the loops. Operations of one group share a loop as long as they have one source.
    pub fn new(schedule: &Schedule) -> WordKernel {
        WordKernel { schedule: schedule.clone(), fans: fans(schedule) }
    }

    /// Runs over one stripe: the buffers of [`Schedule::buffers`], inputs, outputs, and one with
    /// the temporary words, which all have the same number of machine words a packet.
    ///
    /// # Errors
    /// The number or a length of the buffers does not fit; nothing is written then.
    pub fn run(&self, regions: &[&[AtomicU64]]) -> Result<(), CodeError> {
        let len = self.packet(regions)?;
        let slice = |word: u32| {
            let place = self.schedule.place(word);
            &regions[place.region as usize][place.unit as usize * len..][..len]
        };
        for fan in &self.fans {
            let from = fan.from.map(slice);
            match (from, &fan.copies[..], &fan.sums[..]) {
                (None, copies, _) => {
                    for word in copies.iter().flat_map(|&to| slice(to)) {
                        word.store(0, Relaxed);
                    }
                }
                (Some(from), &[], &[a]) => run(from, [], [slice(a)]),
                (Some(from), &[], &[a, b]) => run(from, [], [slice(a), slice(b)]),
                (Some(from), &[], &[a, b, c]) => run(from, [], [slice(a), slice(b), slice(c)]),
                (Some(from), &[a], &[]) => run(from, [slice(a)], []),
                (Some(from), &[a], &[b]) => run(from, [slice(a)], [slice(b)]),
                (Some(from), &[a], &[b, c]) => run(from, [slice(a)], [slice(b), slice(c)]),
                (Some(from), &[a, b], &[]) => run(from, [slice(a), slice(b)], []),
                (Some(from), &[a, b], &[c]) => run(from, [slice(a), slice(b)], [slice(c)]),
                (Some(from), copies, sums) => {
                    copies.iter().for_each(|&to| run(from, [slice(to)], []));
                    sums.iter().for_each(|&to| run(from, [], [slice(to)]));
                }
            }
        }
        Ok(())
    }

    /// Machine words of a packet.
    fn packet(&self, regions: &[&[AtomicU64]]) -> Result<usize, CodeError> {
        let buffers = self.schedule.buffers();
        let units = buffers.inputs.iter().chain(&buffers.outputs).chain([&buffers.scratch]);
        let (expected, got) = (buffers.inputs.len() + buffers.outputs.len() + 1, regions.len());
        if expected != got {
            return Err(CodeError::Shape { what: "buffers of a schedule", expected, got });
        }
        let first = buffers.inputs.first().copied().unwrap_or(1).max(1);
        let len = regions[0].len() / first;
        for (units, region) in units.zip(regions) {
            let (expected, got) = (units * len, region.len());
            if expected != got {
                return Err(CodeError::Shape { what: "words of a buffer", expected, got });
            }
        }
        Ok(len)
    }
}

/// The inner loop of both of the paper's algorithms: Algorithm 1 has one destination, Algorithm 2
/// all that use the source.
fn run<const C: usize, const S: usize>(
    from: &[AtomicU64],
    copies: [&[AtomicU64]; C],
    sums: [&[AtomicU64]; S],
) {
    let len = from.len();
    let (copies, sums) = (copies.map(|to| &to[..len]), sums.map(|to| &to[..len]));
    for x in 0..len {
        let word = from[x].load(Relaxed);
        for to in copies {
            to[x].store(word, Relaxed);
        }
        for to in sums {
            to[x].store(to[x].load(Relaxed) ^ word, Relaxed);
        }
        // Keeps the compiler from unrolling, as the paper's compiler did not.
        black_box(());
    }
}

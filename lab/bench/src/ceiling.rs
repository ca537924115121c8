//! What the machine allows: the traffic of an operation without its computing, and the reverse.
//!
//! A ceiling is measured on the buffers and in the rounds of the engines it stands beside. It
//! reads as many streams as the operation must and XORs them to as many as it must write.

use crate::BenchError;
use crate::engine::{Engine, Family, Job, Operation, Reads, Task};
use crate::peer::{Peer, Shape};

/// One ceiling as an engine.
pub struct Ceiling {
    peer: Peer,
    name: String,
}

/// Ceilings that bound every operation; `copy` and `read` stand beside encodes only.
pub const BOUNDS: &[&str] = &["ceiling:xor", "ceiling:xor-nt"];

impl Ceiling {
    /// Wraps an engine of the library of ceilings.
    pub fn new(peer: Peer) -> Ceiling {
        let name = format!("ceiling:{}", peer.name());
        Ceiling { peer, name }
    }

    /// The least that must be read and written.
    fn traffic(&self, job: &Job) -> (Vec<Reads>, Shape) {
        let whole = |outputs| Shape { outputs, len: job.chunk & !255 };
        match (job.operation, job.family) {
            (Operation::Encode, _) => ((0..job.k).map(Reads::whole).collect(), whole(job.m)),
            // A single repair of Clay: of each of n - 1 helpers the layers where the lost node
            // has its dot, a q-th of a chunk; written are q times as much.
            (Operation::Repair(1), Family::Clay) => {
                let layers = layers(job);
                let reads = job.survivors().into_iter();
                let reads = reads.map(|chunk| Reads { chunk, sub_chunks: Some(layers.clone()) });
                let len = (job.chunk / job.m) & !255;
                (reads.collect(), Shape { outputs: job.m, len })
            }
            _ => {
                let reads = job.survivors().into_iter().take(job.k).map(Reads::whole);
                (reads.collect(), whole(job.lost().len()))
            }
        }
    }
}

/// The layers that repairing the lost chunk reads: those whose digit of its section is its place
/// in the section. Sections are counted from the left, the first digit is the most significant.
fn layers(job: &Job) -> Vec<u32> {
    let (q, lost, alpha) = (job.m, job.lost()[0], job.alpha());
    let weight = alpha / q.pow((lost / q) as u32 + 1);
    let digit = |z: usize| (z / weight) % q;
    (0..alpha).filter(|&z| digit(z) == lost % q).map(|z| z as u32).collect()
}

impl Engine for Ceiling {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        self.peer.version()
    }

    fn prepare(&self, job: &Job) -> Result<Box<dyn Task + '_>, BenchError> {
        let (reads, shape) = self.traffic(job);
        if job.operation != Operation::Encode && !BOUNDS.contains(&&self.name[..]) {
            let (engine, reason) = (self.name.clone(), "stands beside encodes only".into());
            return Err(BenchError::Unsupported { engine, reason });
        }
        self.peer.prepare_shape(job, reads, shape)
    }

    fn same_bytes_as(&self, _: &Job) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kiln::Kiln;

    #[test]
    fn a_repairs_ceiling_reads_what_kiln_reads() -> Result<(), BenchError> {
        for (k, m) in [(4, 2), (6, 3), (8, 4), (10, 4)] {
            let operation = Operation::Repair(1);
            let job = Job { family: Family::Clay, k, m, operation, chunk: 1 << 20 };
            let kiln = Kiln::USUAL.prepare(&job)?;
            for read in kiln.reads() {
                assert_eq!(read.sub_chunks.as_ref(), Some(&layers(&job)), "{job:?}");
            }
        }
        Ok(())
    }
}

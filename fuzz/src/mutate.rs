//! Changing inputs at random, from a seed: no coverage guides it, but any toolchain can run it.

use kiln_testkit::Random;

/// Longer inputs only take longer.
const MOST: usize = 1 << 14;
/// Numbers at which limits are.
const EDGES: [u64; 12] =
    [0, 1, 2, 3, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 53, (1 << 62) + 1, u64::MAX];

/// One of the inputs with a few changes, some of them taken from the others.
pub fn mutated(inputs: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut bytes = match inputs {
        [] => Vec::new(),
        _ => inputs[random.index(inputs.len())].to_vec(),
    };
    for _ in 0..=random.index(6) {
        let len = bytes.len();
        let at = random.index(len + 1);
        let end = (at + 1 + random.index(16)).min(len);
        match random.index(8) {
            0 if at < len => bytes[at] ^= 1 << random.index(8),
            1 if at < len => bytes[at] = random.index(256) as u8,
            2 => {
                let new: Vec<u8> = (0..=random.index(8)).map(|_| random.index(256) as u8).collect();
                bytes.splice(at..at, new);
            }
            3 if at < end => drop(bytes.drain(at..end)),
            4 => bytes.truncate(at),
            5 if at < end => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            6 => {
                let edge = EDGES[random.index(EDGES.len())].to_le_bytes();
                let width = 1 << random.index(4);
                let there = bytes[at..].iter_mut().zip(&edge[..width]);
                there.for_each(|(byte, edge)| *byte = *edge);
            }
            _ => {
                // The rest of another one.
                let other = inputs.get(random.index(inputs.len())).copied().unwrap_or_default();
                let from = random.index(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes.truncate(MOST);
    bytes
}

//! Changing inputs at random, from a seed: no coverage guides it, but any toolchain can run it.

/// Longer inputs only take longer.
const MOST: usize = 1 << 14;
/// Numbers at which limits are.
const EDGES: [u64; 12] =
    [0, 1, 2, 3, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 53, (1 << 62) + 1, u64::MAX];

/// Random numbers, always the same from one seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a limit; 0 below 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit.max(1) as u64) as usize
    }
}

/// One of the inputs with a few changes, some of them taken from the others.
pub fn mutated(inputs: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut bytes = match inputs {
        [] => Vec::new(),
        _ => inputs[random.below(inputs.len())].to_vec(),
    };
    for _ in 0..=random.below(6) {
        let len = bytes.len();
        let at = random.below(len + 1);
        let end = (at + 1 + random.below(16)).min(len);
        match random.below(8) {
            0 if at < len => bytes[at] ^= 1 << random.below(8),
            1 if at < len => bytes[at] = random.below(256) as u8,
            2 => {
                let new: Vec<u8> = (0..=random.below(8)).map(|_| random.below(256) as u8).collect();
                bytes.splice(at..at, new);
            }
            3 if at < end => drop(bytes.drain(at..end)),
            4 => bytes.truncate(at),
            5 if at < end => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            6 => {
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let width = 1 << random.below(4);
                let there = bytes[at..].iter_mut().zip(&edge[..width]);
                there.for_each(|(byte, edge)| *byte = *edge);
            }
            _ => {
                // The rest of another one.
                let other = inputs.get(random.below(inputs.len())).copied().unwrap_or_default();
                let from = random.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes.truncate(MOST);
    bytes
}

//! Where data lies and what becomes of it: the one place that decides what may go past the caches.

use std::sync::OnceLock;

/// Whether what a call reads and writes is worth room in the caches.
///
/// ```
/// assert_eq!(kiln_gf::TemporalHint::default(), kiln_gf::TemporalHint::Temporal);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TemporalHint {
    /// Operands are in the caches, or results are read again soon: ordinary loads and stores.
    /// Blocks fetch their sources ahead where they are more than half a second-level cache.
    #[default]
    Temporal,
    /// All of it is in memory and more than the caches hold: sources are fetched ahead of their use
    /// and results go past the caches.
    NonTemporal,
}

impl TemporalHint {
    /// The hint for a call on this machine, by [`Caches::hint`].
    pub fn of(inputs: &[&[u8]], outputs: &[&mut [u8]], results: Results) -> TemporalHint {
        Caches::here().hint(working_set(inputs, outputs), results)
    }
}

/// Bytes of all buffers of a call.
pub fn working_set(inputs: &[&[u8]], outputs: &[&mut [u8]]) -> usize {
    let inputs: usize = inputs.iter().map(|input| input.len()).sum();
    inputs.saturating_add(outputs.iter().map(|output| output.len()).sum())
}

/// What becomes of the results of a call.
///
/// ```
/// use kiln_gf::{Caches, Results, TemporalHint};
/// let caches = Caches { second: 1 << 20, last: 32 << 20 };
/// assert_eq!(caches.hint(600 << 10, Results::Left), TemporalHint::NonTemporal);
/// assert_eq!(caches.hint(600 << 10, Results::ReadSoon), TemporalHint::Temporal);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Results {
    /// Whoever called reads them next: computes checksums of them, writes or sends them.
    ReadSoon,
    /// They are left where they are, or the caller did not say.
    Left,
}

/// Bytes of the caches of a processor.
///
/// ```
/// let caches = kiln_gf::Caches::here();
/// assert!(caches.second > 0 && caches.last >= caches.second);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caches {
    /// The second level, which a core has for itself.
    pub second: usize,
    /// The last level, which several cores share.
    pub last: usize,
}

impl Caches {
    /// Of a server of today, where the processor does not say.
    const USUAL: Caches = Caches { second: 1 << 20, last: 32 << 20 };

    /// Those of this machine, asked once.
    pub fn here() -> Caches {
        static HERE: OnceLock<Caches> = OnceLock::new();
        *HERE.get_or_init(|| asked().unwrap_or(Caches::USUAL))
    }

    /// Whether inputs and outputs of so many bytes stay near enough that loading some of them more
    /// than once pays: within a quarter of the last level, which others use too (measured with 32
    /// MiB: twice as many bytes are as fast either way).
    pub fn reload(&self, working_set: usize) -> bool {
        working_set <= self.last / 4
    }

    /// Whether inputs and outputs of so many bytes are worth fetching ahead: where they are more
    /// than half a second level, some come from farther away, also if all of them were just used.
    /// (On Zen 4 with AVX2 Clay 10+4 of 64 KiB chunks, 896 KiB, then takes 0.6 to 0.7 of the time
    /// from memory, and as long from the caches; of 16 KiB chunks it would take 1.1 to 1.2.) Code
    /// that loads its inputs `again` finds them there: it takes 1.15 times as long if it fetches.
    pub(crate) fn fetch(&self, working_set: usize, again: bool) -> bool {
        working_set > if again { self.second } else { self.second / 2 }
    }

    /// The hint for a call whose inputs and outputs have so many bytes in all. A caller who knows
    /// better, as one that goes round many small stripes, gives a hint of its own.
    ///
    /// Results that are left go past the caches where a call has more than half a second level:
    /// whoever codes so much has just received it, or is about to send it, so little of it is near.
    /// (From memory Clay 10+4 then takes 0.7 to 0.95 of the time, Reed-Solomon 0.95 to 1.15, by
    /// AVX2.) Results that are read soon stay, however many they are: where stripes are copied in,
    /// coded, checksummed and copied out, to let them past costs Reed-Solomon up to a tenth of the
    /// whole, and gains Clay nothing that can be told from noise.
    pub fn hint(&self, working_set: usize, results: Results) -> TemporalHint {
        match results {
            Results::Left if working_set > self.second / 2 => TemporalHint::NonTemporal,
            _ => TemporalHint::Temporal,
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn asked() -> Option<Caches> {
    None
}

/// The sizes as the instruction CPUID gives them.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn asked() -> Option<Caches> {
    use std::arch::x86_64::{__cpuid_count, CpuidResult};
    /// AMD's leaf, which has Intel's form.
    const AMD: u32 = 0x8000_001d;
    const INTEL: u32 = 4;
    #[allow(unused_unsafe)] // it is safe from some compiler on
    // SAFETY: every x86-64 has the instruction.
    let ask = |leaf: u32, index: u32| unsafe { __cpuid_count(leaf, index) };
    let size = |found: CpuidResult| {
        let field = |from: u32, bits: u32| ((found.ebx >> from) & ((1 << bits) - 1)) as usize + 1;
        field(22, 10) * field(12, 10) * field(0, 12) * (found.ecx as usize + 1)
    };
    let leaf = [(0, INTEL), (0x8000_0000, AMD)]
        .into_iter()
        .find(|&(first, leaf)| ask(first, 0).eax >= leaf && ask(leaf, 0).eax & 31 != 0)?
        .1;
    let (mut second, mut last) = (0, 0);
    for found in (0..8).map(|index| ask(leaf, index)).take_while(|found| found.eax & 31 != 0) {
        match (found.eax & 31, (found.eax >> 5) & 7) {
            (2, _) | (_, 0 | 1) => {} // instructions, or too near
            (_, 2) => second = size(found),
            (_, _) => last = size(found),
        }
    }
    let second = Some(second).filter(|&bytes| bytes > 0)?;
    Some(Caches { second, last: last.max(second) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_left_results_of_much_data_go_past_the_caches() {
        let caches = Caches { second: 1 << 20, last: 32 << 20 };
        for bytes in [0, 1, 512 << 10, (512 << 10) + 1, usize::MAX] {
            let expected = match bytes > 512 << 10 {
                true => TemporalHint::NonTemporal,
                false => TemporalHint::Temporal,
            };
            assert_eq!(caches.hint(bytes, Results::Left), expected, "{bytes}");
            assert_eq!(caches.hint(bytes, Results::ReadSoon), TemporalHint::Temporal, "{bytes}");
            assert_eq!(caches.reload(bytes), bytes <= 8 << 20, "{bytes}");
        }
    }

    #[test]
    fn inputs_and_outputs_count() {
        let [mut out, mut none] = [vec![0; 5], vec![]];
        assert_eq!(working_set(&[&[1; 3], &[2; 4]], &[&mut out, &mut none]), 12);
        assert_eq!(working_set(&[], &[]), 0);
    }

    #[test]
    fn this_machine_has_caches_of_a_plausible_size() {
        let Caches { second, last } = Caches::here();
        assert!((64 << 10..1 << 40).contains(&second), "{second}");
        assert!((second..1 << 40).contains(&last), "{last}");
    }
}

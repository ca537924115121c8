//! Hints whether the data of a call is worth room in the caches.

use crate::Caches;

/// True if what a call reads and writes is worth room in the caches.
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
    /// Returns the hint for a call on this machine, by [`Caches::hint`].
    pub fn of(inputs: &[&[u8]], outputs: &[&mut [u8]], results: Results) -> TemporalHint {
        Caches::here().hint(working_set(inputs, outputs), results)
    }
}

/// Returns the bytes of all buffers of a call.
pub fn working_set(inputs: &[&[u8]], outputs: &[&mut [u8]]) -> usize {
    let inputs: usize = inputs.iter().map(|input| input.len()).sum();
    inputs.saturating_add(outputs.iter().map(|output| output.len()).sum())
}

/// Use of the results of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Results {
    /// The caller reads them next: computes checksums of them, writes or sends them.
    ReadSoon,
    /// They are left where they are, or the caller did not say.
    Left,
}

impl Caches {
    /// Returns the hint for a call whose inputs and outputs have so many bytes in all. A caller
    /// who knows better, as one that goes round many small stripes, gives a hint of its own.
    ///
    /// Results that are left go past the caches where a call has more than half a second level: a
    /// program that codes so much has just received it, or is about to send it, so little of it is
    /// near. (From memory Clay 10+4 then takes 0.7 to 0.95 of the time, Reed-Solomon 0.95 to 1.15,
    /// by AVX2.) Results that are read soon stay, however many they are: where stripes are copied
    /// in, coded, checksummed and copied out, to let them past costs Reed-Solomon up to a tenth of
    /// the whole, and gains Clay nothing that can be told from noise.
    pub fn hint(&self, working_set: usize, results: Results) -> TemporalHint {
        match results {
            Results::Left if working_set > self.second / 2 => TemporalHint::NonTemporal,
            _ => TemporalHint::Temporal,
        }
    }
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
}

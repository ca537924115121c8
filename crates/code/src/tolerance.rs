//! Number of further chunks that may be lost, whichever they are.

use crate::combinations::{combinations, others};
use crate::{Codec, Shape, average::binomial};

/// Loss patterns that one question looks at, at most.
const PATTERNS_MAX: u64 = 50_000;

impl Codec {
    /// Returns how many more chunks may be lost besides `lost`, whichever they are, until something
    /// cannot be rebuilt: m less the lost ones for a code that is MDS. Less than zero where `lost`
    /// is too much already: so many chunks have to come back, if they are the right ones.
    ///
    /// Codes that are not MDS are asked pattern by pattern beyond what they prove of themselves,
    /// and answers are remembered. A question that takes more than 50,000 patterns is answered by
    /// the margin that is proved until then.
    pub fn margin(&self, lost: &[usize]) -> i32 {
        let mut lost = lost.to_vec();
        lost.sort_unstable();
        lost.dedup();
        if self.is_mds() {
            return self.shape().m as i32 - lost.len() as i32;
        }
        if let Some(&known) = self.margins().get(&lost) {
            return known;
        }
        let margin = match self.tolerates(&lost) {
            true => self.spare(&lost),
            false => -self.missing(&lost),
        };
        self.margins().insert(lost, margin);
        margin
    }

    /// The most further losses of which every pattern is tolerated.
    fn spare(&self, lost: &[usize]) -> i32 {
        let Shape { k, m, .. } = self.shape();
        let rest = others(k + m, lost);
        let survives = |more: &[usize]| {
            let more = more.iter().map(|&index| rest[index]);
            self.tolerates(&lost.iter().copied().chain(more).collect::<Vec<_>>())
        };
        let most = rest.len().saturating_sub(k);
        let fits = |&count: &usize| every_choice(rest.len(), count, survives);
        // So many more are tolerated by the code's own proof.
        let sure = self.tolerates_any().saturating_sub(lost.len()).min(most);
        (sure + (sure + 1..=most).take_while(fits).count()) as i32
    }

    /// The fewest of the lost chunks that have to come back.
    fn missing(&self, lost: &[usize]) -> i32 {
        let suffices = |back: &[usize]| {
            let gone = (0..lost.len()).filter(|index| !back.contains(index));
            self.tolerates(&gone.map(|index| lost[index]).collect::<Vec<_>>())
        };
        let fails = |&count: &usize| every_choice(lost.len(), count, |back| !suffices(back));
        1 + (1..lost.len()).take_while(fails).count() as i32
    }
}

/// Returns whether something holds for every choice of `count` of `n`, as far as there is time to
/// look.
fn every_choice(n: usize, count: usize, holds: impl Fn(&[usize]) -> bool) -> bool {
    if binomial(n as u64, count as u64).is_none_or(|patterns| patterns > PATTERNS_MAX) {
        return false;
    }
    combinations(n, count).all(|chosen| holds(&chosen))
}

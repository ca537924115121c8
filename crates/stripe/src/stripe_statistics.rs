//! Adding up what the stripes of a run cost and showed.

use crate::frame::{Cost, Frame};
use crate::{Damage, MAX_DAMAGE_ENTRIES, ReadsReport};
use kiln_code::RebuildMethod;

/// Sums over stripes. Its size does not grow with the object's.
#[derive(Debug, Default)]
pub struct StripeStatistics {
    /// Costs for each chunk index.
    pub costs: Vec<Cost>,
    /// Indices that helped.
    pub helped: Vec<bool>,
    /// Indices that were found damaged in some stripe.
    pub bad: Vec<bool>,
    /// Indices whose places could not be asked for some stripe, and how many findings that made.
    pub away: Vec<bool>,
    /// See `away`.
    pub away_count: u64,
    /// Some stripe was rebuilt by "repair" / by "decode" / not at all.
    pub repaired: bool,
    /// See `repaired`.
    pub decoded: bool,
    /// See `repaired`.
    pub direct: bool,
    /// The damage found.
    pub findings: Findings,
    /// Decision of the read planner.
    pub reads: Option<ReadsReport>,
}

impl StripeStatistics {
    /// Returns statistics of n chunks, all zero.
    pub fn new(n: usize) -> StripeStatistics {
        StripeStatistics {
            costs: vec![Cost::default(); n],
            helped: vec![false; n],
            bad: vec![false; n],
            away: vec![false; n],
            ..StripeStatistics::default()
        }
    }

    /// Adds one stripe.
    pub fn add(&mut self, stripe: u64, frame: &mut Frame) {
        for (sum, cost) in self.costs.iter_mut().zip(&frame.costs) {
            sum.merge(cost);
        }
        self.rebuilt_by(frame.strategy);
        for &helper in &frame.helpers {
            self.helped[helper] = true;
        }
        for (chunk, reason) in frame.bad.drain(..) {
            self.bad[chunk] = true;
            let before = self.findings.count;
            self.findings.push(Damage { index: Some(chunk), stripe: Some(stripe), reason });
            if frame.away.contains(&chunk) {
                self.away[chunk] = true;
                self.away_count += self.findings.count - before;
            }
        }
    }

    /// Notes how a stripe was rebuilt; `None`: nothing of it had to be.
    pub fn rebuilt_by(&mut self, strategy: Option<RebuildMethod>) {
        match strategy {
            Some(RebuildMethod::Repair) => self.repaired = true,
            Some(RebuildMethod::Decode) => self.decoded = true,
            None => self.direct = true,
        }
    }

    /// Returns the bytes read.
    pub fn bytes(&self) -> u64 {
        self.costs.iter().map(|c| c.bytes).sum()
    }

    /// Returns the contiguous reads.
    pub fn runs(&self) -> u64 {
        self.costs.iter().map(|c| c.runs).sum()
    }

    /// Returns the bytes of metadata read.
    pub fn metadata(&self) -> u64 {
        self.costs.iter().map(|c| c.metadata).sum()
    }

    /// Indices found damaged.
    pub fn bad_indices(&self) -> Vec<usize> {
        indices(&self.bad)
    }
}

/// Positions that are true.
pub fn indices(flags: &[bool]) -> Vec<usize> {
    flags.iter().enumerate().filter(|(_, flag)| **flag).map(|(i, _)| i).collect()
}

/// Damage found: all of it counted, the first entries kept.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The first entries.
    pub list: Vec<Damage>,
    /// Number in all.
    pub count: u64,
}

impl Findings {
    /// Adds damage, unless this chunk's was reported already (a chunk is read again when its own
    /// shard is repaired).
    pub fn push(&mut self, damage: Damage) {
        let key = |d: &Damage| (d.index, d.stripe);
        if damage.stripe.is_some() && self.list.iter().any(|d| key(d) == key(&damage)) {
            return;
        }
        self.count += 1;
        if self.list.len() < MAX_DAMAGE_ENTRIES {
            self.list.push(damage);
        }
    }

    /// Appends the findings of another pass.
    pub fn extend(&mut self, other: &Findings) {
        self.count += other.count - other.list.len() as u64;
        other.list.iter().for_each(|damage| self.push(damage.clone()));
    }
}

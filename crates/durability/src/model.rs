//! Pools in numbers.

use crate::{Chain, DurabilityError, HOURS_A_YEAR, error::within};

/// The largest part of the time for repairs; with more the queue of repairs has no end.
const BUSY_MAX: f64 = 0.9;

/// The losses that a code survives: for each number of lost chunks of a stripe, the part of all
/// patterns that can be rebuilt.
#[derive(Debug, Clone, PartialEq)]
pub struct Tolerance {
    chunks: usize,
    survived: Vec<f64>,
}

impl Tolerance {
    /// Any `m` of `chunks` chunks may be lost, and no pattern of more.
    /// Errors: `m` is not below the number of chunks, or that is not from 1 to 1000.
    pub fn any(chunks: usize, m: usize) -> Result<Tolerance, DurabilityError> {
        Tolerance::new(chunks, &vec![1.0; m + 1])
    }

    /// Of the patterns of 0, 1, 2, ... lost chunks, the part `survived[i]` can be rebuilt; none of
    /// more.
    /// Errors: a part is not from 0 to 1, or is above the one before, the first is not 1, or there
    /// are as many parts as chunks; the number of chunks is not from 1 to 1000.
    pub fn new(chunks: usize, survived: &[f64]) -> Result<Tolerance, DurabilityError> {
        let expected = "a stripe has 1 to 1000 chunks, and more of them than may be lost";
        if !(1..=1000).contains(&chunks) || survived.is_empty() || survived.len() > chunks {
            return Err(DurabilityError::Number { what: "chunks", value: chunks as f64, expected });
        }
        let mut before = 1.0;
        for (lost, &part) in survived.iter().enumerate() {
            let least = if lost == 0 { 1.0 } else { 0.0 };
            let expected = "parts of patterns fall from 1 for none lost towards 0";
            within("survived", part, least..=before, expected)?;
            before = part;
        }
        let used = survived.iter().take_while(|&&part| part > 0.0);
        Ok(Tolerance { chunks, survived: used.copied().collect() })
    }

    /// Returns the number of chunks of a stripe.
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// Returns the most lost chunks that some pattern survives.
    pub fn most(&self) -> usize {
        self.survived.len() - 1
    }

    /// Returns the chance that one more loss is survived where so many are.
    pub fn next(&self, lost: usize) -> f64 {
        match (self.survived.get(lost), self.survived.get(lost + 1)) {
            (Some(&now), Some(&more)) => more / now,
            _ => 0.0,
        }
    }
}

/// Stripes on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Nodes form groups of as many as a stripe has chunks, as in RAID. A lost node is rebuilt on
    /// one new one; those of a group that are lost together share the rate of repair.
    Groups,
    /// Each of so many stripes (or placement groups) is on random nodes. All nodes take part in a
    /// repair, and the stripes that lost most come first.
    Spread {
        /// The number of stripes.
        stripes: u64,
    },
}

/// A pool: nodes that fail alone, and repairs.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolModel {
    /// Nodes: disks, machines or racks, whatever holds one chunk of a stripe and fails as a whole.
    pub nodes: usize,
    /// The losses that a stripe survives.
    pub tolerance: Tolerance,
    /// Stripes on nodes.
    pub placement: Placement,
    /// Failures of one node in a year that lose all it holds, e.g. 0.014 for 1.4%.
    pub failures_per_year: f64,
    /// Hours from a failure to the beginning of its repair.
    pub detection_hours: f64,
    /// Hours from there until all that one node held is rebuilt.
    pub repair_hours: f64,
    /// Part of the chunks that cannot be read though their node answers, and that no scrub has
    /// found yet. Such a chunk of a stripe that has no redundancy left is a loss of data.
    pub bad_chunks: f64,
}

impl PoolModel {
    /// Checks the numbers.
    /// Errors: a number is outside of its range, named with it; nodes fail faster than they are
    /// rebuilt.
    pub fn check(&self) -> Result<(), DurabilityError> {
        let chunks = self.tolerance.chunks();
        let nodes = self.nodes as f64;
        within("nodes", nodes, chunks as f64..=1e6, "as many as chunks, to a million")?;
        if self.placement == Placement::Groups && !self.nodes.is_multiple_of(chunks) {
            let expected = "in groups there are a multiple of the chunks of a stripe";
            return Err(DurabilityError::Number { what: "nodes", value: nodes, expected });
        }
        let expected = "failures of a node a year are above 0, to 1000";
        within("failures_per_year", self.failures_per_year, 1e-12..=1000.0, expected)?;
        within("detection_hours", self.detection_hours, 0.0..=1e6, "from 0 to a million hours")?;
        within("repair_hours", self.repair_hours, 1e-9..=1e6, "above 0, to a million hours")?;
        within("bad_chunks", self.bad_chunks, 0.0..=1.0, "a part from 0 to 1")?;
        if let Placement::Spread { stripes } = self.placement {
            within("stripes", stripes as f64, 1.0..=1e15, "from 1 to 1e15")?;
            let busy = nodes * self.failures_per_year * self.repair_hours / HOURS_A_YEAR;
            if busy > BUSY_MAX {
                return Err(DurabilityError::Overloaded { busy });
            }
        }
        Ok(())
    }

    /// Returns the number of stripes that have a chunk on each of `lost` nodes that were lost
    /// together, on average.
    pub(crate) fn stripes_on(&self, lost: usize) -> f64 {
        let Placement::Spread { stripes } = self.placement else { return 1.0 };
        let (chunks, nodes) = (self.tolerance.chunks() as f64, self.nodes as f64);
        let share = |i: usize| ((chunks - i as f64) / (nodes - i as f64)).max(0.0);
        (0..lost).map(share).product::<f64>() * stripes as f64
    }

    /// Returns the number of stripes that have lost the most chunks, `lost` of them, when they come
    /// to it, and the hours until they are rebuilt. The next node fails at any moment of a repair,
    /// when a part of the stripes is rebuilt already, and that again and again: of those that would
    /// be hit a half is left for two nodes, a third for three. Once one loss of a stripe is known
    /// its repair begins, so detection counts where two nodes fail within its time; all stripes of
    /// a node wait for that, of which a repair has half to do on average.
    fn worst(&self, lost: usize) -> (f64, f64) {
        let (detection, repair) = (self.detection_hours, self.repair_hours);
        match (self.placement, lost) {
            (Placement::Groups, _) => (1.0, detection + repair),
            (Placement::Spread { .. }, 0 | 1) => (self.stripes_on(1), detection + repair),
            (Placement::Spread { .. }, _) => {
                let parts = lost as f64;
                let early = 2.0 * detection / (2.0 * detection + repair);
                // They are Poisson of a mean that is anywhere up to all of them; the mean of
                // c (c + 1) where there are any decides how many wait for how long.
                let all = self.stripes_on(lost);
                let mean = all * (1.0 + early) / parts;
                let square = all * all * (1.0 + 2.0 * early) * 2.0 / (parts * (parts + 1.0));
                let any = 1.0 + (-2.0 * mean).exp_m1() / (2.0 * mean);
                let stripes = (0.25 + (square + 2.0 * mean) / any).sqrt() - 0.5;
                let hours = repair / self.stripes_on(1) * stripes + detection * early / parts;
                (stripes, hours)
            }
        }
    }

    /// Builds the chain of the pool. Its state is the number of chunks that the worst stripe has
    /// lost. Where stripes are spread, the next failure makes a stripe worse if it hits one of
    /// those that are worst now, of which there are fewer the more nodes they have lost; and these
    /// are rebuilt first. [`simulate`](crate::simulate) shows how near this is.
    pub fn chain(&self) -> Result<Chain, DurabilityError> {
        self.check()?;
        let most = self.tolerance.most();
        let rate = self.failures_per_year / HOURS_A_YEAR;
        let chunks = self.tolerance.chunks();
        let (mut further, mut repair, mut loss) = (vec![], vec![], vec![]);
        for lost in 0..=most {
            let survives = self.tolerance.next(lost);
            let (up, worse, hours) = match self.placement {
                // Of one group; the groups are put together below.
                Placement::Groups => {
                    let up = (chunks - lost) as f64 * rate;
                    (up, 1.0 - survives, self.detection_hours + self.repair_hours)
                }
                Placement::Spread { .. } => {
                    let (worst, hours) = self.worst(lost);
                    // They are rebuilt one after the other: so many are left on average when the
                    // next node fails. Until a first loss is known all are left.
                    let waiting = if lost == 1 { self.detection_hours / hours } else { 0.0 };
                    let left = worst * waiting + f64::midpoint(worst, 1.0) * (1.0 - waiting);
                    let hit = left * (chunks - lost) as f64 / (self.nodes - lost) as f64;
                    let hit = if lost == 0 { f64::INFINITY } else { hit };
                    // Stripes that are hit, and among them those that do not survive it.
                    let (any, bad) = (-(-hit).exp_m1(), -(-hit * (1.0 - survives)).exp_m1());
                    let bad = if survives < 1.0 { bad / any } else { 0.0 };
                    ((self.nodes - lost) as f64 * rate * any, bad, hours)
                }
            };
            // A chunk that proves unreadable is too much for a stripe without redundancy.
            let unreadable = match lost + 1 == most && self.bad_chunks > 0.0 {
                true => {
                    let stripes = self.worst(lost + 1).0;
                    let reads = stripes * (chunks - lost - 1) as f64;
                    -(-reads * self.bad_chunks).exp_m1()
                }
                false => 0.0,
            };
            let bad = worse + (1.0 - worse) * unreadable;
            further.push(up * (1.0 - bad));
            loss.push(up * bad);
            repair.push(if lost == 0 { 0.0 } else { 1.0 / hours });
        }
        let one = Chain::new(&further, &repair, &loss)?;
        match self.placement {
            Placement::Groups => one.beside((self.nodes / chunks) as f64),
            Placement::Spread { .. } => Ok(one),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread() -> PoolModel {
        PoolModel {
            nodes: 60,
            tolerance: Tolerance::any(14, 4).unwrap(),
            placement: Placement::Spread { stripes: 100_000 },
            failures_per_year: 0.014,
            detection_hours: 0.25,
            repair_hours: 12.0,
            bad_chunks: 0.0,
        }
    }

    #[test]
    fn each_input_moves_the_result_in_its_direction() {
        let base = spread().chain().unwrap().nines_a_year();
        let worse: [fn(&mut PoolModel); 5] = [
            |pool| pool.failures_per_year *= 2.0,
            |pool| pool.repair_hours *= 2.0,
            |pool| pool.detection_hours += 4.0,
            |pool| pool.bad_chunks = 1e-6,
            |pool| pool.tolerance = Tolerance::any(14, 3).unwrap(),
        ];
        for (index, change) in worse.into_iter().enumerate() {
            let mut pool = spread();
            change(&mut pool);
            let nines = pool.chain().unwrap().nines_a_year();
            assert!(nines < base - 0.01, "{index}: {nines} for {base}");
        }
        let mut fewer = spread();
        fewer.placement = Placement::Spread { stripes: 100 };
        assert!(fewer.chain().unwrap().nines_a_year() > base);
    }

    /// Backblaze in 2018: 17+3, 0.405% a year, 6.5 days, 11 nines. They count fixed windows of 6.5
    /// days; any four drives whose repairs overlap are four times as many.
    #[test]
    fn fixed_windows_flatter_by_the_number_of_losses() {
        let (days, window) = (365.0, 6.5);
        let in_window: f64 = 0.00405 * window / days;
        let windows = 4845.0 * in_window.powi(4) * days / window;
        assert!((-windows.log10() - 11.13).abs() < 0.01);
        let mut rates = (vec![], vec![0.0], vec![0.0; 3]);
        for lost in 0..=3_u32 {
            rates.0.push(f64::from(20 - lost) * 0.00405 / HOURS_A_YEAR);
            if lost > 0 {
                rates.1.push(f64::from(lost) / (window * 24.0));
            }
        }
        rates.2.push(rates.0[3]);
        let overlaps = Chain::new(&rates.0, &rates.1, &rates.2).unwrap().loss_a_year();
        assert!((overlaps / windows / 4.0 - 1.0).abs() < 0.01, "{overlaps:e} {windows:e}");
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        type Change = fn(&mut PoolModel);
        let slow = PoolModel { repair_hours: 20_000.0, ..spread() };
        assert!(matches!(slow.chain(), Err(DurabilityError::Overloaded { .. })));
        let wrong: [(&str, Change); 6] = [
            ("nodes", |pool| pool.nodes = 13),
            ("nodes", |pool| pool.placement = Placement::Groups),
            ("stripes", |pool| pool.placement = Placement::Spread { stripes: 0 }),
            ("failures_per_year", |pool| pool.failures_per_year = 0.0),
            ("repair_hours", |pool| pool.repair_hours = f64::NAN),
            ("bad_chunks", |pool| pool.bad_chunks = 1.5),
        ];
        for (name, change) in wrong {
            let mut pool = spread();
            change(&mut pool);
            match pool.chain() {
                Err(DurabilityError::Number { what, .. }) => assert_eq!(what, name),
                other => panic!("{name}: {other:?}"),
            }
        }
        assert!(Tolerance::any(4, 4).is_err());
        assert!(Tolerance::new(9, &[1.0, 0.5, 0.7]).is_err());
        assert!(Tolerance::new(0, &[]).is_err());
    }
}

//! Chains of failures and repairs, solved exactly.

use crate::{DurabilityError, error::within};

/// Hours of a year of 365 days.
pub const HOURS_A_YEAR: f64 = 8760.0;

/// The most states of a chain.
const STATES_MAX: usize = 1024;

/// Failures and repairs as a chain of states: state i has i losses that count. From each one more
/// loss leads to the next state, a repair to the one before, and some losses to the end: data is
/// lost. Rates are a hour; times between events are exponential.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    hours_to_loss: f64,
}

impl Chain {
    /// Solves a chain with, for each state, the rates of further losses that data survives, of
    /// repairs, and of losses of data.
    ///
    /// States are eliminated from the last to the first with sums, products and quotients of
    /// positive numbers alone (Grassmann, Taksar and Heyman), so that chances of 1e-30 keep their
    /// digits.
    /// Errors: the lists have different lengths or none, a rate is no finite number from 0 up, a
    /// state is never left, or no state leads to a loss.
    pub fn new(further: &[f64], repair: &[f64], loss: &[f64]) -> Result<Chain, DurabilityError> {
        let states = further.len();
        let same = states == repair.len() && states == loss.len();
        let expected = "further, repair and loss each have a rate for every state, at most 1024";
        if !same || !(1..=STATES_MAX).contains(&states) {
            return Err(DurabilityError::Number { what: "states", value: states as f64, expected });
        }
        for (what, rates) in [("further", further), ("repair", repair), ("loss", loss)] {
            for &rate in rates {
                within(what, rate, 0.0..=1e30, "a rate is from 0 to 1e30 a hour")?;
            }
        }
        // Of the state above: its rate to the end, and the time that is spent at a visit and above.
        let (mut ends, mut time) = (0.0, 0.0);
        for state in (0..states).rev() {
            let up = if state + 1 < states { further[state] } else { 0.0 };
            let above = if state + 1 < states { repair[state + 1] + ends } else { 1.0 };
            if up > 0.0 && above <= 0.0 {
                let expected = "a state with losses is left by a repair or by a loss of data";
                return Err(DurabilityError::Number { what: "repair", value: above, expected });
            }
            let share = if up > 0.0 { up / above } else { 0.0 };
            ends = loss[state] + share * ends;
            time = 1.0 + share * time;
        }
        if ends <= 0.0 {
            let expected = "some state leads to a loss of data";
            return Err(DurabilityError::Number { what: "loss", value: ends, expected });
        }
        Ok(Chain { hours_to_loss: time / ends })
    }

    /// Returns the chain of so many equal, independent ones beside each other: the first loss ends
    /// it.
    /// Errors: the number is not from 1 to a million.
    pub fn beside(&self, count: f64) -> Result<Chain, DurabilityError> {
        within("groups", count, 1.0..=1e6, "from 1 to a million groups")?;
        Ok(Chain { hours_to_loss: self.hours_to_loss / count })
    }

    /// Returns the mean time from no losses to the loss of data (MTTDL), in hours.
    pub fn hours_to_loss(&self) -> f64 {
        self.hours_to_loss
    }

    /// Returns the chance that a year, begun with no losses, loses data: exact but for the first
    /// hours, in which no repair is under way yet.
    pub fn loss_a_year(&self) -> f64 {
        -(-HOURS_A_YEAR / self.hours_to_loss).exp_m1()
    }

    /// Returns the nines of a year without loss of data: 7 for a chance of 1e-7.
    pub fn nines_a_year(&self) -> f64 {
        -self.loss_a_year().log10()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates a day of n nodes with a tolerance of some, one repair at a time.
    fn published(n: usize, repairs: &[f64], failure: f64, survives: f64) -> f64 {
        let m = repairs.len();
        let mut further: Vec<f64> = (0..m).map(|lost| (n - lost) as f64 * failure).collect();
        further.push(0.0);
        let mut down = vec![0.0];
        down.extend_from_slice(repairs);
        let mut loss = vec![0.0; m];
        loss.push((n - m) as f64 * failure * (1.0 - survives));
        Chain::new(&further, &down, &loss).unwrap().hours_to_loss()
    }

    fn near(found: f64, published: f64, part: f64) {
        assert!((found / published - 1.0).abs() < part, "{found:e} for {published:e}");
    }

    /// The numbers of public notebooks on 400 and 3,000 nodes of 16 TB, whose formula leaves out
    /// that repairs take time themselves. Two of them divide repairs a year by failures a day:
    /// their numbers are no times, but a chain of the same rates has to give them.
    #[test]
    fn published_times_to_loss_are_reproduced() {
        let hourly = 0.25 / 8760.0;
        let first = 0.1 * 399.0 / (8.0 * 16_000.0 * 3.6) * 3600.0;
        let lrc = published(10, &[first, 2.0, 2.0], hourly, 0.857);
        near(lrc / 8760.0, 2.977e11, 0.01);
        let daily = 0.25 / 365.0;
        let rs = published(9, &[1638.39375, 17520.0, 17520.0], daily, 0.0);
        near(rs / 365.0, 2.0702e18, 0.01);
        let xorbas = published(16, &[1261.44; 4], daily, 0.0);
        near(xorbas, 3.2045e22, 0.01);
    }

    #[test]
    fn nonsense_is_refused() {
        let wrong = [
            Chain::new(&[], &[], &[]),
            Chain::new(&[1.0], &[0.0, 1.0], &[1.0]),
            Chain::new(&[1.0, 0.0], &[0.0, 0.0], &[0.0, 0.0]),
            Chain::new(&[0.0], &[0.0], &[0.0]),
            Chain::new(&[f64::NAN], &[0.0], &[1.0]),
            Chain::new(&[-1.0], &[0.0], &[1.0]),
        ];
        for chain in wrong {
            assert!(matches!(chain, Err(DurabilityError::Number { .. })), "{chain:?}");
        }
    }
}

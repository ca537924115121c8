//! Costs of coding in operations, for choosing between codes.

use crate::{Codec, Result};

/// Data sub-chunks whose update is looked at; more are sampled evenly.
const UPDATES_MAX: usize = 128;

/// Operations for each byte of data. A stripe's work divided by its data, so that codes of one
/// (k, m) can be compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CodingCost {
    /// Multiplications in GF(2^8) of an encode, a byte of data.
    pub multiplications: f64,
    /// XORs of an encode, a byte of data.
    pub xors: f64,
    /// Parity bytes that change with one byte of data, on average: the writes of a small update
    /// beside the data itself. The least an MDS code can do is m.
    pub updates: f64,
}

impl Codec {
    /// Counts the operations of an encode and of an update.
    pub fn coding_cost(&self) -> Result<CodingCost> {
        let plan = self.encode_plan()?;
        let dag = plan.dag();
        let inputs = dag.inputs().len();
        let data = inputs.max(1) as f64;
        let (multiplications, xors) = dag.work();
        let step = inputs.div_ceil(UPDATES_MAX).max(1);
        let (mut changed, mut looked_at) = (0, 0);
        let mut unit = vec![0; inputs];
        for input in (0..inputs).step_by(step) {
            unit[input] = 1;
            changed += dag.eval(&unit)?.iter().filter(|&&byte| byte != 0).count();
            looked_at += 1;
            unit[input] = 0;
        }
        Ok(CodingCost {
            multiplications: multiplications as f64 / data,
            xors: xors as f64 / data,
            updates: changed as f64 / f64::from(looked_at.max(1)),
        })
    }
}

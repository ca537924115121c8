//! Lower bounds for any repair, from the ranks of what crosses a cut.

use crate::PlanError;
use kiln_code::Dag;

/// The most entries of a matrix that is looked at.
const ENTRIES_MAX: usize = 1 << 22;

/// By chunk, the rank of what its sub-chunks contribute to the outputs: so much must leave its
/// node, whatever the plan. Nothing where the DAG is too large to say.
pub(crate) fn contributions(dag: &Dag, chunks: usize) -> Result<Option<Vec<u32>>, PlanError> {
    if dag.inputs().len().saturating_mul(dag.outputs().len()) > ENTRIES_MAX {
        return Ok(None);
    }
    let matrix = dag.matrix()?;
    let mut ranks = vec![0; chunks];
    for (chunk, rank) in ranks.iter_mut().enumerate() {
        let columns: Vec<usize> =
            (0..matrix.cols()).filter(|&c| dag.inputs()[c].chunk as usize == chunk).collect();
        if !columns.is_empty() {
            *rank = matrix.select_cols(&columns).rank() as u32;
        }
    }
    Ok(Some(ranks))
}

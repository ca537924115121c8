//! Schedules parity epilogues, made of results in scratch, beside the products of a later block.

use super::{AccumulatorView, PlannedBlock, last_of};
use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;

/// The blocks, of which those that only make something of results join later ones: each the first
/// one after its results that has none yet, and makes nothing itself.
pub(super) fn placed<'a>(
    view: &AccumulatorView<'_>,
    planned: Vec<PlannedBlock<'a>>,
) -> Vec<PlannedBlock<'a>> {
    let (mut blocks, alone): (Vec<PlannedBlock<'a>>, Vec<PlannedBlock<'a>>) =
        planned.into_iter().partition(|block| !block.accs.is_empty());
    let last = last_of(blocks.iter().map(|block| block.accs));
    let (mut next, mut left) = (0, Vec::new());
    for block in alone {
        let place = ready(view, &block.made, &last).and_then(|ready| {
            let from = next.max(ready + 1);
            let free = blocks.get(from..)?.iter().position(|later| later.made.is_empty())?;
            Some(from + free)
        });
        match place {
            Some(place) => {
                blocks[place].beside = block.made;
                next = place + 1;
            }
            None => left.push(block),
        }
    }
    blocks.extend(left);
    blocks
}

/// The block that ends the last result which vertices are made of; none where they are made of
/// something else, too.
fn ready(view: &AccumulatorView<'_>, made: &[u32], last: &HashMap<usize, usize>) -> Option<usize> {
    let mut givens = BTreeSet::new();
    made.iter().for_each(|&vertex| view.givens(vertex, &mut givens));
    let ends = givens.iter().map(|&given| last.get(&view.acc_that_makes(given)?).copied());
    ends.collect::<Option<Vec<usize>>>()?.into_iter().max()
}

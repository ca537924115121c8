//! Parity against data: whether a stripe's chunks fit each other, and which one is wrong if not.
//!
//! Checksums find accidents. A chunk that somebody changed so that its checksums hold, or that was
//! written wrong, shows only here. Where at least two parities are there, one wrong chunk can be
//! told: it is the one without which all others fit (leave one out). Where several could be meant,
//! nobody is blamed: repairing the wrong one would make the damage permanent. (Two wrong chunks of
//! a stripe can look like one, as with any code of distance 3; where they were not chosen for that,
//! bytes at different places disagree about which, and nobody is blamed.)

use crate::frame::{Fit, Frame, Held};
use crate::{Result, chunks::Chunks, stripe::StripeReader};

/// Recomputes parity from data into the spare buffers, and compares it with all parity that is
/// held. Chunks that were missing may be held when this returns.
pub fn check(
    chunks: &dyn Chunks,
    reader: &StripeReader<'_>,
    stripe: u64,
    frame: &mut Frame,
) -> Result<Fit> {
    let shape = chunks.codec().shape();
    let there: Vec<usize> = (0..shape.n()).filter(|&i| frame.held[i] == Held::Whole).collect();
    let data: Vec<usize> = (0..shape.k).collect();
    reader.rebuild(stripe, frame, &data)?;
    if fits(chunks, frame, &there)? {
        return Ok(Fit::Good);
    }
    // Chunks that were rebuilt just now may have been made from the wrong one.
    for index in (0..shape.n()).filter(|index| !there.contains(index)) {
        frame.held[index] = Held::Nothing;
    }
    let mut found = None;
    for &suspect in &there {
        let kept = frame.chunk(suspect).to_vec();
        let held = frame.held.clone();
        frame.held[suspect] = Held::Nothing;
        let others: Vec<usize> = there.iter().copied().filter(|&i| i != suspect).collect();
        let excluded = frame.bad.len();
        frame.bad.push((suspect, String::new()));
        // Where too little is left without it, nothing can be said of it.
        let rebuilt = reader.rebuild(stripe, frame, &data).is_ok();
        let innocent = !rebuilt || !fits(chunks, frame, &others)?;
        frame.bad.remove(excluded);
        frame.bufs[suspect].writable(kept.len()).copy_from_slice(&kept);
        frame.held = held;
        if !innocent {
            if found.is_some() {
                return Ok(Fit::Unknown);
            }
            found = Some(suspect);
        }
    }
    Ok(found.map_or(Fit::Unknown, Fit::AllBut))
}

/// Returns whether data makes the parity that is held, of these chunks.
fn fits(chunks: &dyn Chunks, frame: &mut Frame, there: &[usize]) -> Result<bool> {
    let shape = chunks.codec().shape();
    let (sources, mut rest) = frame.split(shape.k, shape.n() + shape.m);
    let (stored, fresh) = rest.split_at_mut(shape.m);
    chunks.codec().encode(&sources, fresh)?;
    let parity = there.iter().filter_map(|index| index.checked_sub(shape.k));
    Ok(parity.into_iter().all(|at| stored[at] == fresh[at]))
}

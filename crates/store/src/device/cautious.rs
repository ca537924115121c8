//! Choosing reads where the costs are known only so well.
//!
//! Two ways are safe without any planning: one read a run, and one read of everything. The rule:
//!
//! 1. Every model that the probe allows ([`DeviceModel::plausible`]) proposes its cheapest reads;
//!    the two simple ways are proposals too.
//! 2. A proposal's *risk* is the most that it costs under any of these models, as a multiple of
//!    the better simple way under the same model. What is not simple counts as dearer by the
//!    model's error, so that it must gain more than that.
//! 3. Proposals without risk (at most 1) are safe; where there are none, only those of least risk
//!    are (the least regret in the worst case). Of the safe ones the cheapest by the best model is
//!    taken.
//!
//! With a model that is certain this is the cheapest choice. If the truth is among the plausible
//! models, what is chosen is never slower than the better simple way times the risk it states.

use super::{DeviceModel, joins::by_width, pieces};
use std::ops::Range;

/// A choice.
pub(super) struct Chosen {
    pub(super) reads: Vec<Range<u64>>,
    /// At worst, by all plausible models: its cost over that of the better simple way.
    pub(super) risk: f64,
}

struct Proposal {
    reads: Vec<Range<u64>>,
    simple: bool,
}

/// The reads for runs that are aligned and do not touch.
pub(super) fn choose(aligned: Vec<Range<u64>>, model: &DeviceModel) -> Chosen {
    if aligned.len() < 2 {
        return Chosen { reads: aligned, risk: 1.0 };
    }
    let models = model.plausible();
    let span = aligned[0].start..aligned[aligned.len() - 1].end;
    let mut proposals: Vec<Proposal> =
        models.iter().map(|model| cheapest(&aligned, model)).map(planned).collect();
    proposals.push(Proposal { reads: vec![span], simple: true });
    proposals.push(Proposal { reads: aligned, simple: true });
    let simple = || proposals.iter().filter(|proposal| proposal.simple);
    let costs_simple: Vec<f64> = models
        .iter()
        .map(|model| simple().map(|p| model.seconds_of(&p.reads)).fold(f64::INFINITY, f64::min))
        .collect();
    let risks: Vec<f64> = proposals
        .iter()
        .map(|proposal| {
            let over = models.iter().zip(&costs_simple).map(|(model, simple)| {
                let cost = model.seconds_of(&proposal.reads);
                // Where nothing costs anything nothing can be lost.
                if *simple > 0.0 { cost / simple } else { 1.0 }
            });
            over.fold(0.0, f64::max)
        })
        .collect();
    let counted = |at: usize| match proposals[at].simple {
        true => risks[at],
        false => risks[at] * (1.0 + model.uncertainty.error),
    };
    let least = (0..proposals.len()).map(counted).fold(f64::INFINITY, f64::min);
    let safe = least.max(1.0) * (1.0 + 1e-9);
    let cost = |at: usize| model.seconds_of(&proposals[at].reads);
    let best = (0..proposals.len()).filter(|&at| counted(at) <= safe);
    let best = best.min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or(0);
    Chosen { risk: risks[best], reads: proposals.swap_remove(best).reads }
}

fn planned(reads: Vec<Range<u64>>) -> Proposal {
    Proposal { reads, simple: false }
}

/// The cheapest reads by one model that is taken at its word.
fn cheapest(aligned: &[Range<u64>], model: &DeviceModel) -> Vec<Range<u64>> {
    let reads = by_width(aligned, model);
    let longest = aligned[aligned.len() - 1].end - aligned[0].start;
    if model.operations(longest) < 2 {
        return reads;
    }
    let alternatives = pieces::candidates(aligned, model).into_iter().chain([reads]);
    let alternatives = alternatives.map(|reads| (model.seconds_of(&reads), reads));
    alternatives.min_by(|a, b| a.0.total_cmp(&b.0)).map_or_else(Vec::new, |(_, reads)| reads)
}

//! The bytes of a log's copies, looked at while no process writes them. Nothing is changed.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::description::{Held, look_up};
use crate::descriptor::Descriptor;
use crate::generation::trust_of;
use crate::open::{read_log, sealed};
use crate::replay::each;
use crate::upkeep::open_copy;
use crate::{Result, Rim, Volume};

/// Copies of a log, compared on the batches that are in no segment yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogCheck {
    /// The volume's name.
    pub volume: String,
    /// The last batch that any copy has.
    pub last: u64,
    /// The first batch that was acknowledged and that no copy at hand has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Nodes whose copy lacks something that another one has, and the first such batch. Only the
    /// last batch of all may be lacking: its writer died, and never acknowledged it.
    pub faults: Vec<(String, u64)>,
}

impl LogCheck {
    /// Returns whether every copy has all that was acknowledged.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.lost.is_none() && self.faults.is_empty()
    }
}

impl Volume {
    /// Compares the copies of a volume's log, batch by batch. `None`: the volume was closed, or
    /// a process writes it, which would make it look damaged. Copies that cannot be opened are left
    /// to [`Volume::log_report`].
    /// Errors: [`crate::VolumeError::NoVolume`]; what keeps its description, its map or the headers
    /// of its segments from being read.
    pub fn check_log(rim: &Rim, name: &str) -> Result<Option<LogCheck>> {
        let held = look_up(rim, name)?;
        if held.descriptor.log.is_empty() {
            return Ok(None);
        }
        let found = check(rim, name, &held.descriptor);
        if found.as_ref().is_ok_and(LogCheck::is_good) {
            return found.map(Some);
        }
        // Between two copies that are read a writer may have gone on: what is damaged stays so.
        let Held { descriptor, run } = look_up(rim, name)?;
        let again = check(rim, name, &descriptor);
        if run != held.run {
            return Ok(None);
        }
        let again = again?;
        let same = again.is_good() || found.is_ok_and(|found| found == again);
        Ok(same.then_some(again))
    }
}

fn check(rim: &Rim, name: &str, found: &Descriptor) -> Result<LogCheck> {
    let (mut copies, trust) = (Vec::new(), trust_of(rim, found)?);
    for copy in &found.log {
        let Some(store) = rim.pool().place(&copy.node) else { continue };
        let Ok(Some(file)) = open_copy(&*store, copy) else { continue };
        // One at a time: a log has 128 MiB. One that cannot be read has nothing.
        let bytes = read_log(&*file).unwrap_or_default();
        let mut batches = BTreeSet::new();
        each(&bytes, found.id_bytes(), found.generation, &trust, |seq, _| {
            batches.insert(seq);
        });
        copies.push((copy.node.clone(), batches));
    }
    let before = found.first_seq.saturating_sub(1);
    let last = copies.iter().filter_map(|(_, batches)| batches.last()).max();
    let last = last.map_or(before, |last| before.max(*last));
    let (state, _) = sealed(rim, name, found, last)?;
    let (lost, faults) = compare(&copies, state.log_seq.max(before) + 1, last);
    Ok(LogCheck { volume: name.to_owned(), last, lost, faults })
}

/// The first batch of these that no copy has, and nodes whose copy lacks one that others have.
fn compare(
    copies: &[(String, BTreeSet<u64>)],
    first: u64,
    last: u64,
) -> (Option<u64>, Vec<(String, u64)>) {
    let any = |seq: &u64| copies.iter().any(|(_, batches)| batches.contains(seq));
    let lost = (first..last).find(|seq| !any(seq));
    let fault = |(node, batches): &(String, BTreeSet<u64>)| {
        let lacks = (first..last).find(|seq| !batches.contains(seq) && any(seq))?;
        Some((node.clone(), lacks))
    };
    (lost, copies.iter().filter_map(fault).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_may_lack_the_last_batch_and_no_other() {
        let copies = |all: &[&[u64]]| -> Vec<(String, BTreeSet<u64>)> {
            let copy =
                |(at, seqs): (usize, &&[u64])| (at.to_string(), seqs.iter().copied().collect());
            all.iter().enumerate().map(copy).collect()
        };
        let found = |all: &[&[u64]]| compare(&copies(all), 5, 8);
        assert_eq!(found(&[&[5, 6, 7, 8], &[5, 6, 7]]), (None, vec![]));
        // Those before are in segments.
        assert_eq!(found(&[&[3, 5, 6, 7, 8], &[4, 5, 6, 7, 8]]), (None, vec![]));
        let one = |lacks| vec![("1".to_owned(), lacks)];
        assert_eq!(found(&[&[5, 6, 7, 8], &[5, 6, 8]]), (None, one(7)));
        assert_eq!(found(&[&[5, 6, 7, 8], &[5]]), (None, one(6)));
        assert_eq!(found(&[&[5, 7, 8], &[7, 8]]), (Some(6), one(5)));
        assert_eq!(compare(&copies(&[&[], &[]]), 5, 4), (None, vec![]));
    }
}

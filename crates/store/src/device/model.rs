//! Cost of reads on a device.

use super::{AlternativeModel, Combine, Uncertainty};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Cost of reads on a device, in seconds, when many are submitted together.
///
/// A batch of R reads with B bytes takes `start + combine(R * read, B * byte)`. Some devices are
/// handed a long read in pieces, and charge each of them as a read: then R counts pieces. Seek
/// distances are not in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceModel {
    /// Version of this record: 1, or 2 where there are pieces.
    pub version: u32,
    /// Seconds of one more read in a batch.
    pub read_seconds: f64,
    /// Seconds of one more byte.
    pub byte_seconds: f64,
    /// Seconds of a batch beside that: what a lone read takes longer than one of many.
    pub start_seconds: f64,
    /// Combination of the costs.
    pub combine: Combine,
    /// Longer reads cost as many reads as they have pieces of this size; `None`: a read is a read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece_bytes: Option<u64>,
    /// Speed-up of reads together over one after the other.
    pub parallelism: f64,
    /// Reads in flight from which on more gain little.
    pub depth: u32,
    /// Bytes that offsets and lengths of its reads are multiples of.
    pub alignment: u64,
    /// Largest deviation of a measurement from the model, e.g. 0.1 for 10%; 0 if not measured.
    pub worst_fit: f64,
    /// Trust in all this; nothing in records of older programs.
    #[serde(default, skip_serializing_if = "Uncertainty::is_none")]
    pub uncertainty: Uncertainty,
}

impl DeviceModel {
    /// The newest version of the record that this program writes and reads; it reads all before.
    pub const VERSION: u32 = 2;

    /// No block layer cuts reads into less.
    pub const PIECE_BYTES_MIN: u64 = 512;

    /// A device without a start cost, with the usual alignment.
    pub fn new(read_seconds: f64, byte_seconds: f64, combine: Combine) -> DeviceModel {
        DeviceModel {
            version: Self::VERSION,
            read_seconds,
            byte_seconds,
            start_seconds: 0.0,
            combine,
            piece_bytes: None,
            parallelism: 1.0,
            depth: 1,
            alignment: 4096,
            worst_fit: 0.0,
            uncertainty: Uncertainty::default(),
        }
    }

    /// Returns the seconds that a batch of so many reads (pieces, where reads are cut) with so many
    /// bytes takes. No reads take no time.
    pub fn seconds(&self, reads: u64, bytes: u64) -> f64 {
        if reads == 0 {
            return 0.0;
        }
        let (reads, bytes) = (reads as f64 * self.read_seconds, bytes as f64 * self.byte_seconds);
        self.start_seconds + self.combine.of(reads, bytes)
    }

    /// Counts the reads that a read of so many bytes costs: its pieces.
    pub fn operations(&self, bytes: u64) -> u64 {
        match (bytes, self.piece_bytes) {
            (0, _) => 0,
            (_, None) => 1,
            (bytes, Some(piece)) => bytes.div_ceil(piece.max(1)),
        }
    }

    /// Returns the seconds of a batch of these reads.
    pub fn seconds_of(&self, reads: &[Range<u64>]) -> f64 {
        let length = |read: &Range<u64>| read.end.saturating_sub(read.start);
        let pieces = reads.iter().map(|read| self.operations(length(read))).sum();
        self.seconds(pieces, reads.iter().map(length).sum())
    }

    /// Bytes that cost as much as a read. Where costs add up, a gap that is narrower is cheaper to
    /// read through; where the larger one counts, that holds as long as reads are what binds.
    pub fn gap_bytes(&self) -> u64 {
        (self.read_seconds / self.byte_seconds).round() as u64
    }

    /// Returns whether its numbers can be reckoned with; says what is wrong if not.
    /// Errors: a version that is not known, a number that is no cost.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=Self::VERSION).contains(&self.version) {
            let (version, known) = (self.version, Self::VERSION);
            return Err(format!("it has version {version}, this program knows 1 to {known}"));
        }
        let doubts = [self.uncertainty.error, self.uncertainty.spread];
        if !doubts.iter().all(|doubt| (0.0..=1e6).contains(doubt)) {
            return Err(format!("its uncertainty is {doubts:?}, which is none"));
        }
        let alternatives = &self.uncertainty.alternatives;
        if alternatives.len() > Uncertainty::ALTERNATIVES_MAX {
            let most = Uncertainty::ALTERNATIVES_MAX;
            return Err(format!(
                "it has {} alternative models, the limit is {most}",
                alternatives.len()
            ));
        }
        check_costs(self.read_seconds, self.byte_seconds, self.piece_bytes)?;
        if !(0.0..=1e6).contains(&self.start_seconds) {
            return Err(format!("start_seconds is {}, which is no cost", self.start_seconds));
        }
        alternatives.iter().try_for_each(
            |&AlternativeModel { read_seconds, byte_seconds, piece_bytes, .. }| {
                check_costs(read_seconds, byte_seconds, piece_bytes)
            },
        )
    }

    /// All models that the measurements allow: this one, then its alternatives.
    pub fn plausible(&self) -> Vec<DeviceModel> {
        let with = |alternative: &AlternativeModel| DeviceModel {
            read_seconds: alternative.read_seconds,
            byte_seconds: alternative.byte_seconds,
            combine: alternative.combine,
            piece_bytes: alternative.piece_bytes,
            uncertainty: Uncertainty::default(),
            ..self.clone()
        };
        let own = DeviceModel { uncertainty: Uncertainty::default(), ..self.clone() };
        [own].into_iter().chain(self.uncertainty.alternatives.iter().map(with)).collect()
    }

    /// Returns whether its measurements were too far from it to plan by it alone.
    pub fn is_doubtful(&self) -> bool {
        self.uncertainty.error >= Uncertainty::ERROR_LARGE || self.worst_fit > 0.25
    }
}

fn check_costs(read: f64, byte: f64, piece: Option<u64>) -> Result<(), String> {
    if let Some(piece) = piece.filter(|&piece| piece < DeviceModel::PIECE_BYTES_MIN) {
        let least = DeviceModel::PIECE_BYTES_MIN;
        return Err(format!("piece_bytes is {piece}, {least} are the least that make sense"));
    }
    for (name, value, least) in
        [("read_seconds", read, 0.0), ("byte_seconds", byte, f64::MIN_POSITIVE)]
    {
        if !(least..=1e6).contains(&value) {
            return Err(format!("{name} is {value}, which is no cost"));
        }
    }
    Ok(())
}

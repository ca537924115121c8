//! What reads cost on a device.

use serde::{Deserialize, Serialize};

/// How the costs of reads and of bytes go together.
///
/// ```
/// use kiln_pool::reads::Combine;
/// assert_eq!((Combine::Sum.of(3.0, 4.0), Combine::Larger.of(3.0, 4.0)), (7.0, 4.0));
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Combine {
    /// One after the other: a head seeks, then reads.
    Sum,
    /// Side by side: limits of reads and of bytes a second, of which one binds. So are volumes of
    /// clouds, and drives that work on many reads at once.
    Larger,
}

impl Combine {
    /// Both costs together.
    #[must_use]
    pub fn of(self, reads: f64, bytes: f64) -> f64 {
        match self {
            Combine::Sum => reads + bytes,
            Combine::Larger => reads.max(bytes),
        }
    }
}

/// What reads cost on a device, in seconds, when many are submitted together.
///
/// A batch of R reads with B bytes takes `start + combine(R * read, B * byte)`. Seek distances are
/// not in it.
///
/// ```
/// use kiln_pool::reads::{Combine, DeviceModel};
/// let ssd = DeviceModel::new(10e-6, 1.0 / 2e9, Combine::Larger);
/// // Below 20 kB this one is bound by its reads.
/// assert_eq!(ssd.gap_bytes(), 20_000);
/// assert_eq!(ssd.seconds(100, 4096 * 100), 1e-3);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceModel {
    /// Version of this record: 1.
    pub version: u32,
    /// Seconds of one more read in a batch.
    pub read_seconds: f64,
    /// Seconds of one more byte.
    pub byte_seconds: f64,
    /// Seconds of a batch beside that: what a lone read takes longer than one of many.
    pub start_seconds: f64,
    /// How the costs go together.
    pub combine: Combine,
    /// How many times faster reads are together than one after the other.
    pub parallelism: f64,
    /// Reads in flight from which on more gain little.
    pub depth: u32,
    /// Bytes that offsets and lengths of its reads are multiples of.
    pub alignment: u64,
    /// Largest deviation of a measurement from the model, e.g. 0.1 for 10%; 0 if not measured.
    pub worst_fit: f64,
}

impl DeviceModel {
    /// The version that this program writes and reads.
    pub const VERSION: u32 = 1;

    /// A device without a start cost, with the usual alignment.
    #[must_use]
    pub fn new(read_seconds: f64, byte_seconds: f64, combine: Combine) -> DeviceModel {
        DeviceModel {
            version: Self::VERSION,
            read_seconds,
            byte_seconds,
            start_seconds: 0.0,
            combine,
            parallelism: 1.0,
            depth: 1,
            alignment: 4096,
            worst_fit: 0.0,
        }
    }

    /// What a batch of so many reads with so many bytes takes. No reads take no time.
    #[must_use]
    pub fn seconds(&self, reads: u64, bytes: u64) -> f64 {
        if reads == 0 {
            return 0.0;
        }
        let (reads, bytes) = (reads as f64 * self.read_seconds, bytes as f64 * self.byte_seconds);
        self.start_seconds + self.combine.of(reads, bytes)
    }

    /// Bytes that cost as much as a read. Where costs add up, a gap that is narrower is cheaper to
    /// read through; where the larger one counts, that holds as long as reads are what binds.
    #[must_use]
    pub fn gap_bytes(&self) -> u64 {
        (self.read_seconds / self.byte_seconds).round() as u64
    }

    /// Whether its numbers can be reckoned with; says what is wrong if not.
    ///
    /// # Errors
    /// A version that is not known, a number that is no cost.
    pub fn check(&self) -> Result<(), String> {
        if self.version != Self::VERSION {
            let known = Self::VERSION;
            return Err(format!("it has version {}, this program knows {known}", self.version));
        }
        let costs = [
            ("read_seconds", self.read_seconds, 0.0),
            ("byte_seconds", self.byte_seconds, f64::MIN_POSITIVE),
            ("start_seconds", self.start_seconds, 0.0),
        ];
        for (name, value, least) in costs {
            if !(least..=1e6).contains(&value) {
                return Err(format!("{name} is {value}, which is no cost"));
            }
        }
        Ok(())
    }
}

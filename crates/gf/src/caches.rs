//! Sizes of this machine's caches, as far as they may be relied on.

use crate::GfError;
use std::{env, fmt, sync::OnceLock};

/// Name of the environment variable that replaces the sizes which the processor reports.
pub const CACHES_VARIABLE: &str = "KILN_CACHES";

/// Bytes of the caches of a processor, as the rules of this crate use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caches {
    /// The second level, which a core has for itself.
    pub second: usize,
    /// The last level, which several cores share: at most [`Caches::LAST_MAX`].
    pub last: usize,
}

/// Origin of the sizes that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Variable,
    Processor,
    Usual,
}

impl Caches {
    /// Sizes of a usual server, where the processor reports none.
    const USUAL: Caches = Caches { second: 1 << 20, last: 32 << 20 };

    /// A last level counts for at most so many bytes. A server reports hundreds of MiB, of which
    /// a core gets the part that other cores leave, and a virtual machine of two cores reports the
    /// whole host's: on Xeons that report 260 and 480 MiB, calls on more than this take half as
    /// long past the caches, and calls on 4 MiB or more take no longer (lab/results/intel.md).
    pub const LAST_MAX: usize = 32 << 20;

    /// Returns the sizes for this process: those of `KILN_CACHES`, otherwise those that the
    /// processor reports. Asked once.
    pub fn here() -> Caches {
        chosen().1.as_ref().map_or_else(|_| processor().1, |found| *found).bounded()
    }

    /// Fails where `KILN_CACHES` has no sizes.
    pub(crate) fn check() -> Result<(), GfError> {
        chosen().1.clone().map(drop)
    }

    /// Bounds the sizes: a second level is not empty, a last level not smaller than the second and
    /// not larger than [`Caches::LAST_MAX`], unless the second is.
    fn bounded(self) -> Caches {
        let second = self.second.max(1);
        Caches { second, last: self.last.min(Caches::LAST_MAX).max(second) }
    }

    /// Returns whether a call on so many bytes of inputs and outputs may load some of them more
    /// than once: within a quarter of the last level they stay near enough (measured with 32 MiB:
    /// twice as many bytes are as fast either way).
    pub fn reload(&self, working_set: usize) -> bool {
        working_set <= self.reload_max()
    }

    /// Returns the most bytes of a call that loads some of them more than once.
    pub(crate) fn reload_max(&self) -> usize {
        self.last / 4
    }

    /// Returns whether a call on so many bytes of inputs and outputs fetches them ahead: of more
    /// than half a second level some come from farther away, also if all of them were just used.
    /// (On Zen 4 with AVX2 Clay 10+4 of 64 KiB chunks, 896 KiB, then takes 0.6 to 0.7 of the time
    /// from memory, and as long from the caches; of 16 KiB chunks it would take 1.1 to 1.2.) Code
    /// that loads its inputs `again` finds them there: it takes 1.15 times as long if it fetches.
    pub(crate) fn fetch(&self, working_set: usize, again: bool) -> bool {
        working_set > if again { self.second } else { self.second / 2 }
    }

    /// Describes the sizes and their origin.
    pub(crate) fn described() -> String {
        let (origin, found) = chosen();
        let reported = found.as_ref().map_or_else(|_| processor().1, |found| *found);
        let used = reported.bounded();
        let last = match used.last == reported.last {
            true => format!("last level {}", Size(used.last)),
            false => format!("last level {} of {}", Size(used.last), Size(reported.last)),
        };
        let origin = match origin {
            Origin::Variable => CACHES_VARIABLE,
            Origin::Processor => "as the processor reports",
            Origin::Usual => "usual sizes, the processor reports none",
        };
        format!("second level {}, {last}; {origin}", Size(used.second))
    }
}

impl std::str::FromStr for Caches {
    type Err = GfError;

    /// Reads `SECOND,LAST`, each a number of bytes with K, M or G; the last level may be 0.
    fn from_str(text: &str) -> Result<Caches, GfError> {
        parsed(text).map(Caches::bounded)
    }
}

/// Reads the sizes as they are written.
fn parsed(text: &str) -> Result<Caches, GfError> {
    let sizes = || {
        let (second, last) = text.split_once(',')?;
        let (second, last) = (size(second)?, size(last)?);
        (second > 0).then_some(Caches { second, last })
    };
    sizes().ok_or_else(|| GfError::Setting {
        variable: CACHES_VARIABLE,
        value: text.to_owned(),
        expected: "the bytes of the second and the last level, as 2M,32M",
    })
}

/// Reads a number of bytes with an optional K, M or G.
fn size(text: &str) -> Option<usize> {
    let text = text.trim();
    let (digits, shift) = match text.bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = Some(digits).filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?;
    usize::checked_mul(number, 1 << shift)
}

/// A number of bytes for people.
pub(crate) struct Size(pub usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => {
                write!(f, "{} MiB", bytes >> 20)
            }
            bytes => write!(f, "{} KiB", bytes >> 10),
        }
    }
}

/// The sizes as they were given, and their origin.
fn chosen() -> &'static (Origin, Result<Caches, GfError>) {
    static CHOSEN: OnceLock<(Origin, Result<Caches, GfError>)> = OnceLock::new();
    CHOSEN.get_or_init(|| match env::var_os(CACHES_VARIABLE) {
        Some(text) if !text.is_empty() => (Origin::Variable, parsed(&text.to_string_lossy())),
        _ => {
            let (origin, caches) = processor();
            (origin, Ok(caches))
        }
    })
}

fn processor() -> (Origin, Caches) {
    asked().map_or((Origin::Usual, Caches::USUAL), |found| (Origin::Processor, found))
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn asked() -> Option<Caches> {
    None
}

/// The sizes as the instruction CPUID gives them.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn asked() -> Option<Caches> {
    use std::arch::x86_64::{__cpuid_count, CpuidResult};
    /// AMD's leaf, which has Intel's form.
    const AMD: u32 = 0x8000_001d;
    const INTEL: u32 = 4;
    #[allow(unused_unsafe)] // it is safe from some compiler on
    // SAFETY: every x86-64 has the instruction.
    let ask = |leaf: u32, index: u32| unsafe { __cpuid_count(leaf, index) };
    let size = |found: CpuidResult| {
        let field = |from: u32, bits: u32| ((found.ebx >> from) & ((1 << bits) - 1)) as usize + 1;
        field(22, 10) * field(12, 10) * field(0, 12) * (found.ecx as usize + 1)
    };
    let leaf = [(0, INTEL), (0x8000_0000, AMD)]
        .into_iter()
        .find(|&(first, leaf)| ask(first, 0).eax >= leaf && ask(leaf, 0).eax & 31 != 0)?
        .1;
    let (mut second, mut last) = (0, 0);
    for found in (0..8).map(|index| ask(leaf, index)).take_while(|found| found.eax & 31 != 0) {
        match (found.eax & 31, (found.eax >> 5) & 7) {
            (2, _) | (_, 0 | 1) => {} // instructions, or too near
            (_, 2) => second = size(found),
            (_, _) => last = size(found),
        }
    }
    let second = Some(second).filter(|&bytes| bytes > 0)?;
    Some(Caches { second, last: last.max(second) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_caches_of_a_plausible_size() {
        let Caches { second, last } = Caches::here();
        assert!((64 << 10..1 << 40).contains(&second), "{second}");
        assert!((second..1 << 40).contains(&last), "{last}");
    }

    #[test]
    fn sizes_are_read_and_bounded() {
        let read = |text: &str| text.parse::<Caches>().map(|c| (c.second >> 10, c.last >> 10));
        assert_eq!(read("2M,32M"), Ok((2048, 32 << 10)));
        assert_eq!(read("2M,480M"), Ok((2048, 32 << 10)));
        assert_eq!(read("1024K, 16m"), Ok((1024, 16 << 10)));
        assert_eq!(read("524288,0"), Ok((512, 512)));
        assert_eq!(read("64M,64M"), Ok((64 << 10, 64 << 10)));
        for wrong in ["", "2M", "0,32M", "2M,32M,1", "2T,32M", "-1,2", "+1,2", "M,M", "2M;32M"] {
            let error = read(wrong).unwrap_err();
            assert!(error.to_string().contains(CACHES_VARIABLE), "{wrong}: {error}");
        }
        assert!(read("18446744073709551615K,1").is_err());
    }
}

//! Choice of the way in which a call loads and stores: static rules, and variants that replace
//! them.
//!
//! All variants compute the same bytes. The rules know the levels that a core has for itself and
//! a bounded last level ([`Caches`]), the size of a call, and the maker of the processor.

use crate::caches::{Caches, Size};
use crate::{GfError, TemporalHint};
use std::{cell::Cell, env, str::FromStr, sync::OnceLock};

/// Name of the environment variable that replaces rules by variants.
pub const TUNE_VARIABLE: &str = "KILN_TUNE";

/// Way in which a call loads its inputs and stores its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataPath {
    /// Ordinary stores; inputs may be loaded more than once (output-stationary blocks).
    Reload,
    /// Ordinary stores; every input is loaded once (input-stationary blocks).
    Once,
    /// Every input is loaded once, results go past the caches.
    Streamed,
}

/// Cache that a line is fetched into.
///
/// Lines on their way into the first level are few (24 on Zen 4), and blocks on data in memory load
/// from more streams than the hardware follows by itself. AMD's processors keep what is asked for
/// into the second level apart from those: on Zen 4 Clay codes from memory gained 14 to 45% with
/// AVX-512 (lab/results/zen4.md) and 15 to 50% with AVX2 (lab/results/avx2.md). On Xeons the
/// first level is as good or a little better (lab/results/intel.md), on Zen 5 better by 1 to 12%
/// (lab/results/zen5.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    First,
    Second,
}

/// Fetching of inputs ahead of their use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub level: Level,
    /// Lines of every operand between the one that is fetched and the one that is used.
    pub lines: usize,
}

/// One way to run a kind of work; what is not given follows the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Variant {
    path: Option<DataPath>,
    fetch: Option<Fetch>,
}

/// Variants that replace the static rules: none by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tuning {
    /// Of programs that load every input once anyway: Reed-Solomon, XOR codes.
    single: Variant,
    /// Of programs with several dataflows: Clay.
    layered: Variant,
}

/// Operands that the hardware follows by itself. Codes of Reed-Solomon with AVX2 were 10 to 15%
/// faster with the first level where there are eight, as fast with ten, 15% slower with sixteen.
const FOLLOWED: usize = 8;
/// Most lines that a variant may fetch ahead.
const LINES_MAX: usize = 64;
const LINE: usize = 64;

impl Fetch {
    /// Returns the rule for a block that loads so many operands and keeps sums in scratch or not,
    /// by whether the processor keeps lines on their way into the second level `apart` from those
    /// into the first ([`second_apart`]).
    ///
    /// Of six lines in the second level the first ones are used before they are there; ten in the
    /// first level push each other out, since blocks load from the same few sets of it. So do six
    /// beside scratch: on Xeons with AVX-512 repairs of Clay codes from memory took 1.3 to 1.6
    /// times as long as with four, encodes 1.0 to 1.1 times (lab/results/intel.md).
    pub(crate) const fn rule(loaded: usize, scratch: bool, apart: bool) -> Fetch {
        let many = loaded > FOLLOWED;
        match (many && apart, many && scratch) {
            (true, _) => Fetch { level: Level::Second, lines: 10 },
            (false, true) => Fetch { level: Level::First, lines: 4 },
            (false, false) => Fetch { level: Level::First, lines: 6 },
        }
    }

    /// Returns the rule for a product whose sources are loaded vector by vector: 256 bytes where
    /// they were measured (Zen 4), 1024 where memory is farther away (on two Xeons 1 to 5% faster,
    /// while 512 is a tenth slower for a single row).
    pub(crate) const fn product_rule(apart: bool) -> Fetch {
        Fetch { level: Level::First, lines: if apart { 4 } else { 16 } }
    }

    /// Returns the fetching of a block on this machine.
    pub(crate) fn of(block: &crate::Block) -> Fetch {
        let scratch = block.sides().iter().any(|side| side.in_scratch());
        let rule = || Fetch::rule(block.loaded(), scratch, second_is_better());
        Tuning::here().layered.fetch.unwrap_or_else(rule)
    }

    /// Returns the fetching of a product's block on this machine.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // other machine code asks nothing
    pub(crate) fn of_product_block(block: &crate::Block) -> Fetch {
        let rule = || Fetch::rule(block.loaded(), false, second_apart());
        Tuning::here().single.fetch.unwrap_or_else(rule)
    }

    /// Returns the fetching of a product on this machine.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) fn of_product() -> Fetch {
        let rule = || Fetch::product_rule(second_apart());
        Tuning::here().single.fetch.unwrap_or_else(rule)
    }

    /// Returns whether code that stores past the caches then brings a line into the first level
    /// too, one column before it is used. Code that multiplies takes long enough for it: Clay
    /// codes from memory gained 2 to 13% on Zen 4 (lab/results/zen4.md). Codes that only add lost
    /// a fifth, and repairs with ordinary stores, which wait for lines of the first level
    /// themselves, up to 8%.
    pub(crate) fn fetches_again(self, multiplies: bool) -> bool {
        self.level == Level::Second && multiplies
    }

    fn described(self) -> String {
        let level = match self.level {
            Level::First => "first",
            Level::Second => "second",
        };
        format!("{} bytes ahead into the {level} level", self.lines * LINE)
    }
}

impl Tuning {
    /// Returns the variants for this thread: those of [`Tuning::with`], otherwise of `KILN_TUNE`.
    pub fn here() -> Tuning {
        OVERRIDE.get().unwrap_or_else(|| of_process().clone().unwrap_or_default())
    }

    /// Fails where `KILN_TUNE` names no variants.
    pub(crate) fn check() -> Result<(), GfError> {
        of_process().clone().map(drop)
    }

    /// Runs some work of this thread with these variants: codecs are to be made, and used, within.
    pub fn with<T>(self, work: impl FnOnce() -> T) -> T {
        struct Back(Option<Tuning>);
        impl Drop for Back {
            fn drop(&mut self) {
                OVERRIDE.set(self.0);
            }
        }
        let _back = Back(OVERRIDE.replace(Some(self)));
        work()
    }

    /// Returns the way of a call on so many bytes of inputs and outputs, of a program with
    /// several dataflows (`layered`) or one that loads every input once.
    pub fn path(
        &self,
        caches: &Caches,
        layered: bool,
        hint: TemporalHint,
        working_set: usize,
    ) -> DataPath {
        let variant = if layered { self.layered } else { self.single };
        variant.path.unwrap_or_else(|| match hint {
            TemporalHint::NonTemporal => DataPath::Streamed,
            TemporalHint::Temporal if caches.reload(working_set) => DataPath::Reload,
            TemporalHint::Temporal => DataPath::Once,
        })
    }
}

impl FromStr for Tuning {
    type Err = GfError;

    /// Reads `off`, or `rs=VARIANT,clay=VARIANT` with VARIANT a path (`out`, `in` or `nt`), then
    /// optionally `:t0` or `:t1` and `:BYTES`, the fetching of inputs.
    fn from_str(text: &str) -> Result<Tuning, GfError> {
        let mut tuning = Tuning::default();
        if text == "off" {
            return Ok(tuning);
        }
        let mut read = |part: &str| {
            let (kind, variant) = part.split_once('=')?;
            let to = match kind {
                "rs" => &mut tuning.single,
                "clay" => &mut tuning.layered,
                _ => return None,
            };
            *to = Variant::read(variant)?;
            Some(())
        };
        match text.split(',').all(|part| read(part).is_some()) {
            true => Ok(tuning),
            false => Err(GfError::Setting {
                variable: TUNE_VARIABLE,
                value: text.to_owned(),
                expected: "off, or rs=PATH[:LEVEL:BYTES],clay=PATH[:LEVEL:BYTES], PATH being out, \
                           in or nt, LEVEL t0 or t1, BYTES 64 to 4096",
            }),
        }
    }
}

impl Variant {
    fn read(text: &str) -> Option<Variant> {
        let parts: Vec<&str> = text.split(':').collect();
        let path = Some(match *parts.first()? {
            "out" => DataPath::Reload,
            "in" => DataPath::Once,
            "nt" => DataPath::Streamed,
            _ => return None,
        });
        let fetch = match parts[1..] {
            [] => None,
            [level, bytes] => {
                let level = match level {
                    "t0" => Level::First,
                    "t1" => Level::Second,
                    _ => return None,
                };
                let lines = bytes.parse::<usize>().ok()?.div_ceil(LINE);
                Some(Fetch { level, lines: Some(lines).filter(|l| (1..=LINES_MAX).contains(l))? })
            }
            _ => return None,
        };
        Some(Variant { path, fetch })
    }
}

thread_local! {
    static OVERRIDE: Cell<Option<Tuning>> = const { Cell::new(None) };
}

/// The variants of `KILN_TUNE`, read once.
fn of_process() -> &'static Result<Tuning, GfError> {
    static PROCESS: OnceLock<Result<Tuning, GfError>> = OnceLock::new();
    PROCESS.get_or_init(|| match env::var_os(TUNE_VARIABLE) {
        Some(text) if !text.is_empty() => text.to_string_lossy().parse(),
        _ => Ok(Tuning::default()),
    })
}

/// Returns whether lines on their way into the second level are others than those into the first:
/// where AMD made the processor, or Hygon, whose are of that kind.
pub(crate) fn second_apart() -> bool {
    family_of_amd() > 0
}

/// Returns whether blocks of Clay are better off with the second level: where it is apart, before
/// Zen 5.
fn second_is_better() -> bool {
    (1..26).contains(&family_of_amd())
}

/// The family of a processor of AMD or Hygon, 26 of Zen 5; 0 of others. Asked once.
#[cfg(target_arch = "x86_64")]
fn family_of_amd() -> u32 {
    use std::arch::x86_64::__cpuid;
    static FAMILY: OnceLock<u32> = OnceLock::new();
    *FAMILY.get_or_init(|| {
        #[allow(unused_unsafe)] // it is safe from some compiler on
        // SAFETY: every x86-64 has the instruction, with these leaves.
        let (maker, version) = unsafe { (__cpuid(0), __cpuid(1).eax) };
        let name = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes).concat();
        match name == b"AuthenticAMD" || name == b"HygonGenuine" {
            true => (version >> 8 & 15) + (version >> 20 & 255),
            false => 0,
        }
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn family_of_amd() -> u32 {
    0
}

/// Describes the choices of this process, each with its reason: the caches, then products and
/// programs with several dataflows.
pub(crate) fn described() -> [(&'static str, String); 3] {
    let (caches, tuning, apart) = (Caches::here(), Tuning::here(), second_apart());
    let tuned = |variant: Variant, streamed: String, fetch: String| {
        let path = match variant.path {
            None => streamed,
            Some(DataPath::Reload) => "ordinary stores, inputs loaded again".to_owned(),
            Some(DataPath::Once) => "ordinary stores, every input loaded once".to_owned(),
            Some(DataPath::Streamed) => "results past the caches".to_owned(),
        };
        let fetch = variant.fetch.map_or(fetch, Fetch::described);
        let reason = match variant == Variant::default() {
            true => "rule",
            false => TUNE_VARIABLE,
        };
        format!("{path}; inputs fetched {fetch} ({reason})")
    };
    let single = tuned(
        tuning.single,
        format!(
            "results past the caches beyond {} a call, unless they are read next",
            Size(caches.second / 2)
        ),
        Fetch::product_rule(apart).described(),
    );
    let layered = tuned(
        tuning.layered,
        format!(
            "inputs loaded again up to {} a call, once beyond; results as with rs",
            Size(caches.reload_max())
        ),
        Fetch::rule(FOLLOWED + 1, true, second_is_better()).described(),
    );
    [("caches", Caches::described()), ("rs, xor", single), ("clay", layered)]
}

#[cfg(test)]
mod tests;

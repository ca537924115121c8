//! Everybody held to the instructions of one class of CPU, so that a machine that has more says
//! what those users see who have no more.
//!
//! The variable `KILN_BENCH_ISA` says which, since the peers' drivers must know it too: with `avx2`
//! klauspost gets its options, ISA-L is called by its `_avx2` entry points, and kiln's kernel must
//! have been forced. Jerasure and the crates know nothing above AVX2. Ceph's plugins choose by
//! themselves and cannot be held.

use crate::BenchError;

/// The variable that says which class.
pub const VARIABLE: &str = "KILN_BENCH_ISA";

/// A class of CPU: its name, and the kernel that kiln chooses there.
const CLASSES: &[(&str, &str)] = &[("avx2", "jit-avx2")];

/// The class that everybody is held to, if any.
pub fn held() -> Option<&'static str> {
    let wanted = std::env::var(VARIABLE).ok()?;
    CLASSES.iter().map(|&(name, _)| name).find(|name| *name == wanted)
}

/// The name of a report, with the class that it is about.
pub fn named(report: &str) -> String {
    held().map_or(report.to_owned(), |class| format!("{report}-{class}"))
}

/// Refuses a class that there is not, and one that kiln is not held to.
///
/// # Errors
/// As said.
pub fn check() -> Result<(), BenchError> {
    let wanted = std::env::var(VARIABLE).unwrap_or_default();
    if wanted.is_empty() {
        return Ok(());
    }
    let active = kiln_gf::active().map_or("none", |kernel| kernel.name());
    match CLASSES.iter().find(|(name, _)| *name == wanted) {
        Some(&(_, kernel)) if kernel == active => Ok(()),
        Some((_, kernel)) => Err(BenchError::Isa {
            reason: format!("{VARIABLE}={wanted} goes with KILN_KERNEL={kernel}, not {active}"),
        }),
        None => Err(BenchError::Isa { reason: format!("{VARIABLE}={wanted}: known is avx2") }),
    }
}

//! Multiplying a matrix with byte streams: the kernels and the choice of one.
//!
//! A [`Kernel`] is one way to do the work on one kind of CPU; [`KERNELS`] lists them all and
//! [`active`] chooses once per process. A [`crate::Product`] is a matrix prepared for one kernel:
//! the tables travel with the call, so a call cannot use those of another matrix.
//!
//! Below, nothing goes in a circle: `engine` says what a kernel does, `jit` is the one that makes
//! code and takes what is left over to `gfni`. This file and the kernels name each other: they the
//! trait, this the table.

use crate::{Caches, GfError, Tuning, tuning};
use std::{env, fmt::Debug, sync::OnceLock};

pub(crate) mod fetch;
pub(crate) mod engine;
mod scalar;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod generic;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod nibbles;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod gfni;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(any(all(target_arch = "x86_64", unix), all(target_arch = "aarch64", target_os = "linux")))]
mod jit;
#[cfg(all(target_arch = "x86_64", unix))]
mod jit_avx2;
#[cfg(all(target_arch = "x86_64", unix))]
mod jit_gfni;
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
mod jit_neon;

#[cfg(test)]
mod battery;
#[cfg(test)]
mod tests;

/// Name of the environment variable that forces a kernel.
pub const KERNEL_VARIABLE: &str = "KILN_KERNEL";

/// One implementation of matrix times byte streams, for one kind of CPU.
///
/// A reference to a kernel proves that this CPU runs it: the only way to one is a row's
/// [`KernelRow::detect`], through [`active`], [`by_name`] or [`available`]. The trait cannot be
/// implemented elsewhere.
pub trait Kernel: engine::Engine + Sync + Send + Debug {
    /// Short name, as in `KILN_KERNEL`.
    fn name(&self) -> &'static str;

    /// Returns whether blocks become machine code: then a block is worth more than products that
    /// store every intermediate value.
    fn compiles_blocks(&self) -> bool {
        self.code_gen().is_some()
    }

    /// Returns how many sums a block of this kernel should have at most, so that they stay in
    /// registers while it adds to them; none where blocks do not become code.
    fn block_sums(&self) -> usize {
        self.code_gen().map_or(0, |code_gen| code_gen.block_sums())
    }

    /// Bytes of a vector of this kernel.
    fn vector_len(&self) -> usize;

    /// One line for people.
    fn about(&self) -> &'static str {
        let row = KERNELS.iter().find(|row| row.name == self.name());
        row.map_or("", |row| row.about)
    }
}

/// One row of [`KERNELS`].
#[derive(Debug)]
pub struct KernelRow {
    /// Name of the kernel.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// The kernel, or `None` where this CPU cannot run it.
    pub detect: fn() -> Option<&'static dyn Kernel>,
}

/// The kernel of a module that some machines do not have.
macro_rules! detect {
    ($module:ident where $here:meta) => {{
        #[cfg($here)]
        let detect: fn() -> Option<&'static dyn Kernel> = $module::detect;
        #[cfg(not($here))]
        let detect: fn() -> Option<&'static dyn Kernel> = || None;
        detect
    }};
}

/// All kernels, of all architectures, from slow to fast.
pub static KERNELS: &[KernelRow] = &[
    KernelRow {
        name: "scalar",
        about: "byte by byte, with the field's table of products; runs everywhere",
        detect: scalar::detect,
    },
    KernelRow {
        name: "neon",
        about: "aarch64: 16 bytes at once, two table look-ups of nibbles per product",
        detect: detect!(neon where target_arch = "aarch64"),
    },
    KernelRow {
        name: "jit-neon",
        about: "as neon, by machine code made at run time for every matrix (Linux)",
        detect: detect!(jit_neon where all(target_arch = "aarch64", target_os = "linux")),
    },
    KernelRow {
        name: "avx2",
        about: "x86-64 with AVX2: 32 bytes at once, two table look-ups of nibbles per product",
        detect: detect!(avx2 where target_arch = "x86_64"),
    },
    KernelRow {
        name: "jit-avx2",
        about: "as avx2, by machine code made at run time for every matrix",
        detect: detect!(jit_avx2 where all(target_arch = "x86_64", unix)),
    },
    KernelRow {
        name: "avx512",
        about: "x86-64 with AVX-512BW: 64 bytes at once, two table look-ups per product",
        detect: detect!(avx512 where target_arch = "x86_64"),
    },
    KernelRow {
        name: "gfni",
        about: "x86-64 with GFNI and AVX-512BW: 64 bytes at once, one bit-matrix per product",
        detect: detect!(gfni where target_arch = "x86_64"),
    },
    KernelRow {
        name: "jit",
        about: "as gfni, by machine code made at run time for every matrix",
        detect: detect!(jit_gfni where all(target_arch = "x86_64", unix)),
    },
];

/// Orders streamed stores before whatever comes next, as other threads see it.
pub(crate) fn drain_streams() {
    #[cfg(all(target_arch = "x86_64", not(miri)))] // which does not know the fence
    // SAFETY: a fence accesses nothing.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// The kernel that is written to be read and runs everywhere: what others are checked against.
pub fn oracle() -> &'static dyn Kernel {
    &scalar::SCALAR
}

/// The kernels this CPU can run, from slow to fast.
pub fn available() -> Vec<&'static dyn Kernel> {
    KERNELS.iter().filter_map(|row| (row.detect)()).collect()
}

/// The kernel with this name.
///
/// Fails with [`GfError::UnknownKernel`] (listing all) or [`GfError::KernelUnavailable`]
/// (listing those that run here).
pub fn by_name(name: &str) -> Result<&'static dyn Kernel, GfError> {
    let Some(row) = KERNELS.iter().find(|row| row.name == name) else {
        let known: Vec<_> = KERNELS.iter().map(|row| row.name).collect();
        return Err(GfError::UnknownKernel { name: name.to_owned(), known: known.join(", ") });
    };
    (row.detect)().ok_or_else(|| {
        let available: Vec<_> = available().iter().map(|kernel| kernel.name()).collect();
        GfError::KernelUnavailable { name: name.to_owned(), available: available.join(", ") }
    })
}

/// Returns the kernel of this process: the fastest that runs here, or the one that the environment
/// variable `KILN_KERNEL` names. Chosen at the first call, then fixed.
///
/// Fails as [`by_name`] does when the variable names no kernel that runs here, and with
/// [`GfError::Setting`] when `KILN_CACHES` or `KILN_TUNE` is not understood; empty is unset.
pub fn active() -> Result<&'static dyn Kernel, GfError> {
    static ACTIVE: OnceLock<Result<&'static dyn Kernel, GfError>> = OnceLock::new();
    let choose = || {
        Caches::check()?;
        Tuning::check()?;
        match env::var_os(KERNEL_VARIABLE) {
            Some(name) if !name.is_empty() => by_name(&name.to_string_lossy()),
            _ => Ok(available().pop().unwrap_or(oracle())),
        }
    };
    ACTIVE.get_or_init(choose).clone()
}

/// Describes the choices of this process and their reasons, a name and a line each: the kernel,
/// the sizes of caches, and the ways in which codes load and store.
///
/// Fails as [`active`] does.
pub fn choices() -> Result<Vec<(&'static str, String)>, GfError> {
    let kernel = active()?;
    let reason = match env::var_os(KERNEL_VARIABLE) {
        Some(name) if !name.is_empty() => KERNEL_VARIABLE,
        _ => "the fastest that runs here",
    };
    let kernel = ("kernel", format!("{}: {} ({reason})", kernel.name(), kernel.about()));
    Ok([kernel].into_iter().chain(tuning::described()).collect())
}

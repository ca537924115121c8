//! The C interface of kiln's codes: opaque handles, negative errno, no panic across the border.
//!
//! The C interface is `include/kiln.h`, which is made from this crate. Everything here checks what
//! it is given as far as C allows it: null pointers, lengths, buffers that overlap. That pointers
//! lead to as many bytes as they say is the caller's promise, stated at every function.

#[cfg(any(test, feature = "calls"))]
pub mod calls;
mod failure;
mod regions;
pub mod codec;
pub mod plan;

use libc::c_char;

/// The version of this interface. It grows only when something that exists changes; additions
/// leave it as it is.
pub const KILN_ABI: u32 = 1;

/// The interface's version that the library was built with: compare it with `KILN_ABI`.
#[unsafe(no_mangle)]
pub extern "C" fn kiln_abi() -> u32 {
    KILN_ABI
}

/// The library's version as text, e.g. `0.1.0`. It lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn kiln_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

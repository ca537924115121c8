//! Parity beside files that stay where they are.
//!
//! Files are cut into *extents*, and a *set* takes up to `group` of them. Each extent is `height`
//! blocks of equal length, so a set is one stripe of `rs:k+m` with k = group x height data blocks,
//! and m = losses x height blocks of parity in files of their own. A whole extent costs as many
//! erasures as there are blocks of parity for one loss, and a change of it writes as many: a
//! deletion that is survived and an update that is cheap are the same number. Neighbours in the
//! order of names are of different sets, so that damage in a row takes little of each.
//!
//! Blocks are checked by *cells* of at most 64 KiB with a checksum each. Every column of cells is a
//! codeword of its own. The index is a log with a copy beside each part of the parity; new parity
//! is written where none in force stands, and counts from the record that commits it.
#![forbid(unsafe_code)]

mod error;
mod shape;
mod index;
mod folder;
mod layout;
mod set;
mod report;
mod update;
mod check;

pub use check::{Check, check};
pub use error::ProtectError;
pub use folder::{PART, Watch, part_of};
pub use report::{Report, Survives};
pub use shape::Geometry;
pub use update::{Update, protect};

/// The folder in a protected one that holds the index, and the parity that is nowhere else.
pub const OWN: &str = ".kiln-protect";

//! Folders as one stream of bytes and back: a tar archive, which any other tar reads too. Modes,
//! times, symbolic and hard links, empty folders and names of any length and any bytes are in it.

mod pack;
mod unpack;

pub use pack::{CHANGED, Packed};
pub use unpack::Unpacking;

/// The key of a time with fractions of a second, as POSIX has it.
const TIME: &str = "mtime";

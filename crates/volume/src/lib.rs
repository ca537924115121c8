//! Volumes: block images in a pool, online erasure coding without updates of stripes.
//!
//! A write goes to a log with copies on m + 1 nodes in distinct failure domains, and is
//! acknowledged when all of them have synced it: nothing is read before, and there is no stripe
//! that a crash could leave half written. Behind that, what was written becomes *segments*: objects
//! of the pool that never change, in whole stripes of whatever code the pool has. A map from block
//! to segment is in memory, kept in the pool as a checkpoint, and completed from the headers of
//! newer segments and the log when the volume is opened. Segments of which much was overwritten are
//! cleaned: what is live moves to new ones. (After Rosenblum and Ousterhout, "The Design and
//! Implementation of a Log-Structured File System", and LSVD, EuroSys 2022.)
//!
//! One writer at a time: the volume's description in the pool is replaced only by who knows the
//! version in force, and a writer that takes a volume over closes its log first.
//!
//! No randomness and no sockets live here, and no clock and no thread but in [`Running`] and those
//! that write the copies of the log.
#![forbid(unsafe_code)]

mod bytes;
mod error;
mod map;
mod record;
mod replay;
mod rim;
mod ring;
mod segment;
mod descriptor;
mod checkpoint;
mod description;
#[cfg(feature = "hostile")]
pub mod hostile;
mod kept;
mod logs;
mod opened;
mod state;
mod choice;
mod generation;
mod pace;
mod statistics;
mod volume;
mod long;
mod pacer;
mod queue;
mod reading;
mod renew;
mod stream;
mod upkeep;
mod work;
mod open;
mod admin;
mod asked;
mod checked;
mod live;
mod run;

pub use admin::{CheckReport, Objects, SnapshotInfo, VolumeInfo, VolumeStatus, volume_of};
pub use asked::LiveChange;
pub use checked::LogCheck;
pub use error::{Result, VolumeError};
pub use open::{CreateRequest, OpenRequest};
pub use queue::Done;
pub use rim::{Reopen, Rim};
pub use run::Running;
pub use statistics::Statistics;
pub use upkeep::{LogCopyState, LogReport};
pub use volume::{Op, OwnedOp, Volume, VolumeOp};
pub use work::Worked;

/// Bytes of a block: what is written, mapped and checked as a whole.
pub const BLOCK: usize = 4096;
/// Prefix of the names of all objects that volumes are made of.
pub const OBJECTS: &str = ".volumes/";
/// Folder of volumes by name, with an object for each.
pub const NAMES: &str = ".volumes/names";
/// Folder of the objects that volumes are made of.
pub(crate) const DATA: &str = ".volumes/data";

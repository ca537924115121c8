//! Shards on disk: the shard format, its checksums, and the backends that hold the bytes.
//!
//! This crate knows no erasure code. It stores the *chunks* of one index of an object, stripe
//! after stripe, with a checksum for every sub-chunk, so that a partial read is verified too.
//! The format is described byte by byte in `docs/reference/formats.md`.
//!
//! ```
//! use kiln_store::{Backend, MemoryBackend, ShardInfo, ShardReader, ShardWriter};
//! use kiln_store::{SumKind, checksums};
//!
//! let disk = MemoryBackend::new();
//! let info = ShardInfo {
//!     spec: "rs:1+1".into(),
//!     object: "greeting".into(),
//!     run: [7; 16],
//!     source: [0; 16],
//!     index: 0,
//!     k: 1,
//!     n: 2,
//!     alpha: 1,
//!     sub_chunk: 64,
//!     segment_stripes: 4,
//!     size: Some(16),
//!     sums: SumKind::Crc32c,
//! };
//! let mut writer = ShardWriter::create(&disk, "greeting.part", &info)?;
//! let mut sums = Vec::new();
//! checksums(info.sums, b"sixteen bytes ok", 16, &mut sums);
//! writer.append_chunk(b"sixteen bytes ok", &sums)?;
//! let digest = writer.seal()?;
//! writer.finish(16, &[digest, digest])?;
//! disk.rename("greeting.part", "greeting.00.kiln")?;
//!
//! let reader = ShardReader::open(&disk, "greeting.00.kiln")?;
//! let mut chunk = [0; 16];
//! reader.read_runs(0, &[0..1], &mut chunk)?;
//! assert_eq!(&chunk, b"sixteen bytes ok");
//! # Ok::<(), kiln_store::StoreError>(())
//! ```
#![forbid(unsafe_code)]

mod capability;
mod checksum;
mod random;
mod operation;
mod error;
mod parallel;
mod system;
pub mod names;
pub mod backends;
pub mod device;
pub mod shard;

pub use backends::direct::{ReadMode, longest_read, open_device};
pub use backends::extensions::{
    BatchFiles, CreateNew, Extensions, Locality, Located, Locks, Logs, Objects, PlaceInfo,
};
pub use backends::lock::{Held, LOCK_RETRY, LockAnswer, LockAttempt, WriteLock, lock_pause};
pub use backends::log::{LogFile, MAX_LOG};
pub use backends::open_file::{Append, BatchRead, ReadAt, issued, read_ranges};
pub use backends::place::{Absent, BackendKind, Location, Opening, open_place};
pub use backends::staged::{SERVED_BY, StagedBackend};
pub use backends::upload::{Existing, NewFile, Upload};
pub use backends::{
    Backend, check_name, file::FileBackend, file_system::FileSystem, memory::MemoryBackend,
    move_file, paced::PacedBackend, pack::SHARES, space::Space, table::BACKENDS, tag::Tag,
    write_whole,
};
pub use capability::{Capabilities, Capability};
pub use checksum::{Digest, DigestBuilder, SumKind, checksum, checksums};
pub use error::StoreError;
pub use operation::Operation;
pub use parallel::in_parallel;
pub use random::SplitMix64;
pub use shard::layout::{Layout, MAX_STRIPE, segment_stripes};
pub use shard::reader::{ReadCost, ShardReader, ShardState, digest_of};
pub use shard::writer::{ShardWriter, valid_segments};
pub use shard::{info::ShardInfo, rebuild::read_back};
pub use system::{DeviceCounters, device_counted, disk_under, request_limits};

/// Result of everything in this crate.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

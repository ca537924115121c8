//! One object as shards in folders: encode, decode, verify, repair.

mod read;
mod repair;
mod salvage;
mod set;
mod verify;
mod write;

pub use self::read::{decode, decode_range};
pub use self::repair::{RepairRequest, repair};
pub use self::salvage::{Missing, Salvaged, salvage};
pub use self::set::{ShardSet, discover, discover_any, object_names};
pub use self::verify::verify;
pub use self::write::{EncodeRequest, encode};

//! One object as shards in folders: encode, decode, verify, repair.

mod set;
mod read;
mod salvage;
mod verify;
mod write;
mod repair;

pub use self::read::{decode, decode_range};
pub use self::repair::{RepairRequest, repair};
pub use self::salvage::{Missing, Salvaged, salvage};
pub use self::set::{ShardSet, discover, discover_any, object_names};
pub use self::verify::verify;
pub use self::write::{EncodeRequest, encode, recode};

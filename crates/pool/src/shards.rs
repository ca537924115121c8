//! One object as shards in folders: encode, decode, verify, repair.

mod read;
mod repair;
mod set;
mod verify;
mod write;

pub use self::read::decode;
pub use self::repair::{RepairRequest, repair};
pub use self::set::{ShardSet, discover};
pub use self::verify::verify;
pub use self::write::{EncodeRequest, encode};

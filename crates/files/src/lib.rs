//! One object in folders, as shards that describe themselves or as bare chunks: encode, decode,
//! verify, repair.
//!
//! | folder | holds |
//! |---|---|
//! | `shards` | one object as shards in folders: [`encode`], [`decode`], [`verify`], [`repair`] |
//! | `raw` | the same four on bare chunks without metadata |
#![forbid(unsafe_code)]

mod shards;
pub mod raw;

pub use shards::{
    EncodeRequest, Missing, RepairRequest, Salvaged, ShardSet, decode, decode_range, discover,
    discover_any, encode, object_names, recode, repair, salvage, verify,
};

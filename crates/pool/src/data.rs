//! Data of objects: put, get, ranges, removal.

pub(crate) mod reader;
pub(crate) mod writer;
pub(crate) mod capacity;
pub(crate) mod shards;
pub(crate) mod cells;
pub(crate) mod helpers;
pub(crate) mod range;
pub(crate) mod get;
pub(crate) mod object_reader;
pub(crate) mod stat;
pub(crate) mod recoder;
pub(crate) mod put;
pub(crate) mod recode;
pub(crate) mod remove;

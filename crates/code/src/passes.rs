//! Passes: a DAG in, an equal and cheaper DAG out. Each must keep [`crate::Dag::matrix`].

mod fuse;

pub use fuse::fuse;

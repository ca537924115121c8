//! Passes over a DAG. Some give an equal and cheaper DAG and keep [`crate::Dag::matrix`];
//! `resident` orders the operations of a DAG of XORs.

mod fuse;
mod resident;
mod share;

pub use fuse::fuse;
pub(crate) use resident::resident;
pub use share::share;

#[cfg(test)]
mod proof;
#[cfg(test)]
mod tests;

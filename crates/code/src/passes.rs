//! Passes over a DAG. Some give an equal and cheaper DAG and keep [`crate::Dag::matrix`]; the
//! others order the operations of a DAG of XORs, as rows of [`crate::schedule::SCHEDULES`].

pub(crate) mod by_data_word;
mod fuse;
pub(crate) mod resident;
mod share;
pub(crate) mod traditional;

pub use fuse::fuse;
pub use share::share;

//! Passes over a DAG. Some give an equal and cheaper DAG and keep [`crate::Dag::matrix`]; the
//! others order the operations of a DAG of XORs, as rows of [`SCHEDULES`].

pub(crate) mod by_data_word;
mod fuse;
pub(crate) mod resident;
mod share;
pub(crate) mod traditional;

pub use fuse::fuse;
pub use share::share;

use crate::CodeError;
use crate::schedule::ScheduleRow;

/// All schedules.
pub static SCHEDULES: &[ScheduleRow] = &[traditional::ROW, by_data_word::ROW, resident::ROW];

/// The schedule with this name.
///
/// # Errors
/// There is none; the error lists what there is.
pub fn schedule(name: &str) -> Result<&'static ScheduleRow, CodeError> {
    SCHEDULES.iter().find(|row| row.name == name).ok_or_else(|| {
        let known: Vec<&str> = SCHEDULES.iter().map(|row| row.name).collect();
        CodeError::UnknownSchedule { name: name.to_owned(), known: known.join(", ") }
    })
}

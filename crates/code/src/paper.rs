//! What coding is measured against: the orders of Luo, Xu and Plank ("An Efficient XOR-Scheduling
//! Algorithm for Erasure Codes Encoding") and the loops that run them. Feature `paper`; programs
//! of codes use none of it but the row `resident`, which every XOR code is compiled by.
//!
//! ```
//! use kiln_code::{Codec, paper::schedule};
//! let codec = Codec::new(&"rdp:4+2".parse()?)?;
//! let plan = codec.encode_plan()?;
//! let by_word = (schedule("by-data-word")?.make)(plan.dag())?;
//! by_word.prove(plan.dag())?;
//! assert_eq!(by_word.xors(), plan.dag().work().1); // an order changes no count
//! # Ok::<(), kiln_code::CodeError>(())
//! ```

mod by_data_word;
mod fans;
mod symbolic;
mod traditional;
mod vectors;
mod words;

use crate::{CodeError, Dag, passes};

pub use crate::schedule::{Op, Schedule};
pub use vectors::VectorKernel;
pub use words::WordKernel;

/// One row of [`SCHEDULES`].
#[derive(Debug)]
pub struct ScheduleRow {
    /// Short name.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Orders the operations of a DAG.
    ///
    /// # Errors
    /// The DAG multiplies.
    pub make: fn(&Dag) -> Result<Schedule, CodeError>,
}

/// All schedules.
pub static SCHEDULES: &[ScheduleRow] = &[
    ScheduleRow {
        name: "traditional",
        about: "Algorithm 1: parity packets one by one, a loop for every term",
        make: traditional::traditional,
    },
    ScheduleRow {
        name: "by-data-word",
        about: "Algorithm 2: data packets one by one, each word into all its sums at once",
        make: by_data_word::by_data_word,
    },
    ScheduleRow {
        name: "resident",
        about: "each data word loaded once, sums in registers, all in one loop",
        make: passes::resident,
    },
];

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

#[cfg(test)]
mod tests;

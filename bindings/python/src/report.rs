//! Reports as dictionaries: what the program prints with `--json` has the same fields.

use kiln_code::CodeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::failure::Failure;

/// A report as a dictionary.
pub fn dictionary<'py>(
    py: Python<'py>,
    report: &impl Serialize,
) -> Result<Bound<'py, PyDict>, Failure> {
    let text = serde_json::to_string(report);
    let text = text.map_err(|error| CodeError::Internal(format!("a report: {error}")))?;
    let loaded = py.import("json")?.call_method1("loads", (text,))?;
    Ok(loaded.cast_into::<PyDict>().map_err(PyErr::from)?)
}

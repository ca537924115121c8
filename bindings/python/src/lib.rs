//! kiln's codes and pools for Python: the module `kiln._kiln`, which the package `kiln` shows.
//!
//! Buffers of Python are read and written where they lie, and no lock of the interpreter is held
//! meanwhile (`buffers.rs` says on which conditions). Nothing here knows a code: plans come from
//! `kiln_code`, objects from `kiln_pool`. `docs/guide/python.md` describes the interface, typed
//! in `python/kiln/_kiln.pyi`.

mod failure;
mod buffers;
mod places;
mod plan;
mod report;
mod codec;
mod pool;

use pyo3::prelude::*;

/// The native part of kiln; use the package `kiln`.
#[pymodule(name = "_kiln")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<codec::Codec>()?;
    module.add_class::<plan::RepairPlan>()?;
    module.add_class::<plan::Read>()?;
    module.add_class::<pool::Pool>()?;
    module.add_function(wrap_pyfunction!(codec::codes, module)?)?;
    Ok(())
}

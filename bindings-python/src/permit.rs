//! A permit and the decision that came with it.

use pyo3::prelude::*;
use sluicegate as core;

use crate::answer::Decision;
use crate::error::guard;

/// A place under a concurrency limit, if there was one: ``decision`` says so.
///
/// It is renewed while it is held, and given back on release, at the end of a ``with`` block, or
/// when nothing refers to it any more. A process that dies holding it loses it the limit's ``ttl``
/// after the last renewal. Under a ``ManualClock`` nothing is renewed by itself.
#[pyclass(frozen, module = "sluicegate")]
pub(crate) struct Permit {
    decision: Py<Decision>,
    permit: Option<core::Permit>,
}

impl Permit {
    pub(crate) fn new(
        py: Python<'_>,
        decision: core::Decision,
        permit: Option<core::Permit>,
    ) -> PyResult<Permit> {
        Ok(Permit { decision: Py::new(py, Decision(decision))?, permit })
    }
}

#[pymethods]
impl Permit {
    /// Whether there is a permit. A refused one is no error: look here before going on.
    #[getter]
    fn decision(&self, py: Python<'_>) -> Py<Decision> {
        self.decision.clone_ref(py)
    }

    /// Whether there is nothing to release: the permit was given back, or there was none.
    #[getter]
    fn released(&self) -> bool {
        self.permit.as_ref().is_none_or(core::Permit::is_released)
    }

    /// Give the permit back now. It waits for nothing; once is enough, and more do no harm.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        guard(py, || {
            if let Some(permit) = &self.permit {
                permit.release();
            }
            Ok(())
        })
    }

    fn __enter__(&self, py: Python<'_>) -> Py<Decision> {
        self.decision(py)
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.release(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let decision = self.decision.bind(py).repr()?;
        let released = if self.released() { "True" } else { "False" };
        Ok(format!("Permit(decision={decision}, released={released})"))
    }
}

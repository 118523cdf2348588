//! What a server says of a decision, as Python's web frameworks take it.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sluicegate as core;

use crate::answer::Decision;
use crate::argument::wrong_type;

/// Names and values, in order.
pub(crate) fn to_dict(
    py: Python<'_>,
    headers: core::HttpHeaders,
    legacy: bool,
) -> PyResult<Bound<'_, PyDict>> {
    let headers = if legacy { headers.with_legacy() } else { headers };
    let dict = PyDict::new(py);
    for (name, value) in headers.iter() {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

/// Tuples of a limit and a decision on it.
pub(crate) struct Decisions(Vec<(core::Limit, core::Decision)>);

impl Decisions {
    pub(crate) fn new(
        given: &Bound<'_, PyAny>,
        core_limit: impl Fn(&Bound<'_, PyAny>) -> PyResult<core::Limit>,
    ) -> PyResult<Decisions> {
        let mut decisions = Vec::new();
        for each in given.try_iter()? {
            let (limit, decision): (Bound<'_, PyAny>, Bound<'_, PyAny>) = each?.extract()?;
            let Ok(decision) = decision.cast::<Decision>() else {
                return Err(wrong_type("a limit must come with its sluicegate.Decision", &decision));
            };
            decisions.push((core_limit(&limit)?, decision.get().0));
        }
        Ok(Decisions(decisions))
    }

    pub(crate) fn each(&self) -> Vec<(&core::Limit, core::Decision)> {
        self.0.iter().map(|(limit, decision)| (limit, *decision)).collect()
    }
}

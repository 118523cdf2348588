//! What the tests need to hold the whole mapping of words and errors to the core's lists.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sluicegate::{Error, ErrorKind, ForwardedHeader, OnOutage, Source, StoreState};

use crate::error::{guard, to_py};

/// Every word of the core's closed lists, by the name of the list.
#[pyfunction]
pub(crate) fn _words(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let words = PyDict::new(py);
    words.set_item("ErrorKind", ErrorKind::ALL.map(ErrorKind::as_str))?;
    words.set_item("ForwardedHeader", ForwardedHeader::ALL.map(ForwardedHeader::as_str))?;
    words.set_item("OnOutage", OnOutage::ALL.map(OnOutage::as_str))?;
    words.set_item("Source", Source::ALL.map(Source::as_str))?;
    words.set_item("StoreState", StoreState::ALL.map(StoreState::as_str))?;
    Ok(words)
}

/// Fails as the core does with an error of that kind; with any other word, as it does in a panic.
#[pyfunction]
#[pyo3(signature = (kind, /))]
pub(crate) fn _fail(py: Python<'_>, kind: &str) -> PyResult<()> {
    guard(py, || match ErrorKind::ALL.into_iter().find(|known| known.as_str() == kind) {
        Some(known) => Err(to_py(py, &Error::new(known, kind))),
        None => panic!("{kind}"),
    })
}

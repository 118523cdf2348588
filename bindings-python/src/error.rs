//! Errors, from the core's kinds to Python's classes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use sluicegate as core;
use sluicegate::ErrorKind;

const CLASSES: [&str; 7] = [
    "SpecError",
    "ArgumentError",
    "ConfigError",
    "UnsupportedError",
    "OutageError",
    "ClosedError",
    "InternalError",
];

/// Where the class of `kind` stands in [`CLASSES`].
fn place(kind: ErrorKind) -> usize {
    match kind {
        ErrorKind::Spec => 0,
        ErrorKind::Argument => 1,
        ErrorKind::Config => 2,
        ErrorKind::Unsupported => 3,
        ErrorKind::Outage => 4,
        ErrorKind::Closed => 5,
        // A kind that this binding does not know is a defect; a test looks that there is none.
        ErrorKind::Internal | _ => 6,
    }
}

/// The exception for `error`.
pub(crate) fn to_py(py: Python<'_>, error: &core::Error) -> PyErr {
    static LOADED: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();
    let classes = LOADED.get_or_try_init(py, || {
        let module = py.import("sluicegate._errors")?;
        CLASSES.iter().map(|name| Ok(module.getattr(*name)?.cast_into::<PyType>()?.unbind())).collect()
    });
    match classes {
        Ok(classes) => {
            PyErr::from_type(classes[place(error.kind())].bind(py).clone(), (error.message().to_owned(),))
        }
        Err(failed) => failed,
    }
}

/// Runs what calls the core. A panic becomes an `InternalError`: pyo3's own `PanicException` is no
/// `Exception`, so hardly any caller would catch it.
pub(crate) fn guard<T>(py: Python<'_>, run: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let message = format!("a defect in sluicegate: {}", panic_text(&*panic));
        Err(to_py(py, &core::Error::new(ErrorKind::Internal, message)))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panic")
}

/// The way from the core's results to Python's.
pub(crate) trait IntoPyResult<T> {
    fn into_py(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> IntoPyResult<T> for core::Result<T> {
    fn into_py(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_py(py, &error))
    }
}

//! Sluicegate for Python: converts arguments, calls the core, converts the answer back.
//!
//! Invariant: no thread of the core's touches the interpreter. A blocking call waits on the caller's
//! own thread, without the GIL; an awaited one is answered through a descriptor that its event loop
//! watches (`channel.rs`).

#![deny(unsafe_code)]

mod address;
mod aio;
mod answer;
mod argument;
mod call;
mod channel;
mod clock;
mod error;
mod http;
mod limiter;
mod log;
mod mapping;
mod permit;

use pyo3::prelude::*;

/// The compiled part of `sluicegate`.
#[pymodule]
fn _sluicegate(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("HTTP_STATUS", sluicegate::http::STATUS)?;
    module.add("HTTP_PROBLEM_CONTENT_TYPE", sluicegate::http::PROBLEM_CONTENT_TYPE)?;
    module.add_class::<address::ClientAddress>()?;
    module.add_class::<answer::Decision>()?;
    module.add_class::<answer::Status>()?;
    module.add_class::<clock::ManualClock>()?;
    module.add_class::<permit::Permit>()?;
    module.add_class::<limiter::Limiter>()?;
    module.add_class::<limiter::Limit>()?;
    // Their names are those of the blocking classes: `sluicegate.aio` is where they are found.
    module.add("AioLimiter", py.get_type::<aio::Limiter>())?;
    module.add("AioLimit", py.get_type::<aio::Limit>())?;
    module.add_class::<call::Call>()?;
    module.add_function(wrap_pyfunction!(mapping::_words, module)?)?;
    module.add_function(wrap_pyfunction!(mapping::_fail, module)?)
}

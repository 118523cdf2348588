//! A clock that is moved by hand.

use pyo3::prelude::*;
use sluicegate as core;

use crate::answer::seconds;
use crate::argument::Seconds;
use crate::error::IntoPyResult;

/// A clock that stands still until it is moved, for tests of code that uses limits.
///
/// Give it to a limiter as ``clock``. A limiter on Redis sends its time along instead of letting
/// Redis use its own, so all limiters of a test should share one clock.
///
/// ``start`` is in seconds since the Unix epoch, to the nearest microsecond, 0 to 2**53 microseconds;
/// without it the clock stands at 2001-09-09T01:46:40Z. Raises ``ArgumentError`` for another start.
#[pyclass(frozen, module = "sluicegate")]
pub(crate) struct ManualClock(pub(crate) core::ManualClock);

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (start=None))]
    fn new(py: Python<'_>, start: Option<Seconds>) -> PyResult<Self> {
        let start = start.map(|start| start.time("start")).transpose().into_py(py)?;
        Ok(ManualClock(start.map(core::ManualClock::new).unwrap_or_default()))
    }

    /// Move the clock ahead by ``seconds``, to the nearest microsecond, 0 to 2**53 microseconds. Who
    /// waits for a time that has now come is woken.
    ///
    /// Raises ``ArgumentError`` for another number.
    fn advance(&self, py: Python<'_>, seconds: Seconds) -> PyResult<()> {
        self.0.advance(seconds.time("seconds").into_py(py)?);
        Ok(())
    }

    /// Put the clock at ``seconds`` since the Unix epoch, ahead or back, in the same range.
    ///
    /// Raises ``ArgumentError`` for another number.
    fn set(&self, py: Python<'_>, seconds: Seconds) -> PyResult<()> {
        self.0.set(seconds.time("seconds").into_py(py)?);
        Ok(())
    }

    /// The time on the clock, in seconds since the Unix epoch.
    fn now(&self) -> f64 {
        seconds(self.0.now())
    }

    fn __repr__(&self) -> String {
        format!("ManualClock({:?})", self.now())
    }
}

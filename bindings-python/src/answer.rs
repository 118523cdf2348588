//! What comes back: decisions and a limiter's status, as Python shows them.

use std::time::{Duration, UNIX_EPOCH};

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use sluicegate as core;
use sluicegate::{Answer, Source, StoreState};

use crate::permit::Permit;

/// A duration as Python shows it.
pub(crate) fn seconds(duration: Duration) -> f64 {
    // By the whole microseconds, for the float nearest to what is meant.
    duration.as_micros() as f64 / 1e6
}

/// The answer as the verb's own type.
pub(crate) fn to_py(py: Python<'_>, answer: Answer) -> PyResult<Py<PyAny>> {
    Ok(match answer {
        Answer::Decision(decision) => Py::new(py, Decision(decision))?.into_any(),
        Answer::Held(decision, permit) => Py::new(py, Permit::new(py, decision, permit)?)?.into_any(),
        _ => py.None(),
    })
}

/// The answer to one call. It is true where the call may go on.
///
/// All durations are seconds, as floats of whole microseconds.
#[pyclass(frozen, eq, module = "sluicegate")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision(pub(crate) core::Decision);

#[pymethods]
impl Decision {
    /// Whether the call may go on.
    #[getter]
    fn allowed(&self) -> bool {
        self.0.allowed
    }

    /// The most that can pass at once: the burst, the count, or the number of permits.
    #[getter]
    fn limit(&self) -> u64 {
        self.0.limit
    }

    /// What is left for others after this call.
    #[getter]
    fn remaining(&self) -> u64 {
        self.0.remaining
    }

    /// In how many seconds the same cost would be admitted if nobody else comes: refused strictly
    /// before, admitted exactly then. None when allowed, and when the cost can never fit.
    #[getter]
    fn retry_after(&self) -> Option<f64> {
        self.0.retry_after.map(seconds)
    }

    /// In how many seconds the state will be as if the key had never been used.
    #[getter]
    fn reset_after(&self) -> f64 {
        seconds(self.0.reset_after)
    }

    /// How many seconds to wait before going on. 0 unless the decision comes from ``reserve``.
    #[getter]
    fn wait(&self) -> f64 {
        seconds(self.0.wait)
    }

    /// Where the decision was made: ``redis``, ``memory``, ``lease``, ``deny-cache``, or ``outage``
    /// (here, because the store was away).
    #[getter]
    fn source<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        match self.0.source {
            Source::Redis => intern!(py, "redis"),
            Source::Memory => intern!(py, "memory"),
            Source::Lease => intern!(py, "lease"),
            Source::DenyCache => intern!(py, "deny-cache"),
            Source::Outage => intern!(py, "outage"),
        }
    }

    /// Which limit of the spec the numbers are of, from 0: refused, the one with the longest wait;
    /// allowed, the one with the least remaining.
    #[getter]
    fn rule(&self) -> usize {
        self.0.rule
    }

    fn __bool__(&self) -> bool {
        self.0.allowed
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        let core::Decision { allowed, limit, remaining, retry_after, reset_after, wait, source, rule } =
            self.0;
        (allowed, limit, remaining, retry_after, reset_after, wait, source, rule).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let word = |value: bool| if value { "True" } else { "False" };
        let retry_after = self.retry_after().map_or("None".to_owned(), |after| format!("{after:?}"));
        format!(
            "Decision(allowed={}, limit={}, remaining={}, retry_after={retry_after}, reset_after={:?}, \
             wait={:?}, source='{}', rule={})",
            word(self.0.allowed),
            self.0.limit,
            self.0.remaining,
            self.reset_after(),
            self.wait(),
            self.0.source.as_str(),
            self.0.rule,
        )
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, Fields)> {
        let decision = slf.get().0;
        let micros = |duration: Duration| duration.as_micros() as u64;
        let fields = (
            decision.allowed,
            decision.limit,
            decision.remaining,
            decision.retry_after.map(micros),
            micros(decision.reset_after),
            micros(decision.wait),
            decision.source.as_str().to_owned(),
            decision.rule,
        );
        Ok((slf.getattr("_restore")?.unbind(), fields))
    }

    /// What pickle calls.
    #[staticmethod]
    #[pyo3(signature = (*fields))]
    fn _restore(fields: Fields) -> PyResult<Self> {
        let (allowed, limit, remaining, retry_after, reset_after, wait, source, rule) = fields;
        let known = Source::ALL.into_iter().find(|known| known.as_str() == source);
        Ok(Decision(core::Decision {
            allowed,
            limit,
            remaining,
            retry_after: retry_after.map(Duration::from_micros),
            reset_after: Duration::from_micros(reset_after),
            wait: Duration::from_micros(wait),
            source: known.ok_or_else(|| PyValueError::new_err(format!("no such source: {source:?}")))?,
            rule,
        }))
    }
}

/// A decision as pickle keeps it, in whole microseconds.
type Fields = (bool, u64, u64, Option<u64>, u64, u64, String, usize);

/// What a limiter knows of its store and of itself, at a moment.
#[pyclass(frozen, eq, module = "sluicegate")]
#[derive(PartialEq)]
pub(crate) struct Status(pub(crate) core::Status);

#[pymethods]
impl Status {
    /// Whether the store decides: ``connecting``, ``up``, ``out`` or ``closed``.
    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        match self.0.state {
            StoreState::Connecting => intern!(py, "connecting"),
            StoreState::Up => intern!(py, "up"),
            StoreState::Out => intern!(py, "out"),
            StoreState::Closed => intern!(py, "closed"),
        }
    }

    /// Since when, in seconds since the Unix epoch.
    #[getter]
    fn since(&self) -> f64 {
        self.0.since.duration_since(UNIX_EPOCH).map_or(0.0, seconds)
    }

    /// How many processes share this limiter's URL and prefix, this one among them, as far as is
    /// known. 0 before the first heartbeat.
    #[getter]
    fn processes(&self) -> u64 {
        self.0.processes
    }

    /// This process's place among them, from 0: it decides who gets the remainder of a share.
    #[getter]
    fn rank(&self) -> u64 {
        self.0.rank
    }

    /// What went wrong last, without secrets; or None.
    #[getter]
    fn last_error(&self) -> Option<&str> {
        self.0.last_error.as_deref()
    }

    /// Keys whose state this process keeps.
    #[getter]
    fn local_keys(&self) -> u64 {
        self.0.local_keys
    }

    /// Calls on new keys that were refused because the table of keys was full.
    #[getter]
    fn refused_full(&self) -> u64 {
        self.0.refused_full
    }

    /// Keys whose refusal is remembered.
    #[getter]
    fn deny_cache_keys(&self) -> u64 {
        self.0.deny_cache_keys
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let last_error = self.last_error().into_pyobject(py)?.repr()?;
        Ok(format!(
            "Status(state='{}', since={:?}, processes={}, rank={}, last_error={last_error}, local_keys={}, \
             refused_full={}, deny_cache_keys={})",
            self.0.state.as_str(),
            self.since(),
            self.0.processes,
            self.0.rank,
            self.0.local_keys,
            self.0.refused_full,
            self.0.deny_cache_keys,
        ))
    }
}

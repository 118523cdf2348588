//! The verbs for asyncio.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use sluicegate as core;

use crate::answer::{Decision, Status};
use crate::argument::{Cost, Key, Options, Seconds, Text, Whole, entries, limit, longest, wrong_type};
use crate::call::{Call, Start};
use crate::clock::ManualClock;
use crate::error::{IntoPyResult, guard};
use crate::http::{self, Decisions};
use crate::log::{self, Loops, Watched};

/// A store, its connections and its limits: what a process opens once.
///
/// It may be used from any number of threads and event loops, and goes on working on both sides of
/// a fork. Opening waits for nothing: a limiter that is opened while Redis is down decides in
/// outage mode, and joins when Redis comes. As an async context manager it is closed on exit.
///
/// url: ``redis://``, ``rediss://``, ``redis+unix://``, ``redis+cluster://h:p,h:p``,
///     ``redis+sentinel://h:p,h:p/master`` or ``memory://``, which is the
///     default.
/// prefix: what all keys in Redis begin with, 1 to 128 bytes without braces or spaces; ``"sg"``
///     unless said. Limiters with one URL and prefix share their limits.
/// timeout: the budget of a decision in seconds, 0.001 to 60; 0.1 unless said. A call that Redis
///     has not answered by then is decided here, as ``on_outage`` says.
/// on_outage: ``"share"`` (the default: each process decides by its share of the limit),
///     ``"allow"``, ``"deny"``, or ``"raise"`` (``OutageError``).
/// deny_cache: how many seconds at most a refusal is remembered, 0 (off) to 60; 0.1 unless said.
/// max_keys: the bound of each table of keys that this process keeps, 64 to 2**32; 1,000,000
///     unless said.
/// max_waiting: how many calls of this process may wait for one server's answer, 64 to 2**32; 100,000
///     unless said. More are decided here at once, as ``on_outage`` says.
/// clock: a ``ManualClock``, for tests.
///
/// What changes goes to the logger ``sluicegate`` of ``logging``: warnings when the store is away and
/// when ``max_keys`` refuses new keys, info when the store is there first and when it is back. It is
/// logged by the next call or ``status()``, or by an event loop that has awaited a call, at once.
///
/// Raises ``ConfigError`` for a bad URL or option.
#[pyclass(frozen, name = "Limiter", module = "sluicegate.aio")]
pub(crate) struct Limiter(Arc<Watched>);

fn core_limit(object: &Bound<'_, PyAny>) -> PyResult<core::Limit> {
    match object.cast::<Limit>() {
        Ok(limit) => Ok(limit.get().0.limit.clone()),
        Err(_) => Err(wrong_type("an entry must name a sluicegate.aio.Limit", object)),
    }
}

#[pymethods]
impl Limiter {
    #[new]
    #[pyo3(signature = (url=None, *, prefix=None, timeout=None, on_outage=None, deny_cache=None,
                        max_keys=None, max_waiting=None, clock=None))]
    #[expect(clippy::too_many_arguments, reason = "the options, by keyword")]
    fn new(
        py: Python<'_>,
        url: Option<Text<'_>>,
        prefix: Option<Text<'_>>,
        timeout: Option<Seconds>,
        on_outage: Option<Text<'_>>,
        deny_cache: Option<Seconds>,
        max_keys: Option<Whole>,
        max_waiting: Option<Whole>,
        clock: Option<PyRef<'_, ManualClock>>,
    ) -> PyResult<Self> {
        let options = Options { url, prefix, timeout, on_outage, deny_cache, max_keys, max_waiting, clock };
        guard(py, || {
            let loops = Arc::new(Loops::default());
            let woken = Arc::clone(&loops);
            let builder = core::Limiter::builder().on_event(move |_| woken.wake());
            let limiter = options.open(builder).into_py(py)?;
            Ok(Limiter(Arc::new(Watched { limiter, loops })))
        })
    }

    /// A limit: a name that all processes share, and a spec such as ``"100/s burst 200"``.
    ///
    /// ``on_outage`` overrides the limiter's for this limit. There is nothing to await.
    ///
    /// Raises ``SpecError`` for a spec that can't be read or met, ``ArgumentError`` for an empty,
    /// overlong or unprintable name, ``ConfigError`` for an unknown ``on_outage``.
    #[pyo3(signature = (name, spec, *, on_outage=None))]
    fn limit(
        &self,
        py: Python<'_>,
        name: Text<'_>,
        spec: Text<'_>,
        on_outage: Option<Text<'_>>,
    ) -> PyResult<Limit> {
        guard(py, || {
            let limit = limit(&self.0.limiter, name.0, spec.0, on_outage).into_py(py)?;
            Ok(Limit(Arc::new(Shared { limit, watched: Arc::clone(&self.0) })))
        })
    }

    /// Take from several limits or from none, in one atomic step: ``(limit, key, cost)`` tuples, 1
    /// to 64, of this limiter's limits. The one decision
    /// speaks for the limit with the longest wait where it refuses, and for the one with the least
    /// remaining where it allows.
    ///
    /// Raises ``ArgumentError`` for a bad cost or key, a bad number of entries, or one that names a
    /// limit and key twice; ``UnsupportedError`` for a concurrency limit.
    fn try_acquire_all(&self, entries: &Bound<'_, PyAny>) -> PyResult<Call> {
        let parts = self::entries(entries, core_limit)?;
        Ok(Call::new("try_acquire_all", Start::All(Arc::clone(&self.0), parts)))
    }

    /// ``Limit.http_headers`` for decisions on several limits: ``(limit, decision)`` tuples. The
    /// policies of all of them, and the longest wait.
    #[pyo3(signature = (decisions, legacy=false))]
    fn http_headers<'py>(
        &self,
        py: Python<'py>,
        decisions: &Bound<'py, PyAny>,
        legacy: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let decisions = Decisions::new(decisions, core_limit)?;
        guard(py, || http::to_dict(py, self.0.limiter.http_headers(&decisions.each()), legacy))
    }

    /// ``Limit.http_problem`` for decisions on several limits: ``(limit, decision)`` tuples. It names
    /// the limits that say how long to wait; all of them, where none does.
    fn http_problem(&self, py: Python<'_>, decisions: &Bound<'_, PyAny>) -> PyResult<String> {
        let decisions = Decisions::new(decisions, core_limit)?;
        guard(py, || Ok(self.0.limiter.http_problem(&decisions.each())))
    }

    /// What the limiter knows of its store and of itself. There is nothing to await.
    fn status(&self, py: Python<'_>) -> PyResult<Status> {
        guard(py, || {
            log::drain(py, &self.0.limiter);
            Ok(Status(self.0.limiter.status()))
        })
    }

    /// Leave the store and close the connections, at once: whether the result is awaited makes no
    /// difference. Calls that are under way are still answered; later ones raise ``ClosedError``. A
    /// limiter that nothing refers to closes by itself.
    fn close(&self, py: Python<'_>) -> PyResult<Call> {
        guard(py, || {
            self.0.limiter.close();
            Ok(Call::done("close", py.None()))
        })
    }

    fn __aenter__(slf: &Bound<'_, Self>) -> Call {
        Call::done("__aenter__", slf.clone().into_any().unbind())
    }

    #[pyo3(signature = (*_error))]
    fn __aexit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<Call> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0.limiter)
    }
}

/// A name plus a spec: what keys are held to.
///
/// A key says who is limited: text or bytes, not empty. A cost is a whole number from 0 to 2**53;
/// 0 is allowed and changes nothing. Every verb raises ``ArgumentError`` for another key or cost or
/// a wait outside 0 to 366 days, ``UnsupportedError`` where it has no meaning for the limit's
/// algorithm, ``OutageError`` under ``on_outage="raise"``, and ``ClosedError``. A refusal is no
/// error but a decision that is false.
#[pyclass(frozen, name = "Limit", module = "sluicegate.aio")]
pub(crate) struct Limit(Arc<Shared>);

/// A limit with its limiter, shared by all of its calls: each counts one reference, and not several.
pub(crate) struct Shared {
    pub(crate) limit: core::Limit,
    pub(crate) watched: Arc<Watched>,
}

impl Limit {
    fn call(&self, verb: &'static str, call: core::Call, key: &Bound<'_, PyAny>) -> PyResult<Call> {
        let _checked: Key<'_> = key.extract()?;
        Ok(Call::new(verb, Start::One(Arc::clone(&self.0), call, key.clone().unbind())))
    }
}

#[pymethods]
impl Limit {
    /// The limit's name.
    #[getter]
    fn name(&self) -> &str {
        self.0.limit.name()
    }

    /// The spec, as its one canonical text.
    #[getter]
    fn spec(&self) -> String {
        self.0.limit.spec().to_string()
    }

    /// Decide now, in one round trip at most.
    #[pyo3(signature = (key, cost=Cost(1)), text_signature = "($self, key, cost=1)")]
    fn try_acquire(&self, key: &Bound<'_, PyAny>, cost: Cost) -> PyResult<Call> {
        self.call("try_acquire", core::Call::TryAcquire { cost: cost.0 }, key)
    }

    /// Wait for the turn, first come first served. Gives up at once when the wait would be longer
    /// than ``timeout`` seconds, 0 to 366 days, which is also what None means; the decision then is
    /// a refusal.
    ///
    /// token-bucket, gcra and leaky-bucket keep the order over all processes. The windowed
    /// algorithms and specs of several limits can't reserve: there, callers wait for ``retry_after`` with jitter. A task that is
    /// cancelled gives its turn back.
    #[pyo3(signature = (key, cost=Cost(1), timeout=None), text_signature = "($self, key, cost=1, timeout=None)")]
    fn acquire(&self, key: &Bound<'_, PyAny>, cost: Cost, timeout: Option<Seconds>) -> PyResult<Call> {
        let timeout = longest("timeout", timeout).into_py(key.py())?;
        self.call("acquire", core::Call::Acquire { cost: cost.0, timeout }, key)
    }

    /// Take the turn, if it comes within ``max_wait`` seconds, 0 to 366 days, which is also what
    /// None means. The decision's ``wait`` says how long to wait for it; ``refund`` gives it back.
    ///
    /// Only for token-bucket, gcra and leaky-bucket.
    #[pyo3(signature = (key, cost=Cost(1), max_wait=None), text_signature = "($self, key, cost=1, max_wait=None)")]
    fn reserve(&self, key: &Bound<'_, PyAny>, cost: Cost, max_wait: Option<Seconds>) -> PyResult<Call> {
        let max_wait = longest("max_wait", max_wait).into_py(key.py())?;
        self.call("reserve", core::Call::Reserve { cost: cost.0, max_wait }, key)
    }

    /// Say whether a cost of 1 would pass now, and change nothing.
    fn peek(&self, key: &Bound<'_, PyAny>) -> PyResult<Call> {
        self.call("peek", core::Call::Peek, key)
    }

    /// Give back ``cost`` units, never above the capacity. The decision tells the state after.
    #[pyo3(signature = (key, cost=Cost(1)), text_signature = "($self, key, cost=1)")]
    fn refund(&self, key: &Bound<'_, PyAny>, cost: Cost) -> PyResult<Call> {
        self.call("refund", core::Call::Refund { cost: cost.0 }, key)
    }

    /// Forget the key: it is as if never used.
    fn reset(&self, key: &Bound<'_, PyAny>) -> PyResult<Call> {
        self.call("reset", core::Call::Reset, key)
    }

    /// Take a permit of a concurrency limit, waiting for one for ``timeout`` seconds, 0 to 366
    /// days, which is also what None means.
    ///
    /// ``async with limit.hold(key) as decision`` releases it on exit. A refusal does not raise: the
    /// body runs either way, so look at the decision.
    #[pyo3(signature = (key, timeout=Some(Seconds::ZERO)), text_signature = "($self, key, timeout=0.0)")]
    fn hold<'py>(&self, key: &Bound<'py, PyAny>, timeout: Option<Seconds>) -> PyResult<Bound<'py, PyAny>> {
        static HOLD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = key.py();
        let timeout = longest("timeout", timeout).into_py(py)?;
        let call = self.call("hold", core::Call::Hold { timeout }, key)?;
        HOLD.import(py, "sluicegate._hold", "Hold")?.call1((call,))
    }

    /// Hold calls to the limit that are not refused but raise: a decorator and a context manager.
    ///
    /// ``@limit.guard(key=...)`` for async functions; ``async with limit.guard("user:42") as decision``. Both raise
    /// ``RateLimited``, with the decision, where the turn does not come within ``timeout`` seconds (0
    /// unless said, which decides now; None waits for 366 days). ``key`` and ``cost`` may be
    /// functions of the decorated function's arguments. A permit of a concurrency limit is held until
    /// the function or the block ends.
    #[pyo3(signature = (*args, **options), text_signature = "($self, key, cost=1, timeout=0.0)")]
    fn guard<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static GUARD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let guard = GUARD.import(slf.py(), "sluicegate._guard", "aio_guard")?;
        guard.call1((slf,))?.call(args, options)
    }

    /// The header fields for a decision of this limit, by name: ``RateLimit-Policy`` and ``RateLimit``
    /// (draft-ietf-httpapi-ratelimit-headers), and ``Retry-After`` in whole seconds, rounded up, where
    /// it is a refusal that time can heal. They fit every response, also one to a call that was
    /// admitted.
    ///
    /// ``legacy`` adds ``X-RateLimit-Limit``, ``X-RateLimit-Remaining`` and ``X-RateLimit-Reset``, which
    /// is in how many whole seconds all of it will be there again.
    #[pyo3(signature = (decision, legacy=false))]
    fn http_headers<'py>(
        &self,
        py: Python<'py>,
        decision: &Bound<'py, Decision>,
        legacy: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        guard(py, || http::to_dict(py, self.0.limit.http_headers(&decision.get().0), legacy))
    }

    /// The body of a refusal, as JSON text: problem details (RFC 9457) of the draft's type
    /// ``quota-exceeded``, with ``violated-policies``. It goes with the status ``HTTP_STATUS`` (429) and
    /// the content type ``HTTP_PROBLEM_CONTENT_TYPE``.
    fn http_problem(&self, py: Python<'_>, decision: &Bound<'_, Decision>) -> PyResult<String> {
        guard(py, || Ok(self.0.limit.http_problem(&decision.get().0)))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0.limit)
    }
}

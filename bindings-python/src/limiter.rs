//! The verbs for threads that may block.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use sluicegate as core;
use sluicegate::{Answer, Call, Submitted};

use crate::answer::{Decision, Status, to_py};
use crate::argument::{Cost, Key, Options, Seconds, Text, Whole, entries, limit, longest, wrong_type};
use crate::clock::ManualClock;
use crate::error::{IntoPyResult, guard};
use crate::http::{self, Decisions};
use crate::log;

/// How often a call that waits looks for signals, so that Ctrl-C is heard.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(50);

/// Makes a call and waits for its answer, without the GIL. On a signal whose handler raises, a call
/// that waits for its turn is given up.
fn wait(py: Python<'_>, submit: impl FnOnce() -> Submitted + Send) -> PyResult<Answer> {
    let mut later = match py.detach(submit) {
        Submitted::Now(answer) => return answer.into_py(py),
        Submitted::Later(later) => later,
    };
    loop {
        match py.detach(|| later.wait_for(BETWEEN_SIGNALS)) {
            Some(answer) => return answer.into_py(py),
            None => py.check_signals()?,
        }
    }
}

/// A store, its connections and its limits: what a process opens once.
///
/// It may be used from any number of threads, and goes on working on both sides of a fork. Opening
/// waits for nothing: a limiter that is opened while Redis is down decides in outage mode, and
/// joins when Redis comes. As a context manager it is closed on exit.
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
/// logged by the next call or ``status()``.
///
/// Raises ``ConfigError`` for a bad URL or option.
#[pyclass(frozen, module = "sluicegate")]
pub(crate) struct Limiter(core::Limiter);

fn core_limit(object: &Bound<'_, PyAny>) -> PyResult<core::Limit> {
    match object.cast::<Limit>() {
        Ok(limit) => Ok(limit.get().0.clone()),
        Err(_) => Err(wrong_type("an entry must name a sluicegate.Limit", object)),
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
        guard(py, || options.open(core::Limiter::builder()).map(Limiter).into_py(py))
    }

    /// A limit: a name that all processes share, and a spec such as ``"100/s burst 200"``.
    ///
    /// ``on_outage`` overrides the limiter's for this limit.
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
        guard(py, || limit(&self.0, name.0, spec.0, on_outage).map(Limit).into_py(py))
    }

    /// Take from several limits or from none, in one atomic step: ``(limit, key, cost)`` tuples, 1
    /// to 64, of this limiter's limits. The one decision
    /// speaks for the limit with the longest wait where it refuses, and for the one with the least
    /// remaining where it allows.
    ///
    /// Raises ``ArgumentError`` for a bad cost or key, a bad number of entries, or one that names a
    /// limit and key twice; ``UnsupportedError`` for a concurrency limit.
    fn try_acquire_all(&self, py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let parts = self::entries(entries, core_limit)?;
        guard(py, || {
            let answer = wait(py, || self.0.submit_all_blocking(parts));
            log::drain(py, &self.0);
            to_py(py, answer?)
        })
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
        guard(py, || http::to_dict(py, self.0.http_headers(&decisions.each()), legacy))
    }

    /// ``Limit.http_problem`` for decisions on several limits: ``(limit, decision)`` tuples. It names
    /// the limits that say how long to wait; all of them, where none does.
    fn http_problem(&self, py: Python<'_>, decisions: &Bound<'_, PyAny>) -> PyResult<String> {
        let decisions = Decisions::new(decisions, core_limit)?;
        guard(py, || Ok(self.0.http_problem(&decisions.each())))
    }

    /// What the limiter knows of its store and of itself.
    fn status(&self, py: Python<'_>) -> PyResult<Status> {
        guard(py, || {
            log::drain(py, &self.0);
            Ok(Status(self.0.status()))
        })
    }

    /// Leave the store and close the connections. Calls that are under way are still answered;
    /// later ones raise ``ClosedError``. A limiter that nothing refers to closes by itself.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        guard(py, || {
            self.0.close();
            Ok(())
        })
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A name plus a spec: what keys are held to.
///
/// A key says who is limited: text or bytes, not empty. A cost is a whole number from 0 to 2**53;
/// 0 is allowed and changes nothing. Every verb raises ``ArgumentError`` for another key or cost or
/// a wait outside 0 to 366 days, ``UnsupportedError`` where it has no meaning for the limit's
/// algorithm, ``OutageError`` under ``on_outage="raise"``, and ``ClosedError``. A refusal is no
/// error but a decision that is false.
#[pyclass(frozen, module = "sluicegate")]
pub(crate) struct Limit(pub(crate) core::Limit);

impl Limit {
    fn call(&self, py: Python<'_>, call: Call, key: &Key<'_>) -> PyResult<Answer> {
        guard(py, || {
            let answer = match self.0.decide_now(call, key.0) {
                // With the GIL: another thread that got it could keep it for milliseconds.
                Some(answer) => answer.into_py(py),
                None => wait(py, || self.0.submit_blocking(call, key.0)),
            };
            log::drain(py, self.0.limiter());
            answer
        })
    }

    fn ask(&self, py: Python<'_>, call: Call, key: &Key<'_>) -> PyResult<Py<PyAny>> {
        to_py(py, self.call(py, call, key)?)
    }
}

#[pymethods]
impl Limit {
    /// The limit's name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The spec, as its one canonical text.
    #[getter]
    fn spec(&self) -> String {
        self.0.spec().to_string()
    }

    /// Decide now, in one round trip at most.
    #[pyo3(signature = (key, cost=Cost(1)), text_signature = "($self, key, cost=1)")]
    fn try_acquire(&self, py: Python<'_>, key: Key<'_>, cost: Cost) -> PyResult<Py<PyAny>> {
        self.ask(py, Call::TryAcquire { cost: cost.0 }, &key)
    }

    /// Wait for the turn, first come first served. Gives up at once when the wait would be longer
    /// than ``timeout`` seconds, 0 to 366 days, which is also what None means; the decision then is
    /// a refusal.
    ///
    /// token-bucket, gcra and leaky-bucket keep the order over all processes. The windowed
    /// algorithms and specs of several limits can't reserve: there, callers wait for ``retry_after`` with jitter. Other threads
    /// run meanwhile, and Ctrl-C gives the turn back.
    #[pyo3(signature = (key, cost=Cost(1), timeout=None), text_signature = "($self, key, cost=1, timeout=None)")]
    fn acquire(
        &self,
        py: Python<'_>,
        key: Key<'_>,
        cost: Cost,
        timeout: Option<Seconds>,
    ) -> PyResult<Py<PyAny>> {
        let timeout = longest("timeout", timeout).into_py(py)?;
        self.ask(py, Call::Acquire { cost: cost.0, timeout }, &key)
    }

    /// Take the turn, if it comes within ``max_wait`` seconds, 0 to 366 days, which is also what
    /// None means. The decision's ``wait`` says how long to wait for it; ``refund`` gives it back.
    ///
    /// Only for token-bucket, gcra and leaky-bucket.
    #[pyo3(signature = (key, cost=Cost(1), max_wait=None), text_signature = "($self, key, cost=1, max_wait=None)")]
    fn reserve(
        &self,
        py: Python<'_>,
        key: Key<'_>,
        cost: Cost,
        max_wait: Option<Seconds>,
    ) -> PyResult<Py<PyAny>> {
        let max_wait = longest("max_wait", max_wait).into_py(py)?;
        self.ask(py, Call::Reserve { cost: cost.0, max_wait }, &key)
    }

    /// Say whether a cost of 1 would pass now, and change nothing.
    fn peek(&self, py: Python<'_>, key: Key<'_>) -> PyResult<Py<PyAny>> {
        self.ask(py, Call::Peek, &key)
    }

    /// Give back ``cost`` units, never above the capacity. The decision tells the state after.
    #[pyo3(signature = (key, cost=Cost(1)), text_signature = "($self, key, cost=1)")]
    fn refund(&self, py: Python<'_>, key: Key<'_>, cost: Cost) -> PyResult<Py<PyAny>> {
        self.ask(py, Call::Refund { cost: cost.0 }, &key)
    }

    /// Forget the key: it is as if never used.
    fn reset(&self, py: Python<'_>, key: Key<'_>) -> PyResult<()> {
        self.call(py, Call::Reset, &key).map(drop)
    }

    /// Take a permit of a concurrency limit, waiting for one for ``timeout`` seconds, 0 to 366
    /// days, which is also what None means.
    ///
    /// ``with limit.hold(key) as decision`` releases it on exit. A refusal does not raise: the body
    /// runs either way, so look at the decision.
    #[pyo3(signature = (key, timeout=Some(Seconds::ZERO)), text_signature = "($self, key, timeout=0.0)")]
    fn hold(&self, py: Python<'_>, key: Key<'_>, timeout: Option<Seconds>) -> PyResult<Py<PyAny>> {
        let timeout = longest("timeout", timeout).into_py(py)?;
        self.ask(py, Call::Hold { timeout }, &key)
    }

    /// Hold calls to the limit that are not refused but raise: a decorator and a context manager.
    ///
    /// ``@limit.guard(key=...)`` for plain functions; ``with limit.guard("user:42") as decision``. Both raise
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
        let guard = GUARD.import(slf.py(), "sluicegate._guard", "guard")?;
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
        guard(py, || http::to_dict(py, self.0.http_headers(&decision.get().0), legacy))
    }

    /// The body of a refusal, as JSON text: problem details (RFC 9457) of the draft's type
    /// ``quota-exceeded``, with ``violated-policies``. It goes with the status ``HTTP_STATUS`` (429) and
    /// the content type ``HTTP_PROBLEM_CONTENT_TYPE``.
    fn http_problem(&self, py: Python<'_>, decision: &Bound<'_, Decision>) -> PyResult<String> {
        guard(py, || Ok(self.0.http_problem(&decision.get().0)))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

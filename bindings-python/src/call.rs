//! An awaitable verb.

use std::ffi::CString;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple, PyType};
use sluicegate as core;
use sluicegate::Submitted;

use crate::aio::Shared;
use crate::answer;
use crate::argument::Key;
use crate::channel::{Channel, Ticket};
use crate::error::{IntoPyResult, guard};
use crate::log::{self, Watched};

/// A call that starts when it is awaited or made a task: a coroutine, as asyncio sees it.
///
/// It is written out because a coroutine of Python's own would cost more than the decision, and
/// could not end without a turn of the event loop when the answer is there at once.
#[pyclass(frozen, module = "sluicegate.aio")]
pub(crate) struct Call {
    verb: &'static str,
    state: Mutex<State>,
}

enum State {
    New(Start),
    /// Waits for the future that this iterates.
    Waiting(Py<PyIterator>, Ticket),
    Decided(Py<PyAny>),
    /// Awaited, closed or failed.
    Spent,
}

/// What is to be asked.
pub(crate) enum Start {
    One(Arc<Shared>, core::Call, Py<PyAny>),
    All(Arc<Watched>, Vec<(core::Limit, Vec<u8>, u64)>),
}

/// Whom a call asked. A limiter that nothing refers to closes, which its calls must outlive.
pub(crate) enum Asked {
    Limit(Arc<Shared>),
    Limiter(Arc<Watched>),
}

impl Asked {
    pub(crate) fn watched(&self) -> &Arc<Watched> {
        match self {
            Asked::Limit(shared) => &shared.watched,
            Asked::Limiter(watched) => watched,
        }
    }
}

impl Start {
    fn submit(self, py: Python<'_>) -> PyResult<(Submitted, Asked)> {
        match self {
            Start::One(shared, call, key) => {
                let Key(key) = key.extract(py)?;
                Ok((shared.limit.submit(call, key), Asked::Limit(shared)))
            }
            Start::All(watched, parts) => Ok((watched.limiter.submit_all(parts), Asked::Limiter(watched))),
        }
    }

    /// Whether what this asks for can be given back by who is cancelled.
    fn waits(&self) -> bool {
        matches!(self, Start::One(_, core::Call::Acquire { .. } | core::Call::Hold { .. }, _))
    }
}

/// How far a call came when it was started.
enum Started<'py> {
    Decided(Py<PyAny>),
    UnderWay(Bound<'py, PyIterator>, Ticket),
}

impl Call {
    pub(crate) fn new(verb: &'static str, start: Start) -> Call {
        Call { verb, state: Mutex::new(State::New(start)) }
    }

    /// A call that is over, for verbs that wait for nothing.
    pub(crate) fn done(verb: &'static str, value: Py<PyAny>) -> Call {
        Call { verb, state: Mutex::new(State::Decided(value)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the call spent. The lock is not held while Python runs.
    fn take(&self) -> State {
        mem::replace(&mut *self.state(), State::Spent)
    }

    fn put(&self, state: State) {
        *self.state() = state;
    }

    fn start<'py>(py: Python<'py>, start: Start) -> PyResult<Started<'py>> {
        guard(py, || {
            let (submitted, asked) = start.submit(py)?;
            log::drain(py, &asked.watched().limiter);
            let mut later = match submitted {
                Submitted::Now(answer) => return decided(py, answer),
                Submitted::Later(later) => later,
            };
            // The core starts these even where they are over at once, as in memory.
            if matches!(asked, Asked::Limiter(_))
                && let Some(answer) = later.wait_for(Duration::ZERO)
            {
                return decided(py, answer);
            }
            let (future, ticket) = Channel::of_running_loop(py)?.watch(py, later, asked)?;
            Ok(Started::UnderWay(future.try_iter()?, ticket))
        })
    }

    fn resume<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (future, ticket) = match self.take() {
            State::Decided(value) => return Err(PyStopIteration::new_err((value,))),
            State::Waiting(future, ticket) => (future.into_bound(py), ticket),
            State::New(start) => match Call::start(py, start)? {
                Started::Decided(value) => return Err(PyStopIteration::new_err((value,))),
                Started::UnderWay(future, ticket) => (future, ticket),
            },
            State::Spent => return Err(self.reused()),
        };
        // By `send`: `next` would lose the value that comes with the end.
        let yielded = future.call_method1(intern!(py, "send"), (py.None(),))?;
        self.put(State::Waiting(future.unbind(), ticket));
        Ok(yielded)
    }

    fn reused(&self) -> PyErr {
        PyRuntimeError::new_err(format!("cannot reuse already awaited call of {}", self.verb))
    }
}

fn decided<'py>(py: Python<'py>, answer: core::Result<core::Answer>) -> PyResult<Started<'py>> {
    answer.into_py(py).and_then(|answer| answer::to_py(py, answer)).map(Started::Decided)
}

#[pymethods]
impl Call {
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let call = slf.get();
        match call.take() {
            State::New(start) => {
                let waits = start.waits();
                match Call::start(py, start)? {
                    Started::Decided(value) => call.put(State::Decided(value)),
                    Started::UnderWay(future, ticket) if waits => {
                        call.put(State::Waiting(future.unbind(), ticket));
                    }
                    // Nothing could be given back, so the future alone will do, and is faster.
                    Started::UnderWay(future, ticket) => {
                        ticket.keep();
                        return Ok(future.into_any());
                    }
                }
            }
            State::Decided(value) => call.put(State::Decided(value)),
            waiting @ State::Waiting(..) => {
                call.put(waiting);
                return Err(PyRuntimeError::new_err(format!("{} is being awaited already", call.verb)));
            }
            State::Spent => return Err(call.reused()),
        }
        Ok(slf.clone().into_any())
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.resume(py)
    }

    /// Go on, as asyncio asks of a coroutine.
    #[pyo3(signature = (_value, /))]
    fn send<'py>(&self, py: Python<'py>, _value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.resume(py)
    }

    /// Give the call up, as asyncio asks of a coroutine.
    #[pyo3(signature = (*error))]
    fn throw<'py>(&self, error: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        drop(self.take());
        Err(thrown(error)?)
    }

    /// Give the call up: a turn or a permit that it waits for is given back.
    fn close(&self) {
        drop(self.take());
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        self.verb
    }

    #[getter]
    fn __qualname__(&self) -> String {
        format!("Limit.{}", self.verb)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // In use, so this is no garbage.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        match &*state {
            State::New(Start::One(_, _, key)) => visit.call(key),
            State::Waiting(future, _) => visit.call(future),
            State::Decided(value) => visit.call(value),
            State::New(Start::All(..)) | State::Spent => Ok(()),
        }
    }

    fn __clear__(&self) {
        drop(self.take());
    }
}

/// The exception that `throw(type, value, traceback)` or `throw(exception)` means.
fn thrown(error: &Bound<'_, PyTuple>) -> PyResult<PyErr> {
    let first = error.get_item(0)?;
    let Ok(class) = first.cast::<PyType>() else { return Ok(PyErr::from_value(first)) };
    match error.get_item(1) {
        Ok(value) if value.is_instance(class)? => Ok(PyErr::from_value(value)),
        Ok(value) if !value.is_none() => Ok(PyErr::from_value(class.call1((value,))?)),
        _ => Ok(PyErr::from_value(class.call0()?)),
    }
}

impl Drop for Call {
    /// A call that nobody awaited has taken nothing, which its author will want to know.
    fn drop(&mut self) {
        if !matches!(*self.state(), State::New(_)) {
            return;
        }
        Python::try_attach(|py| {
            let pending = PyErr::take(py);
            let text = format!("call of {} was never awaited", self.verb);
            let warned = CString::new(text)
                .map_err(PyErr::from)
                .and_then(|text| PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1));
            if let Err(failed) = warned {
                failed.write_unraisable(py, None);
            }
            if let Some(pending) = pending {
                pending.restore(py);
            }
        });
    }
}

//! How answers reach an event loop.
//!
//! Each loop watches one descriptor: core puts an answer beside the others that are there, and the
//! loop takes all of them and resolves the futures. So no thread of core's touches the interpreter.
//!
//! The loop owns its channel: it keeps the `Reader` for as long as it watches the descriptor, and
//! everything else refers to the channel weakly. When the loop is closed, the descriptor is closed
//! and the calls in flight are given up. A forked child has the parent's channels in its memory and
//! uses none of them: a loop that runs there gets a channel of the child's own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use sluicegate as core;
use sluicegate::{Answer, Completions, Later, PerProcess, Submitted};

use crate::answer;
use crate::call::Asked;
use crate::error::{IntoPyResult, guard};
use crate::log::{self, Watched};

type Token = u64;

/// A call that is under way.
struct Call {
    future: Py<PyAny>,
    /// Kept until the answer is there.
    _asked: Asked,
}

/// One event loop's way to its answers.
pub(crate) struct Channel {
    completions: Arc<PerProcess<Completions>>,
    next: AtomicU64,
    inner: Mutex<Inner>,
}

/// What refers to Python, and is let go when the loop is closed.
struct Inner {
    event_loop: Option<Py<PyAny>>,
    create_future: Option<Py<PyAny>>,
    calls: HashMap<Token, Call>,
    /// Whose calls were awaited here, so that their events are logged here. A limiter that nothing
    /// refers to closes, so not by this.
    limiters: Vec<Weak<Watched>>,
}

thread_local! {
    /// The channels of the loops that have run in this thread. Hardly ever more than one.
    static CHANNELS: RefCell<Vec<Weak<Channel>>> = const { RefCell::new(Vec::new()) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Channel {
    /// The channel of the loop that runs in this thread.
    pub(crate) fn of_running_loop(py: Python<'_>) -> PyResult<Arc<Channel>> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let event_loop = RUNNING.import(py, "asyncio", "get_running_loop")?.call0()?;
        let belongs =
            |channel: &Arc<Channel>| channel.completions.get().is_some() && channel.is_of(&event_loop);
        let known = CHANNELS.with_borrow(|channels| channels.iter().filter_map(Weak::upgrade).find(belongs));
        match known {
            Some(channel) => Ok(channel),
            None => Channel::open(&event_loop),
        }
    }

    fn open(event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<Channel>> {
        let completions = PerProcess::new();
        // The program's own tasks bound how many calls there are.
        let made = completions.get_or_try_init(|| Completions::new(usize::MAX));
        let descriptor = made.map(AsRawFd::as_raw_fd).into_py(event_loop.py())?;
        let inner = Inner {
            event_loop: Some(event_loop.clone().unbind()),
            create_future: Some(event_loop.getattr("create_future")?.unbind()),
            calls: HashMap::new(),
            limiters: Vec::new(),
        };
        let channel = Arc::new(Channel {
            completions: Arc::new(completions),
            next: AtomicU64::new(0),
            inner: Mutex::new(inner),
        });
        let reader = Reader { channel: Arc::clone(&channel) };
        event_loop.call_method1("add_reader", (descriptor, reader))?;
        CHANNELS.with_borrow_mut(|channels| {
            channels.retain(|known| known.strong_count() > 0);
            channels.push(Arc::downgrade(&channel));
        });
        Ok(channel)
    }

    fn is_of(&self, event_loop: &Bound<'_, PyAny>) -> bool {
        lock(&self.inner).event_loop.as_ref().is_some_and(|own| own.is(event_loop))
    }

    /// Has the answer of `later` put into a future of this loop's.
    pub(crate) fn watch<'py>(
        self: &Arc<Self>,
        py: Python<'py>,
        later: Later,
        asked: Asked,
    ) -> PyResult<(Bound<'py, PyAny>, Ticket)> {
        let create_future = lock(&self.inner).create_future.as_ref().map(|create| create.clone_ref(py));
        let place = self.completions.get().and_then(|completions| Some((completions, completions.place()?)));
        let (Some(create_future), Some((completions, place))) = (create_future, place) else {
            return Err(pyo3::exceptions::PyRuntimeError::new_err("Event loop is closed"));
        };
        let future = create_future.bind(py).call0()?;
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let mut inner = lock(&self.inner);
        self.log_here(&mut inner.limiters, asked.watched());
        inner.calls.insert(token, Call { future: future.clone().unbind(), _asked: asked });
        drop(inner);
        completions.submit(place, token, Submitted::Later(later)).into_py(py)?;
        Ok((future, Ticket { channel: Arc::downgrade(self), token }))
    }

    /// Has this loop woken for the limiter's events.
    fn log_here(&self, limiters: &mut Vec<Weak<Watched>>, watched: &Arc<Watched>) {
        if !limiters.iter().any(|known| Weak::as_ptr(known) == Arc::as_ptr(watched)) {
            limiters.retain(|known| known.strong_count() > 0);
            limiters.push(Arc::downgrade(watched));
            watched.loops.add(&self.completions);
        }
    }

    /// Resolves the futures whose answers are there.
    fn drain(&self, py: Python<'_>) {
        let Some(completions) = self.completions.get() else { return };
        for (token, answer) in completions.collect(usize::MAX) {
            let Some(call) = self.take(token) else { continue };
            if let Err(failed) = resolve(call.future.bind(py), answer) {
                failed.write_unraisable(py, Some(call.future.bind(py)));
            }
        }
        let limiters: Vec<_> = lock(&self.inner).limiters.iter().filter_map(Weak::upgrade).collect();
        for watched in limiters {
            log::drain(py, &watched.limiter);
        }
    }

    fn take(&self, token: Token) -> Option<Call> {
        lock(&self.inner).calls.remove(&token)
    }

    /// Lets go of the loop and of all that is under way.
    fn close(&self) {
        let (event_loop, create_future, calls) = {
            let mut inner = lock(&self.inner);
            (inner.event_loop.take(), inner.create_future.take(), mem::take(&mut inner.calls))
        };
        if let Some(completions) = self.completions.get() {
            completions.give_up_all();
        }
        drop((event_loop, create_future, calls));
    }

    fn give_up(&self, token: Token) {
        if let Some(completions) = self.completions.get() {
            completions.give_up(token);
        }
        drop(self.take(token));
    }
}

fn resolve(future: &Bound<'_, PyAny>, answer: core::Result<Answer>) -> PyResult<()> {
    let py = future.py();
    let resolved = match guard(py, || answer::to_py(py, answer.into_py(py)?)) {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,)),
        Err(error) => future.call_method1(intern!(py, "set_exception"), (error,)),
    };
    match resolved {
        // A cancelled task's future is done before its answer comes.
        Err(_) if future.call_method0(intern!(py, "done"))?.is_truthy()? => Ok(()),
        resolved => resolved.map(drop),
    }
}

/// A call's claim to its answer. Dropping it gives the call up.
pub(crate) struct Ticket {
    channel: Weak<Channel>,
    token: Token,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.upgrade() {
            channel.give_up(self.token);
        }
    }
}

impl Ticket {
    /// Lets the call go on to its end, whoever waits.
    pub(crate) fn keep(mut self) {
        self.channel = Weak::new();
    }
}

/// What the loop calls when the descriptor is readable.
#[pyclass(frozen, module = "sluicegate._sluicegate")]
struct Reader {
    channel: Arc<Channel>,
}

#[pymethods]
impl Reader {
    fn __call__(&self, py: Python<'_>) {
        self.channel.drain(py);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let inner = match self.channel.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // In use, so this is no garbage.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        visit.call(&inner.event_loop)?;
        visit.call(&inner.create_future)?;
        inner.calls.values().try_for_each(|call| visit.call(&call.future))
    }

    fn __clear__(&self) {
        self.channel.close();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.channel.close();
    }
}

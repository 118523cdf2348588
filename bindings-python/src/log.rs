//! What a limiter has to say goes to Python's `logging`, as the logger `sluicegate`.
//!
//! A thread of the core's must not touch the interpreter, so an event waits until the program next
//! asks the limiter something. An event loop is woken for it, if it has awaited a call of the limiter's.

use std::sync::{Arc, Mutex, TryLockError, Weak};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use sluicegate as core;
use sluicegate::{Completions, PerProcess};

/// Logs what has happened.
pub(crate) fn drain(py: Python<'_>, limiter: &core::Limiter) {
    if limiter.has_events() {
        for event in limiter.take_events() {
            if let Err(failed) = log(py, &event) {
                failed.write_unraisable(py, None);
            }
        }
    }
}

fn log(py: Python<'_>, event: &core::Event) -> PyResult<()> {
    static LOGGER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let logger = LOGGER.get_or_try_init(py, || {
        py.import("logging")?.call_method1("getLogger", ("sluicegate",)).map(Bound::unbind)
    })?;
    let level = if event.kind.is_warning() { intern!(py, "warning") } else { intern!(py, "info") };
    logger.bind(py).call_method1(level, ("%s", event.message.as_str())).map(drop)
}

/// The event loops that have awaited a call of a limiter's.
#[derive(Default)]
pub(crate) struct Loops(Mutex<Vec<Weak<PerProcess<Completions>>>>);

impl Loops {
    /// Has the loop that collects these woken when something happens.
    pub(crate) fn add(&self, completions: &Arc<PerProcess<Completions>>) {
        self.with(|loops| {
            if !loops.iter().any(|known| Weak::as_ptr(known) == Arc::as_ptr(completions)) {
                loops.retain(|known| known.strong_count() > 0);
                loops.push(Arc::downgrade(completions));
            }
        });
    }

    /// Wakes one: who comes first logs it all.
    pub(crate) fn wake(&self) {
        self.with(|loops| {
            for completions in loops.iter().filter_map(Weak::upgrade) {
                if let Some(here) = completions.get() {
                    return here.wake();
                }
            }
        });
    }

    /// Not under way in another thread: then, and for ever in a child that was forked meanwhile, the
    /// events wait for the next call instead.
    fn with(&self, run: impl FnOnce(&mut Vec<Weak<PerProcess<Completions>>>)) {
        match self.0.try_lock() {
            Ok(mut loops) => run(&mut loops),
            Err(TryLockError::Poisoned(poisoned)) => run(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// A limiter for asyncio, and who is woken for its events.
pub(crate) struct Watched {
    pub(crate) limiter: core::Limiter,
    pub(crate) loops: Arc<Loops>,
}

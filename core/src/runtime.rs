//! The only threads we own, and what is kept once for each process.
//!
//! After a fork the child has the parent's memory but none of its threads: a runtime made before
//! would wait for ever, its locks may be held by threads that no longer exist, and its sockets
//! belong to the parent. So everything of that kind is kept per process: a counter goes up in
//! each forked child, and what was made under another count is neither used nor dropped there.

use std::io;
use std::mem;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, ErrorKind, Result};

static FORKS: AtomicU64 = AtomicU64::new(0);
static RUNTIMES: PerProcess<Runtime> = PerProcess::new();

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::SeqCst);
}

/// Counts the forks between the first process and this one.
#[inline]
pub(crate) fn generation() -> u64 {
    static WATCH: Once = Once::new();
    if !WATCH.is_completed() {
        WATCH.call_once(|| {
            // SAFETY: the handler only adds to an atomic, which is allowed between fork and exec.
            unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
        });
    }
    FORKS.load(Ordering::Acquire)
}

/// A handle on this process's runtime, which is started at first use.
pub(crate) fn handle() -> Result<Handle> {
    let runtime = RUNTIMES.get_or_try_init(|| {
        Builder::new_multi_thread().worker_threads(1).thread_name("sluicegate").enable_all().build()
    });
    runtime.map(|runtime| runtime.handle().clone()).map_err(|error: io::Error| {
        Error::new(ErrorKind::Internal, format!("the background thread could not be started: {error}"))
    })
}

/// A value that each process makes for itself at first use: what holds a lock, a thread or a
/// descriptor is of no use in a forked child. There, what the parent made is neither seen nor dropped.
///
/// A chain with a link for each fork on the way to this process; a link is never changed once
/// made, so a child reads it safely whatever the parent was doing when it forked.
pub struct PerProcess<T> {
    link: OnceCell<Box<Link<T>>>,
}

struct Link<T> {
    generation: u64,
    value: OnceCell<T>,
    next: PerProcess<T>,
}

impl<T> PerProcess<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        PerProcess { link: OnceCell::new() }
    }

    /// This process's value, if it has been made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        let mut chain = self;
        loop {
            let link = chain.link.get()?;
            // Whoever made the link has seen to it that forks are counted.
            if link.generation == FORKS.load(Ordering::Acquire) {
                return link.value.get();
            }
            chain = &link.next;
        }
    }

    /// This process's value, made by `init` if this is the first use.
    ///
    /// # Errors
    /// That of `init`; the next use tries again.
    pub fn get_or_try_init<E>(&self, init: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let generation = generation();
        let mut chain = self;
        loop {
            let link = chain.link.get_or_init(|| {
                Box::new(Link { generation, value: OnceCell::new(), next: PerProcess::new() })
            });
            if link.generation == generation {
                return link.value.get_or_try_init(init);
            }
            chain = &link.next;
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        PerProcess::new()
    }
}

impl<T> Drop for Link<T> {
    fn drop(&mut self) {
        if self.generation != generation() {
            mem::forget(mem::take(&mut self.value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_for_each_generation() {
        let cell = PerProcess::new();
        assert_eq!(cell.get(), None);
        assert_eq!(cell.get_or_try_init(|| Err("no")), Err("no"));
        assert_eq!(cell.get_or_try_init(|| Ok::<_, ()>(1)), Ok(&1));
        assert_eq!(cell.get_or_try_init(|| Ok::<_, ()>(2)), Ok(&1));
        let child =
            Link { generation: generation() + 1, value: OnceCell::with_value(7), next: PerProcess::new() };
        let inherited = PerProcess { link: OnceCell::with_value(Box::new(child)) };
        assert_eq!(inherited.get(), None);
        assert_eq!(inherited.get_or_try_init(|| Ok::<_, ()>(8)), Ok(&8));
    }
}

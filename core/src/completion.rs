//! For event loops: the answers to many calls gather in one place, and a descriptor tells the loop of
//! them.
//!
//! The loop is woken once for all answers that are there: the descriptor becomes readable with the
//! first of them, and stays so until the last is collected. So no thread of ours touches what is the
//! loop's, and a crowd of answers costs one wake-up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::call::{Answer, Pending, Submitted};
use crate::error::{Error, ErrorKind, Result};
use crate::wake::after_answers;

/// The calls of one event loop.
///
/// Calls are submitted from any thread. Dropping it gives up those that are under way, as dropping
/// [`Later`](crate::Later) does. It belongs to the process that made it: see
/// [`PerProcess`](crate::PerProcess).
pub struct Completions {
    most: usize,
    taken: Arc<AtomicUsize>,
    finished: Arc<Finished>,
    calls: Mutex<BTreeMap<Id, Option<Pending>>>,
    next: AtomicU64,
}

/// What the caller calls it, and a number that no other call has.
type Id = (u64, u64);

/// The end that core's threads have.
struct Finished {
    answers: Mutex<VecDeque<(Id, Place, Result<Answer>)>>,
    bell: Bell,
}

/// Room for one call, from before it is submitted until its answer is collected.
pub struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Finished {
    fn put(self: &Arc<Self>, id: Id, place: Place, answer: Result<Answer>) {
        let mut answers = lock(&self.answers);
        answers.push_back((id, place, answer));
        let first = answers.len() == 1;
        drop(answers);
        if first {
            let this = Arc::clone(self);
            after_answers(move || this.bell.ring());
        }
    }
}

impl Completions {
    /// For `most` calls without a collected answer: [`Completions::MOST`] unless something else
    /// bounds them.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where the system gives no descriptors.
    pub fn new(most: usize) -> Result<Completions> {
        let bell = Bell::new().map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the system gives no descriptor to poll: {error}"))
        })?;
        let finished = Finished { answers: Mutex::default(), bell };
        Ok(Completions {
            most,
            taken: Arc::default(),
            finished: Arc::new(finished),
            calls: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// How many calls a program is expected to have under way at most.
    pub const MOST: usize = 100_000;

    /// Room for one more call, if there is any.
    pub fn place(&self) -> Option<Place> {
        let more = |taken| (taken < self.most).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Place(Arc::clone(&self.taken)))
    }

    /// Has the answer of a call collected under `tag`, also where it is there already. Several calls
    /// may have the same tag.
    ///
    /// # Errors
    /// Those that say that the call itself is wrong: [`ErrorKind::Argument`] and
    /// [`ErrorKind::Unsupported`]. Nothing is collected then.
    pub fn submit(&self, place: Place, tag: u64, submitted: Submitted) -> Result<()> {
        let id = (tag, self.next.fetch_add(1, Ordering::Relaxed));
        // Held until the call is written down, so that nobody collects it before.
        let mut calls;
        let pending = match submitted {
            Submitted::Now(Err(error)) if is_the_callers(&error) => return Err(error),
            Submitted::Now(answer) => {
                calls = lock(&self.calls);
                self.finished.put(id, place, answer);
                None
            }
            Submitted::Later(later) => {
                let finished = Arc::clone(&self.finished);
                calls = lock(&self.calls);
                Some(later.on_answer(move |answer| finished.put(id, place, answer)))
            }
        };
        calls.insert(id, pending);
        Ok(())
    }

    /// The answers that are there, in the order in which they came, `most` at most, each with its
    /// call's tag. It waits for nothing.
    pub fn collect(&self, most: usize) -> Vec<(u64, Result<Answer>)> {
        let mut collected = Vec::new();
        let mut calls = lock(&self.calls);
        let mut answers = lock(&self.finished.answers);
        if answers.is_empty() {
            self.finished.bell.silence();
            return collected;
        }
        let mut given_up = Vec::new();
        while collected.len() < most
            && let Some((id, _place, answer)) = answers.pop_front()
        {
            match calls.remove(&id) {
                Some(_) => collected.push((id.0, answer)),
                // Its answer and its being given up have crossed.
                None => given_up.push(answer),
            }
        }
        if answers.is_empty() {
            self.finished.bell.silence();
        }
        drop((answers, calls));
        drop(given_up);
        collected
    }

    /// Makes the descriptor readable until it is next collected from, for a loop that has something
    /// else to look at.
    pub fn wake(&self) {
        if lock(&self.finished.answers).is_empty() {
            self.finished.bell.ring();
        }
    }

    /// Gives up the calls with this tag: their answers are never collected. A turn that has not come
    /// is given back, and so is a permit; a decision that was under way is still made.
    pub fn give_up(&self, tag: u64) {
        let mut calls = lock(&self.calls);
        let mut ids: Vec<Id> = calls.range((tag, 0)..=(tag, u64::MAX)).map(|(id, _)| *id).collect();
        // The last first: a turn is given back only if nobody has passed it.
        ids.reverse();
        let pending: Vec<Option<Pending>> = ids.iter().filter_map(|id| calls.remove(id)).collect();
        let mut answers = lock(&self.finished.answers);
        let mut given_up = Vec::new();
        if !ids.is_empty() && answers.iter().any(|(id, ..)| id.0 == tag) {
            let (gone, left): (VecDeque<_>, _) = answers.drain(..).partition(|(id, ..)| id.0 == tag);
            given_up.extend(gone);
            *answers = left;
            if answers.is_empty() {
                self.finished.bell.silence();
            }
        }
        drop((answers, calls));
        pending.into_iter().for_each(drop);
        drop(given_up);
    }

    /// Gives up all calls.
    pub fn give_up_all(&self) {
        let calls = mem::take(&mut *lock(&self.calls));
        let mut calls: Vec<(Id, Option<Pending>)> = calls.into_iter().collect();
        calls.sort_unstable_by_key(|((_, number), _)| Reverse(*number));
        calls.into_iter().for_each(drop);
        let answers = {
            let mut answers = lock(&self.finished.answers);
            self.finished.bell.silence();
            mem::take(&mut *answers)
        };
        drop(answers);
    }
}

/// Whether an error says that the call itself is wrong, and not what came of it.
fn is_the_callers(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Argument | ErrorKind::Unsupported)
}

impl AsRawFd for Completions {
    /// Readable while there are answers to collect. It is only for waiting on: nothing else may be
    /// done with it.
    fn as_raw_fd(&self) -> RawFd {
        self.finished.bell.heard.as_raw_fd()
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        self.give_up_all();
    }
}

/// A pipe that holds something while somebody is to be woken.
struct Bell {
    rung: File,
    heard: File,
}

impl Bell {
    fn new() -> io::Result<Bell> {
        let (heard, rung) = io::pipe()?;
        let bell = Bell { rung: OwnedFd::from(rung).into(), heard: OwnedFd::from(heard).into() };
        // So that neither end ever blocks, whatever a caller does with the descriptor.
        for end in [&bell.rung, &bell.heard] {
            // SAFETY: the descriptor is open, and a new pipe has no other flags to keep.
            if unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(bell)
    }

    fn ring(&self) {
        // Fails only where it is full, and so has been rung.
        let _ = (&self.rung).write(&[1]);
    }

    fn silence(&self) {
        // There may be several, each rung for answers that somebody who was awake has collected.
        let _ = (&self.heard).read(&mut [0; 16]);
    }
}

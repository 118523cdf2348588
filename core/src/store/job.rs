//! A call on its way to a server: what it asks, until when, and who hears the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;
use tokio::time::Instant;

use super::{Op, Outcome, OwnedPart};
use crate::key;

/// What came of a call, and which of the equal calls of its entry it was.
pub(crate) struct Reply<'a> {
    pub(crate) outcome: &'a Outcome,
    pub(crate) turn: u64,
}

/// Why a call has no answer from the store. It may have run there.
#[derive(Debug, Clone)]
pub(crate) struct Lost(pub(crate) Arc<str>);

impl From<String> for Lost {
    fn from(why: String) -> Self {
        Lost(why.into())
    }
}

/// Hears once what came of a call, and of which.
type Finish = Box<dyn FnOnce(Result<Reply<'_>, Lost>, &[OwnedPart]) + Send>;

/// One call on its way.
pub(crate) struct Job {
    pub(crate) op: Op,
    pub(crate) parts: SmallVec<[OwnedPart; 1]>,
    pub(crate) deadline: Instant,
    pub(super) finish: Option<Finish>,
    pub(crate) way: Way,
    /// Held from when it is queued until it is answered.
    pub(super) queued: Option<Queued>,
}

/// How a call finds the server of its slot, where that is moving.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Way {
    /// How often it was sent elsewhere.
    pub(crate) hops: u8,
    /// It goes to the server that the slot is moving to.
    pub(crate) asking: bool,
    /// It has a run of its own, as the slot's keys are in two places.
    pub(crate) alone: bool,
}

/// A call that a server did not carry out, since its slot is elsewhere.
pub(crate) struct Astray {
    pub(crate) job: Job,
    pub(crate) to: Elsewhere,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// The slot has another server: host, which is empty for the same one, and port.
    Moved(String, u16),
    /// The slot is moving, and this key is at the other end already.
    Ask(String, u16),
    /// The slot is moving, and the keys of the run are at both ends.
    TryAgain,
}

impl Elsewhere {
    pub(super) fn new(code: &str, details: &str) -> Option<Elsewhere> {
        // As in "MOVED 3999 127.0.0.1:6381".
        let address = || {
            let (host, port) = details.rsplit(' ').next()?.rsplit_once(':')?;
            Some((host.to_owned(), port.parse().ok()?))
        };
        match code {
            "MOVED" => address().map(|(host, port)| Elsewhere::Moved(host, port)),
            "ASK" => address().map(|(host, port)| Elsewhere::Ask(host, port)),
            "TRYAGAIN" => Some(Elsewhere::TryAgain),
            _ => None,
        }
    }
}

/// Counts a queue's calls that have no answer yet.
pub(super) struct Queued(Arc<AtomicUsize>);

impl Queued {
    /// One more of them, until it is dropped.
    pub(super) fn new(unanswered: &Arc<AtomicUsize>) -> Queued {
        unanswered.fetch_add(1, Ordering::AcqRel);
        Queued(Arc::clone(unanswered))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Job {
    pub(crate) fn new(
        op: Op,
        parts: SmallVec<[OwnedPart; 1]>,
        deadline: Instant,
        finish: impl FnOnce(Result<Reply<'_>, Lost>, &[OwnedPart]) + Send + 'static,
    ) -> Job {
        Job { op, parts, deadline, finish: Some(Box::new(finish)), way: Way::default(), queued: None }
    }

    pub(crate) fn finish(&mut self, reply: Result<Reply<'_>, Lost>) {
        self.queued = None;
        if let Some(finish) = self.finish.take() {
            finish(reply, &self.parts);
        }
    }

    /// The call, to be sent again; what stays behind is as if answered.
    pub(super) fn take(&mut self) -> Job {
        Job {
            op: self.op,
            parts: std::mem::take(&mut self.parts),
            deadline: self.deadline,
            finish: self.finish.take(),
            way: self.way,
            queued: self.queued.take(),
        }
    }

    /// The Cluster slot of its keys.
    pub(crate) fn slot(&self) -> u16 {
        self.parts.first().map_or(0, |part| key::slot(&part.key))
    }
}

impl Drop for Job {
    /// Whoever drops a call on the way, as when the limiter is closed, still answers it.
    fn drop(&mut self) {
        if self.finish.is_some() {
            self.finish(Err(Lost("the limiter was closed".into())));
        }
    }
}

//! A call as data, as bindings make it: what is asked, what comes of it, and a call that is under way.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::decision::Decision;
use crate::engine::{Answered, Engine};
use crate::error::Result;
use crate::permit::Permit;
use crate::store::{Op, OwnedPart};
use crate::waiting;

/// What can be asked of a limit and a key, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Decide now.
    TryAcquire {
        /// Units to take: 0 to 2^53.
        cost: u64,
    },
    /// Wait for a turn, first come first served; give up at once where the wait would be longer
    /// than the timeout.
    Acquire {
        /// Units to take: 0 to 2^53.
        cost: u64,
        /// The longest wait, up to 366 days; `None` is that.
        timeout: Option<Duration>,
    },
    /// Take a turn and say how long to wait for it.
    Reserve {
        /// Units to take: 0 to 2^53.
        cost: u64,
        /// The longest wait, up to 366 days; `None` is that.
        max_wait: Option<Duration>,
    },
    /// Say whether a cost of 1 would pass.
    Peek,
    /// Give back, never above the capacity.
    Refund {
        /// Units to give back: 0 to 2^53.
        cost: u64,
    },
    /// Forget the key.
    Reset,
    /// Take a permit of a concurrency limit; give up at once where the timeout is zero.
    Hold {
        /// The longest wait for a permit, up to 366 days; `None` is that.
        timeout: Option<Duration>,
    },
}

/// What comes of a [`Call`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Answer {
    /// Of `TryAcquire`, `Acquire`, `Reserve`, `Peek` and `Refund`, and of `try_acquire_all`.
    Decision(Decision),
    /// Of `Hold`: the permit is there where the decision allows.
    Held(Decision, Option<Permit>),
    /// Of `Reset`.
    Done,
}

impl Answer {
    /// The decision; none for `Reset`.
    pub fn decision(&self) -> Option<Decision> {
        match self {
            Answer::Decision(decision) | Answer::Held(decision, _) => Some(*decision),
            Answer::Done => None,
        }
    }
}

/// A call that was made, or is under way.
pub enum Submitted {
    /// It needed no waiting.
    Now(Result<Answer>),
    /// It is under way.
    Later(Later),
}

/// A call that is under way.
///
/// Whoever drops it gives up: a turn that was taken and has not come is given back, and so is a
/// permit. A decision that was under way is still made.
pub struct Later {
    pub(crate) receiver: waiting::Receiver,
}

impl Later {
    /// The answer.
    ///
    /// # Errors
    /// Those of the verb.
    pub fn answer(self) -> impl Future<Output = Result<Answer>> + Send {
        self.receiver.answer()
    }

    /// Has `done` called with the answer, on a thread of Sluicegate's own that must not be
    /// blocked. The call goes on until what is returned here is dropped.
    pub fn on_answer(self, done: impl FnOnce(Result<Answer>) + Send + 'static) -> Pending {
        self.receiver.on_answer(Box::new(done))
    }

    /// Blocks until the answer is there, or for `most`.
    pub fn wait_for(&mut self, most: Duration) -> Option<Result<Answer>> {
        self.receiver.wait_for(Some(most))
    }
}

/// A call whose answer goes to a callback. Dropping it gives up, as dropping [`Later`] does; if
/// the callback has not run by then, it never will.
pub struct Pending {
    pub(crate) _receiver: waiting::Receiver,
}

impl Submitted {
    pub(crate) async fn answer(self) -> Result<Answer> {
        match self {
            Submitted::Now(answer) => answer,
            Submitted::Later(later) => later.answer().await,
        }
    }

    /// Starts `op` on these parts, which have been checked.
    pub(crate) fn from_engine(
        engine: &Arc<Engine>,
        op: Op,
        parts: SmallVec<[OwnedPart; 1]>,
        may_block: bool,
        answer: impl FnOnce(Answered) -> Answer + Send + 'static,
    ) -> Submitted {
        let (sender, mut receiver) = waiting::channel();
        let done = move |answered: Result<Answered>| sender.send(answered.map(answer));
        if may_block {
            engine.submit_blocking(op, parts, done);
        } else {
            engine.submit(op, parts, done);
        }
        match receiver.take() {
            Some(answer) => Submitted::Now(answer),
            None => Submitted::Later(Later { receiver }),
        }
    }

    /// Blocks until the answer is there.
    ///
    /// # Errors
    /// Those of the verb.
    pub fn wait(self) -> Result<Answer> {
        match self {
            Submitted::Now(answer) => answer,
            Submitted::Later(mut later) => {
                later.receiver.wait_for(None).unwrap_or_else(|| unreachable!("no bound was given"))
            }
        }
    }
}

/// What an engine's answer to `op` is to its caller.
pub(crate) fn answer_to(op: Op) -> impl FnOnce(Answered) -> Answer + Send + 'static {
    move |answered| if op == Op::Reset { Answer::Done } else { Answer::Decision(answered.decision) }
}

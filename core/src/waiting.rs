//! Calls that take time: how an answer reaches who waits for it, and how a turn is waited for.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use rand::Rng;
use smallvec::SmallVec;
use tokio::task::AbortHandle;

use crate::algorithm::Twin;
use crate::clock::{Clock, Micros, micros};
use crate::engine::{Answered, Engine};
use crate::error::{Error, Result};
use crate::limiter::{Answer, Later, Pending, Submitted};
use crate::permit::Permit;
use crate::runtime;
use crate::store::{Op, OwnedPart};

type Callback = Box<dyn FnOnce(Result<Answer>) + Send>;

/// Where an answer is put, and who is to be told.
enum Slot {
    Empty,
    Waker(Waker),
    Callback(Callback),
    Answer(Result<Answer>),
    /// Nobody waits any more.
    Gone,
}

struct Cell {
    slot: Mutex<Slot>,
    filled: Condvar,
}

impl Cell {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that answers, once. Dropped without an answer, it says that the limiter is closed.
pub(crate) struct Sender {
    cell: Option<Arc<Cell>>,
}

/// The end that waits. Dropping it gives up.
pub(crate) struct Receiver {
    cell: Arc<Cell>,
    /// The task that waits for the turn.
    task: Option<AbortHandle>,
}

pub(crate) fn channel() -> (Sender, Receiver) {
    let cell = Arc::new(Cell { slot: Mutex::new(Slot::Empty), filled: Condvar::new() });
    (Sender { cell: Some(Arc::clone(&cell)) }, Receiver { cell, task: None })
}

impl Sender {
    pub(crate) fn send(mut self, answer: Result<Answer>) {
        self.deliver(answer);
    }

    fn deliver(&mut self, answer: Result<Answer>) {
        let Some(cell) = self.cell.take() else { return };
        let mut slot = cell.lock();
        match std::mem::replace(&mut *slot, Slot::Gone) {
            // Outside the lock: a callback may do anything, and a dropped permit makes a call.
            Slot::Callback(callback) => {
                drop(slot);
                callback(answer);
            }
            Slot::Gone => {
                drop(slot);
                drop(answer);
            }
            Slot::Waker(waker) => {
                *slot = Slot::Answer(answer);
                drop(slot);
                waker.wake();
            }
            Slot::Empty | Slot::Answer(_) => {
                *slot = Slot::Answer(answer);
                cell.filled.notify_one();
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.deliver(Err(Error::closed()));
    }
}

impl Receiver {
    pub(crate) fn answer(self) -> impl Future<Output = Result<Answer>> + Send {
        poll_fn(move |context| {
            let mut slot = self.cell.lock();
            match std::mem::replace(&mut *slot, Slot::Gone) {
                Slot::Answer(answer) => Poll::Ready(answer),
                _ => {
                    *slot = Slot::Waker(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    pub(crate) fn on_answer(self, callback: Callback) -> Pending {
        let mut slot = self.cell.lock();
        match std::mem::replace(&mut *slot, Slot::Gone) {
            Slot::Answer(answer) => {
                drop(slot);
                callback(answer);
            }
            _ => {
                *slot = Slot::Callback(callback);
                drop(slot);
            }
        }
        Pending { _receiver: self }
    }

    /// The answer, if it is there.
    pub(crate) fn take(&mut self) -> Option<Result<Answer>> {
        let mut slot = self.cell.lock();
        match std::mem::replace(&mut *slot, Slot::Empty) {
            Slot::Answer(answer) => Some(answer),
            other => {
                *slot = other;
                None
            }
        }
    }

    pub(crate) fn wait_for(&mut self, most: Option<Duration>) -> Option<Result<Answer>> {
        let until = most.map(|most| Instant::now() + most);
        let mut slot = self.cell.lock();
        loop {
            if let Slot::Answer(_) = *slot {
                return match std::mem::replace(&mut *slot, Slot::Gone) {
                    Slot::Answer(answer) => Some(answer),
                    _ => None,
                };
            }
            slot = match until {
                None => self.cell.filled.wait(slot).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.checked_duration_since(Instant::now())?;
                    self.cell.filled.wait_timeout(slot, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let slot = std::mem::replace(&mut *self.cell.lock(), Slot::Gone);
        drop(slot);
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// One caller who may have to wait: the way to the store, and what it asks for.
pub(crate) struct Wait {
    pub(crate) engine: Arc<Engine>,
    pub(crate) part: OwnedPart,
}

impl Wait {
    /// Starts a task of our own, so that the caller's thread or event loop need not drive it.
    fn start<F>(run: F) -> Submitted
    where
        F: Future<Output = Result<Answer>> + Send + 'static,
    {
        let (sender, mut receiver) = channel();
        match runtime::handle() {
            Ok(handle) => {
                let task = handle.spawn(async move { sender.send(run.await) });
                receiver.task = Some(task.abort_handle());
                Submitted::Later(Later { receiver })
            }
            Err(error) => Submitted::Now(Err(error)),
        }
    }

    fn ask_blocking(&self, op: Op) -> Result<Answered> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let done = Box::new(move |answered| {
            let _ = sender.send(answered);
        });
        self.engine.submit_blocking(op, SmallVec::from_elem(self.part.clone(), 1), done);
        receiver.recv().unwrap_or_else(|_| Err(Error::closed()))
    }

    async fn ask(&self, op: Op) -> Result<Answered> {
        if let Some(answered) = self.engine.decide_now(op, &[self.part.part()]) {
            return answered;
        }
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let give_back = GiveBack::new(self, op);
        self.engine.submit(
            op,
            SmallVec::from_elem(self.part.clone(), 1),
            Box::new(move |answered: Result<Answered>| {
                if let Err(Ok(answered)) = sender.send(answered) {
                    give_back.of(&answered);
                }
            }),
        );
        receiver.await.unwrap_or_else(|_| Err(Error::closed()))
    }

    /// Tries until admitted, waiting for `retry_after` with jitter in between, for callers that
    /// can't take a turn.
    async fn poll(&self, op: Op, timeout: Micros) -> Result<Answered> {
        let clock = self.engine.clock();
        let until = clock.now().saturating_add(timeout);
        loop {
            let asked = clock.now();
            let answered = self.ask(op).await?;
            let decision = answered.decision;
            let Some(retry_after) = decision.retry_after.filter(|_| !decision.allowed) else {
                return Ok(answered);
            };
            let left = until.saturating_sub(clock.now());
            let longest = match op {
                // A permit may be given back long before it runs out.
                Op::Hold(_) => micros(retry_after).min(LOOK_FOR_PERMIT),
                _ => micros(retry_after),
            };
            if longest > left || left == 0 {
                return Ok(answered);
            }
            let jitter = match clock {
                Clock::Manual(_) => 0,
                Clock::System => rand::rng().random_range(0..=(longest / 10).min(MAX_JITTER)),
            };
            clock.sleep(asked, Duration::from_micros((longest + jitter).min(left))).await;
        }
    }
}

const LOOK_FOR_PERMIT: Micros = 50_000;
const MAX_JITTER: Micros = 50_000;

/// Waits for a turn and goes at it.
pub(crate) fn acquire(wait: Wait, timeout: Micros, may_block: bool) -> Submitted {
    if !wait.part.plan.hands_out_turns() {
        return Wait::start(async move { wait.poll(Op::Take { wait: 0 }, timeout).await.map(decided) });
    }
    let op = Op::Take { wait: timeout };
    let asked = wait.engine.clock().now();
    // Most often the turn is now, and then no task is needed.
    let now = wait.engine.decide_now(op, &[wait.part.part()]);
    match now.or_else(|| may_block.then(|| wait.ask_blocking(op))) {
        Some(Ok(answered)) if answered.decision.wait.is_zero() => Submitted::Now(Ok(decided(answered))),
        Some(Err(error)) => Submitted::Now(Err(error)),
        Some(Ok(answered)) => Wait::start(Turn::new(&wait, op, asked, answered).come()),
        None => Wait::start(async move {
            let answered = wait.ask(op).await?;
            Turn::new(&wait, op, asked, answered).come().await
        }),
    }
}

/// The turn that `answered` holds. Who gives up before it comes gives it back, even if the task that
/// was to wait for it never ran.
struct Turn {
    give_back: Option<GiveBack>,
    asked: Micros,
    answered: Answered,
}

impl Turn {
    fn new(wait: &Wait, op: Op, asked: Micros, answered: Answered) -> Turn {
        Turn { give_back: Some(GiveBack::new(wait, op)), asked, answered }
    }

    async fn come(mut self) -> Result<Answer> {
        let delay = self.answered.decision.wait;
        if let Some(give_back) = self.give_back.as_ref().filter(|_| !delay.is_zero()) {
            give_back.engine.clock().sleep(self.asked, delay).await;
        }
        self.give_back = None;
        let mut answered = self.answered.clone();
        answered.decision.wait = Duration::ZERO;
        Ok(decided(answered))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(give_back) = self.give_back.take() {
            give_back.of(&self.answered);
        }
    }
}

/// Takes a permit, or waits for one.
pub(crate) fn hold(wait: Wait, timeout: Micros) -> Submitted {
    let holder = rand::rng().random_range(1..1 << 53);
    let op = Op::Hold(holder);
    if timeout == 0 {
        match wait.engine.decide_now(op, &[wait.part.part()]) {
            Some(Ok(answered)) => return Submitted::Now(Ok(held(&wait, holder, &answered))),
            Some(Err(error)) => return Submitted::Now(Err(error)),
            None => {}
        }
    }
    Wait::start(async move {
        let answered = wait.poll(op, timeout).await?;
        Ok(held(&wait, holder, &answered))
    })
}

fn held(wait: &Wait, holder: u64, answered: &Answered) -> Answer {
    let ttl = wait.part.plan.members.iter().find_map(|member| match member.twin {
        Twin::Concurrency(twin) => Some(Duration::from_micros(twin.ttl())),
        _ => None,
    });
    let permit = ttl.filter(|_| answered.decision.allowed);
    let permit = permit.map(|ttl| Permit::new(Arc::clone(&wait.engine), wait.part.clone(), holder, ttl));
    Answer::Held(answered.decision, permit)
}

fn decided(answered: Answered) -> Answer {
    Answer::Decision(answered.decision)
}

/// Gives back what was taken for a caller who is no longer there.
struct GiveBack {
    engine: Arc<Engine>,
    part: OwnedPart,
    op: Op,
}

impl GiveBack {
    fn new(wait: &Wait, op: Op) -> GiveBack {
        GiveBack { engine: Arc::clone(&wait.engine), part: wait.part.clone(), op }
    }

    fn of(mut self, answered: &Answered) {
        let allowed = answered.decision.allowed;
        match self.op {
            Op::Hold(holder) if allowed => {
                self.engine.submit(Op::Release(holder), SmallVec::from_elem(self.part, 1), Box::new(|_| {}));
            }
            Op::Take { .. } if allowed && !answered.decision.wait.is_zero() => {
                self.part.marks = answered.marks.clone();
                self.engine.cancel(self.part, answered.decision.source);
            }
            // A turn that was now was taken, as by a caller that got its answer.
            _ => {}
        }
    }
}

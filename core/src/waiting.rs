//! Calls that take time: how an answer reaches who waits for it, and how a turn is waited for.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use rand::Rng;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::algorithm::Twin;
use crate::call::{Answer, Later, Pending, Submitted};
use crate::clock::{Clock, Micros, micros};
use crate::engine::{Answered, Engine};
use crate::error::{Error, Result};
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

    fn fill(&self, answer: Result<Answer>) {
        let mut slot = self.lock();
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
                self.filled.notify_one();
            }
        }
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
    /// The turn, where one is waited for.
    turn: Option<Arc<Turn>>,
}

pub(crate) fn channel() -> (Sender, Receiver) {
    let cell = Arc::new(Cell { slot: Mutex::new(Slot::Empty), filled: Condvar::new() });
    (Sender { cell: Some(Arc::clone(&cell)) }, Receiver { cell, task: None, turn: None })
}

impl Sender {
    pub(crate) fn send(mut self, answer: Result<Answer>) {
        if let Some(cell) = self.cell.take() {
            cell.fill(answer);
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            cell.fill(Err(Error::closed()));
        }
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
        // Here, and not when the task comes to its end: those that are given up one after the other
        // must be given back in that order.
        drop(self.turn.as_ref().and_then(|turn| turn.take()));
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
    fn start<F>(turn: Option<Arc<Turn>>, run: F) -> Submitted
    where
        F: Future<Output = Result<Answer>> + Send + 'static,
    {
        let (sender, mut receiver) = channel();
        match runtime::handle() {
            Ok(handle) => {
                let task = handle.spawn(async move { sender.send(run.await) });
                receiver.task = Some(task.abort_handle());
                receiver.turn = turn;
                Submitted::Later(Later { receiver })
            }
            Err(error) => Submitted::Now(Err(error)),
        }
    }

    fn ask_blocking(&self, op: Op) -> Result<Answered> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let done = move |answered| {
            let _ = sender.send(answered);
        };
        self.engine.submit_blocking(op, SmallVec::from_elem(self.part.clone(), 1), done);
        receiver.recv().unwrap_or_else(|_| Err(Error::closed()))
    }

    async fn ask(&self, op: Op) -> Result<Taken> {
        if let Some(answered) = self.engine.decide_now(op, &[self.part.part()]) {
            return answered.map(|answered| self.taken(op, answered));
        }
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // Whoever drops it on the way gives it back.
        self.submit(op, move |taken| drop(sender.send(taken)));
        receiver.await.unwrap_or_else(|_| Err(Error::closed()))
    }

    fn submit(&self, op: Op, done: impl FnOnce(Result<Taken>) + Send + 'static) {
        let Wait { engine, part } = self;
        let wait = Wait { engine: Arc::clone(engine), part: part.clone() };
        let done = move |answered: Result<Answered>| {
            done(answered.map(|answered| wait.taken(op, answered)));
        };
        self.engine.submit(op, SmallVec::from_elem(self.part.clone(), 1), done);
    }

    fn taken(&self, op: Op, answered: Answered) -> Taken {
        let Wait { engine, part } = self;
        Taken { kept: false, engine: Arc::clone(engine), part: part.clone(), op, answered }
    }

    /// Tries until admitted, waiting for `retry_after` with jitter in between, for callers that
    /// can't take a turn.
    async fn poll(&self, op: Op, timeout: Micros) -> Result<Answered> {
        let clock = self.engine.clock();
        let until = clock.now().saturating_add(timeout);
        loop {
            let asked = clock.now();
            let answered = self.ask(op).await?.keep();
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
        return Wait::start(None, async move { wait.poll(Op::Take { wait: 0 }, timeout).await.map(decided) });
    }
    let op = Op::Take { wait: timeout };
    let asked = wait.engine.clock().now();
    // Most often the turn is now, and then no task is needed.
    let now = wait.engine.decide_now(op, &[wait.part.part()]);
    match now.or_else(|| may_block.then(|| wait.ask_blocking(op))) {
        Some(Ok(answered)) if answered.decision.wait.is_zero() => Submitted::Now(Ok(decided(answered))),
        Some(Err(error)) => Submitted::Now(Err(error)),
        now => {
            let turn = Arc::new(Turn::default());
            match now {
                Some(answered) => turn.put(answered.map(|answered| wait.taken(op, answered))),
                None => {
                    let turn = Arc::clone(&turn);
                    wait.submit(op, move |taken| turn.put(taken));
                }
            }
            let clock = wait.engine.clock().clone();
            Wait::start(Some(Arc::clone(&turn)), async move { turn.come(&clock, asked).await })
        }
    }
}

/// A turn that is waited for, until it has come or is given up, whichever is first.
#[derive(Default)]
struct Turn {
    state: Mutex<TurnState>,
    known: Notify,
}

#[derive(Default)]
#[expect(clippy::large_enum_variant, reason = "most turns are known soon, and an allocation costs more")]
enum TurnState {
    #[default]
    Asked,
    Known(Result<Taken>, Instant),
    /// It has come, or nobody waits for it any more.
    Gone,
}

impl Turn {
    fn lock(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, taken: Result<Taken>) {
        let mut state = self.lock();
        if let TurnState::Asked = *state {
            *state = TurnState::Known(taken, Instant::now());
            self.known.notify_one();
        }
    }

    fn take(&self) -> Option<Result<Taken>> {
        match std::mem::replace(&mut *self.lock(), TurnState::Gone) {
            TurnState::Known(taken, _) => Some(taken),
            _ => None,
        }
    }

    async fn come(&self, clock: &Clock, asked: Micros) -> Result<Answer> {
        self.known.notified().await;
        let (delay, known) = match &*self.lock() {
            TurnState::Known(Ok(taken), known) => (taken.answered.decision.wait, *known),
            _ => (Duration::ZERO, Instant::now()),
        };
        let delay = match clock {
            Clock::Manual(_) => delay,
            // On a busy machine this may run long after the turn was known.
            Clock::System => delay.saturating_sub(known.elapsed()),
        };
        if !delay.is_zero() {
            clock.sleep(asked, delay).await;
        }
        let mut answered = self.take().unwrap_or_else(|| Err(Error::closed()))?.keep();
        answered.decision.wait = Duration::ZERO;
        Ok(decided(answered))
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
    Wait::start(None, async move {
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

/// What was taken for a caller. Dropped before the caller has it, it is given back.
struct Taken {
    kept: bool,
    engine: Arc<Engine>,
    part: OwnedPart,
    op: Op,
    answered: Answered,
}

impl Taken {
    fn keep(mut self) -> Answered {
        self.kept = true;
        self.answered.clone()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.kept || !self.answered.decision.allowed {
            return;
        }
        let mut part = self.part.clone();
        match self.op {
            Op::Hold(holder) => {
                self.engine.submit(Op::Release(holder), SmallVec::from_elem(part, 1), |_| {});
            }
            Op::Take { .. } if !self.answered.decision.wait.is_zero() => {
                part.marks = self.answered.marks.clone();
                self.engine.cancel(part, self.answered.decision.source);
            }
            // A turn that was now was taken, as by a caller that got its answer.
            _ => {}
        }
    }
}

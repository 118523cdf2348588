//! Between core's threads and one JavaScript thread: answers gather in a queue, and JavaScript
//! is called once when it stops being empty.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use napi::bindgen_prelude::{Float64Array, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Status, sys};
use napi_derive::napi;
use sluicegate::{Answer, ErrorKind, Later, Pending, Submitted};

use crate::error::{Result, broken, code, thrown};
use crate::permit::Permit;
use crate::record::{self, Extra, WIDTH};

/// Weak: whether it keeps the process alive is told it by [`Inner::hold_open`].
type Ready = ThreadsafeFunction<(), (), (), Status, false, true>;

/// The end that core's threads have.
struct Mail {
    queue: Mutex<Vec<(u64, sluicegate::Result<Answer>)>>,
    ready: Ready,
    /// The limiters that have something to tell.
    eventful: Mutex<Vec<u64>>,
    tell: Ready,
}

impl Mail {
    /// Has JavaScript ask that limiter what has happened. It does not keep the process alive.
    fn put_eventful(&self, limiter: u64) {
        let mut eventful = self.eventful.lock().unwrap_or_else(PoisonError::into_inner);
        let first = eventful.is_empty();
        if !eventful.contains(&limiter) {
            eventful.push(limiter);
        }
        drop(eventful);
        if first {
            self.tell.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    fn put(self: &Arc<Self>, token: u64, answer: sluicegate::Result<Answer>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let first = queue.is_empty();
        queue.push((token, answer));
        drop(queue);
        if first {
            // Fails only where the environment is going away, and then nobody waits.
            let this = Arc::clone(self);
            sluicegate::after_answers(move || {
                this.ready.call((), ThreadsafeFunctionCallMode::NonBlocking);
            });
        }
    }

    fn take(&self) -> Vec<(u64, sluicegate::Result<Answer>)> {
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The end that one JavaScript environment has. It never leaves that environment's thread.
#[napi]
pub struct Port {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    mail: Arc<Mail>,
    /// Where records are written for JavaScript to read.
    cells: RefCell<Float64Array>,
    extras: RefCell<VecDeque<Extra>>,
    under_way: RefCell<HashMap<u64, Pending>>,
    /// Taken from the mail when there were more than fit the cells.
    left: RefCell<VecDeque<(u64, sluicegate::Result<Answer>)>>,
    /// Tokens are never used twice: an answer may cross with its call's being given up.
    last_token: Cell<u64>,
}

#[napi]
impl Port {
    /// A port that writes to `cells` and calls `ready` when there is something to drain, and `tell`
    /// when limiters have something to tell.
    #[napi(constructor, catch_unwind)]
    pub fn new(cells: Float64Array, ready: Function<(), ()>, tell: Function<(), ()>) -> Result<Self> {
        let weak = |function: Function<(), ()>| {
            let built = function.build_threadsafe_function::<()>().weak::<true>().callee_handled::<false>();
            built.build().map_err(broken)
        };
        let (queue, eventful) = (Mutex::default(), Mutex::default());
        let mail = Mail { queue, ready: weak(ready)?, eventful, tell: weak(tell)? };
        let inner = Inner {
            mail: Arc::new(mail),
            cells: RefCell::new(cells),
            extras: RefCell::default(),
            under_way: RefCell::default(),
            left: RefCell::default(),
            last_token: Cell::new(0),
        };
        Ok(Port { inner: Rc::new(inner) })
    }

    /// Writes as many records as fit the cells, and returns how many. To be called again where
    /// that is as many as fit.
    #[napi(catch_unwind)]
    pub fn drain(&self, env: Env) -> u32 {
        self.inner.drain(env)
    }

    /// The limiters that have something to tell, by the numbers that JavaScript gave them.
    #[napi(catch_unwind)]
    pub fn take_eventful(&self) -> Vec<f64> {
        let mut eventful = self.inner.mail.eventful.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *eventful).into_iter().map(|limiter| limiter as f64).collect()
    }

    /// Gives a call up: its answer never comes.
    #[napi(catch_unwind)]
    pub fn give_up(&self, env: Env, token: f64) {
        self.inner.forget(env, token as u64);
    }

    /// The permit of the record that says it has one. Records' extras are taken in order.
    #[napi(catch_unwind)]
    pub fn take_permit(&self) -> Option<Permit> {
        match self.inner.extras.borrow_mut().pop_front() {
            Some(Extra::Permit(core)) => Some(Permit { core }),
            _ => None,
        }
    }

    /// The code and the message of the record that says it is an error.
    #[napi(catch_unwind)]
    pub fn take_error(&self) -> Vec<String> {
        match self.inner.extras.borrow_mut().pop_front() {
            Some(Extra::Error(error)) => vec![error.status.as_ref().to_owned(), error.reason.clone()],
            _ => vec![code(ErrorKind::Internal), "the error was lost".to_owned()],
        }
    }
}

impl Inner {
    /// What tells JavaScript that a limiter has something to tell.
    pub(crate) fn on_event(&self, limiter: f64) -> impl Fn(&sluicegate::Event) + Send + Sync + 'static {
        let mail = Arc::clone(&self.mail);
        move |_| mail.put_eventful(limiter as u64)
    }

    /// Writes the record of a call that is decided, or failed, and returns 0; else returns the
    /// token under which the record will come.
    pub(crate) fn start(&self, env: Env, submitted: Result<Submitted>) -> f64 {
        let now = match submitted {
            Ok(Submitted::Now(answer)) => answer.map_err(thrown),
            Err(error) => Err(error),
            Ok(Submitted::Later(later)) => return self.follow(env, later),
        };
        self.write(0, 0, now);
        0.0
    }

    fn follow(&self, env: Env, later: Later) -> f64 {
        let token = self.last_token.get() + 1;
        self.last_token.set(token);
        let mail = Arc::clone(&self.mail);
        let pending = later.on_answer(move |answer| mail.put(token, answer));
        let mut under_way = self.under_way.borrow_mut();
        if under_way.is_empty() {
            self.hold_open(env, true);
        }
        under_way.insert(token, pending);
        token as f64
    }

    fn drain(&self, env: Env) -> u32 {
        let mut left = self.left.borrow_mut();
        left.extend(self.mail.take());
        let room = self.cells.borrow().len() / WIDTH;
        let mut written = 0;
        while written < room {
            let Some((token, answer)) = left.pop_front() else { break };
            // An answer to a call that was given up is dropped, and a permit with it.
            if self.forget(env, token) {
                self.write(written, token, answer.map_err(thrown));
                written += 1;
            }
        }
        written as u32
    }

    /// Whether the call was under way.
    fn forget(&self, env: Env, token: u64) -> bool {
        let mut under_way = self.under_way.borrow_mut();
        let Some(pending) = under_way.remove(&token) else { return false };
        if under_way.is_empty() {
            self.hold_open(env, false);
        }
        drop(under_way);
        drop(pending);
        true
    }

    fn write(&self, row: usize, token: u64, answer: Result<Answer>) {
        let mut cells = self.cells.borrow_mut();
        // SAFETY: the array belongs to this package, which never detaches it, and JavaScript does
        // not run while we are here.
        let cells = unsafe { cells.as_mut() };
        let row = &mut cells[row * WIDTH..(row + 1) * WIDTH];
        if let Some(extra) = record::write(row, token as f64, answer) {
            self.extras.borrow_mut().push_back(extra);
        }
    }

    /// Whether the queue keeps the event loop alive: only while calls are under way.
    fn hold_open(&self, env: Env, open: bool) {
        let change =
            if open { sys::napi_ref_threadsafe_function } else { sys::napi_unref_threadsafe_function };
        let ready = &self.mail.ready;
        ready.handle.with_read_aborted(|gone| {
            if !gone {
                // SAFETY: it is not gone, and this is the thread of its environment. It fails
                // only where the environment is going away.
                unsafe { change(env.raw(), ready.raw()) };
            }
        });
    }
}

//! What changes, told to who wants to know: nothing while nothing does.
//!
//! What happened is kept in a short list that can be taken, and told to a callback, if there is one.
//! A callback runs on a thread that does nothing else, one event after the other, so that it can take
//! its time: nothing waits for it but closing.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::clock::{Clock, Micros};
use crate::runtime;
use crate::status::StoreState;

/// Events that are kept until they are taken or told; of more, the oldest are forgotten.
const MOST: usize = 64;
/// How often at most it is said that the table of keys is full.
const BETWEEN_FULL: Micros = 60_000_000;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum EventKind {
    /// The store decides, for the first time.
    Up = 0,
    /// The store is away; calls are decided here.
    Out = 1,
    /// The store decides again.
    Back = 2,
    /// Calls on new keys are refused because the table of keys is full. Told once a minute at most.
    Full = 3,
}

impl EventKind {
    /// Every kind, for bindings that test their mapping against the whole list.
    pub const ALL: [EventKind; 4] = [EventKind::Up, EventKind::Out, EventKind::Back, EventKind::Full];

    /// `up`, `out`, `back` or `full`.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Up => "up",
            EventKind::Out => "out",
            EventKind::Back => "back",
            EventKind::Full => "full",
        }
    }

    /// Whether it is something to look into, and not only to know.
    pub fn is_warning(self) -> bool {
        matches!(self, EventKind::Out | EventKind::Full)
    }
}

/// A change of a limiter's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What changed.
    pub kind: EventKind,
    /// When.
    pub at: SystemTime,
    /// What a log says of it, with the reason, without secrets.
    pub message: String,
}

/// Who is told.
#[derive(Clone)]
pub(crate) struct OnEvent(pub(crate) Arc<dyn Fn(&Event) + Send + Sync>);

impl fmt::Debug for OnEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnEvent")
    }
}

/// The events of one limiter in one process.
pub(crate) struct Events {
    on_event: Option<OnEvent>,
    told: Mutex<Told>,
    /// Whether there is something to take.
    kept: AtomicBool,
    refused: AtomicU64,
    next_full: AtomicU64,
    closed: AtomicBool,
    /// Held while the callback runs.
    telling: Mutex<()>,
}

#[derive(Default)]
struct Told {
    /// Whether the store was up when that was last said.
    up: Option<bool>,
    kept: VecDeque<Event>,
    /// For the callback.
    waiting: VecDeque<Event>,
    /// Whether a thread is at it.
    busy: bool,
}

thread_local! {
    static WITHIN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

impl Events {
    pub(crate) fn new(on_event: Option<OnEvent>) -> Events {
        Events {
            on_event,
            told: Mutex::default(),
            kept: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            next_full: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            telling: Mutex::new(()),
        }
    }

    /// Says how the store does, if that has changed. `state` is asked in here, so that of two threads
    /// that say so at once the later one says the truth.
    pub(crate) fn store(self: &Arc<Self>, state: impl FnOnce() -> StoreState, why: Option<&str>) {
        let mut told = lock(&self.told);
        let (up, kind) = match (state(), told.up) {
            (StoreState::Up, None) => (true, EventKind::Up),
            (StoreState::Up, Some(false)) => (true, EventKind::Back),
            (StoreState::Out, None | Some(true)) => (false, EventKind::Out),
            // A connection that is made anew may be up again before any call notices.
            _ => return,
        };
        let message = match kind {
            EventKind::Up => "the store is up and decides".to_owned(),
            EventKind::Back => "the store is back and decides again".to_owned(),
            _ => format!("the store is away, calls are decided here: {}", why.unwrap_or("no answer")),
        };
        // Down from the start is no fall, but what comes next is a return.
        told.up = Some(up);
        self.push(told, kind, message);
    }

    /// Counts a call on a new key that found no room.
    pub(crate) fn full(self: &Arc<Self>) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let (now, next) = (Clock::System.steady(), self.next_full.load(Ordering::Relaxed));
        let due = next <= now
            && self
                .next_full
                .compare_exchange(next, now + BETWEEN_FULL, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if due {
            let refused = self.refused.swap(0, Ordering::Relaxed);
            let calls = if refused == 1 { "a call on a new key was" } else { "calls on new keys were" };
            let count = if refused == 1 { String::new() } else { format!("{refused} ") };
            let message = format!("the table of keys is full, {count}{calls} refused; consider max_keys");
            self.push(lock(&self.told), EventKind::Full, message);
        }
    }

    fn push(self: &Arc<Self>, mut told: MutexGuard<'_, Told>, kind: EventKind, message: String) {
        let event = Event { kind, at: SystemTime::now(), message };
        if self.on_event.is_some() {
            keep(&mut told.waiting, event.clone());
        }
        keep(&mut told.kept, event);
        self.kept.store(true, Ordering::Release);
        if self.on_event.is_some() && !mem::replace(&mut told.busy, true) {
            drop(told);
            match runtime::handle() {
                Ok(handle) => {
                    let this = Arc::clone(self);
                    handle.spawn_blocking(move || this.tell());
                }
                Err(_) => lock(&self.told).busy = false,
            }
        }
    }

    /// Tells the callback what there is.
    fn tell(&self) {
        let Some(OnEvent(on_event)) = &self.on_event else { return };
        loop {
            let event = {
                let mut told = lock(&self.told);
                match told.waiting.pop_front() {
                    Some(event) => event,
                    None => {
                        told.busy = false;
                        return;
                    }
                }
            };
            let _telling = lock(&self.telling);
            if !self.closed.load(Ordering::Acquire) {
                WITHIN_CALLBACK.set(true);
                // A panic is the callback's own affair; the hook has printed it.
                let _ = catch_unwind(AssertUnwindSafe(|| on_event(&event)));
                WITHIN_CALLBACK.set(false);
            }
        }
    }

    /// Whether there is something to take.
    pub(crate) fn any(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }

    /// What happened since this was last asked, the oldest first.
    pub(crate) fn take(&self) -> Vec<Event> {
        if !self.kept.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        lock(&self.told).kept.drain(..).collect()
    }

    /// When this returns, the callback does not run and never will, so that what it works with may go.
    /// A callback that closes a limiter does not wait for itself.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if !WITHIN_CALLBACK.get() {
            drop(lock(&self.telling));
        }
    }
}

fn keep(events: &mut VecDeque<Event>, event: Event) {
    if events.len() == MOST {
        events.pop_front();
    }
    events.push_back(event);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn kinds(events: &Events) -> Vec<EventKind> {
        events.take().into_iter().map(|event| event.kind).collect()
    }

    #[test]
    fn only_changes_are_told() {
        use EventKind::{Back, Out, Up};
        use StoreState as State;
        let events = Arc::new(Events::new(None));
        assert!(!events.any());
        for state in [State::Connecting, State::Up, State::Up, State::Connecting, State::Up] {
            events.store(|| state, None);
        }
        assert!(events.any());
        assert_eq!(kinds(&events), [Up]);
        assert!(!events.any());
        assert_eq!(kinds(&events), []);
        for state in [State::Out, State::Out, State::Connecting, State::Out, State::Up, State::Closed] {
            events.store(|| state, Some("no route"));
        }
        let taken = events.take();
        assert_eq!(taken.iter().map(|event| event.kind).collect::<Vec<_>>(), [Out, Back]);
        assert!(taken[0].message.ends_with(": no route"), "{}", taken[0].message);
        // Out from the start.
        let events = Arc::new(Events::new(None));
        for state in [State::Connecting, State::Out, State::Up] {
            events.store(|| state, None);
        }
        assert_eq!(kinds(&events), [Out, Back]);
    }

    #[test]
    fn nobody_who_takes_them_costs_no_memory() {
        let events = Arc::new(Events::new(None));
        for turn in 0..1000 {
            events.store(|| if turn % 2 == 0 { StoreState::Up } else { StoreState::Out }, None);
        }
        assert_eq!(kinds(&events).len(), MOST);
    }

    #[test]
    fn a_full_table_is_told_once_in_a_while() {
        let events = Arc::new(Events::new(None));
        for _ in 0..1000 {
            events.full();
        }
        let taken = events.take();
        assert_eq!(taken.len(), 1);
        assert!(taken[0].message.contains("a call on a new key was refused"), "{}", taken[0].message);
        events.next_full.store(0, Ordering::Relaxed);
        events.full();
        assert!(events.take()[0].message.contains(" 1000 calls on new keys were refused"));
    }

    #[test]
    fn a_callback_hears_all_in_order_and_may_panic() {
        let (sender, receiver) = mpsc::channel();
        let on_event = move |event: &Event| {
            sender.send(event.kind).unwrap();
            assert_ne!(event.kind, EventKind::Out, "on purpose");
        };
        let events = Arc::new(Events::new(Some(OnEvent(Arc::new(on_event)))));
        for state in [StoreState::Up, StoreState::Out, StoreState::Up] {
            events.store(|| state, None);
        }
        for expected in [EventKind::Up, EventKind::Out, EventKind::Back] {
            assert_eq!(receiver.recv_timeout(PATIENCE), Ok(expected));
        }
        assert_eq!(events.take().len(), 3);
        events.close();
        events.store(|| StoreState::Out, None);
        while lock(&events.told).busy {
            std::thread::yield_now();
        }
        assert!(receiver.try_recv().is_err(), "told after it was closed");
    }

    #[test]
    fn closing_waits_for_the_callback() {
        let (entered, has_entered) = mpsc::channel();
        let (leave, may_leave) = mpsc::channel::<()>();
        let may_leave = Mutex::new(may_leave);
        let left = Arc::new(AtomicBool::new(false));
        let leaves = Arc::clone(&left);
        let on_event = move |_: &Event| {
            entered.send(()).unwrap();
            lock(&may_leave).recv_timeout(PATIENCE).unwrap();
            leaves.store(true, Ordering::SeqCst);
        };
        let events = Arc::new(Events::new(Some(OnEvent(Arc::new(on_event)))));
        events.store(|| StoreState::Up, None);
        has_entered.recv_timeout(PATIENCE).unwrap();
        let closes = Arc::clone(&events);
        let closing = std::thread::spawn(move || closes.close());
        while !events.closed.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        leave.send(()).unwrap();
        closing.join().unwrap();
        assert!(left.load(Ordering::SeqCst));
    }

    #[test]
    fn a_callback_may_close_the_limiter_and_ask_it() {
        let limiter = Arc::new(Mutex::new(None::<crate::Limiter>));
        let (sender, receiver) = mpsc::channel();
        let within = Arc::clone(&limiter);
        let opened = crate::Limiter::builder()
            .max_keys(64)
            .on_event(move |event| {
                let limiter = lock(&within).clone().unwrap();
                let limit = limiter.limit("b", "1/s").unwrap();
                let kind = (event.kind, limit.peek_blocking("k").map(|decision| decision.allowed));
                limiter.close();
                sender.send((kind, limiter.status().state)).unwrap();
            })
            .open()
            .unwrap();
        *lock(&limiter) = Some(opened.clone());
        let limit = opened.limit("a", "1/d").unwrap();
        for key in 0..1000_u32 {
            let _ = limit.try_acquire_blocking(key.to_string(), 1);
        }
        let (kind, state) = receiver.recv_timeout(PATIENCE).unwrap();
        assert_eq!(kind.0, EventKind::Full);
        assert!(kind.1.is_ok());
        assert_eq!(state, StoreState::Closed);
        assert_eq!(opened.take_events().len(), 1);
    }

    #[test]
    fn a_store_that_is_not_there_is_told_with_the_reason() {
        let (sender, receiver) = mpsc::channel();
        let _limiter = crate::Limiter::builder()
            .url("redis://user:secret@127.0.0.1:1")
            .on_event(move |event| sender.send(event.clone()).unwrap())
            .open()
            .unwrap();
        let event = receiver.recv_timeout(PATIENCE).unwrap();
        assert_eq!(event.kind, EventKind::Out);
        assert!(event.message.contains("refused") && !event.message.contains("secret"), "{}", event.message);
    }
}

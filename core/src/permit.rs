//! A place under a concurrency limit, for as long as it is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::task::AbortHandle;

use crate::algorithm::concurrency::Holder;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::runtime;
use crate::store::{Op, OwnedPart};

/// A permit of a concurrency limit.
///
/// It is renewed every third of the limit's `ttl` while it is held, and given back when it is
/// dropped or released. A process that dies holding it loses it `ttl` after the last renewal.
/// Under a [`ManualClock`](crate::ManualClock) nothing is renewed by itself.
pub struct Permit {
    held: Arc<Held>,
    keeper: Option<AbortHandle>,
}

struct Held {
    engine: Arc<Engine>,
    part: OwnedPart,
    holder: Holder,
    released: AtomicBool,
    /// The process that holds it: a forked child has a copy, and must not give it back.
    process: u64,
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permit({:?})", self.held.part.plan.name)
    }
}

impl Permit {
    pub(crate) fn new(engine: Arc<Engine>, part: OwnedPart, holder: Holder, ttl: Duration) -> Permit {
        let held = Arc::new(Held {
            engine,
            part,
            holder,
            released: AtomicBool::new(false),
            process: runtime::generation(),
        });
        let keeper = match held.engine.clock() {
            Clock::Manual(_) => None,
            // Without a runtime the permit still lasts for its ttl.
            Clock::System => runtime::handle().ok().map(|handle| {
                let held = Arc::clone(&held);
                handle.spawn(async move {
                    loop {
                        tokio::time::sleep(ttl / 3).await;
                        held.send(Op::Renew(held.holder));
                    }
                })
            }),
        };
        Permit { held, keeper: keeper.map(|task| task.abort_handle()) }
    }

    /// Gives the permit back now instead of when it is dropped. It waits for nothing.
    pub fn release(&self) {
        if !self.held.released.swap(true, Ordering::AcqRel) {
            if let Some(keeper) = self.keeper.as_ref().filter(|_| self.held.process == runtime::generation())
            {
                keeper.abort();
            }
            self.held.send(Op::Release(self.held.holder));
        }
    }

    /// Whether [`Permit::release`] was called.
    pub fn is_released(&self) -> bool {
        self.held.released.load(Ordering::Acquire)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.release();
    }
}

impl Held {
    fn send(&self, op: Op) {
        if self.process != runtime::generation() {
            return;
        }
        if let Some(_answer) = self.engine.decide_now(op, &[self.part.part()]) {
            return;
        }
        self.engine.submit(op, SmallVec::from_elem(self.part.clone(), 1), |_| {});
    }
}

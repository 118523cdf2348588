//! Time: the machine's own, or one that a test moves by hand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::ticks;

/// Microseconds since the Unix epoch. Below 2^53, as all our arithmetic.
pub(crate) type Micros = u64;

/// The largest whole number that a double, Lua's only number, holds together with all below it.
pub(crate) const MAX_EXACT: u64 = 1 << 53;

static STARTED: OnceLock<Instant> = OnceLock::new();

/// Where a limiter takes its time from.
#[derive(Debug, Clone, Default)]
pub(crate) enum Clock {
    /// The wall clock here, and Redis's own `TIME` there.
    #[default]
    System,
    Manual(ManualClock),
}

impl Clock {
    #[inline]
    pub(crate) fn now(&self) -> Micros {
        match self {
            Clock::System => ticks::wall(),
            Clock::Manual(clock) => clock.now_micros(),
        }
    }

    /// A time that runs evenly, for measuring how long ago something was.
    #[inline]
    pub(crate) fn steady(&self) -> Micros {
        match self {
            Clock::System => ticks::steady(*STARTED.get_or_init(Instant::now)),
            Clock::Manual(clock) => clock.now_micros(),
        }
    }

    /// The time to send to Redis instead of its own: only a manual clock has one.
    pub(crate) fn sent(&self) -> Option<Micros> {
        match self {
            Clock::System => None,
            Clock::Manual(clock) => Some(clock.now_micros()),
        }
    }

    /// Returns when `wait` has passed on this clock since `asked`, the time of the call that was
    /// told to wait: a manual clock may have been moved before the sleep begins.
    pub(crate) async fn sleep(&self, asked: Micros, wait: Duration) {
        match self {
            Clock::System => tokio::time::sleep(wait).await,
            Clock::Manual(clock) => {
                let until = asked.saturating_add(micros(wait));
                let mut changed = clock.moved.subscribe();
                while clock.now_micros() < until && changed.changed().await.is_ok() {}
            }
        }
    }
}

/// A duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(MAX_EXACT)
}

/// A clock that stands still until it is moved, for tests of code that uses limits.
///
/// Give it to [`Builder::clock`](crate::Builder::clock). A limiter on Redis sends its time along
/// instead of letting Redis use its own, so every limiter of a test should share one clock.
/// Clones are the same clock.
#[derive(Debug, Clone)]
pub struct ManualClock {
    now: Arc<AtomicU64>,
    moved: Arc<watch::Sender<()>>,
}

impl ManualClock {
    /// A clock that stands at `start` after the Unix epoch.
    pub fn new(start: Duration) -> Self {
        ManualClock { now: Arc::new(AtomicU64::new(micros(start))), moved: Arc::new(watch::Sender::new(())) }
    }

    /// Moves the clock ahead. Who waits for a time that has now come is woken.
    pub fn advance(&self, by: Duration) {
        let by = micros(by);
        let step = |now: u64| Some(now.saturating_add(by).min(MAX_EXACT));
        let _ = self.now.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step);
        self.moved.send_replace(());
    }

    /// Puts the clock at `time` after the Unix epoch, ahead or back.
    pub fn set(&self, time: Duration) {
        self.now.store(micros(time), Ordering::SeqCst);
        self.moved.send_replace(());
    }

    /// The time on the clock, since the Unix epoch.
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.now_micros())
    }

    fn now_micros(&self) -> Micros {
        self.now.load(Ordering::SeqCst)
    }
}

impl Default for ManualClock {
    /// A clock that stands at 2001-09-09T01:46:40Z, a billion seconds after the Unix epoch.
    fn default() -> Self {
        ManualClock::new(Duration::from_secs(1_000_000_000))
    }
}

//! The answer to a call: plain data.

use std::time::Duration;

/// Where a decision was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Source {
    /// By the shared store.
    Redis = 0,
    /// By this process's memory, because the limiter was opened on `memory://`.
    Memory = 1,
    /// By a borrowed part of the limit, without asking the store.
    Lease = 2,
    /// By the memory of a refusal a moment ago.
    DenyCache = 3,
    /// Here, because the store was away.
    Outage = 4,
}

impl Source {
    /// Every source, for bindings that test their mapping against the whole list.
    pub const ALL: [Source; 5] =
        [Source::Redis, Source::Memory, Source::Lease, Source::DenyCache, Source::Outage];

    /// `redis`, `memory`, `lease`, `deny-cache` or `outage`.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Redis => "redis",
            Source::Memory => "memory",
            Source::Lease => "lease",
            Source::DenyCache => "deny-cache",
            Source::Outage => "outage",
        }
    }
}

/// The answer to one call. All durations are whole microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether the call may go on.
    pub allowed: bool,
    /// The most that can pass at once: the burst, the count, or the number of permits.
    pub limit: u64,
    /// What is left for others after this call.
    pub remaining: u64,
    /// When the same cost would be admitted if nobody else comes: refused strictly before it,
    /// admitted exactly at it. `None` when allowed, and when the cost can never fit.
    pub retry_after: Option<Duration>,
    /// When the state will be as if the key had never been used.
    pub reset_after: Duration,
    /// How long to wait before going on. Zero unless the decision comes from `reserve`.
    pub wait: Duration,
    /// Where the decision was made.
    pub source: Source,
    /// Which limit of the spec the numbers are of, from 0: refused, the one with the longest wait;
    /// allowed, the one with the least remaining.
    pub rule: usize,
}

impl Decision {
    /// What several limits in one spec say together. Refused, the one with the longest wait
    /// speaks (never is the longest); allowed, the one with the least remaining.
    pub(crate) fn binding(decisions: impl IntoIterator<Item = Decision>) -> Option<Decision> {
        decisions.into_iter().reduce(|a, b| {
            let wait = a.wait.max(b.wait);
            let mut speaker = match (a.allowed, b.allowed) {
                (true, true) => {
                    if b.remaining < a.remaining {
                        b
                    } else {
                        a
                    }
                }
                (false, false) => match (a.retry_after, b.retry_after) {
                    (Some(x), Some(y)) if y > x => b,
                    (Some(_), None) => b,
                    _ => a,
                },
                (false, true) => a,
                (true, false) => b,
            };
            speaker.wait = if speaker.allowed { wait } else { Duration::ZERO };
            speaker
        })
    }
}

//! What a limiter says of itself: plain data.

use std::time::SystemTime;

/// Whether decisions are made by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum StoreState {
    /// The first connection is being made; calls wait for it within their budget.
    Connecting = 0,
    /// The store decides.
    Up = 1,
    /// The store is away, and calls are decided here.
    Out = 2,
    /// The limiter was closed.
    Closed = 3,
}

impl StoreState {
    /// Every state, for bindings that test their mapping against the whole list.
    pub const ALL: [StoreState; 4] =
        [StoreState::Connecting, StoreState::Up, StoreState::Out, StoreState::Closed];

    /// `connecting`, `up`, `out` or `closed`.
    pub fn as_str(self) -> &'static str {
        match self {
            StoreState::Connecting => "connecting",
            StoreState::Up => "up",
            StoreState::Out => "out",
            StoreState::Closed => "closed",
        }
    }
}

/// A limiter's state at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Whether the store decides. A limiter on `memory://` is always up, until it is closed.
    pub state: StoreState,
    /// Since when.
    pub since: SystemTime,
    /// How many processes share this limiter's URL and prefix, this one among them, as far as
    /// is known. 0 before the first heartbeat.
    pub processes: u64,
    /// This process's place among them, from 0: it decides who gets the remainder of a share.
    pub rank: u64,
    /// What went wrong last, without secrets.
    pub last_error: Option<String>,
    /// Keys whose state this process keeps.
    pub local_keys: u64,
    /// Calls on new keys that were refused because the table of keys was full.
    pub refused_full: u64,
    /// Keys whose refusal is remembered.
    pub deny_cache_keys: u64,
}

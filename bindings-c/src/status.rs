//! A limiter's status as plain C data.

use std::ffi::{CStr, c_char};
use std::time::UNIX_EPOCH;

use sluicegate::{Status, StoreState};

use crate::convert::{count, micros};

/// Whether decisions are made by the store.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sg_store_state {
    /// The first connection is being made; calls wait for it within their budget.
    SG_STORE_CONNECTING = 0,
    /// The store decides.
    SG_STORE_UP = 1,
    /// The store is away, and calls are decided here.
    SG_STORE_OUT = 2,
    /// The limiter was closed.
    SG_STORE_CLOSED = 3,
}

/// A limiter's state at a moment.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct sg_limiter_status {
    /// Whether the store decides. A limiter on "memory://" is always up.
    pub state: sg_store_state,
    /// Since when: microseconds since the Unix epoch.
    pub since_us: i64,
    /// How many processes share this limiter's URL and prefix, this one among them, as far as is
    /// known. 0 before the first heartbeat.
    pub processes: i64,
    /// This process's place among them, from 0: it decides who gets the remainder of a share.
    pub rank: i64,
    /// Keys whose state this process keeps.
    pub local_keys: i64,
    /// Calls on new keys that were refused because the table of keys was full.
    pub refused_full: i64,
    /// Keys whose refusal is remembered.
    pub deny_cache_keys: i64,
    /// What went wrong last, without secrets; "" if nothing has. Cut off where it is too long.
    pub last_error: [c_char; 256],
}

impl From<Status> for sg_limiter_status {
    fn from(status: Status) -> Self {
        sg_limiter_status {
            state: state(status.state),
            since_us: status.since.duration_since(UNIX_EPOCH).map_or(0, micros),
            processes: count(status.processes),
            rank: count(status.rank),
            local_keys: count(status.local_keys),
            refused_full: count(status.refused_full),
            deny_cache_keys: count(status.deny_cache_keys),
            last_error: cut(&status.last_error.unwrap_or_default()),
        }
    }
}

/// As much of a text as fits, in whole characters, with its NUL.
fn cut(text: &str) -> [c_char; 256] {
    let mut array = [0; 256];
    let most = text.len().min(array.len() - 1);
    let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    for (place, byte) in array.iter_mut().zip(text[..end].bytes()) {
        *place = byte as c_char;
    }
    array
}

fn state(state: StoreState) -> sg_store_state {
    match state {
        StoreState::Connecting => sg_store_state::SG_STORE_CONNECTING,
        StoreState::Up => sg_store_state::SG_STORE_UP,
        StoreState::Out => sg_store_state::SG_STORE_OUT,
        StoreState::Closed => sg_store_state::SG_STORE_CLOSED,
    }
}

fn name(state: i32) -> &'static CStr {
    match state {
        0 => c"connecting",
        1 => c"up",
        2 => c"out",
        3 => c"closed",
        _ => c"unknown",
    }
}

/// Names a store's state: "connecting", "up", "out" or "closed"; "unknown" for any other number.
/// Never NULL, valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn sg_store_state_name(state: i32) -> *const c_char {
    name(state).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_number_and_name() {
        for each in StoreState::ALL {
            assert_eq!(state(each) as i32, each as i32, "{each:?}");
            assert_eq!(name(each as i32).to_str(), Ok(each.as_str()), "{each:?}");
        }
        assert_eq!(name(StoreState::ALL.len() as i32), c"unknown");
    }

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let array = cut(&"é".repeat(200));
        assert_eq!(array[253..], [0xA9_u8 as c_char, 0, 0]);
        assert_eq!(cut("no")[..3], [b'n' as c_char, b'o' as c_char, 0]);
    }
}

//! What changes, told to a callback of C's.

use std::ffi::{CStr, CString, c_char, c_void};
use std::time::UNIX_EPOCH;

use sluicegate::{Event, EventKind};

use crate::convert::micros;

/// What changed.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sg_event_kind {
    /// The store decides, for the first time.
    SG_EVENT_UP = 0,
    /// The store is away; calls are decided here.
    SG_EVENT_OUT = 1,
    /// The store decides again.
    SG_EVENT_BACK = 2,
    /// Calls on new keys are refused because the table of keys is full. Told once a minute at most.
    SG_EVENT_FULL = 3,
}

/// A change of a limiter's.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sg_event {
    /// What changed: one of sg_event_kind; later versions may add some.
    pub kind: i32,
    /// When: microseconds since the Unix epoch.
    pub at_us: i64,
    /// What a log says of it, with the reason, without secrets. Valid during the call.
    pub message: *const c_char,
}

/// What sg_options.on_event is.
pub type sg_event_callback = Option<unsafe extern "C" fn(event: *const sg_event, user_data: *mut c_void)>;

/// A callback and what it works with, which its author promises may be used from another thread.
pub(crate) struct Listener {
    pub(crate) callback: unsafe extern "C" fn(event: *const sg_event, user_data: *mut c_void),
    pub(crate) user_data: *mut c_void,
}

// SAFETY: the caller's promise: the header says that the callback runs on another thread.
unsafe impl Send for Listener {}
// SAFETY: as above; core calls it one event after the other.
unsafe impl Sync for Listener {}

impl Listener {
    pub(crate) fn tell(&self, event: &Event) {
        let message = CString::new(event.message.as_str()).unwrap_or_default();
        let at_us = event.at.duration_since(UNIX_EPOCH).map_or(0, micros);
        let event = sg_event { kind: kind(event.kind) as i32, at_us, message: message.as_ptr() };
        // SAFETY: the caller's promise for its callback.
        unsafe { (self.callback)(&event, self.user_data) };
    }
}

fn kind(kind: EventKind) -> sg_event_kind {
    match kind {
        EventKind::Up => sg_event_kind::SG_EVENT_UP,
        EventKind::Back => sg_event_kind::SG_EVENT_BACK,
        EventKind::Full => sg_event_kind::SG_EVENT_FULL,
        // A kind that is new in core fails the test below before it gets here.
        _ => sg_event_kind::SG_EVENT_OUT,
    }
}

fn name(kind: i32) -> &'static CStr {
    match kind {
        0 => c"up",
        1 => c"out",
        2 => c"back",
        3 => c"full",
        _ => c"unknown",
    }
}

/// Names a kind of event: "up", "out", "back" or "full"; "unknown" for any other number. Never NULL,
/// valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn sg_event_kind_name(kind: i32) -> *const c_char {
    name(kind).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_number_and_name() {
        for each in EventKind::ALL {
            assert_eq!(kind(each) as i32, each as i32, "{each:?}");
            assert_eq!(name(each as i32).to_str(), Ok(each.as_str()), "{each:?}");
        }
        assert_eq!(name(EventKind::ALL.len() as i32), c"unknown");
    }
}

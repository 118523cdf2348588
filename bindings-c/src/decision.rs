//! A decision as plain C data.

use std::ffi::{CStr, c_char};

use sluicegate::{Decision, Source};

use crate::convert::{UNSET, count, micros};

/// Where a decision was made.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sg_source {
    /// By the shared store.
    SG_SOURCE_REDIS = 0,
    /// By this process's memory, because the limiter was opened on "memory://".
    SG_SOURCE_MEMORY = 1,
    /// By a borrowed part of the limit, without asking the store.
    SG_SOURCE_LEASE = 2,
    /// By the memory of a refusal a moment ago.
    SG_SOURCE_DENY_CACHE = 3,
    /// Here, because the store was away.
    SG_SOURCE_OUTAGE = 4,
}

/// The answer to one call. All durations are whole microseconds.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct sg_decision {
    /// Whether the call may go on.
    pub allowed: bool,
    /// Where the decision was made.
    pub source: sg_source,
    /// The most that can pass at once: the burst, the count, or the number of permits.
    pub limit: i64,
    /// What is left for others after this call.
    pub remaining: i64,
    /// When the same cost would be admitted if nobody else comes: refused strictly before it,
    /// admitted exactly at it. -1 when allowed, and when the cost can never fit.
    pub retry_after: i64,
    /// When the state will be as if the key had never been used.
    pub reset_after: i64,
    /// How long to wait before going on. 0 unless the decision comes from sg_reserve.
    pub wait: i64,
}

impl From<Decision> for sg_decision {
    fn from(decision: Decision) -> Self {
        sg_decision {
            allowed: decision.allowed,
            source: source(decision.source),
            limit: count(decision.limit),
            remaining: count(decision.remaining),
            retry_after: decision.retry_after.map_or(UNSET, micros),
            reset_after: micros(decision.reset_after),
            wait: micros(decision.wait),
        }
    }
}

fn source(source: Source) -> sg_source {
    match source {
        Source::Redis => sg_source::SG_SOURCE_REDIS,
        Source::Memory => sg_source::SG_SOURCE_MEMORY,
        Source::Lease => sg_source::SG_SOURCE_LEASE,
        Source::DenyCache => sg_source::SG_SOURCE_DENY_CACHE,
        Source::Outage => sg_source::SG_SOURCE_OUTAGE,
    }
}

fn name(source: i32) -> &'static CStr {
    match source {
        0 => c"redis",
        1 => c"memory",
        2 => c"lease",
        3 => c"deny-cache",
        4 => c"outage",
        _ => c"unknown",
    }
}

/// Names a source: "redis", "memory", "lease", "deny-cache" or "outage"; "unknown" for any other
/// number. Never NULL, valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn sg_source_name(source: i32) -> *const c_char {
    name(source).as_ptr()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_source_has_its_number_and_name() {
        for each in Source::ALL {
            assert_eq!(source(each) as i32, each as i32, "{each:?}");
            assert_eq!(name(each as i32).to_str(), Ok(each.as_str()), "{each:?}");
        }
        assert_eq!(name(-1), c"unknown");
        assert_eq!(name(Source::ALL.len() as i32), c"unknown");
    }

    #[test]
    fn each_field_arrives_in_its_place() {
        let mut decision = Decision {
            allowed: false,
            limit: 1,
            remaining: 2,
            retry_after: Some(Duration::from_micros(3)),
            reset_after: Duration::from_micros(4),
            wait: Duration::from_micros(5),
            source: Source::Lease,
        };
        let expected = sg_decision {
            allowed: false,
            source: sg_source::SG_SOURCE_LEASE,
            limit: 1,
            remaining: 2,
            retry_after: 3,
            reset_after: 4,
            wait: 5,
        };
        assert_eq!(sg_decision::from(decision), expected);
        decision.retry_after = None;
        assert_eq!(sg_decision::from(decision).retry_after, -1);
    }
}

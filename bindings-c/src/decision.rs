//! A decision as plain C data.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::time::Duration;

use sluicegate::{Decision, Error, ErrorKind, Result, Source};

use crate::convert::{UNSET, count, micros, reference};

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
    /// Which limit of the spec the numbers are of, from 0: refused, the one with the longest wait;
    /// allowed, the one with the least remaining.
    pub rule: i32,
}

impl sg_decision {
    /// The decision that stands there, which may be anything: the types of two fields have values
    /// that C could bring and Rust must not see.
    ///
    /// # Safety
    /// The caller's promise that there is an sg_decision.
    pub(crate) unsafe fn read(name: &str, place: *const sg_decision) -> Result<Decision> {
        // SAFETY: as above.
        unsafe { reference(name, place.cast::<MaybeUninit<sg_decision>>()) }?;
        // SAFETY: as above; read as types for which every value will do.
        let (allowed, source) = unsafe {
            (
                (&raw const (*place).allowed).cast::<u8>().read(),
                (&raw const (*place).source).cast::<i32>().read(),
            )
        };
        // SAFETY: as above.
        let [limit, remaining, retry_after, reset_after, wait] = unsafe {
            [(*place).limit, (*place).remaining, (*place).retry_after, (*place).reset_after, (*place).wait]
        };
        // SAFETY: as above.
        let rule = unsafe { (*place).rule };
        let count = |value: i64| u64::try_from(value).ok();
        let time = |value: i64| count(value).map(Duration::from_micros);
        let decision = || {
            Some(Decision {
                allowed: allowed != 0,
                limit: count(limit)?,
                remaining: count(remaining)?,
                retry_after: if retry_after == UNSET { None } else { Some(time(retry_after)?) },
                reset_after: time(reset_after)?,
                wait: time(wait)?,
                source: Source::ALL.into_iter().find(|known| *known as i32 == source)?,
                rule: usize::try_from(rule).ok()?,
            })
        };
        decision().ok_or_else(|| {
            Error::new(ErrorKind::Argument, format!("{name} must be a decision as a verb has written it"))
        })
    }
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
            rule: i32::try_from(decision.rule).unwrap_or(i32::MAX),
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
            rule: 6,
        };
        let expected = sg_decision {
            allowed: false,
            source: sg_source::SG_SOURCE_LEASE,
            limit: 1,
            remaining: 2,
            retry_after: 3,
            reset_after: 4,
            wait: 5,
            rule: 6,
        };
        assert_eq!(sg_decision::from(decision), expected);
        // SAFETY: it is there.
        assert_eq!(unsafe { sg_decision::read("decision", &expected) }, Ok(decision));
        decision.retry_after = None;
        let absent = sg_decision::from(decision);
        assert_eq!(absent.retry_after, -1);
        // SAFETY: it is there.
        assert_eq!(unsafe { sg_decision::read("decision", &absent) }, Ok(decision));
    }

    #[test]
    fn what_is_no_decision_is_refused() {
        let mut bytes = MaybeUninit::<sg_decision>::uninit();
        // SAFETY: these are all of its bytes.
        unsafe { bytes.as_mut_ptr().write_bytes(0xff, 1) };
        // SAFETY: the place is as large as a decision.
        let error = unsafe { sg_decision::read("decision", bytes.as_ptr()) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
    }
}

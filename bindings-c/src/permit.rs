//! Permits of concurrency limits.

use std::ffi::c_void;
use std::ptr;

use sluicegate::{Answer, Permit};

use crate::call;
use crate::convert::out;
use crate::decision::sg_decision;
use crate::limit::{ask, no_decision, sg_limit};
use crate::result::{guard, guard_quietly, sg_result};

/// A permit of a concurrency limit.
///
/// It is renewed every third of the limit's `ttl` while it is held. A process that dies holding it
/// loses it `ttl` after the last renewal. With a manual clock nothing is renewed by itself.
pub struct sg_permit {
    _held: Permit,
}

/// Takes a permit of a concurrency limit, waiting for one up to `timeout_us`: 0 to 366 days, or -1
/// for no bound. Writes the permit, which sg_release gives back, to `permit`; NULL where the
/// decision refuses.
///
/// As sg_acquire; SG_ERR_UNSUPPORTED where the spec has no concurrency limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_hold(
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    timeout_us: i64,
    decision: *mut sg_decision,
    permit: *mut *mut sg_permit,
) -> sg_result {
    guard(|| {
        let what = || call::hold(timeout_us);
        // SAFETY: the caller's promise. The places are looked at first: a call must not take and
        // then fail.
        let (decision, permit, answer) =
            unsafe { (out("decision", decision)?, out("permit", permit)?, ask(limit, key, key_len, what)?) };
        let Answer::Held(decided, held) = answer else { return Err(no_decision()) };
        decision.write(decided.into());
        permit.write(handle(held));
        Ok(())
    })
}

/// What C holds a permit by; NULL where there is none.
pub(crate) fn handle(held: Option<Permit>) -> *mut sg_permit {
    held.map_or(ptr::null_mut(), |held| Box::into_raw(Box::new(sg_permit { _held: held })))
}

/// Gives a permit back and frees it. It waits for nothing. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_release(permit: *mut sg_permit) {
    guard_quietly(|| {
        if !permit.is_null() {
            // SAFETY: the caller's promise: it came from sg_hold or a completion and is released once.
            drop(unsafe { Box::from_raw(permit) });
        }
    });
}

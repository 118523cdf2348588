//! A limit and its verbs.

use std::ffi::{CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use sluicegate::{Answer, Call, Error, ErrorKind, Limit, Result};

use crate::call;
use crate::convert::{key, out, owned_text, reference, text};
use crate::decision::sg_decision;
use crate::limiter::sg_limiter;
use crate::options;
use crate::result::{guard, guard_quietly, sg_result};

/// A name plus a spec: what keys are held to.
pub struct sg_limit {
    pub(crate) limit: Limit,
    name: CString,
    spec: CString,
}

/// Opens a limit: a `name`, shared by all processes that use it, and a `spec` such as
/// "100/s burst 200". The same name and spec may be opened any number of times and are the same
/// limit. sg_limit_close closes what is written to `limit`.
///
/// SG_ERR_SPEC for a spec that can't be read or met, SG_ERR_ARGUMENT for an empty, overlong or
/// unprintable name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_limit_open(
    limiter: *const sg_limiter,
    name: *const c_char,
    spec: *const c_char,
    limit: *mut *mut sg_limit,
) -> sg_result {
    // SAFETY: the caller's promise.
    unsafe { open(limiter, name, spec, limit, |limiter, name, spec| limiter.0.limit(name, spec)) }
}

/// Opens a limit with its own behaviour in an outage: one of sg_on_outage.
///
/// As sg_limit_open; SG_ERR_CONFIG for another `on_outage`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_limit_open_on_outage(
    limiter: *const sg_limiter,
    name: *const c_char,
    spec: *const c_char,
    on_outage: i32,
    limit: *mut *mut sg_limit,
) -> sg_result {
    let make = |limiter: &sg_limiter, name: &str, spec: &str| {
        limiter.0.limit_on_outage(name, spec, options::on_outage(on_outage)?)
    };
    // SAFETY: the caller's promise.
    unsafe { open(limiter, name, spec, limit, make) }
}

/// # Safety
/// The caller's promise.
unsafe fn open(
    limiter: *const sg_limiter,
    name: *const c_char,
    spec: *const c_char,
    limit: *mut *mut sg_limit,
    make: impl FnOnce(&sg_limiter, &str, &str) -> Result<Limit>,
) -> sg_result {
    guard(|| {
        // SAFETY: as above.
        let (limiter, name, spec, place) = unsafe {
            (
                reference("limiter", limiter)?,
                text("name", name, ErrorKind::Argument)?,
                text("spec", spec, ErrorKind::Spec)?,
                out("limit", limit)?,
            )
        };
        let limit = make(limiter, name, spec)?;
        let (name, spec) = (owned_text(limit.name())?, owned_text(&limit.spec().to_string())?);
        place.write(Box::into_raw(Box::new(sg_limit { limit, name, spec })));
        Ok(())
    })
}

/// Frees a limit; what it has counted stays. It may be closed before or after its limiter. NULL is
/// allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_limit_close(limit: *mut sg_limit) {
    guard_quietly(|| {
        if !limit.is_null() {
            // SAFETY: the caller's promise: it came from sg_limit_open and is closed once.
            drop(unsafe { Box::from_raw(limit) });
        }
    });
}

/// A limit's name. Valid until the limit is closed; NULL where `limit` is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_limit_name(limit: *const sg_limit) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { borrow(limit, |limit| &limit.name) }
}

/// A limit's spec in its one canonical text. Valid until the limit is closed; NULL where `limit` is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_limit_spec(limit: *const sg_limit) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { borrow(limit, |limit| &limit.spec) }
}

/// # Safety
/// The caller's promise.
unsafe fn borrow(limit: *const sg_limit, field: impl FnOnce(&sg_limit) -> &CString) -> *const c_char {
    let mut text = ptr::null();
    guard(|| {
        // SAFETY: as above.
        text = field(unsafe { reference("limit", limit) }?).as_ptr();
        Ok(())
    });
    text
}

/// Decides now, in one round trip at most. `key` says who is limited: bytes, not empty; `cost` how
/// many units to take: 0 to 2^53, where 0 is allowed and changes nothing.
///
/// SG_ERR_ARGUMENT for an empty key or a cost out of range, SG_ERR_UNSUPPORTED for a concurrency
/// limit, SG_ERR_OUTAGE under SG_ON_OUTAGE_RAISE, SG_ERR_CLOSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_try_acquire(
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    cost: i64,
    decision: *mut sg_decision,
) -> sg_result {
    // SAFETY: the caller's promise.
    unsafe { decide(limit, key, key_len, decision, || call::try_acquire(cost)) }
}

/// Waits its turn, first come first served, and gives up at once when the wait would be longer than
/// `timeout_us`: 0 to 366 days, or -1 for no bound. A caller that gives up gets a decision that
/// refuses.
///
/// token-bucket, gcra and leaky-bucket keep the order over all processes. The other algorithms
/// can't reserve: there, callers wait for `retry_after` with jitter.
///
/// As sg_try_acquire; SG_ERR_ARGUMENT also for a timeout out of range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_acquire(
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    cost: i64,
    timeout_us: i64,
    decision: *mut sg_decision,
) -> sg_result {
    // SAFETY: the caller's promise.
    unsafe { decide(limit, key, key_len, decision, || call::acquire(cost, timeout_us)) }
}

/// Takes the turn, if it comes within `max_wait_us` (0 to 366 days, or -1 for no bound), and says
/// in the decision's `wait` how long to wait for it. sg_refund gives it back.
///
/// As sg_acquire; SG_ERR_UNSUPPORTED for algorithms other than token-bucket, gcra and leaky-bucket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_reserve(
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    cost: i64,
    max_wait_us: i64,
    decision: *mut sg_decision,
) -> sg_result {
    // SAFETY: the caller's promise.
    unsafe { decide(limit, key, key_len, decision, || call::reserve(cost, max_wait_us)) }
}

/// Says whether a cost of 1 would pass now, and changes nothing.
///
/// As sg_try_acquire, but a concurrency limit can be looked at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_peek(
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    decision: *mut sg_decision,
) -> sg_result {
    // SAFETY: the caller's promise.
    unsafe { decide(limit, key, key_len, decision, || Ok(Call::Peek)) }
}

/// Gives back `cost` units, 0 to 2^53, never above the capacity. The decision tells the state after;
/// `decision` may be NULL.
///
/// As sg_try_acquire.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_refund(
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    cost: i64,
    decision: *mut sg_decision,
) -> sg_result {
    let mut unwanted = MaybeUninit::uninit();
    let decision = if decision.is_null() { unwanted.as_mut_ptr() } else { decision };
    // SAFETY: the caller's promise, or our own place.
    unsafe { decide(limit, key, key_len, decision, || call::refund(cost)) }
}

/// Forgets the key: it is as if never used.
///
/// As sg_try_acquire, but a concurrency limit can be reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_reset(limit: *const sg_limit, key: *const c_void, key_len: usize) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { ask(limit, key, key_len, || Ok(Call::Reset)) }.map(drop)
    })
}

/// # Safety
/// The caller's promise.
unsafe fn decide(
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    decision: *mut sg_decision,
    what: impl FnOnce() -> Result<Call>,
) -> sg_result {
    guard(|| {
        // SAFETY: as above. The place is looked at first: a call must not take and then fail.
        let (place, answer) = unsafe { (out("decision", decision)?, ask(limit, key, key_len, what)?) };
        place.write(answer.decision().ok_or_else(no_decision)?.into());
        Ok(())
    })
}

/// # Safety
/// The caller's promise.
pub(crate) unsafe fn ask(
    limit: *const sg_limit,
    bytes: *const c_void,
    length: usize,
    what: impl FnOnce() -> Result<Call>,
) -> Result<Answer> {
    // SAFETY: as above.
    let (limit, key) = unsafe { (reference("limit", limit)?, key(bytes, length)?) };
    limit.limit.call_blocking(what()?, key)
}

pub(crate) fn no_decision() -> Error {
    Error::new(ErrorKind::Internal, "the call gave no decision")
}

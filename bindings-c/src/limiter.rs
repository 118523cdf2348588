//! A limiter: opened once, used from any thread.

use std::ffi::{c_char, c_void};

use sluicegate::{ErrorKind, Limiter};

use crate::call;
use crate::convert::{out, reference, text};
use crate::decision::sg_decision;
use crate::limit::{no_decision, sg_limit};
use crate::options::sg_options;
use crate::result::{guard, guard_quietly, sg_result};
use crate::status::sg_limiter_status;

/// A store, its connections and its limits: what a process opens once.
pub struct sg_limiter(pub(crate) Limiter);

/// Opens a limiter. It waits for nothing: one that is opened while Redis is down decides in outage
/// mode, and joins when Redis comes.
///
/// `url` is one of redis://, rediss://, redis+unix://, redis+cluster://h:p,h:p,
/// redis+sentinel://h:p,h:p/master and memory://. `options` may be NULL: nothing is set.
/// sg_limiter_close closes what is written to `limiter`.
///
/// SG_ERR_CONFIG for a bad URL or option, SG_ERR_ARGUMENT for a duration out of range or options
/// that sg_options_init has not seen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_limiter_open(
    url: *const c_char,
    options: *const sg_options,
    limiter: *mut *mut sg_limiter,
) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let (url, options, limiter) = unsafe {
            (text("url", url, ErrorKind::Config)?, sg_options::read(options)?, out("limiter", limiter)?)
        };
        let mut builder = Limiter::builder().url(url);
        if let Some(options) = options {
            // SAFETY: the caller's promise.
            builder = unsafe { options.apply(builder) }?;
        }
        limiter.write(Box::into_raw(Box::new(sg_limiter(builder.open()?))));
        Ok(())
    })
}

/// Leaves the store, closes the connections and frees the limiter. Its limits stay to be closed;
/// calls on them give SG_ERR_CLOSED. Calls that are under way are still answered. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_limiter_close(limiter: *mut sg_limiter) {
    guard_quietly(|| {
        if !limiter.is_null() {
            // SAFETY: the caller's promise: it came from sg_limiter_open and is closed once.
            unsafe { Box::from_raw(limiter) }.0.close();
        }
    });
}

/// Says what a limiter knows of its store and of itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_status(limiter: *const sg_limiter, status: *mut sg_limiter_status) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let (limiter, status) = unsafe { (reference("limiter", limiter)?, out("status", status)?) };
        status.write(limiter.0.status().into());
        Ok(())
    })
}

/// One of the limits that sg_try_acquire_all takes from.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sg_entry {
    /// A limit of the limiter.
    pub limit: *const sg_limit,
    /// Who is limited: bytes, not empty.
    pub key: *const c_void,
    /// How many bytes `key` has.
    pub key_len: usize,
    /// Units to take: 0 to 2^53.
    pub cost: i64,
}

/// Takes from several limits or from none, in one atomic step. The one decision speaks for the limit
/// with the longest wait where it refuses, and for the one with the least remaining where it allows.
///
/// SG_ERR_ARGUMENT for a bad cost or key, no entry or more than 64, one that names a limit and key
/// twice, or a limit of another limiter; SG_ERR_UNSUPPORTED for a concurrency limit; SG_ERR_OUTAGE;
/// SG_ERR_CLOSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_try_acquire_all(
    limiter: *const sg_limiter,
    entries: *const sg_entry,
    count: usize,
    decision: *mut sg_decision,
) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let (limiter, decision, parts) = unsafe {
            (reference("limiter", limiter)?, out("decision", decision)?, call::parts(entries, count)?)
        };
        let answer = limiter.0.submit_all(parts).wait()?;
        decision.write(answer.decision().ok_or_else(no_decision)?.into());
        Ok(())
    })
}

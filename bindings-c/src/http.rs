//! What an HTTP server says of a decision.

use std::ffi::c_char;

use sluicegate::{Decision, HttpHeaders, Limit, Result};

use crate::convert::{array, fill, reference};
use crate::decision::sg_decision;
use crate::limit::sg_limit;
use crate::limiter::{sg_entry, sg_limiter};
use crate::result::{guard, sg_result};

/// The status of a refusal: 429, Too Many Requests.
pub const SG_HTTP_STATUS: i32 = 429;

/// Header lines, each with its CR LF, as HTTP/1 sends them.
fn lines(headers: HttpHeaders, legacy: bool) -> String {
    let headers = if legacy { headers.with_legacy() } else { headers };
    headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

/// Writes the header fields for a decision of a limit to `buffer`, as lines that each end with CR LF:
/// RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers), and Retry-After in whole
/// seconds, rounded up, where it is a refusal that time can heal. They fit every response, also one to
/// a call that was admitted. `legacy` other than 0 adds X-RateLimit-Limit, X-RateLimit-Remaining and
/// X-RateLimit-Reset, which is in how many whole seconds all of it will be there again.
///
/// The text ends with a NUL; its length without it is written to `length`, which may be NULL. Where
/// `buffer` is NULL and `size` 0, only the length is.
///
/// SG_ERR_ARGUMENT for a buffer that is too small: nothing is cut off.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_http_headers(
    limit: *const sg_limit,
    decision: *const sg_decision,
    legacy: i32,
    buffer: *mut c_char,
    size: usize,
    length: *mut usize,
) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let (limit, decision) =
            unsafe { (reference("limit", limit)?, sg_decision::read("decision", decision)?) };
        let text = lines(limit.limit.http_headers(&decision), legacy != 0);
        // SAFETY: the caller's promise.
        unsafe { fill(buffer, size, length, &text) }
    })
}

/// Writes the body of a refusal to `buffer`, as JSON: problem details (RFC 9457) of the draft's type
/// "quota-exceeded", with "violated-policies". It goes with the status SG_HTTP_STATUS and the content
/// type SG_HTTP_PROBLEM_CONTENT_TYPE.
///
/// `buffer`, `size`, `length` and errors are as with sg_http_headers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_http_problem(
    limit: *const sg_limit,
    decision: *const sg_decision,
    buffer: *mut c_char,
    size: usize,
    length: *mut usize,
) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let (limit, decision) =
            unsafe { (reference("limit", limit)?, sg_decision::read("decision", decision)?) };
        // SAFETY: the caller's promise.
        unsafe { fill(buffer, size, length, &limit.limit.http_problem(&decision)) }
    })
}

/// sg_http_headers for `count` decisions on several limits: the policies of all limits, and the
/// longest wait. Of the entries only the limits are looked at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_http_headers_all(
    limiter: *const sg_limiter,
    entries: *const sg_entry,
    decisions: *const sg_decision,
    count: usize,
    legacy: i32,
    buffer: *mut c_char,
    size: usize,
    length: *mut usize,
) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let (limiter, pairs) = unsafe { (reference("limiter", limiter)?, pairs(entries, decisions, count)?) };
        let text = lines(limiter.0.http_headers(&pairs), legacy != 0);
        // SAFETY: the caller's promise.
        unsafe { fill(buffer, size, length, &text) }
    })
}

/// sg_http_problem for `count` decisions on several limits. It names the limits that say how
/// long to wait; all of them, where none does. Of the entries only the limits are looked at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_http_problem_all(
    limiter: *const sg_limiter,
    entries: *const sg_entry,
    decisions: *const sg_decision,
    count: usize,
    buffer: *mut c_char,
    size: usize,
    length: *mut usize,
) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let (limiter, pairs) = unsafe { (reference("limiter", limiter)?, pairs(entries, decisions, count)?) };
        // SAFETY: the caller's promise.
        unsafe { fill(buffer, size, length, &limiter.0.http_problem(&pairs)) }
    })
}

/// # Safety
/// The caller's promise.
unsafe fn pairs<'a>(
    entries: *const sg_entry,
    decisions: *const sg_decision,
    count: usize,
) -> Result<Vec<(&'a Limit, Decision)>> {
    // SAFETY: as above.
    let entries = unsafe { array("entries", entries, count) }?;
    let pair = |(index, entry): (usize, &sg_entry)| {
        // SAFETY: as above.
        unsafe {
            let limit = reference("entries[].limit", entry.limit)?;
            let place = if decisions.is_null() { decisions } else { decisions.add(index) };
            Ok((&limit.limit, sg_decision::read("decisions", place)?))
        }
    };
    entries.iter().enumerate().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_cores() {
        assert_eq!(SG_HTTP_STATUS, i32::from(sluicegate::http::STATUS));
        let header = include_str!("../include/sluicegate.h");
        let macro_line =
            format!("#define SG_HTTP_PROBLEM_CONTENT_TYPE \"{}\"", sluicegate::http::PROBLEM_CONTENT_TYPE);
        assert!(header.contains(&macro_line));
    }
}

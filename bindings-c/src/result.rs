//! Result codes, the last error's message, and the border that no panic crosses.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use sluicegate::{Error, ErrorKind, Result};

/// What came of a call. The numbers never change meaning.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sg_result {
    /// The call was made; its out-parameters are written.
    SG_OK = 0,
    /// The text of a spec can't be read or can't be met: correct the spec.
    SG_ERR_SPEC = 1,
    /// An argument is NULL or out of range: correct the call.
    SG_ERR_ARGUMENT = 2,
    /// A URL or an option of the limiter is wrong: correct the configuration.
    SG_ERR_CONFIG = 3,
    /// The verb has no meaning for the limit's algorithm: use another verb or algorithm.
    SG_ERR_UNSUPPORTED = 4,
    /// The store is away and the limit says SG_ON_OUTAGE_RAISE: try later, or choose another mode.
    SG_ERR_OUTAGE = 5,
    /// The limiter was closed: open another.
    SG_ERR_CLOSED = 6,
    /// A defect in Sluicegate itself: report it.
    SG_ERR_INTERNAL = 7,
    /// The queue holds as many calls as it may: collect, then submit again.
    SG_ERR_FULL = 8,
}

fn code(kind: ErrorKind) -> sg_result {
    match kind {
        ErrorKind::Spec => sg_result::SG_ERR_SPEC,
        ErrorKind::Argument => sg_result::SG_ERR_ARGUMENT,
        ErrorKind::Config => sg_result::SG_ERR_CONFIG,
        ErrorKind::Unsupported => sg_result::SG_ERR_UNSUPPORTED,
        ErrorKind::Outage => sg_result::SG_ERR_OUTAGE,
        ErrorKind::Closed => sg_result::SG_ERR_CLOSED,
        // A kind that is new in core fails the test below before it gets here.
        _ => sg_result::SG_ERR_INTERNAL,
    }
}

fn name(result: i32) -> &'static CStr {
    match result {
        0 => c"ok",
        1 => c"spec",
        2 => c"argument",
        3 => c"config",
        4 => c"unsupported",
        5 => c"outage",
        6 => c"closed",
        7 => c"internal",
        8 => c"full",
        _ => c"unknown",
    }
}

thread_local! {
    static LAST_ERROR: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Runs the body of a function: its error, or its panic, becomes a code and this thread's message.
pub(crate) fn guard(body: impl FnOnce() -> Result<()>) -> sg_result {
    guard_code(|| body().map(|()| sg_result::SG_OK))
}

/// [`guard`] for a body that has a code of its own.
pub(crate) fn guard_code(body: impl FnOnce() -> Result<sg_result>) -> sg_result {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => fail(&error),
        Err(panic) => fail(&Error::new(ErrorKind::Internal, describe(panic.as_ref()))),
    }
}

/// [`guard`] for a body that can't fail and has nothing to say.
pub(crate) fn guard_quietly(body: impl FnOnce()) {
    guard(|| {
        body();
        Ok(())
    });
}

fn describe(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", message.unwrap_or("no message"))
}

fn fail(error: &Error) -> sg_result {
    let text = message(error);
    // A thread that is ending has no message any more; its code still tells.
    let _ = LAST_ERROR.try_with(|last| last.replace(Some(text)));
    code(error.kind())
}

/// What came of a call that failed: its code, and its message for C.
pub(crate) fn failure(error: &Error) -> (sg_result, CString) {
    (code(error.kind()), message(error))
}

fn message(error: &Error) -> CString {
    CString::new(error.message().replace('\0', "\\0")).unwrap_or_default()
}

/// That a queue is full. Core has no such error: no other language shows it to its callers.
pub(crate) fn full(most: usize) -> sg_result {
    let text =
        format!("the queue holds {most} calls that were not collected; collect before submitting more");
    fail(&Error::new(ErrorKind::Internal, text));
    sg_result::SG_ERR_FULL
}

/// Says what was wrong in this thread's last call that failed, without secrets; "" if none has.
///
/// Never NULL. The text is valid until this thread's next call of a function that returns an
/// sg_result, or its end.
#[unsafe(no_mangle)]
pub extern "C" fn sg_last_error_message() -> *const c_char {
    let message = LAST_ERROR.try_with(|last| last.borrow().as_ref().map(|text| text.as_ptr()));
    message.ok().flatten().unwrap_or(c"".as_ptr())
}

/// Names a result: "ok", "spec", "argument", "config", "unsupported", "outage", "closed",
/// "internal" or "full"; "unknown" for any other number. Never NULL, valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn sg_result_name(result: i32) -> *const c_char {
    name(result).as_ptr()
}

/// The version of the library, such as "0.1.0". Never NULL, valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn sg_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_number_and_name() {
        for kind in ErrorKind::ALL {
            assert_eq!(code(kind) as i32, kind as i32, "{kind:?}");
            assert_eq!(name(kind as i32).to_str(), Ok(kind.as_str()), "{kind:?}");
        }
        assert_eq!(name(sg_result::SG_OK as i32), c"ok");
        // The one that core does not have.
        assert_eq!((full(5), name(8)), (sg_result::SG_ERR_FULL, c"full"));
        assert!(ErrorKind::ALL.iter().all(|kind| *kind as i32 != sg_result::SG_ERR_FULL as i32));
        for unknown in [-1, 9, i32::MIN, i32::MAX] {
            assert_eq!(name(unknown), c"unknown");
        }
    }

    #[test]
    fn a_panic_becomes_an_internal_error() {
        assert_eq!(guard(|| panic!("by {}", "design")), sg_result::SG_ERR_INTERNAL);
        // SAFETY: the pointer is never NULL, and this thread makes no other call.
        let message = unsafe { CStr::from_ptr(sg_last_error_message()) };
        assert_eq!(message.to_str(), Ok("panicked: by design"));
    }
}

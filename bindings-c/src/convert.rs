//! From what C passes to what Rust takes, with NULL and UTF-8 checked.

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::slice;
use std::time::Duration;

use sluicegate::argument::duration_from_micros;
use sluicegate::{Error, ErrorKind, Result};

fn null(name: &str) -> Error {
    Error::new(ErrorKind::Argument, format!("{name} must not be NULL"))
}

/// What `pointer`, the parameter `name`, points to.
///
/// # Safety
/// The caller's promise, for as long as the reference lives.
pub(crate) unsafe fn reference<'a, T>(name: &str, pointer: *const T) -> Result<&'a T> {
    // SAFETY: as above.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// The place of an out-parameter.
///
/// # Safety
/// The caller's promise, for as long as the reference lives.
pub(crate) unsafe fn out<'a, T>(name: &str, pointer: *mut T) -> Result<&'a mut MaybeUninit<T>> {
    // SAFETY: as above; what stands there may be anything, as it is only written.
    unsafe { pointer.cast::<MaybeUninit<T>>().as_mut() }.ok_or_else(|| null(name))
}

/// A text; one that is not UTF-8 is an error of `kind`.
///
/// # Safety
/// The caller's promise, for as long as the reference lives.
pub(crate) unsafe fn text<'a>(name: &str, pointer: *const c_char, kind: ErrorKind) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: as above.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|error| {
        let at = error.valid_up_to();
        Error::new(kind, format!("{name} must be UTF-8 text, but is not at byte {at}"))
    })
}

/// An array of `length` values.
///
/// # Safety
/// The caller's promise, for as long as the reference lives.
pub(crate) unsafe fn array<'a, T>(name: &str, pointer: *const T, length: usize) -> Result<&'a [T]> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(name));
    }
    // A length such as (size_t)-1 is a defect that no memory could back.
    if length > isize::MAX as usize / size_of::<T>() {
        return Err(Error::new(ErrorKind::Argument, format!("{name} can't have the length {length}")));
    }
    // SAFETY: as above; not NULL, and no longer than an array can be.
    Ok(unsafe { slice::from_raw_parts(pointer, length) })
}

/// A key.
///
/// # Safety
/// The caller's promise, for as long as the reference lives.
pub(crate) unsafe fn key<'a>(pointer: *const c_void, length: usize) -> Result<&'a [u8]> {
    // SAFETY: as above.
    unsafe { array("key", pointer.cast(), length) }
}

/// A duration where -1 leaves it to core.
pub(crate) fn duration_or_unset(name: &str, micros: i64) -> Result<Option<Duration>> {
    if micros == UNSET { Ok(None) } else { duration_from_micros(name, micros).map(Some) }
}

/// The number that says "not set" to the functions, and "absent" to the caller.
pub(crate) const UNSET: i64 = -1;

/// A count for C. Core keeps all of them below 2^53.
pub(crate) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Whole microseconds for C.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// A text that is kept for C. Core lets no NUL through.
pub(crate) fn owned_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(ErrorKind::Internal, "a text holds a NUL"))
}

/// Writes a text and its NUL to a buffer of the caller's, and its length without the NUL to `length`,
/// which may be NULL. With `buffer` NULL and `size` 0 only the length is said.
///
/// # Safety
/// The caller's promise that `buffer` has `size` bytes.
pub(crate) unsafe fn fill(buffer: *mut c_char, size: usize, length: *mut usize, text: &str) -> Result<()> {
    let needed = text.len() + 1;
    if !(buffer.is_null() && size == 0) {
        if buffer.is_null() {
            return Err(null("buffer"));
        }
        if size < needed {
            let message = format!("buffer must have {needed} bytes for this text, got {size}");
            return Err(Error::new(ErrorKind::Argument, message));
        }
        // SAFETY: as above, and it has room for the text and its NUL.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
            buffer.add(text.len()).write(0);
        }
    }
    // SAFETY: the caller's promise.
    if let Some(length) = unsafe { length.as_mut() } {
        *length = text.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_no_memory_has_is_refused() {
        // SAFETY: refused before anything is read.
        let error = unsafe { key(c"x".as_ptr().cast(), usize::MAX) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().contains("length"));
    }

    #[test]
    fn unset_is_not_passed_on() {
        assert_eq!(duration_or_unset("timeout_us", -1), Ok(None));
        assert_eq!(duration_or_unset("timeout_us", 5), Ok(Some(Duration::from_micros(5))));
        assert!(duration_or_unset("timeout_us", -2).unwrap_err().message().contains("timeout_us"));
    }
}

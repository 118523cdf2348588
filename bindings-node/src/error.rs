//! Core's errors as JavaScript throws them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use sluicegate::ErrorKind;

/// What stands in the `code` of a thrown error: a kind of core's in upper case, or [`WRONG_TYPE`].
pub struct Code(String);

/// The code of what JavaScript turns into a `TypeError`.
const WRONG_TYPE: &str = "TYPE";

/// An error as it is thrown, or goes beside a record.
pub(crate) type Thrown = napi::Error<Code>;

/// A result with such an error.
pub(crate) type Result<T> = napi::Result<T, Code>;

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// The code of a kind: `SPEC`, `ARGUMENT` and so on.
pub(crate) fn code(kind: ErrorKind) -> String {
    kind.as_str().to_ascii_uppercase()
}

/// An error of core's.
pub(crate) fn thrown(error: sluicegate::Error) -> Thrown {
    napi::Error::new(Code(code(error.kind())), error.message())
}

/// A value of a type that has no meaning for the argument.
pub(crate) fn wrong_type(message: impl Into<String>) -> Thrown {
    napi::Error::new(Code(WRONG_TYPE.to_owned()), message.into())
}

/// A call to Node-API that failed: not the caller's doing.
pub(crate) fn broken(error: napi::Error) -> Thrown {
    napi::Error::new(Code(code(ErrorKind::Internal)), error.reason.clone())
}

/// Runs `run`; a panic, which is a defect, becomes an error as any other.
pub(crate) fn caught<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(defect(&*panic)))
}

fn defect(panic: &(dyn Any + Send)) -> Thrown {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    napi::Error::new(Code(code(ErrorKind::Internal)), format!("a defect in Sluicegate: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_internal_error() {
        let error = caught::<()>(|| panic!("at {}", 7)).unwrap_err();
        assert_eq!(
            (error.status.as_ref(), error.reason.as_str()),
            ("INTERNAL", "a defect in Sluicegate: at 7")
        );
        assert!(caught(|| Ok(1)).is_ok());
    }
}

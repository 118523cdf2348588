//! What can go wrong, and what the caller can do about it.
//!
//! Being over a limit is no error: it is a [`Decision`](crate::Decision) with `allowed == false`.

use std::fmt;

/// The kinds of error. Each says what the caller can do.
///
/// The numbers are the result codes of the C interface and never change meaning. 8 is one that
/// the C interface has for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum ErrorKind {
    /// The text of a spec can't be read or can't be met: correct the spec.
    Spec = 1,
    /// An argument of a call is out of range: correct the call.
    Argument = 2,
    /// A URL or an option of the limiter is wrong: correct the configuration.
    Config = 3,
    /// The verb has no meaning for the limit's algorithm: use another verb or algorithm.
    Unsupported = 4,
    /// The store is away and the limit says `on_outage = raise`: try later, or choose another mode.
    Outage = 5,
    /// The limiter was closed: open another.
    Closed = 6,
    /// A defect in Sluicegate itself, caught at a language border: report it.
    Internal = 7,
}

impl ErrorKind {
    /// Every kind, for bindings that test their mapping against the whole list.
    pub const ALL: [ErrorKind; 7] = [
        ErrorKind::Spec,
        ErrorKind::Argument,
        ErrorKind::Config,
        ErrorKind::Unsupported,
        ErrorKind::Outage,
        ErrorKind::Closed,
        ErrorKind::Internal,
    ];

    /// The kind as one lower-case word: `spec`, `argument`, `config`, `unsupported`, `outage`,
    /// `closed` or `internal`.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Spec => "spec",
            ErrorKind::Argument => "argument",
            ErrorKind::Config => "config",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Outage => "outage",
            ErrorKind::Closed => "closed",
            ErrorKind::Internal => "internal",
        }
    }
}

/// An error: its kind and a sentence that names the field, the value and what is allowed.
///
/// The message never holds a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Argument, message)
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Config, message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Unsupported, message)
    }

    pub(crate) fn closed() -> Self {
        Error::new(ErrorKind::Closed, "the limiter is closed; open another")
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The sentence without the kind.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A value as it is quoted in a message: shortened, so that a megabyte of nonsense stays readable.
pub(crate) fn quote(value: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = value.chars().take(SHOWN).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

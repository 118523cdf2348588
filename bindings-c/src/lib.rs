//! The C interface: converts, calls `sluicegate`, converts back.
//!
//! The names are those of C, and the documentation comments of public items are the text of
//! `include/sluicegate.h`, which `tests/header.rs` writes and compares.
//!
//! What every function here relies on, and what the header asks of the caller: a pointer is NULL
//! or points to what its type says; a text ends with a NUL; a key has as many bytes as said; a
//! handle came from its `open`, `new` or `hold` and was not closed; what is pointed to does not
//! change during the call. "The caller's promise" in the SAFETY comments is this.

#![allow(non_camel_case_types, reason = "these are the names that C sees")]
#![allow(clippy::missing_safety_doc, reason = "the promise is the same for all and stands above")]

pub mod address;
mod call;
pub mod clock;
mod convert;
pub mod decision;
pub mod event;
pub mod http;
pub mod limit;
pub mod limiter;
pub mod options;
pub mod permit;
pub mod queue;
pub mod result;
pub mod status;

#[cfg(test)]
mod tests;

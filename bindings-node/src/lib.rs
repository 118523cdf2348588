//! The N-API border of Sluicegate. Everything here converts, calls core and converts back.
//!
//! What JavaScript sees of it is private to the package: `lib/*.js` turns it into the promises,
//! classes and plain objects that `index.d.ts` promises.
//!
//! Architecture Invariant: a call that needs no waiting never touches the event loop, and one
//! that does reaches JavaScript through one queue for each environment (`port.rs`).

mod address;
mod clock;
mod convert;
mod error;
mod http;
mod limit;
mod limiter;
mod permit;
mod port;
mod record;

use napi_derive::napi;
use sluicegate::{ErrorKind, EventKind, ForwardedHeader, OnOutage, Source, StoreState};

/// The words that core knows, so that JavaScript keeps no list of its own.
#[napi(object)]
pub struct Words {
    /// What an error's `code` can be.
    pub codes: Vec<String>,
    /// What a decision's `source` can be; a record carries the place in this list.
    pub sources: Vec<String>,
    /// What `onOutage` can be.
    pub on_outage: Vec<String>,
    /// What an event's `kind` can be.
    pub events: Vec<String>,
    /// What `header` of a client address can be.
    pub forwarded_headers: Vec<String>,
    /// The status of a refusal.
    pub http_status: u32,
    /// The content type of its body.
    pub http_problem_content_type: String,
    /// What a status's `state` can be.
    pub states: Vec<String>,
}

/// The words that core knows.
#[napi(catch_unwind)]
pub fn words() -> Words {
    Words {
        codes: ErrorKind::ALL.map(error::code).into(),
        sources: Source::ALL.map(|source| source.as_str().to_owned()).into(),
        on_outage: OnOutage::ALL.map(|mode| mode.as_str().to_owned()).into(),
        events: EventKind::ALL.map(|kind| kind.as_str().to_owned()).into(),
        forwarded_headers: ForwardedHeader::ALL.map(|header| header.as_str().to_owned()).into(),
        http_status: sluicegate::http::STATUS.into(),
        http_problem_content_type: sluicegate::http::PROBLEM_CONTENT_TYPE.to_owned(),
        states: StoreState::ALL.map(|state| state.as_str().to_owned()).into(),
    }
}

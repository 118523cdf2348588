//! One rate limit, shared by every process that names it, whatever its language.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let limiter = sluicegate::Limiter::open("memory://")?;
//! let login = limiter.limit("login", "100/s burst 200")?;
//! let decision = login.try_acquire("user:42", 1).await?;
//! assert!(decision.allowed);
//! # Ok::<(), sluicegate::Error>(()) }).unwrap();
//! ```
//!
//! A [`Limiter`] is opened once and keeps the connections; a [`Limit`] is a name and a spec; its
//! verbs return a [`Decision`]. Every verb has a twin for threads that may block.

mod address;
mod algorithm;
pub mod argument;
#[cfg(feature = "bench-internals")]
#[doc(hidden)]
pub mod bench_internals;
mod cache;
mod call;
mod clock;
mod cluster;
mod completion;
mod config;
mod decision;
mod deny_cache;
mod engine;
mod error;
mod event;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod http;
mod kept_key;
mod key;
mod lane;
mod limiter;
mod membership;
mod outage;
mod permit;
mod routes;
mod runtime;
mod spec;
mod spec_text;
mod status;
mod store;
mod ticks;
mod waiting;
mod wake;

#[cfg(test)]
mod twin_tests;

pub use address::{ClientAddress, ForwardedHeader};
pub use call::{Answer, Call, Later, Pending, Submitted};
pub use clock::ManualClock;
pub use completion::{Completions, Place};
pub use config::Builder;
pub use decision::{Decision, Source};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, EventKind};
pub use http::HttpHeaders;
pub use limiter::{Limit, Limiter};
pub use outage::OnOutage;
pub use permit::Permit;
pub use runtime::PerProcess;
pub use spec::{Algorithm, Spec};
pub use status::{Status, StoreState};
pub use wake::after_answers;

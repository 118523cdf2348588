//! The spec parser: it never panics; what it accepts prints as a text that parses to the same, and
//! makes a limit that decides.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use sluicegate::{ErrorKind, Limiter, ManualClock, Spec};

fuzz_target!(|text: &str| {
    let spec = match text.parse::<Spec>() {
        Ok(spec) => spec,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Spec);
            assert!(error.message().len() < 1000, "{error}");
            return;
        }
    };
    let printed = spec.to_string();
    assert_eq!(printed.parse::<Spec>().as_ref(), Ok(&spec), "printed as {printed:?}");

    let clock = ManualClock::default();
    let limiter = Limiter::builder().max_keys(64).clock(&clock).open().unwrap();
    let limit = limiter.limit("fuzz", spec).unwrap();
    let peeked = limit.peek_blocking("k").unwrap();
    assert!(peeked.allowed && peeked.remaining == peeked.limit, "{peeked:?}");
    if printed.contains("concurrency") {
        return;
    }
    // One of several rules may admit less than 1 only where nothing fits, and none does.
    let all = limit.try_acquire_blocking("k", peeked.limit).unwrap();
    assert!(all.remaining <= all.limit && all.retry_after.is_none(), "{all:?}");
    let more = limit.try_acquire_blocking("k", 1).unwrap();
    assert!(!more.allowed, "{more:?}");
    clock.advance(more.retry_after.unwrap() - Duration::from_micros(1));
    assert!(!limit.try_acquire_blocking("k", 1).unwrap().allowed);
    clock.advance(Duration::from_micros(1));
    assert!(limit.try_acquire_blocking("k", 1).unwrap().allowed);
});

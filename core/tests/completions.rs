//! Answers that gather for an event loop. The C tests go further; here is what a loop relies on.

use std::os::fd::AsRawFd;
use std::time::Duration;

use sluicegate::{Answer, Call, Completions, ErrorKind, Limit, Limiter, ManualClock, Submitted};

fn limit(spec: &str) -> (ManualClock, Limit) {
    let clock = ManualClock::default();
    let limiter = Limiter::builder().clock(&clock).open().unwrap();
    (clock, limiter.limit("limit", spec).unwrap())
}

fn is_readable(completions: &Completions, wait_ms: i32) -> bool {
    let mut watched = libc::pollfd { fd: completions.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one place, which lives through the call.
    unsafe { libc::poll(&mut watched, 1, wait_ms) == 1 }
}

fn submit(completions: &Completions, tag: u64, submitted: Submitted) {
    completions.submit(completions.place().unwrap(), tag, submitted).unwrap();
}

fn tags(completions: &Completions, most: usize) -> Vec<u64> {
    completions.collect(most).into_iter().map(|(tag, _)| tag).collect()
}

#[test]
fn readable_until_the_last_is_collected() {
    let (_, limit) = limit("10/h");
    let completions = Completions::new(Completions::MOST).unwrap();
    assert!(!is_readable(&completions, 0));
    for tag in 0..5 {
        submit(&completions, tag, limit.submit(Call::TryAcquire { cost: 1 }, b"k"));
    }
    assert_eq!(tags(&completions, 3), [0, 1, 2]);
    assert!(is_readable(&completions, 0));
    assert_eq!(tags(&completions, 3), [3, 4]);
    assert!(!is_readable(&completions, 0));
    assert_eq!(tags(&completions, 3), []);
}

#[test]
fn a_place_is_held_until_the_answer_is_collected_or_given_up() {
    let (_, limit) = limit("10/h");
    let completions = Completions::new(2).unwrap();
    let peek = || limit.submit(Call::Peek, b"k");
    submit(&completions, 1, peek());
    submit(&completions, 2, peek());
    assert!(completions.place().is_none());
    assert_eq!(tags(&completions, 1), [1]);
    drop(completions.place().unwrap());
    submit(&completions, 2, peek());
    completions.give_up(1);
    assert!(completions.place().is_none());
    completions.give_up(2);
    assert!(!is_readable(&completions, 0));
    submit(&completions, 3, peek());
    completions.give_up_all();
    assert!(!is_readable(&completions, 0) && tags(&completions, 9).is_empty());
    let places = [completions.place(), completions.place()];
    assert!(places.iter().all(Option::is_some) && completions.place().is_none());
}

#[test]
fn only_what_is_wrong_with_the_call_itself_is_said_at_once() {
    let limiter = Limiter::open("memory://").unwrap();
    let limit = limiter.limit("limit", "10/h").unwrap();
    let completions = Completions::new(1).unwrap();
    let bad = [(Call::Peek, b"".as_slice()), (Call::Hold { timeout: None }, b"k")];
    for ((call, key), kind) in bad.into_iter().zip([ErrorKind::Argument, ErrorKind::Unsupported]) {
        let place = completions.place().unwrap();
        assert_eq!(completions.submit(place, 1, limit.submit(call, key)).unwrap_err().kind(), kind);
    }
    limiter.close();
    submit(&completions, 2, limit.submit(Call::Peek, b"k"));
    let collected = completions.collect(1);
    assert!(matches!(&collected[..], [(2, Err(error))] if error.kind() == ErrorKind::Closed));
}

#[test]
fn a_turn_comes_out_when_it_has_come() {
    let (clock, limit) = limit("1/h");
    let completions = Completions::new(9).unwrap();
    let acquire = Call::Acquire { cost: 1, timeout: None };
    for tag in 0..4 {
        submit(&completions, tag, limit.submit(acquire, b"k"));
    }
    assert_eq!(tags(&completions, 9), [0]);
    completions.give_up(2);
    for turn in [1, 3] {
        assert!(!is_readable(&completions, 0));
        // The turn between was passed by a later one, so it stays unused.
        clock.advance(Duration::from_secs(if turn == 3 { 7200 } else { 3600 }));
        assert!(is_readable(&completions, 10_000));
        let collected = completions.collect(9);
        let [(tag, Ok(Answer::Decision(decision)))] = &collected[..] else { panic!("{collected:?}") };
        assert!(*tag == turn && decision.allowed && decision.wait.is_zero());
    }
    submit(&completions, 5, limit.submit(acquire, b"k"));
    let after = || limit.try_acquire_blocking("k", 0).unwrap().reset_after;
    assert_eq!(after(), Duration::from_secs(7200));
    drop(completions);
    assert_eq!(after(), Duration::from_secs(3600));
}

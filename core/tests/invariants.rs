//! A shadow observer: drives random limits with random calls and clock steps through the public
//! API, writes down what was admitted, and holds each algorithm to its own bound in every window.
//!
//! `SLUICEGATE_SEED` repeats a run. Redis is tried where `SLUICEGATE_TEST_REDIS` names one.

mod observer;

use observer::round::{permits, round};
use rand::SeedableRng;
use rand::rngs::StdRng;

type One = fn(&str, &str, StdRng, usize, fn(String));

/// Seeds follow each other, so the one that a failing round printed repeats that round first.
fn run(url: &str, rounds: u64, steps: usize, one: One) {
    let given = std::env::var("SLUICEGATE_SEED").ok().map(|seed| seed.parse().unwrap());
    let first: u64 = given.unwrap_or_else(|| rand::random::<u32>().into());
    let run: u64 = rand::random();
    println!("invariants: {rounds} rounds of {steps} steps from SLUICEGATE_SEED={first}");
    for seed in first..first + rounds {
        print!("seed {seed}: ");
        let prefix = format!("inv{run:x}-{seed}");
        one(url, &prefix, StdRng::seed_from_u64(seed), steps, |what| println!("{what}"));
    }
}

fn redis() -> Option<String> {
    let url = std::env::var("SLUICEGATE_TEST_REDIS").ok();
    if url.is_none() {
        eprintln!("skipped: SLUICEGATE_TEST_REDIS names no Redis");
    }
    url
}

#[test]
fn every_algorithm_keeps_its_bound_in_memory() {
    run("memory://", 400, 250, round);
}

#[test]
fn every_algorithm_keeps_its_bound_in_redis() {
    if let Some(url) = redis() {
        run(&url, 40, 100, round);
    }
}

#[test]
fn permits_are_never_too_many_in_memory() {
    run("memory://", 200, 200, permits);
}

#[test]
fn permits_are_never_too_many_in_redis() {
    if let Some(url) = redis() {
        run(&url, 20, 100, permits);
    }
}

//! What is bounded. A table of keys that is full drops what is as good as fresh, and never a key that is
//! used up; calls that find no room to wait are decided here.
//!
//! `SLUICEGATE_SEED` repeats a run.

use std::collections::HashMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use sluicegate::{Limit, Limiter, ManualClock, Permit, Source};

const SECOND: u64 = 1_000_000;
const MAX_KEYS: usize = 64;
const KEYS: u32 = 400;

/// Limits that admit once in a period: in seconds, and the spec.
const ONCE: [(u64, &str); 10] = [
    (1, "1/s"),
    (10, "gcra 1/10s"),
    (100, "leaky-bucket 1/100s queue 0"),
    (10, "fixed-window 1/10s"),
    (1, "sliding-window 1/s"),
    (100, "sliding-log 1/100s"),
    (100, "1/s; gcra 1/100s"),
    (1000, "1/1000s"),
    (1000, "sliding-window 1/1000s buckets 100"),
    (1000, "sliding-log 1/1000s; 1/s; fixed-window 1/10s"),
];

fn seeded() -> StdRng {
    let given = std::env::var("SLUICEGATE_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(rand::random);
    println!("SLUICEGATE_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

fn limiter() -> (ManualClock, Limiter) {
    let clock = ManualClock::default();
    (clock.clone(), Limiter::builder().max_keys(MAX_KEYS).clock(&clock).open().unwrap())
}

fn now(clock: &ManualClock) -> u64 {
    u64::try_from(clock.now().as_micros()).unwrap()
}

#[test]
fn a_key_that_is_used_up_is_never_forgotten() {
    let mut random = seeded();
    let (clock, limiter) = limiter();
    let limits: Vec<(u64, Limit)> = (0..)
        .zip(ONCE)
        .map(|(number, (seconds, spec))| {
            (seconds * SECOND, limiter.limit(&format!("n{number}"), spec).unwrap())
        })
        .collect();
    let mut admitted: HashMap<(usize, u32), u64> = HashMap::new();
    let (mut again, mut full) = (0, 0);
    for _ in 0..60_000 {
        clock.advance(Duration::from_micros(
            *[0, 0, 1, 1000, SECOND / 10, SECOND].choose(&mut random).unwrap(),
        ));
        let (number, key) = (random.random_range(0..limits.len()), random.random_range(0..KEYS));
        let (period, limit) = &limits[number];
        let before = limiter.status().refused_full;
        let decision = limit.try_acquire_blocking(key.to_be_bytes(), 1).unwrap();
        let status = limiter.status();
        // Some specs have three states a key, which are kept together or not at all.
        assert!(status.local_keys <= 3 * MAX_KEYS as u64, "{status:?}");
        if decision.allowed {
            let last = admitted.insert((number, key), now(&clock));
            let passed = last.map(|last| now(&clock) - last);
            assert!(passed.is_none_or(|passed| passed >= *period), "{limit:?} forgot a key: {passed:?}");
            again += u64::from(last.is_some());
        } else {
            assert!(decision.retry_after.is_some_and(|after| !after.is_zero()), "{decision:?}");
            full += status.refused_full - before;
        }
    }
    assert!(again > 100, "only {again} keys were admitted twice");
    assert!(full > 1000, "the table was full only {full} times");
}

#[test]
fn a_permit_that_is_held_is_never_forgotten() {
    let mut random = seeded();
    let (clock, limiter) = limiter();
    let limit = limiter.limit("held", "concurrency 1 ttl 1000s").unwrap();
    let mut held: HashMap<u32, (u64, Permit)> = HashMap::new();
    let mut taken = 0;
    for _ in 0..20_000 {
        clock.advance(Duration::from_micros(random.random_range(0..SECOND)));
        let key = random.random_range(0..KEYS);
        if random.random_range(0..4) == 0 {
            held.remove(&key);
            continue;
        }
        let permit = limit.hold_blocking(key.to_be_bytes(), Duration::ZERO).unwrap().1;
        if let Some(permit) = permit {
            let last = held.insert(key, (now(&clock), permit));
            let passed = last.map(|(since, _)| now(&clock) - since);
            assert!(passed.is_none_or(|passed| passed >= 1000 * SECOND), "forgotten: {passed:?}");
            taken += 1;
        }
        assert!(limiter.status().local_keys <= MAX_KEYS as u64);
    }
    assert!(taken > 1000 && limiter.status().refused_full > 1000);
}

/// A flood of keys that are never seen again gets no further than the table; when they have refilled,
/// there is room again.
#[test]
fn what_a_flood_took_is_there_again_after_it() {
    for (seconds, spec) in ONCE {
        let (clock, limiter) = limiter();
        let limit = limiter.limit("flood", spec).unwrap();
        let admitted = (0..10_000_u32)
            .filter(|key| limit.try_acquire_blocking(key.to_be_bytes(), 1).unwrap().allowed)
            .count();
        assert!((MAX_KEYS / 2..=MAX_KEYS).contains(&admitted), "{spec}: {admitted}");
        assert_eq!(limiter.status().refused_full, 10_000 - admitted as u64, "{spec}");
        // A looser bound for the sliding window, which counts whole slices.
        clock.advance(Duration::from_secs(2 * seconds));
        let after = (10_000..10_020_u32)
            .filter(|key| limit.try_acquire_blocking(key.to_be_bytes(), 1).unwrap().allowed)
            .count();
        // Two of them may be meant for the same part of the table.
        assert!(after >= 10, "{spec}: only {after} of 20 found room");
    }
}

#[tokio::test]
async fn calls_that_find_no_room_to_wait_are_decided_here() {
    // Takes connections, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let limiter =
        Limiter::builder().url(&url).timeout(Duration::from_secs(60)).max_waiting(64).open().unwrap();
    let limit = limiter.limit("a", "1000/s").unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let limit = limit.clone();
        calls.spawn(async move { limit.try_acquire("k", 1).await });
    }
    for _ in 0..36 {
        let decision = calls.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!((decision.allowed, decision.source), (true, Source::Outage));
    }
    assert_eq!(calls.len(), 64);
    let more = tokio::time::timeout(Duration::from_millis(50), calls.join_next()).await;
    assert!(more.is_err(), "they wait for Redis");
    limiter.close();
}

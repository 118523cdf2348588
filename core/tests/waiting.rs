//! Waiting one's turn: first come first served, over several limiters, and what happens to the
//! turns of those who give up.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sluicegate::{Call, Limit, Limiter, ManualClock, Submitted};

/// In memory, and in Redis where `SLUICEGATE_TEST_REDIS` names one. In Redis the limiters are two,
/// as of two processes.
fn limits(spec: &str) -> Vec<(&'static str, Limit, Limit)> {
    limits_on(spec, None)
}

fn limits_on(spec: &str, clock: Option<&ManualClock>) -> Vec<(&'static str, Limit, Limit)> {
    let prefix = format!("waiting{:x}", rand::random::<u64>());
    let open = |url: &str| {
        let limiter = Limiter::builder().url(url).prefix(&prefix).timeout(Duration::from_secs(5));
        let limiter = if let Some(clock) = clock { limiter.clock(clock) } else { limiter };
        limiter.open().unwrap().limit("queue", spec).unwrap()
    };
    let memory = open("memory://");
    let mut limits = vec![("memory", memory.clone(), memory)];
    if let Ok(url) = std::env::var("SLUICEGATE_TEST_REDIS") {
        limits.push(("redis", open(&url), open(&url)));
    }
    limits
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

const WAITERS: usize = 24;
const TURN: Duration = Duration::from_millis(50);

/// Starts waiters one after the other, has some of them give up, and moves the clock from turn to
/// turn. Whoever has not given up goes when its turn comes: no sooner, no later, and in order.
async fn queue(what: &str, clock: &ManualClock, limits: [&Limit; 2], gives_up: impl Fn(usize) -> bool) {
    let went = Arc::new(Mutex::new(Vec::new()));
    let soon = || Instant::now() + Duration::from_secs(30);
    let mut tasks = Vec::new();
    for number in 0..WAITERS {
        let (limit, went) = (limits[number % 2].clone(), Arc::clone(&went));
        tasks.push(tokio::spawn(async move {
            let decision = limit.acquire("k", 1, Duration::from_secs(30)).await.unwrap();
            assert!(decision.allowed);
            went.lock().unwrap().push(number);
        }));
        // So that the order of arrival is certain.
        let until = soon();
        while limits[0].peek("k").await.unwrap().reset_after <= TURN * number as u32 {
            assert!(Instant::now() < until, "{what}: turn {number} is not taken");
            tokio::task::yield_now().await;
        }
    }
    for number in (0..WAITERS).filter(|number| gives_up(*number)) {
        tasks[number].abort();
    }
    for turn in 0..WAITERS {
        let due: Vec<usize> = (0..=turn).filter(|number| !gives_up(*number)).collect();
        let until = soon();
        while went.lock().unwrap().len() < due.len() {
            assert!(Instant::now() < until, "{what}: turn {turn} did not come");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        assert_eq!(*went.lock().unwrap(), due, "{what}");
        clock.advance(TURN);
    }
}

#[test]
fn who_comes_first_goes_first() {
    for spec in ["20/s burst 1", "gcra 20/s burst 1", "leaky-bucket 20/s queue 100"] {
        let clock = ManualClock::default();
        for (store, first, second) in limits_on(spec, Some(&clock)) {
            runtime().block_on(queue(&format!("{store} {spec}"), &clock, [&first, &second], |_| false));
        }
    }
}

#[test]
fn who_gives_up_does_not_delay_the_others() {
    let clock = ManualClock::default();
    for (store, first, second) in limits_on("20/s burst 1", Some(&clock)) {
        let middle = |number: usize| (WAITERS / 4..WAITERS * 3 / 4).contains(&number);
        runtime().block_on(queue(store, &clock, [&first, &second], middle));
    }
}

#[test]
fn the_last_turn_is_given_back() {
    for spec in ["1/m burst 1", "gcra 1/m burst 1", "leaky-bucket 1/m queue 5"] {
        for (store, limit, other) in limits(spec) {
            runtime().block_on(async {
                assert!(limit.try_acquire("k", 1).await.unwrap().allowed);
                let waiting = limit.acquire("k", 1, Duration::from_secs(3600));
                assert!(
                    tokio::time::timeout(Duration::from_millis(100), waiting).await.is_err(),
                    "{store} {spec}"
                );
                // What was given back is on its way: look for it, but not for ever.
                let mut after = other.peek("k").await.unwrap().reset_after;
                for _ in 0..500 {
                    if after <= Duration::from_secs(60) {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    after = other.peek("k").await.unwrap().reset_after;
                }
                assert!(after <= Duration::from_secs(60), "{store} {spec}: {after:?}");
                assert!(after > Duration::from_secs(30), "{store} {spec}: more was given back than the turn");
            });
        }
    }
}

#[test]
fn turns_that_are_given_up_latest_first_all_come_back() {
    for (store, limit, other) in limits("1/h burst 1") {
        for round in 0..20 {
            let key = format!("{round}");
            assert!(limit.try_acquire_blocking(&key, 1).unwrap().allowed);
            let acquire = Call::Acquire { cost: 1, timeout: None };
            let mut waiting: Vec<Submitted> = Vec::new();
            for turn in 1..=5 {
                waiting.push(limit.submit(acquire, key.as_bytes()));
                let taken = |after| after > Duration::from_secs(3600 * turn);
                until(&format!("{store}: turn {turn} is taken"), || {
                    taken(other.peek_blocking(&key).unwrap().reset_after)
                });
            }
            waiting.into_iter().rev().for_each(drop);
            until(&format!("{store}: round {round}: all turns are back"), || {
                other.peek_blocking(&key).unwrap().reset_after <= Duration::from_secs(3600)
            });
        }
    }
}

/// Waits for what happens in the background.
fn until(what: &str, holds: impl Fn() -> bool) {
    let most = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < most, "not within 10 s: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_wait_that_is_too_long_is_refused_at_once() {
    for spec in ["1/m burst 1", "leaky-bucket 1/m", "fixed-window 1/m", "sliding-log 1/m"] {
        for (store, limit, _) in limits(spec) {
            assert!(limit.try_acquire_blocking("k", 1).unwrap().allowed);
            let started = Instant::now();
            let decision = limit.acquire_blocking("k", 1, Duration::from_secs(20)).unwrap();
            assert!(
                !decision.allowed && decision.retry_after.unwrap() > Duration::from_secs(20),
                "{store} {spec}"
            );
            assert!(started.elapsed() < Duration::from_secs(10), "{store} {spec}");
            // It has left nothing behind.
            assert!(
                limit.peek_blocking("k").unwrap().reset_after <= Duration::from_secs(60),
                "{store} {spec}"
            );
        }
    }
}

#[test]
fn windows_are_waited_for() {
    for spec in ["fixed-window 2/200ms", "sliding-window 2/200ms", "sliding-log 2/200ms"] {
        for (store, limit, other) in limits(spec) {
            let started = Instant::now();
            for number in 0..6 {
                let limit = if number % 2 == 0 { &limit } else { &other };
                let decision = limit.acquire_blocking("k", 1, Duration::from_secs(20)).unwrap();
                assert!(decision.allowed, "{store} {spec}");
            }
            assert!(
                started.elapsed() >= Duration::from_millis(390),
                "{store} {spec}: {:?}",
                started.elapsed()
            );
        }
    }
}

#[test]
fn a_manual_clock_wakes_who_waits() {
    let clock = ManualClock::default();
    let limiter = Limiter::builder().clock(&clock).open().unwrap();
    let limit = limiter.limit("queue", "1/h").unwrap();
    assert!(limit.try_acquire_blocking("k", 1).unwrap().allowed);
    runtime().block_on(async {
        let waiting = limit.clone();
        let task = tokio::spawn(async move { waiting.acquire("k", 1, Duration::from_secs(86_400)).await });
        while limit.peek("k").await.unwrap().reset_after <= Duration::from_secs(3600) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(!task.is_finished());
        clock.advance(Duration::from_secs(3600));
        let decision = tokio::time::timeout(Duration::from_secs(10), task).await.unwrap().unwrap().unwrap();
        assert!(decision.allowed && decision.wait.is_zero());
    });
}

/// A process of its own, since signals go to whole processes: `signals` below runs it.
#[test]
#[ignore = "run by the next test"]
fn calls_under_signals() {
    let url = std::env::var("SLUICEGATE_TEST_REDIS").unwrap();
    let limit = Limiter::builder().url(&url).timeout(Duration::from_secs(5)).open().unwrap();
    let limit = limit.limit(&format!("signals{:x}", rand::random::<u64>()), "1000000/h").unwrap();
    limit.try_acquire_blocking("k", 1).unwrap();
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing; no SA_RESTART, so that reads are interrupted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
    // SAFETY: the thread outlives the sender, which is joined.
    let caller = unsafe { libc::pthread_self() };
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let sender = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // SAFETY: the caller's thread lives until this one is joined.
                unsafe { libc::pthread_kill(caller, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(50));
            }
        })
    };
    let sources: Vec<_> = (0..3000).map(|_| limit.try_acquire_blocking("k", 1).unwrap().source).collect();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    sender.join().unwrap();
    assert!(sources.iter().all(|source| *source == sluicegate::Source::Redis), "a signal lost an answer");
}

#[test]
fn signals_lose_no_answer() {
    if std::env::var("SLUICEGATE_TEST_REDIS").is_err() {
        return;
    }
    let this = std::env::current_exe().unwrap();
    let run = std::process::Command::new(this)
        .args(["--ignored", "--exact", "calls_under_signals", "--test-threads=1"])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}

//! Waiting one's turn: first come first served, over several limiters, and what happens to the
//! turns of those who give up.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sluicegate::{Call, Limit, Limiter, ManualClock, Submitted};

/// In memory, and in Redis where `SLUICEGATE_TEST_REDIS` names one. In Redis the limiters are two,
/// as of two processes.
fn limits(spec: &str) -> Vec<(&'static str, Limit, Limit)> {
    let mut limits = Vec::new();
    let memory = Limiter::open("memory://").unwrap().limit("queue", spec).unwrap();
    limits.push(("memory", memory.clone(), memory));
    if let Ok(url) = std::env::var("SLUICEGATE_TEST_REDIS") {
        let prefix = format!("waiting{:x}", rand::random::<u64>());
        let open =
            || Limiter::builder().url(&url).prefix(&prefix).timeout(Duration::from_secs(5)).open().unwrap();
        let [first, second] = [open(), open()].map(|limiter| limiter.limit("queue", spec).unwrap());
        limits.push(("redis", first, second));
    }
    limits
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

const WAITERS: usize = 24;

/// Starts waiters one after the other; returns who went, and when, by its number.
async fn queue(
    first: &Limit,
    second: &Limit,
    give_up: impl Fn(usize) -> bool,
) -> (Vec<usize>, Vec<Option<Duration>>) {
    let went = Arc::new(Mutex::new(Vec::new()));
    let started = Instant::now();
    let mut tasks = Vec::new();
    for number in 0..WAITERS {
        let limit = if number % 2 == 0 { first.clone() } else { second.clone() };
        let went = Arc::clone(&went);
        tasks.push(tokio::spawn(async move {
            let decision = limit.acquire("k", 1, Duration::from_secs(30)).await.unwrap();
            assert!(decision.allowed);
            went.lock().unwrap().push((number, started.elapsed()));
        }));
        // So that the order of arrival is certain.
        while first.peek("k").await.unwrap().reset_after < Duration::from_millis(40) * (number as u32) {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for (number, task) in tasks.iter().enumerate() {
        if give_up(number) {
            task.abort();
        }
    }
    for task in tasks {
        let _ = tokio::time::timeout(Duration::from_secs(60), task).await.unwrap();
    }
    let went = went.lock().unwrap().clone();
    let mut when = vec![None; WAITERS];
    for (number, at) in &went {
        when[*number] = Some(*at);
    }
    (went.into_iter().map(|(number, _)| number).collect(), when)
}

#[test]
fn who_comes_first_goes_first() {
    for spec in ["20/s burst 1", "gcra 20/s burst 1", "leaky-bucket 20/s queue 100"] {
        for (store, first, second) in limits(spec) {
            let started = Instant::now();
            let (went, _) = runtime().block_on(queue(&first, &second, |_| false));
            assert_eq!(went, (0..WAITERS).collect::<Vec<_>>(), "{store} {spec}");
            // No faster than the rate: the first goes at once.
            assert!(started.elapsed() >= Duration::from_millis(50 * (WAITERS as u64 - 1)), "{store} {spec}");
        }
    }
}

#[test]
fn who_gives_up_does_not_delay_the_others() {
    for (store, first, second) in limits("20/s burst 1") {
        let middle = |number: usize| (WAITERS / 4..WAITERS * 3 / 4).contains(&number);
        let (went, when) = runtime().block_on(queue(&first, &second, middle));
        let expected: Vec<usize> = (0..WAITERS).filter(|number| !middle(*number)).collect();
        let order: Vec<usize> = went.iter().copied().filter(|number| !middle(*number)).collect();
        assert_eq!(order, expected, "{store}");
        for number in expected {
            let turn = Duration::from_millis(50 * number as u64);
            let at = when[number].unwrap();
            assert!(
                at + Duration::from_millis(60) >= turn,
                "{store}: {number} went at {at:?}, before its turn"
            );
            assert!(
                at < turn + Duration::from_secs(2),
                "{store}: {number} went at {at:?}, long after {turn:?}"
            );
        }
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

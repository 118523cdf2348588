//! `life URL SPEC TASKS`: for each line of input, does it and prints what came of it as JSON; see life.py.
//! With TASKS 0 it calls by the blocking verbs, else by the asynchronous ones.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate::{Decision, Error, Limit, Limiter};
use tokio::task::JoinSet;

type Outcomes = Arc<Mutex<BTreeMap<String, u64>>>;

fn key(n: usize) -> String {
    format!("key:{}", n % 100)
}

fn passed(decision: Result<Decision, Error>) -> u64 {
    u64::from(decision.expect("no call fails").allowed)
}

fn open(url: &str) -> (Limiter, Limit) {
    let limiter =
        Limiter::builder().url(url).timeout(Duration::from_secs(10)).open().expect("the URL is right");
    let limit = limiter.limit("other", "1000000/s").expect("the spec is right");
    (limiter, limit)
}

/// Notes what a call came to; whether it is the last.
fn note(outcomes: &Outcomes, result: Result<Decision, Error>) -> bool {
    let (outcome, last) = match result {
        Ok(decision) => (decision.source.as_str(), false),
        Err(error) => (error.kind().as_str(), true),
    };
    *outcomes.lock().expect("no holder panics").entry(outcome.to_owned()).or_default() += 1;
    last
}

async fn decide(limit: &Limit, tasks: usize, count: usize) -> u64 {
    let mut running = JoinSet::new();
    for first in 0..tasks {
        let limit = limit.clone();
        running.spawn(async move {
            let mut allowed = 0;
            for n in (first..count).step_by(tasks) {
                allowed += passed(limit.try_acquire(key(n), 1).await);
            }
            allowed
        });
    }
    running.join_all().await.into_iter().sum()
}

async fn limiters(url: &str, count: usize) -> u64 {
    let mut allowed = 0;
    for n in 0..count {
        let (limiter, limit) = open(url);
        allowed += passed(limit.try_acquire("k", 1).await);
        if n % 2 == 0 {
            limiter.close();
        }
    }
    allowed
}

async fn close(url: &str, tasks: usize) -> Outcomes {
    let outcomes = Outcomes::default();
    let (limiter, limit) = open(url);
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (limit, outcomes) = (limit.clone(), Arc::clone(&outcomes));
        running.spawn(async move { while !note(&outcomes, limit.try_acquire("k", 1).await) {} });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    limiter.close();
    tokio::time::timeout(Duration::from_secs(20), running.join_all()).await.expect("every call comes back");
    outcomes
}

fn limiters_blocking(url: &str, count: usize) -> u64 {
    let mut allowed = 0;
    for n in 0..count {
        let (limiter, limit) = open(url);
        allowed += passed(limit.try_acquire_blocking("k", 1));
        if n % 2 == 0 {
            limiter.close();
        }
    }
    allowed
}

fn close_blocking(url: &str) -> Outcomes {
    let outcomes = Outcomes::default();
    let (limiter, limit) = open(url);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| while !note(&outcomes, limit.try_acquire_blocking("k", 1)) {});
        }
        std::thread::sleep(Duration::from_millis(100));
        limiter.close();
    });
    outcomes
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, spec, tasks] = &arguments[..] else { return Err("usage".into()) };
    let tasks: usize = tasks.parse()?;
    let limiter = Limiter::builder().url(url).timeout(Duration::from_secs(10)).open()?;
    let limit = limiter.limit("life", spec.as_str())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for line in std::io::stdin().lines() {
        let line = line?;
        let (verb, count) = line.split_once(' ').unwrap_or((&line, "0"));
        let count: usize = count.parse()?;
        let allowed = match (verb, tasks) {
            ("decide", 0) => (0..count).map(|n| passed(limit.try_acquire_blocking(key(n), 1))).sum(),
            ("decide", _) => runtime.block_on(decide(&limit, tasks, count)),
            ("limiters", 0) => limiters_blocking(url, count),
            ("limiters", _) => runtime.block_on(limiters(url, count)),
            ("close", _) => {
                let outcomes = match tasks {
                    0 => close_blocking(url),
                    _ => runtime.block_on(close(url, tasks)),
                };
                println!("{:?}", outcomes.lock().expect("no holder panics"));
                continue;
            }
            _ => return Err("unknown verb".into()),
        };
        println!(r#"{{"allowed": {allowed}}}"#);
        std::io::stdout().flush()?;
    }
    Ok(())
}

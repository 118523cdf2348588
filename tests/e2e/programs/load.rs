//! `load URL PREFIX SPEC ON_OUTAGE TIMEOUT_MS TASKS PAUSE_US KEYS sync|async`: calls all the time.
//! What it reads and prints is said in load.py.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate::{Decision, Error, Limit, Limiter};

type Call = (i64, i64, usize, String);

/// `CLOCK_MONOTONIC` in microseconds, as in the other languages.
fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}

#[derive(Clone)]
struct Load {
    limit: Limit,
    keys: usize,
    pause: Duration,
    over: Arc<AtomicBool>,
}

fn call(started: i64, key: usize, outcome: Result<Decision, Error>) -> Call {
    let outcome = match outcome {
        Ok(d) => format!("{}{}", if d.allowed { "" } else { "-" }, d.source.as_str()),
        Err(error) => format!("!{}", error.kind().as_str()),
    };
    (started, now(), key, outcome)
}

impl Load {
    fn call_all_the_time(&self, mut key: usize) -> Vec<Call> {
        let mut calls = Vec::new();
        while !self.over.load(Ordering::Relaxed) {
            key = (key + 1) % self.keys;
            let (name, started) = (format!("key:{key}"), now());
            calls.push(call(started, key, self.limit.try_acquire_blocking(name, 1)));
            std::thread::sleep(self.pause);
        }
        calls
    }

    async fn acall_all_the_time(self, mut key: usize) -> Vec<Call> {
        let mut calls = Vec::new();
        while !self.over.load(Ordering::Relaxed) {
            key = (key + 1) % self.keys;
            let (name, started) = (format!("key:{key}"), now());
            calls.push(call(started, key, self.limit.try_acquire(name, 1).await));
            tokio::time::sleep(self.pause).await;
        }
        calls
    }

    async fn all_tasks(&self, tasks: usize) -> Vec<Call> {
        let tasks: Vec<_> = (0..tasks).map(|n| tokio::spawn(self.clone().acall_all_the_time(n))).collect();
        let mut calls = Vec::new();
        for task in tasks {
            calls.extend(task.await.expect("a task panicked"));
        }
        calls
    }

    fn all_threads(&self, tasks: usize) -> Vec<Call> {
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..tasks).map(|n| scope.spawn(move || self.call_all_the_time(n))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("a thread panicked")).collect()
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, prefix, spec, on_outage, timeout_ms, tasks, pause_us, keys, mode] = &arguments[..] else {
        return Err("usage".into());
    };
    let timeout = Duration::from_millis(timeout_ms.parse()?);
    let builder = Limiter::builder().url(url).prefix(prefix).timeout(timeout).on_outage(on_outage.parse()?);
    let limiter = builder.open()?;
    let load = Load {
        limit: limiter.limit("load", spec.as_str())?,
        keys: keys.parse()?,
        pause: Duration::from_micros(pause_us.parse()?),
        over: Arc::default(),
    };
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let over = Arc::clone(&load.over);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        over.store(true, Ordering::Relaxed);
    });
    let calls = if mode == "async" {
        tokio::runtime::Runtime::new()?.block_on(load.all_tasks(tasks.parse()?))
    } else {
        load.all_threads(tasks.parse()?)
    };
    limiter.close();
    let calls: Vec<String> = calls
        .iter()
        .map(|(start, end, key, outcome)| format!(r#"[{start},{end},{key},"{outcome}"]"#))
        .collect();
    writeln!(std::io::stdout(), "[{}]", calls.join(","))?;
    Ok(())
}

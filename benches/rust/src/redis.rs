//! Sluicegate on Redis.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate::{Decision, Limit, Limiter, Source};

use crate::protocol::{Tally, serve};

/// Admits every call of a run, and keeps its state from one call to the next.
const SPEC: &str = "1/s burst 1000000000";
const TASKS: usize = 256;

/// Waits until the store decides.
fn limit(url: &str, spec: &str) -> Result<Limit, Box<dyn Error>> {
    let limit = Limiter::open(url)?.limit("bench", spec)?;
    let until = Instant::now() + Duration::from_secs(10);
    while limit.try_acquire_blocking("warm-up", 1)?.source != Source::Redis {
        if Instant::now() > until {
            return Err("Redis does not decide".into());
        }
    }
    Ok(limit)
}

fn is_odd(decision: &Decision) -> bool {
    !decision.allowed || decision.source != Source::Redis
}

/// One thread that blocks, on one key.
pub(crate) fn blocking(url: &str) -> Result<(), Box<dyn Error>> {
    let limit = limit(url, SPEC)?;
    serve(|duration| {
        let mut tally = Tally::default();
        let started = Instant::now();
        let mut last = started;
        while last - started < duration {
            let decision = limit.try_acquire_blocking("user:00042", 1)?;
            tally.odd += u64::from(is_odd(&decision));
            let now = Instant::now();
            tally.latencies.push((now - last).as_nanos() as u32);
            last = now;
        }
        tally.decisions = tally.latencies.len() as u64;
        tally.seconds = (last - started).as_secs_f64();
        Ok(tally)
    })
}

/// Many tasks, each one call at a time, on keys picked at random.
pub(crate) fn tasks(url: &str, keys: usize) -> Result<(), Box<dyn Error>> {
    let limit = limit(url, SPEC)?;
    let keys: Arc<[String]> = (0..keys).map(|key| format!("user:{key:05}")).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(touch_all(&limit, &keys))?;
    let mut seed = 0;
    serve(move |duration| {
        let started = Instant::now();
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                seed += 1;
                let picks = Picks::new(seed, keys.len());
                runtime.spawn(call_until(limit.clone(), Arc::clone(&keys), picks, started + duration))
            })
            .collect();
        let mut sum = Tally::default();
        for task in tasks {
            let mut tally = runtime.block_on(task)??;
            sum.latencies.append(&mut tally.latencies);
            sum.odd += tally.odd;
        }
        sum.decisions = sum.latencies.len() as u64;
        sum.seconds = started.elapsed().as_secs_f64();
        Ok(sum)
    })
}

async fn touch_all(limit: &Limit, keys: &Arc<[String]>) -> Result<(), Box<dyn Error>> {
    let tasks = (0..TASKS).map(|first| {
        let (limit, keys) = (limit.clone(), Arc::clone(keys));
        tokio::spawn(async move {
            for key in keys.iter().skip(first).step_by(TASKS) {
                limit.try_acquire(key, 1).await?;
            }
            Ok::<_, sluicegate::Error>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(())
}

async fn call_until(
    limit: Limit,
    keys: Arc<[String]>,
    mut picks: Picks,
    end: Instant,
) -> Result<Tally, sluicegate::Error> {
    let mut tally = Tally::default();
    let mut last = Instant::now();
    while last < end {
        let decision = limit.try_acquire(&keys[picks.next()], 1).await?;
        tally.odd += u64::from(is_odd(&decision));
        let now = Instant::now();
        tally.latencies.push((now - last).as_nanos() as u32);
        last = now;
    }
    Ok(tally)
}

/// One thread whose calls are all refused.
pub(crate) fn flood(url: &str) -> Result<(), Box<dyn Error>> {
    let limit = limit(url, "1/day")?;
    limit.try_acquire_blocking("flooded", 1)?;
    serve(|duration| {
        let mut tally = Tally::default();
        let started = Instant::now();
        while started.elapsed() < duration {
            for _ in 0..256 {
                let decision = limit.try_acquire_blocking("flooded", 1)?;
                tally.odd += u64::from(decision.allowed);
            }
            tally.decisions += 256;
        }
        tally.seconds = started.elapsed().as_secs_f64();
        Ok(tally)
    })
}

/// Random numbers below a bound, by xorshift and a multiplication.
pub(crate) struct Picks {
    state: u64,
    below: usize,
}

impl Picks {
    pub(crate) fn new(seed: u64, below: usize) -> Picks {
        Picks { state: seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15), below }
    }

    pub(crate) fn next(&mut self) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (((self.state >> 32) * self.below as u64) >> 32) as usize
    }
}

//! The memory store, and governor's.

use std::error::Error;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate::{Limit, Limiter, Source};

use crate::protocol::{Tally, serve};
use crate::redis::Picks;

const KEYS: usize = 100_000;

/// Decides on one key; says whether it was admitted.
#[expect(clippy::ptr_arg, reason = "governor looks keys up as what it keeps")]
trait Store: Sync {
    fn admits(&self, key: &String) -> bool;
}

impl Store for Limit {
    fn admits(&self, key: &String) -> bool {
        let decision = self.try_acquire_blocking(key, 1);
        decision.is_ok_and(|decision| decision.allowed && decision.source == Source::Memory)
    }
}

pub(crate) fn run(store: &str, threads: usize) -> Result<(), Box<dyn Error>> {
    match store {
        "sluicegate" => {
            measure(&Limiter::open("memory://")?.limit("bench", "1/s burst 1000000000")?, threads)
        }
        #[cfg(feature = "peers")]
        other => governor::run(other, threads),
        #[cfg(not(feature = "peers"))]
        other => Err(format!("no store {other}: built without the peers").into()),
    }
}

fn measure(store: &impl Store, threads: usize) -> Result<(), Box<dyn Error>> {
    let keys: Vec<String> = (0..KEYS).map(|key| format!("user:{key:05}")).collect();
    for key in &keys {
        store.admits(key);
    }
    let mut round = 0;
    serve(|duration| {
        round += 1;
        let barrier = Barrier::new(threads);
        let one = |thread: usize| {
            let mut picks = Picks::new((round * 64 + thread) as u64, KEYS);
            barrier.wait();
            call_until(store, &keys, &mut picks, duration)
        };
        let tallies: Vec<Tally> = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || one(thread))).collect();
            let mut tallies = vec![one(0)];
            tallies.extend(others.into_iter().filter_map(|other| other.join().ok()));
            tallies
        });
        // The rate is the sum of the threads' own rates.
        let rate: f64 = tallies.iter().map(|tally| tally.decisions as f64 / tally.seconds).sum();
        let decisions = tallies.iter().map(|tally| tally.decisions).sum();
        let odd = tallies.iter().map(|tally| tally.odd).sum();
        Ok(Tally { decisions, odd, seconds: decisions as f64 / rate, ..Tally::default() })
    })
}

fn call_until(store: &impl Store, keys: &[String], picks: &mut Picks, duration: Duration) -> Tally {
    let mut tally = Tally::default();
    let started = Instant::now();
    while started.elapsed() < duration {
        for _ in 0..256 {
            tally.odd += u64::from(!store.admits(&keys[picks.next()]));
        }
        tally.decisions += 256;
    }
    tally.seconds = started.elapsed().as_secs_f64();
    tally
}

#[cfg(feature = "peers")]
mod governor {
    use std::error::Error;
    use std::hash::Hash;
    use std::num::NonZeroU32;

    use foldhash::fast::RandomState;
    use governor::clock::{Clock, DefaultClock};
    use governor::middleware::NoOpMiddleware;
    use governor::state::keyed::KeyedStateStore;
    use governor::{Quota, RateLimiter};

    use super::{Store, measure};

    impl<S> Store for RateLimiter<String, S, DefaultClock, NoOpMiddleware<<DefaultClock as Clock>::Instant>>
    where
        S: KeyedStateStore<String> + Sync,
        String: Hash,
    {
        fn admits(&self, key: &String) -> bool {
            self.check_key(key).is_ok()
        }
    }

    /// Its two maps, each with the hasher that it comes with and with the one that ours uses.
    pub(super) fn run(map: &str, threads: usize) -> Result<(), Box<dyn Error>> {
        let burst = NonZeroU32::new(1_000_000_000).ok_or("zero")?;
        let quota = Quota::per_second(NonZeroU32::MIN).allow_burst(burst);
        match map {
            "dashmap" => measure(&RateLimiter::dashmap(quota), threads),
            "hashmap" => measure(&RateLimiter::hashmap(quota), threads),
            "dashmap-foldhash" => {
                measure(&RateLimiter::dashmap_with_hasher(quota, RandomState::default()), threads)
            }
            "hashmap-foldhash" => {
                measure(&RateLimiter::hashmap_with_hasher(quota, RandomState::default()), threads)
            }
            _ => Err(format!("no store {map}").into()),
        }
    }
}

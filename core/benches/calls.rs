//! What a call costs that needs no network, and what a spec costs to read.

#![allow(missing_docs, reason = "benchmarks are no API")]

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use sluicegate::{Limit, Limiter, Spec};

const SPECS: [&str; 3] =
    ["100/s", "sliding-window 1000/day buckets 24", "gcra 10/s burst 20; fixed-window 1000/h align +01:00"];
/// Admits every call of a run.
const WIDE: &str = "1/s burst 1000000000";

fn spec_parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("spec parse");
    for spec in SPECS {
        group.bench_function(spec, |bencher| bencher.iter(|| black_box(spec).parse::<Spec>()));
    }
}

fn limit(spec: &str) -> Limit {
    let limiter = Limiter::open("memory://").expect("memory needs nothing");
    limiter.limit("bench", spec).expect("a good spec")
}

fn memory_one_key(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("memory store, one key");
    for (name, spec) in [("admitted", WIDE), ("refused", "1/day")] {
        let limit = limit(spec);
        group.bench_function(name, |bencher| bencher.iter(|| limit.try_acquire_blocking("user:42", 1)));
    }
}

fn memory_many_keys(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("memory store, 100,000 keys");
    let keys: Vec<String> = (0..100_000).map(|key| format!("user:{key:05}")).collect();
    let limit = limit(WIDE);
    let place = |call: usize| call.wrapping_mul(0x9e37_79b1) % keys.len();
    for key in &keys {
        limit.try_acquire_blocking(key, 1).expect("a good key");
    }
    for threads in [1, 2] {
        group.bench_function(BenchmarkId::new("threads", threads), |bencher| {
            bencher.iter_custom(|calls| {
                let next = AtomicUsize::new(0);
                let started = Instant::now();
                thread::scope(|scope| {
                    for _ in 0..threads {
                        scope.spawn(|| {
                            let from = next.fetch_add(calls as usize, Ordering::Relaxed);
                            for call in from..from + calls as usize {
                                black_box(limit.try_acquire_blocking(&keys[place(call)], 1).is_ok());
                            }
                        });
                    }
                });
                started.elapsed()
            });
        });
    }
}

criterion_group!(benches, spec_parse, memory_one_key, memory_many_keys);
criterion_main!(benches);

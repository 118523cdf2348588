//! What the private parts of a call cost: an algorithm's step, the refusal cache, a batch.

#![allow(missing_docs, reason = "benchmarks are no API")]

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sluicegate::bench_internals::{Calls, OneKey, Refusals};

const SPECS: [&str; 6] = [
    "token-bucket 1000/s burst 1000000",
    "gcra 1000/s burst 1000000",
    "leaky-bucket 1000000/s queue 1000000",
    "fixed-window 1000000/h",
    "sliding-window 1000000/h",
    "sliding-log 1000/s",
];

fn steps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("step");
    for spec in SPECS {
        let mut key = OneKey::new(spec).expect("a good spec");
        group.bench_function(spec, |bencher| bencher.iter(|| key.take()));
    }
}

fn refusals(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("refusal cache");
    for count in [1, 100_000] {
        let keys = keys(count);
        let refusals = Refusals::of(&keys).expect("a good spec");
        let mut call = 0_usize;
        group.bench_function(BenchmarkId::new("keys", count), |bencher| {
            bencher.iter(|| {
                call = call.wrapping_add(0x9e37_79b1);
                refusals.get(black_box(&keys[call % count]))
            });
        });
    }
}

/// `distinct` keys, each `calls / distinct` times.
fn batches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batch");
    for (calls, distinct) in [(1, 1), (64, 64), (256, 256), (256, 1)] {
        let keys: Vec<String> = keys(distinct).into_iter().cycle().take(calls).collect();
        let limit = Calls::on("100/s").expect("a good spec");
        group.throughput(Throughput::Elements(calls as u64));
        let shape = format!("{calls} calls on {distinct} keys");
        group.bench_function(BenchmarkId::new("assemble and write down", &shape), |bencher| {
            bencher.iter_batched(
                || limit.waiting(&keys),
                |waiting| {
                    let batch = limit.assemble(waiting);
                    let bytes = batch.bytes();
                    (batch, bytes)
                },
                BatchSize::SmallInput,
            );
        });
        group.bench_function(BenchmarkId::new("read the reply and hand out", &shape), |bencher| {
            bencher.iter_batched(
                || limit.assembled(&keys),
                |(mut batch, replies)| {
                    batch.hand_out(replies);
                    batch
                },
                BatchSize::SmallInput,
            );
        });
    }
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|key| format!("user:{key:05}")).collect()
}

criterion_group!(benches, steps, refusals, batches);
criterion_main!(benches);

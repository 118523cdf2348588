//! The generated comparison: one stream of random calls through Lua in a real Redis and through
//! Rust must give the same answers, on every field.
//!
//! Needs a Redis at `SLUICEGATE_TEST_REDIS`. `SLUICEGATE_SEED` repeats a stream,
//! `SLUICEGATE_STEPS` sets its length, `SLUICEGATE_TRACE` prints every step.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use smallvec::{SmallVec, smallvec};

use crate::algorithm::Mark;
use crate::clock::{Clock, ManualClock};
use crate::config::Config;
use crate::decision::{Decision, Source};
use crate::engine::{Answered, Engine};
use crate::kept_key::KeptKey;
use crate::outage::OnOutage;
use crate::spec::Spec;
use crate::store::{Op, OwnedPart, Part, Plan};

const RULES: [&str; 24] = [
    "100/s burst 5",
    "3/s",
    "7/h burst 40",
    "1000000000/s",
    "1/366d",
    "999983/7s burst 3",
    "gcra 100/s burst 5",
    "gcra 3/s",
    "gcra 123457/d",
    "gcra 999999937/366d burst 77",
    "gcra 7/s burst 1000000000",
    "leaky-bucket 10/s queue 3",
    "leaky-bucket 3/s queue 0",
    "leaky-bucket 999/m queue 50",
    "fixed-window 3/s",
    "fixed-window 50/m align +05:30",
    "fixed-window 7/1500ms align",
    "sliding-window 5/s",
    "sliding-window 40/m buckets 7",
    "sliding-window 9/1001ms buckets 100",
    "sliding-log 5/s",
    "sliding-log 300/m",
    "sliding-log 1000000000/366d",
    "concurrency 3 ttl 2s",
];

fn seed() -> u64 {
    std::env::var("SLUICEGATE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random)
}

fn engine(url: &str, prefix: &str, clock: &ManualClock) -> Engine {
    let config = Config {
        target: url.parse().unwrap(),
        prefix: prefix.to_owned(),
        timeout: Duration::from_secs(20),
        on_outage: OnOutage::Raise,
        deny_cache: Duration::ZERO,
        max_keys: 1_000_000,
        max_waiting: 100_000,
        clock: Clock::Manual(clock.clone()),
        on_event: None,
    };
    Engine::open(config).unwrap()
}

/// A call, and what is needed to say which one it was.
struct Call {
    op: Op,
    parts: SmallVec<[OwnedPart; 1]>,
}

/// A limit, a key and a cost, and where the turn is.
type Turn = (Arc<Plan>, KeptKey, u64, SmallVec<[Mark; 1]>);

struct Generator {
    random: SmallRng,
    engine: Engine,
    plans: Vec<Arc<Plan>>,
    /// Turns that wait: who took them and where they are.
    turns: Vec<Turn>,
    holders: Vec<(Arc<Plan>, KeptKey, u64)>,
}

impl Generator {
    fn new(seed: u64, clock: &ManualClock) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let engine = engine("memory://", "sg", clock);
        let mut texts: Vec<String> = RULES.map(str::to_owned).to_vec();
        for _ in 0..4 {
            let count = random.random_range(2..4);
            texts
                .push(RULES[..23].choose_multiple(&mut random, count).copied().collect::<Vec<_>>().join(";"));
        }
        let plan = |text: &String| {
            // By algorithm, so that specs of one algorithm meet each other's states.
            let name = if text.contains(';') { "several" } else { "one" };
            Arc::new(engine.plan(name, text.parse::<Spec>().unwrap(), OnOutage::Raise).unwrap())
        };
        let plans = texts.iter().map(plan).collect();
        Generator { random, engine, plans, turns: Vec::new(), holders: Vec::new() }
    }

    fn cost(&mut self, limit: u64) -> u64 {
        match self.random.random_range(0..10) {
            0 => 0,
            1 => limit,
            2 => limit + 1,
            3 => self.random.random_range(0..=limit),
            4 => self.random.random_range(0..1 << 53),
            5 => 2,
            _ => 1,
        }
    }

    fn part(&mut self, plan: Option<Arc<Plan>>) -> OwnedPart {
        let plan = plan.unwrap_or_else(|| Arc::clone(self.plans.choose(&mut self.random).unwrap()));
        let limit = plan.members.iter().map(|member| member.twin.limit()).min().unwrap();
        let cost = self.cost(limit);
        let key = format!("k{}", self.random.random_range(0..3));
        OwnedPart { plan, key: key.into_bytes().into(), cost, marks: SmallVec::new() }
    }

    fn call(&mut self) -> Call {
        let mut part = self.part(None);
        let op = if part.plan.has_units() {
            match self.random.random_range(0..20) {
                0 | 1 => Op::Peek,
                2 => Op::Refund,
                3 => Op::Debit,
                4 if self.random.random_range(0..10) == 0 => Op::Reset,
                5..=8 => Op::Take {
                    wait: *[1_000, 400_000, 20_000_000, 366 * 86_400_000_000]
                        .choose(&mut self.random)
                        .unwrap(),
                },
                9 | 10 if !self.turns.is_empty() => {
                    let index = self.random.random_range(0..self.turns.len());
                    let (plan, key, cost, marks) = self.turns.swap_remove(index);
                    part = OwnedPart { plan, key, cost, marks };
                    Op::Cancel
                }
                11 => {
                    let mut parts: SmallVec<[OwnedPart; 1]> = smallvec![part];
                    for index in 0..self.random.random_range(1..4) {
                        let mut more = self.part(None);
                        more.key = format!("all{index}").into_bytes().into();
                        if more.plan.has_units() {
                            parts.push(more);
                        }
                    }
                    return Call { op: Op::Take { wait: 0 }, parts };
                }
                _ => Op::Take { wait: 0 },
            }
        } else {
            part.cost = 1;
            match self.random.random_range(0..5) {
                0 | 1 if !self.holders.is_empty() => {
                    let index = self.random.random_range(0..self.holders.len());
                    let (plan, key, holder) = self.holders.swap_remove(index);
                    part = OwnedPart { plan, key, cost: 1, marks: SmallVec::new() };
                    if self.random.random() { Op::Release(holder) } else { Op::Renew(holder) }
                }
                2 => Op::Peek,
                _ => {
                    let holder = self.random.random_range(1..1 << 53);
                    self.holders.push((Arc::clone(&part.plan), part.key.clone(), holder));
                    Op::Hold(holder)
                }
            }
        };
        if matches!(op, Op::Refund | Op::Debit) {
            part.cost = part.cost.min(1 << 44);
        }
        if matches!(op, Op::Take { wait } if wait > 0)
            && !part.plan.spec.rules.iter().all(|rule| rule.algorithm.reserves())
        {
            return Call { op: Op::Take { wait: 0 }, parts: smallvec![part] };
        }
        Call { op, parts: smallvec![part] }
    }

    /// Moves the clock: most often a little, now and then far, or back.
    fn step(&mut self, clock: &ManualClock) {
        let ahead = match self.random.random_range(0..30) {
            0..=8 => 0,
            9..=15 => self.random.random_range(0..5),
            16..=20 => self.random.random_range(0..20_000),
            21..=25 => self.random.random_range(0..1_000_000),
            26 | 27 => self.random.random_range(0..100_000_000),
            28 => self.random.random_range(0..400 * 86_400_000_000),
            _ => {
                let back = [1_000, 500_000, 3_600_000_000, 86_400_000_000].choose(&mut self.random).unwrap();
                let back = Duration::from_micros(self.random.random_range(0..*back));
                return clock.set(clock.now().saturating_sub(back));
            }
        };
        clock.advance(Duration::from_micros(ahead));
    }
}

fn without_source(answered: &Answered) -> (Decision, SmallVec<[Mark; 1]>) {
    (Decision { source: Source::Memory, ..answered.decision }, answered.marks.clone())
}

#[test]
fn lua_and_rust_agree_on_a_generated_stream() {
    let Ok(url) = std::env::var("SLUICEGATE_TEST_REDIS") else {
        eprintln!("skipped: SLUICEGATE_TEST_REDIS names no Redis");
        return;
    };
    let seed = seed();
    let steps: usize =
        std::env::var("SLUICEGATE_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(100_000);
    println!("generated comparison: {steps} steps with SLUICEGATE_SEED={seed}");
    let clock = ManualClock::default();
    let mut generator = Generator::new(seed, &clock);
    let redis = engine(&url, &format!("twin{:x}", rand::random::<u64>()), &clock);
    // The same plans, named for Redis.
    let named: HashMap<*const Plan, Arc<Plan>> = generator
        .plans
        .iter()
        .map(|plan| {
            let own = redis.plan(&plan.name, plan.spec.clone(), OnOutage::Raise).unwrap();
            (Arc::as_ptr(plan), Arc::new(own))
        })
        .collect();
    let mut step = 0;
    while step < steps {
        generator.step(&clock);
        // What is submitted together travels together, in order of arrival.
        let mut calls: Vec<Call> = Vec::new();
        for _ in 0..generator.random.random_range(1..30) {
            let mut call = generator.call();
            // Turns that are given back one right after the other may change places on the way.
            if call.op == Op::Cancel && calls.last().is_some_and(|last| last.op == Op::Cancel) {
                call.op = Op::Peek;
            }
            calls.push(call);
        }
        let (send, receive) = mpsc::channel();
        for (index, call) in calls.iter().enumerate() {
            let send = send.clone();
            let parts = call
                .parts
                .iter()
                .map(|part| OwnedPart { plan: Arc::clone(&named[&Arc::as_ptr(&part.plan)]), ..part.clone() });
            redis.submit(
                call.op,
                parts.collect(),
                Box::new(move |answered| send.send((index, answered)).unwrap()),
            );
        }
        let mut theirs: Vec<Option<Answered>> = calls.iter().map(|_| None).collect();
        for _ in &calls {
            let (index, answered) = receive.recv_timeout(Duration::from_secs(30)).unwrap();
            theirs[index] = Some(answered.unwrap());
        }
        for (call, theirs) in calls.iter().zip(theirs) {
            let theirs = theirs.unwrap();
            let what = || {
                let parts: Vec<_> = call
                    .parts
                    .iter()
                    .map(|part| {
                        (
                            part.plan.spec.to_string(),
                            String::from_utf8_lossy(&part.key).into_owned(),
                            part.cost,
                        )
                    })
                    .collect();
                format!("step {step}, SLUICEGATE_SEED={seed}: {:?} {parts:?} at {:?}", call.op, clock.now())
            };
            if call.op == Op::Cancel {
                if std::env::var("SLUICEGATE_TRACE").is_ok() {
                    println!("{} {:?}\n", what(), call.parts[0].marks);
                }
                generator.engine.cancel(call.parts[0].clone(), Source::Memory);
            } else {
                let parts: Vec<Part<'_>> = call.parts.iter().map(OwnedPart::part).collect();
                let ours = generator.engine.decide_now(call.op, &parts).unwrap().unwrap();
                if std::env::var("SLUICEGATE_TRACE").is_ok() {
                    println!("{}\n  {:?}", what(), ours.decision);
                }
                if call.op != Op::Reset {
                    assert_eq!(without_source(&ours), without_source(&theirs), "{}", what());
                }
                if !ours.marks.is_empty() && generator.turns.len() < 50 {
                    let part = &call.parts[0];
                    generator.turns.push((Arc::clone(&part.plan), part.key.clone(), part.cost, ours.marks));
                }
            }
            step += 1;
        }
    }
}

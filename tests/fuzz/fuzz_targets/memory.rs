//! Sequences of verbs in memory under any clock, from the epoch to the end of exact time, any cost
//! and specs that change under a state: never a panic, and a decision is always a sound one.
#![no_main]

use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use sluicegate::{Call, Decision, ErrorKind, Later, Limit, Limiter, ManualClock, Permit, Submitted};

const END: u64 = 1 << 53;

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Kind {
    TokenBucket,
    Gcra,
    LeakyBucket,
    FixedWindow,
    AlignedWindow,
    SlidingWindow,
    SlidingLog,
    Concurrency,
    Several,
}

#[derive(Arbitrary, Debug)]
struct Rule {
    kind: Kind,
    count: u32,
    /// Of milliseconds.
    period: u64,
    depth: u32,
}

impl Rule {
    fn text(&self) -> String {
        let count = u64::from(self.count) % 1_000_000_000 + 1;
        let period = self.period % (366 * 86_400_000) + 1;
        let depth = u64::from(self.depth) % 1_000_000_000 + 1;
        match self.kind {
            Kind::TokenBucket => format!("{count}/{period}ms burst {depth}"),
            Kind::Gcra => format!("gcra {count}/{period}ms burst {depth}"),
            Kind::LeakyBucket => format!("leaky-bucket {count}/{period}ms queue {depth}"),
            Kind::FixedWindow => format!("fixed-window {count}/{period}ms"),
            Kind::AlignedWindow => {
                format!("fixed-window {count}/{period}ms align -{:02}:59", depth % 13)
            }
            Kind::SlidingWindow => format!("sliding-window {count}/{period}ms buckets {}", depth % 100 + 1),
            Kind::SlidingLog => format!("sliding-log {count}/{period}ms"),
            Kind::Concurrency => format!("concurrency {count} ttl {period}ms"),
            Kind::Several => format!("{count}/{period}ms; sliding-log {depth}/h; fixed-window {count}/d"),
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Step {
    SetClock(u64),
    Advance(u32),
    Back(u32),
    TryAcquire(u8, u8, u64),
    /// Until it is admitted, if that is ever.
    Retry(u8, u8, u64),
    Acquire(u8, u8, u16),
    Reserve(u8, u8, u64, u64),
    Peek(u8, u8),
    Refund(u8, u8, u64),
    Reset(u8, u8),
    Hold(u8, u8),
    Release(u8),
    GiveUp(u8),
    All(Vec<(u8, u8, u16)>),
}

#[derive(Arbitrary, Debug)]
struct Input {
    rules: [Rule; 4],
    /// Whether all limits have one name, and so one state where their algorithms are the same.
    one_name: bool,
    max_keys: u16,
    steps: Vec<Step>,
}

struct World {
    clock: ManualClock,
    limiter: Limiter,
    limits: Vec<Limit>,
    permits: Vec<Permit>,
    waiting: Vec<Later>,
    /// Whether a call waits or has given up, which on its own thread may take and give back at any time.
    company: bool,
}

fn key(number: u8) -> [u8; 1] {
    [number % 8]
}

fn sound(limit: &Limit, decision: &Decision) {
    assert!(decision.remaining <= decision.limit, "{limit:?}: {decision:?}");
    assert!(!decision.allowed || decision.retry_after.is_none(), "{limit:?}: {decision:?}");
    assert!(decision.allowed || decision.wait.is_zero(), "{limit:?}: {decision:?}");
}

impl World {
    fn limit(&self, number: u8) -> Option<&Limit> {
        self.limits.get(usize::from(number) % self.limits.len().max(1))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_micros()).unwrap()
    }

    fn set(&self, micros: u64) {
        self.clock.set(Duration::from_micros(micros));
    }

    /// What a verb decides; `None` where it has no meaning for the limit.
    fn decide(&self, limit: &Limit, call: Call, key: u8) -> Option<Decision> {
        match limit.call_blocking(call, self::key(key)) {
            Ok(answer) => {
                let decision = answer.decision()?;
                sound(limit, &decision);
                Some(decision)
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                None
            }
        }
    }

    fn retry(&self, limit: &Limit, key: u8, cost: u64) {
        let call = Call::TryAcquire { cost };
        let full = self.limiter.status().refused_full;
        let Some(after) = self.decide(limit, call, key).and_then(|decision| decision.retry_after) else {
            return;
        };
        let after = u64::try_from(after.as_micros()).unwrap();
        assert!(after > 0, "{limit:?}: refused, and yet to be tried at once");
        // A full table can only say when some room may be found.
        if self.company || self.now() + after > END || self.limiter.status().refused_full > full {
            return;
        }
        self.set(self.now() + after - 1);
        let early = self.decide(limit, call, key).unwrap();
        assert!(!early.allowed, "{limit:?}: admitted before retry_after: {early:?}");
        self.set(self.now() + 1);
        let full = self.limiter.status().refused_full;
        let exact = self.decide(limit, call, key).unwrap();
        let found_room = self.limiter.status().refused_full == full;
        assert!(exact.allowed || !found_room, "{limit:?}: refused at retry_after: {exact:?}");
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::SetClock(to) => self.set(to % (END + 1)),
            Step::Advance(by) => self.clock.advance(Duration::from_micros((*by).into())),
            Step::Back(by) => self.set(self.now().saturating_sub((*by).into())),
            Step::TryAcquire(limit, key, cost) => {
                let Some(limit) = self.limit(*limit) else { return };
                let cost = cost % (END + 1);
                if let Some(decision) = self.decide(limit, Call::TryAcquire { cost }, *key) {
                    assert!(cost > 0 || decision.allowed, "{limit:?}: refused to take nothing");
                    assert!(!decision.allowed || cost <= decision.limit, "{limit:?}: {cost}, {decision:?}");
                }
            }
            Step::Retry(limit, key, cost) => {
                if let Some(limit) = self.limit(*limit) {
                    self.retry(limit, *key, cost % (1 << 32));
                }
            }
            Step::Acquire(limit, key, cost) => {
                let call = Call::Acquire { cost: u64::from(*cost), timeout: None };
                let submitted = self.limit(*limit).map(|limit| limit.submit(call, &self::key(*key)));
                if let Some(Submitted::Later(later)) = submitted {
                    self.company = true;
                    self.waiting.push(later);
                    self.waiting.truncate(8);
                }
            }
            Step::Reserve(limit, key, cost, wait) => {
                let Some(limit) = self.limit(*limit) else { return };
                let most = Duration::from_micros(wait % (366 * 86_400_000_000));
                let call = Call::Reserve { cost: cost % (END + 1), max_wait: Some(most) };
                if let Some(decision) = self.decide(limit, call, *key) {
                    assert!(decision.wait <= most, "{limit:?}: {decision:?}");
                }
            }
            Step::Peek(limit, key) => {
                let Some(limit) = self.limit(*limit) else { return };
                let seen = self.decide(limit, Call::Peek, *key);
                let again = self.decide(limit, Call::Peek, *key);
                assert!(self.company || seen == again, "{limit:?}: a look changed something");
            }
            Step::Refund(limit, key, cost) => {
                let Some(limit) = self.limit(*limit) else { return };
                let _ = self.decide(limit, Call::Refund { cost: cost % (END + 1) }, *key);
            }
            Step::Reset(limit, key) => {
                let Some(limit) = self.limit(*limit) else { return };
                limit.reset_blocking(self::key(*key)).unwrap();
                let seen = self.decide(limit, Call::Peek, *key).unwrap();
                assert!(self.company || seen.remaining == seen.limit, "{limit:?}: {seen:?}");
            }
            Step::Hold(limit, key) => {
                let held =
                    self.limit(*limit).map(|limit| limit.hold_blocking(self::key(*key), Duration::ZERO));
                if let Some(Ok((decision, permit))) = held {
                    assert_eq!(decision.allowed, permit.is_some());
                    self.permits.extend(permit);
                    self.permits.truncate(16);
                }
            }
            Step::Release(number) => {
                if !self.permits.is_empty() {
                    self.permits.swap_remove(usize::from(*number) % self.permits.len());
                }
            }
            Step::GiveUp(number) => {
                if !self.waiting.is_empty() {
                    self.waiting.swap_remove(usize::from(*number) % self.waiting.len());
                }
            }
            Step::All(entries) => {
                let of = |(limit, key, cost): &(u8, u8, u16)| {
                    Some((self.limit(*limit)?, self::key(*key), u64::from(*cost)))
                };
                let entries: Vec<_> = entries.iter().take(8).filter_map(of).collect();
                match self.limiter.try_acquire_all_blocking(&entries) {
                    Ok(decision) => sound(entries[0].0, &decision),
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::Argument | ErrorKind::Unsupported));
                    }
                }
            }
        }
    }
}

fuzz_target!(|input: Input| {
    let clock = ManualClock::default();
    let max_keys = 64 + usize::from(input.max_keys);
    let limiter = Limiter::builder().max_keys(max_keys).clock(&clock).open().unwrap();
    let limits: Vec<Limit> = (0..)
        .zip(&input.rules)
        .filter_map(|(number, rule)| {
            let name = if input.one_name { "n".to_owned() } else { format!("n{number}") };
            // What is past the range of exact arithmetic is refused.
            limiter.limit(&name, &rule.text()).ok()
        })
        .collect();
    let mut world = World { clock, limiter, limits, permits: vec![], waiting: vec![], company: false };
    for step in input.steps.iter().take(200) {
        world.step(step);
    }
});

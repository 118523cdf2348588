//! A round: random limits, calls and clock steps through the public API, with every answer checked
//! and what was admitted told to the observer. Whoever brings the random numbers decides what
//! happens: a seed (`invariants.rs`), or a fuzzer (`tests/fuzz`).

use std::time::Duration;

use rand::Rng;
use rand::seq::IndexedRandom;
use sluicegate::{Decision, Limit, Limiter, ManualClock, Permit};

use super::{Observer, Rule};

const HOUR: u64 = 3_600_000_000;

/// What a round may do besides asking and moving the clock ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// Nothing: what is admitted is then known exactly, not only bounded.
    Plain,
    Refunds,
    /// Turns are taken with `reserve`.
    Turns,
    /// The clock steps back, but never behind by half a refill.
    LittleBack,
    /// The clock steps back by any time up to a day, and units are given back.
    FarBack,
}

struct Round<R> {
    random: R,
    mode: Mode,
    clock: ManualClock,
    limit: Limit,
    observer: Observer,
    /// The latest time that the clock has shown.
    latest: u64,
    /// Units that were admitted and not given back.
    held: u64,
    /// Whether a second key hears of admissions only, to show that nothing else leaves a trace.
    compare: bool,
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap()
}

impl<R: Rng> Round<R> {
    fn now(&self) -> u64 {
        micros(self.clock.now())
    }

    fn advance(&mut self, by: u64) {
        self.clock.advance(Duration::from_micros(by));
        self.observer.time += by;
        self.latest = self.latest.max(self.now());
    }

    fn move_clock(&mut self) {
        let rule = self.observer.rules.choose(&mut self.random).unwrap().clone();
        let one = (rule.period / rule.count).max(1);
        let by = match self.random.random_range(0..20) {
            0..=8 => 0,
            9 => 1,
            10..=13 => self.random.random_range(0..=one),
            14 => one,
            15 | 16 => self.random.random_range(0..=rule.period),
            17 => self.random.random_range(0..=rule.refill()),
            18 => rule.period + self.random.random_range(0..=2) - 1,
            _ => return self.step_back(),
        };
        self.advance(by);
    }

    fn step_back(&mut self) {
        let lag = self.latest - self.now();
        let most = match self.mode {
            Mode::LittleBack => (self.observer.refill() / 2).saturating_sub(lag),
            Mode::FarBack => *[1_000, 1_000_000, HOUR, 24 * HOUR].choose(&mut self.random).unwrap(),
            _ => 0,
        };
        let back = self.random.random_range(0..=most);
        self.clock.set(self.clock.now() - Duration::from_micros(back));
        self.observer.stepped_far |= self.mode == Mode::FarBack && back > 0;
    }

    fn cost(&mut self) -> u64 {
        let capacity = self.observer.capacity();
        match self.random.random_range(0..12) {
            0 => 0,
            1 => capacity,
            2 => capacity + 1,
            3 | 4 => self.random.random_range(0..=capacity),
            _ => 1,
        }
    }

    /// Takes `cost` now, and checks the answer from all sides.
    fn take(&mut self, cost: u64) -> Decision {
        let expected = (self.mode == Mode::Plain).then(|| self.observer.would_admit(self.now(), cost));
        let decision = self.limit.try_acquire_blocking("k", cost).unwrap();
        assert_eq!(decision.allowed, expected.unwrap_or(decision.allowed), "cost {cost}: {decision:?}");
        assert_eq!(decision.wait, Duration::ZERO);
        assert!(decision.remaining <= decision.limit, "{decision:?}");
        if decision.allowed {
            assert_eq!(decision.retry_after, None);
            assert!(cost <= self.observer.capacity());
            self.held += cost;
            self.observer.admitted(self.now(), 0, cost);
            self.same_without_the_rest(&decision, |limit| limit.try_acquire_blocking("other", cost));
        } else {
            assert_eq!(decision.retry_after.is_none(), cost > self.observer.capacity(), "{decision:?}");
            let longest = if self.mode == Mode::Turns { u64::MAX } else { self.observer.longest_wait() };
            assert!(decision.retry_after.is_none_or(|wait| micros(wait) <= longest), "frozen: {decision:?}");
        }
        decision
    }

    /// The second key, which saw no refusal and no look, answers the same.
    fn same_without_the_rest(
        &self,
        decision: &Decision,
        call: impl Fn(&Limit) -> sluicegate::Result<Decision>,
    ) {
        if self.compare {
            assert_eq!(call(&self.limit).unwrap(), *decision, "refusals or looks left a trace");
        }
    }

    /// Refused strictly before `retry_after`, admitted exactly at it.
    fn wait_for(&mut self, cost: u64, retry_after: u64) {
        assert!(retry_after > 0, "refused, and yet to be tried at once");
        if retry_after > 400 * 24 * HOUR {
            return;
        }
        self.advance(retry_after - 1);
        let early = self.take(cost);
        assert!(!early.allowed, "admitted before retry_after: {early:?}");
        assert_eq!(early.retry_after, Some(Duration::from_micros(1)));
        self.advance(1);
        let exact = self.take(cost);
        assert!(exact.allowed, "refused at retry_after: {exact:?}");
    }

    fn try_acquire(&mut self) {
        let cost = self.cost();
        let decision = self.take(cost);
        if let Some(retry_after) = decision.retry_after
            && self.random.random_range(0..4) == 0
        {
            self.wait_for(cost, micros(retry_after));
        }
    }

    fn peek(&mut self) {
        let seen = self.limit.peek_blocking("k").unwrap();
        assert_eq!(seen, self.limit.peek_blocking("k").unwrap(), "a look changed something");
        if self.random.random() {
            let decision = self.take(1);
            assert_eq!(decision.allowed, seen.allowed, "a look saw something else: {seen:?}");
            assert_eq!(decision.retry_after, seen.retry_after);
        }
    }

    fn refund(&mut self) {
        let units = self.random.random_range(0..=self.held);
        let decision = self.limit.refund_blocking("k", units).unwrap();
        assert!(decision.allowed && decision.remaining <= decision.limit, "{decision:?}");
        self.held -= units;
        self.observer.refunded(units);
        self.same_without_the_rest(&decision, |limit| limit.refund_blocking("other", units));
    }

    fn reserve(&mut self) {
        let cost = self.cost();
        let most = self.random.random_range(0..=3 * self.observer.refill());
        let decision = self.limit.reserve_blocking("k", cost, Duration::from_micros(most)).unwrap();
        let wait = micros(decision.wait);
        assert!(wait <= most, "{decision:?}");
        if !decision.allowed || cost == 0 {
            return assert_eq!(wait, 0);
        }
        if wait > 0 && self.random.random_range(0..6) == 0 {
            // Given back before it came: as if it had never been taken.
            self.limit.refund_blocking("k", cost).unwrap();
            return;
        }
        self.observer.admitted(self.now(), wait, cost);
    }

    fn step(&mut self) {
        self.move_clock();
        match (self.mode, self.random.random_range(0..20)) {
            (_, 0 | 1) => self.peek(),
            (Mode::Turns, 2..=9) => self.reserve(),
            (Mode::Refunds | Mode::FarBack, 2 | 3) => self.refund(),
            (_, 4) if self.random.random_range(0..10) == 0 => {
                self.limit.reset_blocking("k").unwrap();
                self.limit.reset_blocking("other").unwrap();
                self.observer.forget();
                self.held = 0;
            }
            _ => self.try_acquire(),
        }
    }
}

pub(crate) fn round(url: &str, prefix: &str, mut random: impl Rng, steps: usize, say: fn(String)) {
    let mode = *[Mode::Plain, Mode::Plain, Mode::Refunds, Mode::Turns, Mode::LittleBack, Mode::FarBack]
        .choose(&mut random)
        .unwrap();
    // Of several limits each keeps its own turns, and the caller waits for the last of them.
    let several = if mode == Mode::Turns { 1 } else { *[1, 1, 1, 2, 3].choose(&mut random).unwrap() };
    let rules: Vec<Rule> = (0..several).map(|_| Rule::random(&mut random, mode == Mode::Turns)).collect();
    let text = rules.iter().map(Rule::text).collect::<Vec<_>>().join("; ");
    say(format!("{mode:?} on {text:?}"));
    let (clock, limiter) = limiter(url, prefix);
    // Not always at the beginning of a window.
    clock.advance(Duration::from_micros(random.random_range(0..2 * HOUR)));
    let latest = micros(clock.now());
    let mut round = Round {
        limit: limiter.limit("main", text.as_str()).unwrap(),
        observer: Observer::new(rules, latest, mode == Mode::Turns),
        compare: !matches!(mode, Mode::FarBack | Mode::Turns),
        held: 0,
        random,
        mode,
        clock,
        latest,
    };
    for _ in 0..steps {
        round.step();
    }
}

/// Permits: never more than N are held by holders younger than the ttl, however the clock steps.
pub(crate) fn permits(url: &str, prefix: &str, mut random: impl Rng, steps: usize, say: fn(String)) {
    let (most, ttl) = (random.random_range(1..6), random.random_range(1..50) * 100_000);
    say(format!("concurrency {most} ttl {ttl} us"));
    let (clock, limiter) = limiter(url, prefix);
    let limit = limiter.limit("held", &format!("concurrency {most} ttl {}ms", ttl / 1000)).unwrap();
    let (mut time, mut back) = (0, false);
    let mut holders: Vec<(Permit, u64)> = Vec::new();
    for _ in 0..steps {
        let ahead = *[0, 0, 1, ttl / 3, ttl - 1, ttl].choose(&mut random).unwrap();
        clock.advance(Duration::from_micros(ahead));
        time += ahead;
        if random.random_range(0..20) == 0 {
            let by = *[1, ttl / 2, ttl + 1, HOUR].choose(&mut random).unwrap();
            clock.set(clock.now() - Duration::from_micros(by));
            back = true;
        }
        if !holders.is_empty() && random.random_range(0..3) == 0 {
            holders.swap_remove(random.random_range(0..holders.len()));
            continue;
        }
        let (decision, permit) = limit.hold_blocking("k", Duration::ZERO).unwrap();
        holders.extend(permit.map(|permit| (permit, time)));
        let live = holders.iter().filter(|(_, since)| since + ttl > time).count();
        assert!(live <= most, "{live} of {most} are held");
        if let Some(retry_after) = decision.retry_after {
            assert!(back || live == most, "refused with {live} of {most} held");
            if random.random_range(0..3) == 0 {
                clock.advance(retry_after - Duration::from_micros(1));
                let early = limit.hold_blocking("k", Duration::ZERO).unwrap().0;
                assert_eq!(early.retry_after, Some(Duration::from_micros(1)), "{early:?}");
                clock.advance(Duration::from_micros(1));
                time += micros(retry_after);
                let (exact, permit) = limit.hold_blocking("k", Duration::ZERO).unwrap();
                assert!(exact.allowed, "refused at retry_after: {exact:?}");
                holders.extend(permit.map(|permit| (permit, time)));
            }
        }
    }
}

fn limiter(url: &str, prefix: &str) -> (ManualClock, Limiter) {
    let clock = ManualClock::default();
    let builder = Limiter::builder().url(url).prefix(prefix).timeout(Duration::from_secs(5));
    (clock.clone(), builder.deny_cache(Duration::ZERO).clock(&clock).open().unwrap())
}

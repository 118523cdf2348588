//! What the shadow observer knows: the rules as their definitions have them, and who was admitted
//! when. It shares no code and no way of counting with the algorithms: it adds up lists.

pub(crate) mod round;

use rand::Rng;
use rand::seq::IndexedRandom;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    TokenBucket,
    Gcra,
    LeakyBucket,
    FixedWindow,
    SlidingWindow,
    SlidingLog,
}

#[derive(Debug, Clone)]
pub(crate) struct Rule {
    kind: Kind,
    pub(crate) count: u64,
    /// In microseconds.
    pub(crate) period: u64,
    /// Burst or queue.
    depth: u64,
    buckets: u64,
    /// Minutes ahead of UTC.
    align: Option<u64>,
}

impl Rule {
    pub(crate) fn random(random: &mut impl Rng, turns: bool) -> Rule {
        let mut kinds = vec![Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket];
        if !turns {
            kinds.extend([Kind::FixedWindow, Kind::SlidingWindow, Kind::SlidingWindow, Kind::SlidingLog]);
        }
        let count = *[1, 2, 3, 3, 5, 7, 10, 50, 333].choose(random).unwrap();
        let millis = *[1, 10, 100, 1000, 1000, 1001, 1500, 60_000, 3_600_000].choose(random).unwrap();
        Rule {
            kind: *kinds.choose(random).unwrap(),
            count,
            period: millis * 1000,
            depth: *[1, 2, count, count, 2 * count + 1, 17].choose(random).unwrap(),
            buckets: *[1, 2, 3, 7, 10, 10, 100].choose(random).unwrap(),
            align: *[None, None, Some(0), Some(330), Some(480)].choose(random).unwrap(),
        }
    }

    pub(crate) fn text(&self) -> String {
        let rate = format!("{}/{}ms", self.count, self.period / 1000);
        match self.kind {
            Kind::TokenBucket => format!("{rate} burst {}", self.depth),
            Kind::Gcra => format!("gcra {rate} burst {}", self.depth),
            Kind::LeakyBucket => format!("leaky-bucket {rate} queue {}", self.depth),
            Kind::FixedWindow => {
                let align = |minutes| format!(" align +{:02}:{:02}", minutes / 60, minutes % 60);
                format!("fixed-window {rate}{}", self.align.map(align).unwrap_or_default())
            }
            Kind::SlidingWindow => format!("sliding-window {rate} buckets {}", self.buckets),
            Kind::SlidingLog => format!("sliding-log {rate}"),
        }
    }

    /// The most that can pass at once.
    fn capacity(&self) -> u64 {
        match self.kind {
            Kind::TokenBucket | Kind::Gcra => self.depth,
            Kind::LeakyBucket => self.depth + 1,
            _ => self.count,
        }
    }

    /// How long a key that is used up takes to be fresh, about.
    pub(crate) fn refill(&self) -> u64 {
        match self.kind {
            Kind::TokenBucket | Kind::Gcra | Kind::LeakyBucket => self.capacity() * self.period / self.count,
            _ => self.period,
        }
    }

    /// A refill, and as much again where the clock is behind: what is further ahead counts as now.
    fn longest_wait(&self) -> u64 {
        let slice = if self.kind == Kind::SlidingWindow { self.period / self.buckets } else { 0 };
        2 * self.refill() + slice + 2
    }

    fn slice(&self, clock: u64) -> u64 {
        u64::try_from(u128::from(clock) * u128::from(self.buckets) / u128::from(self.period)).unwrap()
    }

    /// The number of the aligned window that holds this time.
    fn window(&self, minutes: u64, clock: u64) -> u64 {
        (clock + minutes * 60_000_000) / self.period
    }

    /// By definition, whether `cost` fits at `now`, where the clock never stepped back and nothing
    /// was given back.
    fn would_admit(&self, admissions: &[Admission], now: u64, cost: u64) -> bool {
        let since = |counts: &dyn Fn(&Admission) -> bool| {
            admissions.iter().filter(|one| counts(one)).map(|one| one.units).sum::<u64>()
        };
        match self.kind {
            Kind::TokenBucket | Kind::Gcra => {
                cost <= self.depth && self.conforms(admissions, now, cost, |_| self.depth, 0)
            }
            Kind::LeakyBucket => cost <= self.depth + 1 && self.conforms(admissions, now, 0, |_| 0, 0),
            Kind::FixedWindow => {
                let (mut used, mut end) = (0, 0);
                for (at, units) in admissions.iter().map(|one| (one.at, one.units)).chain([(now, cost)]) {
                    if at >= end {
                        used = 0;
                        end = match self.align {
                            None => at + self.period,
                            Some(minutes) => at + self.period - (at + minutes * 60_000_000) % self.period,
                        };
                    }
                    used += units;
                }
                used <= self.count
            }
            Kind::SlidingWindow => {
                let oldest = self.slice(now) - self.buckets;
                since(&|one| self.slice(one.clock) >= oldest) + cost <= self.count
            }
            Kind::SlidingLog => since(&|one| one.at + self.period > now) + cost <= self.count,
        }
    }

    /// Whether in every window up to `now` what was admitted, and `cost`, is at most the rate and
    /// `extra`, told when the window starts. Sums are compared as units times period: exactly.
    fn conforms(
        &self,
        admissions: &[Admission],
        now: u64,
        cost: u64,
        extra: impl Fn(u64) -> u64,
        slack: u64,
    ) -> bool {
        let (count, period) = (u128::from(self.count), u128::from(self.period));
        let mut sum = u128::from(cost);
        admissions.iter().rev().all(|one| {
            sum += u128::from(one.units);
            sum * period <= count * u128::from(now - one.at + slack) + u128::from(extra(one.at)) * period
        })
    }
}

#[derive(Debug, Clone)]
struct Admission {
    /// When it may go, in the observer's time: that of its clock's steps ahead.
    at: u64,
    /// What the clock showed, or had shown at an admission before.
    clock: u64,
    units: u64,
}

pub(crate) struct Observer {
    pub(crate) rules: Vec<Rule>,
    /// All steps ahead of the clock. Its steps back are no time.
    pub(crate) time: u64,
    /// Whether the clock was ever further back than half a refill.
    pub(crate) stepped_far: bool,
    /// A turn is told in whole microseconds, rounded up.
    slack: u64,
    admissions: Vec<Admission>,
    /// The same without what was given back, the newest first.
    kept: Vec<Admission>,
    refunds: Vec<(u64, u64)>,
}

impl Observer {
    pub(crate) fn new(rules: Vec<Rule>, time: u64, turns: bool) -> Self {
        Observer {
            rules,
            time,
            stepped_far: false,
            slack: turns.into(),
            admissions: Vec::new(),
            kept: Vec::new(),
            refunds: Vec::new(),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.rules.iter().map(Rule::capacity).min().unwrap()
    }

    pub(crate) fn refill(&self) -> u64 {
        self.rules.iter().map(Rule::refill).min().unwrap()
    }

    pub(crate) fn longest_wait(&self) -> u64 {
        self.rules.iter().map(Rule::longest_wait).max().unwrap()
    }

    pub(crate) fn would_admit(&self, now: u64, cost: u64) -> bool {
        cost == 0 || self.rules.iter().all(|rule| rule.would_admit(&self.admissions, now, cost))
    }

    /// Writes down an admission, and checks every window that ends with it.
    pub(crate) fn admitted(&mut self, clock: u64, wait: u64, units: u64) {
        if units == 0 {
            return;
        }
        let last = self.admissions.last();
        let admission = Admission {
            at: self.time + wait,
            clock: last.map_or(clock, |last| last.clock.max(clock)),
            units,
        };
        assert!(last.is_none_or(|last| last.at <= admission.at), "a turn before one that was given before");
        self.admissions.push(admission.clone());
        self.kept.push(admission);
        for rule in &self.rules {
            assert!(self.within_bound(rule), "{:?} passed its bound: {:#?}", rule.text(), self.kept);
        }
    }

    pub(crate) fn refunded(&mut self, mut units: u64) {
        self.refunds.push((self.time, units));
        while let Some(last) = self.kept.last_mut().filter(|_| units > 0) {
            let back = units.min(last.units);
            last.units -= back;
            units -= back;
            if last.units == 0 {
                self.kept.pop();
            }
        }
    }

    pub(crate) fn forget(&mut self) {
        self.admissions.clear();
        self.kept.clear();
        self.refunds.clear();
    }

    fn within_bound(&self, rule: &Rule) -> bool {
        let newest = &self.admissions[self.admissions.len() - 1];
        let kept = |counts: &dyn Fn(&Admission) -> bool| {
            self.kept.iter().filter(|one| counts(one)).map(|one| one.units).sum::<u64>()
        };
        let period_before = |one: &Admission| one.at + rule.period > newest.at;
        match rule.kind {
            Kind::TokenBucket | Kind::Gcra => self.within_rate(rule, newest.at, rule.depth),
            Kind::LeakyBucket => self.within_rate(rule, newest.at, newest.units),
            Kind::SlidingWindow | Kind::SlidingLog => kept(&period_before) <= rule.count,
            Kind::FixedWindow => {
                let window = |one: &Admission| rule.window(rule.align.unwrap_or(0), one.clock);
                if rule.align.is_some() && self.stepped_far {
                    // Which of its windows was meant can't be told from outside.
                    return true;
                }
                kept(&period_before) <= 2 * rule.count
                    && (rule.align.is_none() || kept(&|one| window(one) == window(newest)) <= rule.count)
            }
        }
    }

    /// The rate and `extra` bound every window, but for what was given back within it.
    fn within_rate(&self, rule: &Rule, now: u64, extra: u64) -> bool {
        let back_since = |start: u64| -> u64 {
            self.refunds.iter().filter(|(at, _)| *at >= start).map(|(_, units)| units).sum()
        };
        rule.conforms(&self.admissions, now, 0, |start| extra + back_since(start), self.slack)
    }
}

//! What a limit admits, as data, and which of it is refused. `spec_text.rs` has its form as text.

use std::time::Duration;

use crate::algorithm::RefillRate;
use crate::clock::{MAX_EXACT, Micros};
use crate::error::{Error, ErrorKind, Result};

pub(crate) const MAX_RULES: usize = 8;
pub(crate) const MAX_COUNT: u64 = 1_000_000_000;
pub(crate) const MIN_PERIOD: Micros = 1_000;
pub(crate) const MAX_PERIOD: Micros = 366 * 86_400_000_000;
pub(crate) const MAX_BUCKETS: u64 = 100;
pub(crate) const DEFAULT_BUCKETS: u64 = 10;
/// UTC offsets in use go from -12:00 to +14:00.
pub(crate) const MAX_OFFSET_MINUTES: i64 = 14 * 60;
/// A full refill takes at most this long, so that now plus it stays exact: 142 years.
const MAX_REFILL: Micros = MAX_EXACT / 2;

/// The limiting algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Admits while tokens are left; refills continuously.
    TokenBucket,
    /// The same decisions as the token bucket, kept as one arrival time.
    Gcra,
    /// Admits at a constant pace; up to `queue` callers wait.
    LeakyBucket,
    /// `count` per window, from the first hit or on aligned boundaries.
    FixedWindow,
    /// Never more than `count` in any window, kept in slices.
    SlidingWindow,
    /// Exact: every admission is remembered.
    SlidingLog,
    /// At most N held at a time.
    Concurrency,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; 7] = [
        Algorithm::TokenBucket,
        Algorithm::Gcra,
        Algorithm::LeakyBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
        Algorithm::Concurrency,
    ];

    /// The name in specs, in Redis keys and of the script in `lua/`.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::TokenBucket => "token-bucket",
            Algorithm::Gcra => "gcra",
            Algorithm::LeakyBucket => "leaky-bucket",
            Algorithm::FixedWindow => "fixed-window",
            Algorithm::SlidingWindow => "sliding-window",
            Algorithm::SlidingLog => "sliding-log",
            Algorithm::Concurrency => "concurrency",
        }
    }

    /// Whether a turn in the future can be taken: `reserve`, and an `acquire` that is fair.
    pub fn reserves(self) -> bool {
        matches!(self, Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket)
    }
}

/// One limit of a spec, with every default filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    pub(crate) algorithm: Algorithm,
    /// Units per period; the number of permits for concurrency.
    pub(crate) count: u64,
    /// The period, or the ttl of a permit.
    pub(crate) period: Micros,
    /// `burst` or `queue`.
    pub(crate) depth: u64,
    pub(crate) buckets: u64,
    /// Minutes ahead of UTC at which aligned windows begin.
    pub(crate) align: Option<i64>,
}

/// What a limit admits: one or several rules that must all admit, in one atomic step.
///
/// Made from text by [`str::parse`], or by the constructors on [`Limit`](crate::Limit) such as
/// [`Limit::token_bucket`](crate::Limit::token_bucket). It prints as its canonical text, which
/// parses back to the same spec. Ranges of a typed spec are checked when the limit is made.
///
/// Counts are 1 to 10^9, periods 1 ms to 366 days.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spec {
    pub(crate) rules: Vec<Rule>,
}

impl Spec {
    pub(crate) fn rate(algorithm: Algorithm, count: u64, period: Duration) -> Spec {
        let period = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
        Spec { rules: vec![Rule::new(algorithm, count, period)] }
    }

    /// How many units can pass at once (token-bucket and gcra).
    pub fn burst(self, burst: u64) -> Spec {
        self.with(|rule| rule.depth = burst)
    }

    /// How many units may wait (leaky-bucket).
    pub fn queue(self, queue: u64) -> Spec {
        self.with(|rule| rule.depth = queue)
    }

    /// Windows begin on multiples of the period at this many minutes ahead of UTC (fixed-window).
    pub fn align(self, minutes_ahead_of_utc: i64) -> Spec {
        self.with(|rule| rule.align = Some(minutes_ahead_of_utc))
    }

    /// How many slices a window is kept in (sliding-window), 1 to 100.
    pub fn buckets(self, buckets: u64) -> Spec {
        self.with(|rule| rule.buckets = buckets)
    }

    /// Both specs must admit, in one atomic step.
    pub fn and(mut self, other: Spec) -> Spec {
        self.rules.extend(other.rules);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Rule)) -> Spec {
        if let Some(rule) = self.rules.last_mut() {
            change(rule);
        }
        self
    }

    /// Refuses what can't be met.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::new(ErrorKind::Spec, format!("spec \"{self}\": {why}")));
        if self.rules.is_empty() || self.rules.len() > MAX_RULES {
            return refuse(format!("expected 1 to {MAX_RULES} limits, got {}", self.rules.len()));
        }
        self.rules.iter().try_for_each(|rule| rule.check().or_else(refuse))
    }
}

impl Rule {
    pub(crate) fn new(algorithm: Algorithm, count: u64, period: Micros) -> Rule {
        Rule { algorithm, count, period, depth: count, buckets: DEFAULT_BUCKETS, align: None }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(format!("{name} must be {low} to {high}, got {value}"))
            }
        };
        within("count", self.count, 1, MAX_COUNT)?;
        if !(MIN_PERIOD..=MAX_PERIOD).contains(&self.period) {
            return Err("the period must be 1ms to 366d".to_owned());
        }
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra => within("burst", self.depth, 1, MAX_COUNT)?,
            Algorithm::LeakyBucket => within("queue", self.depth, 0, MAX_COUNT)?,
            Algorithm::SlidingWindow => within("buckets", self.buckets, 1, MAX_BUCKETS)?,
            Algorithm::FixedWindow | Algorithm::SlidingLog | Algorithm::Concurrency => {}
        }
        if self.align.is_some_and(|minutes| minutes.abs() > MAX_OFFSET_MINUTES) {
            return Err("the UTC offset must be -14:00 to +14:00".to_owned());
        }
        if self.algorithm.reserves() {
            self.check_product()?;
        }
        Ok(())
    }

    /// The products that the algorithms form must stay exact.
    fn check_product(&self) -> Result<(), String> {
        let rate = RefillRate::new(self.count, self.period);
        let units = (u128::from(self.depth) + 1) * u128::from(rate.token);
        let (name, bound) = match self.algorithm {
            Algorithm::Gcra => ("burst", u128::from(MAX_REFILL) * u128::from(rate.flow)),
            Algorithm::LeakyBucket => ("queue", u128::from(MAX_EXACT - 1)),
            _ => ("burst", u128::from(MAX_EXACT - 1)),
        };
        let bound = bound.min(u128::from(MAX_REFILL) * u128::from(rate.flow));
        if units < bound {
            return Ok(());
        }
        let most = (bound - 1) / u128::from(rate.token);
        let gcra = if self.algorithm == Algorithm::TokenBucket {
            ", or gcra, which decides the same and reaches further"
        } else {
            ""
        };
        Err(format!(
            "{name} {} is past the range of exact arithmetic at this rate; \
             expected at most {}{gcra}, or a count that divides the period",
            self.depth,
            most.saturating_sub(1)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_spec_is_checked_too() {
        let spec = Spec::rate(Algorithm::TokenBucket, 100, Duration::from_secs(1));
        assert_eq!(spec.clone().burst(200).to_string(), "100/s burst 200");
        assert!(spec.clone().check().is_ok());
        assert!(spec.burst(0).check().unwrap_err().message().contains("burst must be 1"));
    }
}

//! What the token bucket and the leaky bucket share: a level that drains at a constant rate.
//! Twin of `lua/bucket.lua`.

use super::kept::{Small, Words};
use crate::clock::{MAX_EXACT, Micros};

/// A rate as a reduced fraction: a token is worth `token` units, and `flow` units drain per
/// microsecond. So a third of a second is exact, and nothing drifts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefillRate {
    pub(crate) token: u64,
    pub(crate) flow: u64,
}

impl RefillRate {
    #[inline(always)]
    pub(crate) fn new(count: u64, period: Micros) -> Self {
        let divisor = gcd(count, period);
        RefillRate { token: period / divisor, flow: count / divisor }
    }

    /// How long `units` take to drain, rounded up.
    #[inline(always)]
    pub(crate) fn time(&self, units: u64) -> Micros {
        units.div_ceil(self.flow)
    }

    /// A moment in units: so many after a time.
    pub(crate) fn order(&self, time: Micros, units: u64) -> u128 {
        u128::from(time) * u128::from(self.flow) + u128::from(units)
    }

    /// The units that drain within `wait`, as far as they stay exact beside `full` ones.
    #[inline(always)]
    pub(crate) fn units(&self, wait: Micros, full: u64) -> u64 {
        wait.saturating_mul(self.flow).min((MAX_EXACT - 1).saturating_sub(full) / 2)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

/// A key's state: units taken and not drained yet, at a time, with the worth of a token at
/// which they were counted. A unit of 0 marks a key that was never used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Level {
    pub(crate) debt: u64,
    pub(crate) time: Micros,
    unit: u64,
}

impl Small for Level {
    #[inline(always)]
    fn words(self) -> Words {
        Words::new([self.debt, self.time], self.unit)
    }

    #[inline(always)]
    fn of(words: Words) -> Level {
        let [debt, time] = words.numbers;
        Level { debt, time, unit: words.unit() }
    }
}

impl Level {
    #[inline(always)]
    pub(crate) fn new(rate: &RefillRate, debt: u64, time: Micros) -> Self {
        Level { debt, time, unit: rate.token }
    }

    /// Drains up to `now`. `full` is the debt of a limit that is used up.
    #[inline(always)]
    pub(crate) fn load(&mut self, rate: &RefillRate, full: u64, now: Micros) -> bool {
        if self.unit == 0 {
            *self = Level::new(rate, 0, now);
        }
        if self.unit != rate.token {
            self.debt = rescale(self.debt, self.unit, rate.token).min(full);
            self.unit = rate.token;
        }
        let stepped = self.time > now && self.time - now > rate.time(full);
        if stepped {
            self.time = now;
        } else if self.time <= now {
            let drained = (now - self.time).saturating_mul(rate.flow);
            self.debt = self.debt.saturating_sub(drained);
            self.time = now;
        }
        stepped
    }

    pub(crate) fn fresh_at(&self, rate: &RefillRate) -> Micros {
        if self.debt == 0 { 0 } else { self.time + rate.time(self.debt) }
    }

    /// The script's reply: the debt, and how far the state's time is ahead of now.
    #[inline(always)]
    pub(crate) fn view(&self, now: Micros) -> [u64; 3] {
        [self.debt, self.time - now, 0]
    }

    /// Gives back a place that was taken when debt and time were as in `mark`, as far as nobody
    /// has taken a later one. `before` is the debt at which its turn comes.
    pub(crate) fn cancel(&mut self, rate: &RefillRate, units: u64, before: u64, mark: [u64; 2]) -> bool {
        let [debt, time] = mark;
        let drained = self.time.saturating_sub(time).saturating_mul(rate.flow);
        if drained.saturating_add(before) >= debt {
            return false;
        }
        let later = self.debt.saturating_add(drained).saturating_sub(debt);
        let back = units.saturating_sub(later).min(self.debt);
        self.debt -= back;
        back > 0
    }
}

fn rescale(debt: u64, old: u64, new: u64) -> u64 {
    let scaled = (u128::from(debt) * u128::from(new)).div_ceil(u128::from(old));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

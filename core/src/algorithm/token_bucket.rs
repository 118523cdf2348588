//! Token bucket: admits while tokens are left, refills continuously. Twin of `lua/token-bucket.lua`.
//!
//! Over any time t at most `rate x t + burst` units pass. What is kept is not the tokens left but
//! the debt, the units taken and not refilled yet, so that a changed burst forgets no usage.
//! A turn in the future is a debt above the capacity. From: Guava's `SmoothBursty`, Go's x/time/rate.

use super::bucket::{Level, RefillRate};
use super::{Ask, Mark, Report, Step, View, whole_calls};
use crate::clock::Micros;
use crate::spec::Rule;

#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    rate: RefillRate,
    burst: u64,
    /// The burst in units.
    full: u64,
}

impl TokenBucket {
    pub(super) fn new(rule: &Rule) -> Self {
        let rate = RefillRate::new(rule.count, rule.period);
        TokenBucket { rate, burst: rule.depth, full: rule.depth * rate.token }
    }

    pub(super) fn script_arguments(&self, wait: Micros) -> [u64; 4] {
        [self.rate.token, self.rate.flow, self.burst, self.rate.units(wait, self.full)]
    }

    pub(super) fn revive(&self, view: &View, now: Micros) -> Level {
        Level::new(&self.rate, view[0], now + view[1])
    }
}

impl Step for TokenBucket {
    type State = Level;

    #[inline(always)]
    fn load(&self, state: &mut Level, now: Micros) -> bool {
        state.load(&self.rate, self.full, now)
    }

    #[inline(always)]
    fn fit(&self, state: &Level, _now: Micros, ask: &Ask) -> u64 {
        let room = (self.full + self.rate.units(ask.wait, self.full)).saturating_sub(state.debt);
        whole_calls(ask.calls, room, ask.cost * self.rate.token)
    }

    #[inline(always)]
    fn spend(&self, state: &mut Level, _now: Micros, units: u64) {
        state.debt += units * self.rate.token;
    }

    fn give(&self, state: &mut Level, _now: Micros, units: u64) {
        state.debt = state.debt.saturating_sub(units.saturating_mul(self.rate.token));
    }

    fn left(&self, state: &Level, _now: Micros) -> u64 {
        self.full.saturating_sub(state.debt) / self.rate.token
    }

    #[inline(always)]
    fn view(&self, state: &Level, now: Micros, _cost: u64) -> View {
        state.view(now)
    }

    fn fresh_at(&self, state: &Level) -> Micros {
        state.fresh_at(&self.rate)
    }

    #[inline(always)]
    fn limit(&self) -> u64 {
        self.burst
    }

    #[inline(always)]
    fn report(&self, view: &View, _cost: u64, later: u64) -> Report {
        let [debt, ahead, _] = *view;
        let debt = debt.saturating_sub(later.saturating_mul(self.rate.token));
        let above = debt.saturating_sub(self.full);
        Report {
            remaining: self.full.saturating_sub(debt) / self.rate.token,
            reset_after: if debt == 0 { 0 } else { ahead + self.rate.time(debt) },
            wait: if above == 0 { 0 } else { ahead + self.rate.time(above) },
        }
    }

    fn refuses(&self, view: &View, ask: &Ask) -> bool {
        view[0] + ask.cost * self.rate.token > self.full + self.rate.units(ask.wait, self.full)
    }

    #[inline(always)]
    fn retry_after(&self, view: &View, cost: u64) -> Micros {
        let [debt, ahead, _] = *view;
        let missing = (debt + cost * self.rate.token).saturating_sub(self.full);
        if missing == 0 { 0 } else { ahead + self.rate.time(missing) }
    }

    fn mark(&self, view: &View, now: Micros, later: u64) -> Mark {
        [view[0].saturating_sub(later.saturating_mul(self.rate.token)), now + view[1]]
    }

    fn order(&self, mark: Mark) -> u128 {
        self.rate.order(mark[1], mark[0])
    }

    fn cancel(&self, state: &mut Level, _now: Micros, cost: u64, mark: Mark) -> bool {
        state.cancel(&self.rate, cost * self.rate.token, self.full, mark)
    }
}

//! Leaky bucket as a queue: admits at a constant pace. Twin of `lua/leaky-bucket.lua`.
//!
//! A call of cost c takes c slots and goes at the first of them. Whoever takes a turn
//! (`reserve`, `acquire`) waits for the slot; up to `queue` units wait, the next is refused. A
//! call that can't wait is admitted only when the slot is now. What is kept is the debt: the
//! units of slots that are taken and have not gone by.

use super::bucket::{Level, RefillRate};
use super::{Ask, Mark, Report, Step, View};
use crate::clock::Micros;
use crate::spec::Rule;

#[derive(Debug, Clone, Copy)]
pub(crate) struct LeakyBucket {
    rate: RefillRate,
    queue: u64,
    /// The debt behind which a call of cost 1 still finds a place.
    full: u64,
}

impl LeakyBucket {
    pub(super) fn new(rule: &Rule) -> Self {
        let rate = RefillRate::new(rule.count, rule.period);
        LeakyBucket { rate, queue: rule.depth, full: rule.depth * rate.token }
    }

    pub(super) fn script_arguments(&self, wait: Micros) -> [u64; 4] {
        [self.rate.token, self.rate.flow, self.queue, self.rate.units(wait, self.full)]
    }

    /// The debt behind which this call is still admitted. The cost is at most the limit.
    #[inline(always)]
    fn bound(&self, ask: &Ask) -> u64 {
        self.rate.units(ask.wait, self.full).min(self.full - (ask.cost - 1) * self.rate.token)
    }

    pub(super) fn revive(&self, view: &View, now: Micros) -> Level {
        Level::new(&self.rate, view[0], now + view[1])
    }
}

impl Step for LeakyBucket {
    type State = Level;

    #[inline(always)]
    fn load(&self, state: &mut Level, now: Micros) -> bool {
        state.load(&self.rate, self.full + self.rate.token, now)
    }

    #[inline(always)]
    fn fit(&self, state: &Level, _now: Micros, ask: &Ask) -> u64 {
        match self.bound(ask).checked_sub(state.debt) {
            Some(room) => ask.calls.min(room / (ask.cost * self.rate.token) + 1),
            None => 0,
        }
    }

    #[inline(always)]
    fn spend(&self, state: &mut Level, _now: Micros, units: u64) {
        state.debt += units * self.rate.token;
    }

    fn give(&self, state: &mut Level, _now: Micros, units: u64) {
        state.debt = state.debt.saturating_sub(units.saturating_mul(self.rate.token));
    }

    fn left(&self, state: &Level, _now: Micros) -> u64 {
        (self.full + self.rate.token).saturating_sub(state.debt) / self.rate.token
    }

    #[inline(always)]
    fn view(&self, state: &Level, now: Micros, _cost: u64) -> View {
        state.view(now)
    }

    fn fresh_at(&self, state: &Level) -> Micros {
        state.fresh_at(&self.rate)
    }

    /// The one whose slot is now, and those who wait.
    #[inline(always)]
    fn limit(&self) -> u64 {
        self.queue + 1
    }

    #[inline(always)]
    fn report(&self, view: &View, cost: u64, later: u64) -> Report {
        let [debt, ahead, _] = *view;
        let debt = debt.saturating_sub(later.saturating_mul(self.rate.token));
        let before = debt.saturating_sub(cost.saturating_mul(self.rate.token));
        Report {
            remaining: (self.full + self.rate.token).saturating_sub(debt) / self.rate.token,
            reset_after: if debt == 0 { 0 } else { ahead + self.rate.time(debt) },
            wait: if before == 0 { 0 } else { ahead + self.rate.time(before) },
        }
    }

    fn refuses(&self, view: &View, ask: &Ask) -> bool {
        view[0] > self.bound(ask)
    }

    #[inline(always)]
    fn retry_after(&self, view: &View, _cost: u64) -> Micros {
        let [debt, ahead, _] = *view;
        if debt == 0 { 0 } else { ahead + self.rate.time(debt) }
    }

    fn mark(&self, view: &View, now: Micros, later: u64) -> Mark {
        [view[0].saturating_sub(later.saturating_mul(self.rate.token)), now + view[1]]
    }

    fn order(&self, mark: Mark) -> u128 {
        self.rate.order(mark[1], mark[0])
    }

    fn cancel(&self, state: &mut Level, _now: Micros, cost: u64, mark: Mark) -> bool {
        let units = cost * self.rate.token;
        state.cancel(&self.rate, units, units, mark)
    }
}

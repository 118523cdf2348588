//! Generic cell rate algorithm: the token bucket's decisions, kept as the time at which the key
//! will be as good as fresh (the theoretical arrival time). Twin of `lua/gcra.lua`.
//!
//! Over any time t at most `rate x t + burst` units pass. The arrival time is whole microseconds
//! and a fraction in units of 1/flow, so there is no product to run out of range. A changed rate
//! keeps the time until the key is fresh. From: ITU-T I.371; redis_rate, redis-cell, governor.

use super::bucket::RefillRate;
use super::kept::{Small, Words};
use super::{Ask, Mark, Report, Step, View};
use crate::clock::Micros;
use crate::spec::Rule;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Gcra {
    rate: RefillRate,
    burst: u64,
    /// How long a limit that is used up takes to be as good as fresh.
    refill: Micros,
}

/// A key's state. A `flow` of 0 marks a key that was never used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrival {
    time: Micros,
    fraction: u64,
    flow: u64,
    /// When it was written, kept only while somebody waits: then the arrival time is further
    /// ahead than a full refill, and could be taken for a clock that stepped back.
    written: Option<Micros>,
}

/// A flow is at most 10^9, a spec's largest count, and a fraction below it.
impl Small for Arrival {
    fn words(self) -> Words {
        let written = self.written.map_or(0, |written| written + 1);
        Words::new([self.time, written], self.fraction << 32 | self.flow)
    }

    fn of(words: Words) -> Arrival {
        let ([time, written], unit) = (words.numbers, words.unit());
        Arrival {
            time,
            fraction: unit >> 32,
            flow: unit & u64::from(u32::MAX),
            written: written.checked_sub(1),
        }
    }
}

impl Gcra {
    pub(super) fn new(rule: &Rule) -> Self {
        let mut twin = Gcra { rate: RefillRate::new(rule.count, rule.period), burst: rule.depth, refill: 0 };
        twin.refill = twin.time(twin.full());
        twin
    }

    pub(super) fn script_arguments(&self, wait: Micros) -> [u64; 4] {
        [self.rate.token, self.rate.flow, self.burst, wait]
    }

    pub(super) fn revive(&self, view: &View, now: Micros) -> Arrival {
        let mut state = Arrival { time: now, fraction: 0, flow: self.rate.flow, written: None };
        self.set(&mut state, now, self.viewed(view));
        state
    }

    fn units(&self, tokens: u64) -> u128 {
        u128::from(tokens) * u128::from(self.rate.token)
    }

    fn full(&self) -> u128 {
        self.units(self.burst)
    }

    /// Units of 1/flow microseconds that the arrival time is ahead of now.
    fn debt(&self, state: &Arrival, now: Micros) -> u128 {
        self.flowing(state.time - now) + u128::from(state.fraction)
    }

    fn flowing(&self, time: Micros) -> u128 {
        u128::from(time) * u128::from(self.rate.flow)
    }

    fn time(&self, units: u128) -> Micros {
        let (time, rest) = divided(units, self.rate.flow);
        time.saturating_add(rest.min(1))
    }

    fn set(&self, state: &mut Arrival, now: Micros, debt: u128) {
        let (time, fraction) = divided(debt, self.rate.flow);
        state.time = now + time;
        state.fraction = fraction;
        state.written = (debt > self.full()).then_some(now);
    }

    fn viewed(&self, view: &View) -> u128 {
        self.flowing(view[0]) + u128::from(view[1])
    }
}

impl Step for Gcra {
    type State = Arrival;

    fn load(&self, state: &mut Arrival, now: Micros) -> bool {
        let flow = self.rate.flow;
        if state.flow == 0 {
            *state = Arrival { time: now, fraction: 0, flow, written: None };
        }
        if state.flow != flow {
            let scaled = (u128::from(state.fraction) * u128::from(flow)).div_ceil(u128::from(state.flow));
            state.time += micros(scaled / u128::from(flow));
            state.fraction = micros(scaled % u128::from(flow));
            state.flow = flow;
        }
        let refill = self.refill;
        match state.written {
            // Written in a future further away than a full refill: taken as written now.
            Some(written) if written > now + refill => {
                state.time = now + (state.time - written);
                let debt = self.debt(state, now);
                self.set(state, now, debt);
                return true;
            }
            None if state.time > now + 2 * refill => {
                self.set(state, now, self.full());
                return true;
            }
            _ => {}
        }
        if state.time < now {
            (state.time, state.fraction) = (now, 0);
        }
        false
    }

    fn fit(&self, state: &Arrival, now: Micros, ask: &Ask) -> u64 {
        let room = (self.full() + self.flowing(ask.wait)).saturating_sub(self.debt(state, now));
        let each = self.units(ask.cost);
        // Most calls come alone, and a comparison is cheaper than a division.
        if ask.calls == 1 { u64::from(room >= each) } else { ask.calls.min(micros(room / each)) }
    }

    fn spend(&self, state: &mut Arrival, now: Micros, units: u64) {
        self.set(state, now, self.debt(state, now) + self.units(units));
    }

    fn give(&self, state: &mut Arrival, now: Micros, units: u64) {
        self.set(state, now, self.debt(state, now).saturating_sub(self.units(units)));
    }

    fn left(&self, state: &Arrival, now: Micros) -> u64 {
        divided(self.full().saturating_sub(self.debt(state, now)), self.rate.token).0
    }

    fn view(&self, state: &Arrival, now: Micros, _cost: u64) -> View {
        [state.time - now, state.fraction, 0]
    }

    fn fresh_at(&self, state: &Arrival) -> Micros {
        state.time + state.fraction.min(1)
    }

    fn limit(&self) -> u64 {
        self.burst
    }

    fn report(&self, view: &View, _cost: u64, later: u64) -> Report {
        let debt = self.viewed(view).saturating_sub(self.units(later));
        Report {
            remaining: divided(self.full().saturating_sub(debt), self.rate.token).0,
            reset_after: self.time(debt),
            wait: self.time(debt.saturating_sub(self.full())),
        }
    }

    fn refuses(&self, view: &View, ask: &Ask) -> bool {
        self.viewed(view) + self.units(ask.cost) > self.full() + self.flowing(ask.wait)
    }

    fn retry_after(&self, view: &View, cost: u64) -> Micros {
        self.time((self.viewed(view) + self.units(cost)).saturating_sub(self.full()))
    }

    fn mark(&self, view: &View, now: Micros, later: u64) -> Mark {
        let debt = self.viewed(view).saturating_sub(self.units(later));
        let flow = u128::from(self.rate.flow);
        [now + micros(debt / flow), micros(debt % flow)]
    }

    fn order(&self, mark: Mark) -> u128 {
        self.rate.order(mark[0], mark[1])
    }

    fn cancel(&self, state: &mut Arrival, now: Micros, cost: u64, mark: Mark) -> bool {
        let [time, fraction] = mark;
        let own = self.flowing(time.saturating_sub(now)) + u128::from(fraction);
        let debt = self.debt(state, now);
        if own <= self.full() {
            return false;
        }
        let later = debt.saturating_sub(own);
        let back = self.units(cost).saturating_sub(later).min(debt);
        if back > 0 {
            self.set(state, now, debt - back);
        }
        back > 0
    }
}

/// Quotient and rest. Most numbers are small, and a division of 128 bits is several times as slow.
fn divided(units: u128, by: u64) -> (u64, u64) {
    match u64::try_from(units) {
        Ok(units) => (units / by, units % by),
        Err(_) => (micros(units / u128::from(by)), micros(units % u128::from(by))),
    }
}

/// What the range checks of a spec keep below 2^53.
fn micros(units: u128) -> u64 {
    u64::try_from(units).unwrap_or(u64::MAX)
}

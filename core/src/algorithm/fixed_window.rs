//! Fixed window: `count` units per window. Twin of `lua/fixed-window.lua`.
//!
//! A window begins at the first admitted call, or with `align` on multiples of the period at a
//! UTC offset. Across the boundary of two windows up to twice the count may pass: that is the
//! nature of the algorithm. From: go-zero's PeriodLimit, redis_rate v7.

use super::kept::{Small, Words};
use super::{Ask, Report, Step, View, whole_calls};
use crate::clock::Micros;
use crate::spec::Rule;

#[derive(Debug, Clone, Copy)]
pub(crate) struct FixedWindow {
    count: u64,
    period: Micros,
    /// For aligned windows: what to add to the time so that boundaries are multiples.
    shift: Option<Micros>,
}

/// A key's state: units used, and when the window ends. An end that has come is a fresh key.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Window {
    used: u64,
    end: Micros,
}

impl Small for Window {
    #[inline(always)]
    fn words(self) -> Words {
        Words::new([self.used, self.end], 0)
    }

    #[inline(always)]
    fn of(words: Words) -> Window {
        let [used, end] = words.numbers;
        Window { used, end }
    }
}

impl FixedWindow {
    pub(super) fn new(rule: &Rule) -> Self {
        let period = i128::from(rule.period);
        let shift = |minutes: i64| (i128::from(minutes) * 60_000_000).rem_euclid(period);
        FixedWindow {
            count: rule.count,
            period: rule.period,
            shift: rule.align.map(|minutes| u64::try_from(shift(minutes)).unwrap_or(0)),
        }
    }

    /// The shift goes plus one, so that 0 says "from the first hit".
    pub(super) fn script_arguments(&self) -> [u64; 4] {
        [self.count, self.period, self.shift.map_or(0, |shift| shift + 1), 0]
    }

    pub(super) fn revive(&self, view: &View, now: Micros) -> Window {
        Window { used: view[0], end: now + view[1] }
    }

    pub(super) fn begin(state: &mut Window, other: &Window, now: Micros) {
        if other.used > 0 && other.end > now {
            state.end = other.end;
        }
    }

    fn window_end(&self, now: Micros) -> Micros {
        match self.shift {
            None => now + self.period,
            Some(shift) => now + self.period - (now + shift) % self.period,
        }
    }
}

impl Step for FixedWindow {
    type State = Window;

    #[inline(always)]
    fn load(&self, state: &mut Window, now: Micros) -> bool {
        // The window began more than a window from now: the clock stepped back. By less, the window
        // stays, or a step back over a boundary and forth would open it twice.
        let stepped = state.end > now && state.end - now > 2 * self.period;
        if state.end <= now {
            *state = Window { used: 0, end: self.window_end(now) };
        } else if stepped {
            state.end = self.window_end(now);
        }
        stepped
    }

    #[inline(always)]
    fn fit(&self, state: &Window, _now: Micros, ask: &Ask) -> u64 {
        whole_calls(ask.calls, self.count.saturating_sub(state.used), ask.cost)
    }

    #[inline(always)]
    fn spend(&self, state: &mut Window, _now: Micros, units: u64) {
        state.used += units;
    }

    fn give(&self, state: &mut Window, _now: Micros, units: u64) {
        state.used = state.used.saturating_sub(units);
    }

    fn left(&self, state: &Window, _now: Micros) -> u64 {
        self.count.saturating_sub(state.used)
    }

    #[inline(always)]
    fn view(&self, state: &Window, now: Micros, _cost: u64) -> View {
        [state.used, state.end - now, 0]
    }

    fn fresh_at(&self, state: &Window) -> Micros {
        if state.used == 0 { 0 } else { state.end }
    }

    #[inline(always)]
    fn limit(&self) -> u64 {
        self.count
    }

    #[inline(always)]
    fn report(&self, view: &View, _cost: u64, later: u64) -> Report {
        let [used, ends_in, _] = *view;
        let used = used.saturating_sub(later);
        Report {
            remaining: self.count.saturating_sub(used),
            reset_after: if used == 0 { 0 } else { ends_in },
            wait: 0,
        }
    }

    fn refuses(&self, view: &View, ask: &Ask) -> bool {
        view[0] + ask.cost > self.count
    }

    #[inline(always)]
    fn retry_after(&self, view: &View, _cost: u64) -> Micros {
        view[1]
    }
}

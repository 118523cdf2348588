//! Sliding window in slices: never more than `count` units in any window, however it is placed.
//! Twin of `lua/sliding-window.lua`.
//!
//! The period is cut into `buckets` slices on a fixed grid. A call counts the slice it is in and
//! all of the `buckets` before it, which together cover every window that ends now; so it is
//! strict, and admits at most 1/buckets less than an exact log. From: Hystrix's rolling counts.

use smallvec::{SmallVec, smallvec};

use super::{Ask, Report, Step, View};
use crate::clock::Micros;
use crate::spec::Rule;

#[derive(Debug, Clone, Copy)]
pub(crate) struct SlidingWindow {
    count: u64,
    period: Micros,
    buckets: u64,
}

/// A key's state: the newest slice's number on the grid, and the units in it and in those
/// before it, newest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slices {
    period: Micros,
    newest: u64,
    units: SmallVec<[u32; 11]>,
}

impl Slices {
    fn used(&self) -> u64 {
        self.units.iter().copied().map(u64::from).sum()
    }
}

impl SlidingWindow {
    pub(super) fn new(rule: &Rule) -> Self {
        SlidingWindow { count: rule.count, period: rule.period, buckets: rule.buckets }
    }

    pub(super) fn script_arguments(&self) -> [u64; 4] {
        [self.count, self.period, self.buckets, 0]
    }

    /// All that was used counts as used now.
    pub(super) fn revive(&self, view: &View, now: Micros) -> Slices {
        let mut units = smallvec![0; self.slots()];
        units[0] = whole(self.count.saturating_sub(view[0]));
        Slices { period: self.period, newest: self.slice(now), units }
    }

    /// The number of the slice that holds `time`: whole periods times buckets, plus the rest.
    fn slice(&self, time: Micros) -> u64 {
        time / self.period * self.buckets + time % self.period * self.buckets / self.period
    }

    fn start(&self, slice: u64) -> Micros {
        let (periods, rest) = (slice / self.buckets, slice % self.buckets);
        periods * self.period + (rest * self.period).div_ceil(self.buckets)
    }

    /// When the slice that is `age` before the newest leaves the last window that counts it.
    fn leaves(&self, state: &Slices, age: u64) -> Micros {
        self.start(state.newest + self.buckets + 1 - age)
    }

    fn slots(&self) -> usize {
        usize::try_from(self.buckets).unwrap_or(usize::MAX) + 1
    }
}

impl Step for SlidingWindow {
    type State = Slices;

    fn load(&self, state: &mut Slices, now: Micros) -> bool {
        let slice = self.slice(now);
        let slots = self.slots();
        let other_grid = state.period != self.period || state.units.len() != slots;
        if other_grid && state.period > 0 {
            // What has left the window of the old grid is gone.
            let old = SlidingWindow { period: state.period, buckets: state.units.len() as u64 - 1, ..*self };
            old.load(state, now);
        }
        if other_grid || state.newest > slice + self.buckets {
            // Another grid, or a clock that stepped back: all that counts is taken as used now.
            let used = whole(state.used());
            *state = Slices { period: self.period, newest: slice, units: smallvec![0; slots] };
            state.units[0] = used;
            return used > 0;
        }
        if slice > state.newest {
            let passed = usize::try_from(slice - state.newest).unwrap_or(usize::MAX).min(slots);
            state.units.rotate_right(passed % slots);
            state.units[..passed].fill(0);
            state.newest = slice;
        }
        false
    }

    fn fit(&self, state: &Slices, now: Micros, ask: &Ask) -> u64 {
        ask.calls.min(self.left(state, now) / ask.cost)
    }

    fn spend(&self, state: &mut Slices, _now: Micros, units: u64) {
        state.units[0] += whole(units);
    }

    /// The newest units are given back first.
    fn give(&self, state: &mut Slices, _now: Micros, mut units: u64) {
        for slice in &mut state.units {
            let back = units.min(u64::from(*slice));
            *slice -= whole(back);
            units -= back;
        }
    }

    fn left(&self, state: &Slices, _now: Micros) -> u64 {
        self.count.saturating_sub(state.used())
    }

    fn view(&self, state: &Slices, now: Micros, cost: u64) -> View {
        // Above the count where a changed spec lowered it.
        let mut missing = (state.used() + cost).saturating_sub(self.count);
        let mut retry_after = 0;
        for (age, units) in state.units.iter().enumerate().rev() {
            if missing > 0 && cost <= self.count {
                retry_after = self.leaves(state, age as u64) - now;
            }
            missing = missing.saturating_sub(u64::from(*units));
        }
        let fresh_at = self.fresh_at(state);
        [self.left(state, now), retry_after, fresh_at.saturating_sub(now)]
    }

    fn fresh_at(&self, state: &Slices) -> Micros {
        let newest_used = state.units.iter().position(|units| *units > 0);
        newest_used.map_or(0, |age| self.leaves(state, age as u64))
    }

    fn limit(&self) -> u64 {
        self.count
    }

    fn report(&self, view: &View, _cost: u64, later: u64) -> Report {
        Report { remaining: view[0] + later, reset_after: view[2], wait: 0 }
    }

    fn refuses(&self, view: &View, ask: &Ask) -> bool {
        view[0] < ask.cost
    }

    fn retry_after(&self, view: &View, _cost: u64) -> Micros {
        view[1]
    }
}

/// Units in a window are at most 10^9.
fn whole(units: u64) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

//! Sliding log: exact, every admission is remembered. Twin of `lua/sliding-log.lua`.
//!
//! An entry is a time and the running total of units up to and including it, modulo 2^32; calls
//! of one microsecond share an entry. The first entry has expired already and only holds the
//! total before the window. So a window's sum is a difference of two totals, and what has
//! expired is found by a binary search: no call walks the log. From: the sorted-set log.

use std::collections::VecDeque;

use super::{Ask, Report, Step, View};
use crate::clock::Micros;
use crate::spec::Rule;

#[derive(Debug, Clone, Copy)]
pub(crate) struct SlidingLog {
    count: u64,
    period: Micros,
}

/// A key's state, oldest first: (time, running total). Empty is a key that was never used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    entries: VecDeque<(Micros, u32)>,
    /// The first entry that has not expired, as of the last `load`. What is before it is dropped
    /// only when something is taken: a spec with a longer period may load the log next.
    first: usize,
}

impl Log {
    fn new(time: Micros, used: u64) -> Self {
        Log { entries: VecDeque::from([(0, 0), (time, wrapped(used))]), first: 1 }
    }

    /// The total before the window.
    fn base(&self) -> u32 {
        self.first.checked_sub(1).and_then(|index| self.entries.get(index)).map_or(0, |(_, total)| *total)
    }

    fn used(&self) -> u64 {
        self.entries.back().map_or(0, |(_, total)| u64::from(total.wrapping_sub(self.base())))
    }

    /// The first entry of the window with which its units reach `units`.
    fn reaching(&self, units: u64) -> usize {
        let base = self.base();
        let short = |(_, total): &(Micros, u32)| u64::from(total.wrapping_sub(base)) < units;
        let (mut low, mut high) = (self.first, self.entries.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if short(&self.entries[middle]) { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn drop_expired(&mut self) {
        if self.first > 1 {
            self.entries.drain(..self.first - 1);
            self.first = 1;
        }
    }
}

impl SlidingLog {
    pub(super) fn new(rule: &Rule) -> Self {
        SlidingLog { count: rule.count, period: rule.period }
    }

    /// All that was used counts as used now.
    pub(super) fn revive(&self, view: &View, now: Micros) -> Log {
        match self.count.saturating_sub(view[0]) {
            0 => Log::default(),
            used => Log::new(now, used),
        }
    }

    pub(super) fn script_arguments(&self) -> [u64; 4] {
        [self.count, self.period, 0, 0]
    }
}

impl Step for SlidingLog {
    type State = Log;

    fn load(&self, state: &mut Log, now: Micros) -> bool {
        let stepped = state.entries.back().is_some_and(|(last, _)| *last > now + self.period);
        if stepped {
            // All of it counts as used now.
            state.first = state.entries.len().min(1);
            *state = Log::new(now, state.used());
        }
        let expired = state.entries.partition_point(|(time, _)| time + self.period <= now);
        state.first = expired.max(1).min(state.entries.len());
        stepped
    }

    fn fit(&self, state: &Log, now: Micros, ask: &Ask) -> u64 {
        ask.calls.min(self.left(state, now) / ask.cost)
    }

    fn spend(&self, state: &mut Log, now: Micros, units: u64) {
        if state.used() == 0 {
            *state = Log::new(now, units);
            return;
        }
        state.drop_expired();
        if let Some((last, total)) = state.entries.back_mut() {
            let sum = total.wrapping_add(wrapped(units));
            if *last >= now {
                *total = sum;
            } else {
                state.entries.push_back((now, sum));
            }
        }
    }

    /// The newest units are given back first.
    fn give(&self, state: &mut Log, _now: Micros, units: u64) {
        let keep = state.used().saturating_sub(units);
        if keep == 0 {
            *state = Log::default();
            return;
        }
        let (cut, total) = (state.reaching(keep), state.base().wrapping_add(wrapped(keep)));
        state.entries.truncate(cut + 1);
        state.entries[cut].1 = total;
        state.drop_expired();
    }

    fn left(&self, state: &Log, _now: Micros) -> u64 {
        self.count.saturating_sub(state.used())
    }

    fn view(&self, state: &Log, now: Micros, cost: u64) -> View {
        // Above the count where a changed spec lowered it.
        let missing = (state.used() + cost).saturating_sub(self.count);
        let retry_after = if missing == 0 || cost > self.count {
            0
        } else {
            state.entries.get(state.reaching(missing)).map_or(0, |(time, _)| time + self.period - now)
        };
        [self.left(state, now), retry_after, self.fresh_at(state).saturating_sub(now)]
    }

    fn fresh_at(&self, state: &Log) -> Micros {
        let last = state.entries.back().filter(|_| state.used() > 0);
        last.map_or(0, |(time, _)| time + self.period)
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

/// The sum within a window is at most 10^9, so totals modulo 2^32 still tell it.
fn wrapped(units: u64) -> u32 {
    (units & u64::from(u32::MAX)) as u32
}

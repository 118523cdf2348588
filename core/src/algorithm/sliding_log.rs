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
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<(Micros, u32)>,
}

impl Log {
    fn used(&self) -> u64 {
        match (self.entries.front(), self.entries.back()) {
            (Some(first), Some(last)) => u64::from(last.1.wrapping_sub(first.1)),
            _ => 0,
        }
    }

    /// The units of all entries up to `entry`.
    fn up_to(&self, entry: &(Micros, u32)) -> u64 {
        u64::from(entry.1.wrapping_sub(self.entries.front().map_or(0, |first| first.1)))
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
            used => Log { entries: VecDeque::from([(0, 0), (now, wrapped(used))]) },
        }
    }

    pub(super) fn script_arguments(&self) -> [u64; 4] {
        [self.count, self.period, 0, 0]
    }
}

impl Step for SlidingLog {
    type State = Log;

    fn load(&self, state: &mut Log, now: Micros) {
        if let Some((last, _)) = state.entries.back()
            && *last > now + self.period
        {
            // Written in a future further away than a window: all of it counts as used now.
            let used = state.used();
            state.entries = VecDeque::from([(0, 0), (now, wrapped(used))]);
        }
        let expired = state.entries.partition_point(|(time, _)| time + self.period <= now);
        if expired == state.entries.len() {
            state.entries.clear();
        } else if expired > 1 {
            state.entries.drain(..expired - 1);
        }
    }

    fn fit(&self, state: &Log, now: Micros, ask: &Ask) -> u64 {
        ask.calls.min(self.left(state, now) / ask.cost)
    }

    fn spend(&self, state: &mut Log, now: Micros, units: u64) {
        if state.entries.is_empty() {
            state.entries.push_back((0, 0));
        }
        let (last, total) = *state.entries.back().unwrap_or(&(0, 0));
        let total = total.wrapping_add(wrapped(units));
        if last >= now {
            state.entries.pop_back();
        }
        state.entries.push_back((last.max(now), total));
    }

    /// The newest units are given back first.
    fn give(&self, state: &mut Log, _now: Micros, units: u64) {
        let keep = state.used().saturating_sub(units);
        if keep == 0 {
            return state.entries.clear();
        }
        let first = state.entries[0].1;
        let cut = state.entries.partition_point(|(_, total)| u64::from(total.wrapping_sub(first)) < keep);
        state.entries.truncate(cut + 1);
        state.entries[cut].1 = first.wrapping_add(wrapped(keep));
    }

    fn left(&self, state: &Log, _now: Micros) -> u64 {
        self.count.saturating_sub(state.used())
    }

    fn view(&self, state: &Log, now: Micros, cost: u64) -> View {
        let missing = cost.saturating_sub(self.left(state, now));
        let retry_after = if missing == 0 || cost > self.count {
            0
        } else {
            let index = state.entries.partition_point(|entry| state.up_to(entry) < missing);
            state.entries.get(index).map_or(0, |(time, _)| time + self.period - now)
        };
        [self.left(state, now), retry_after, self.fresh_at(state).saturating_sub(now)]
    }

    fn fresh_at(&self, state: &Log) -> Micros {
        state.entries.back().map_or(0, |(time, _)| time + self.period)
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

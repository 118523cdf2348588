//! Concurrency: at most N permits held at a time. Twin of `lua/concurrency.lua`.
//!
//! Each holder has a deadline, moved ahead while it lives; one that dies is freed `ttl` after its
//! last sign of life. From: counting semaphores with leases.

use std::collections::BTreeMap;

use super::{Ask, Report, Step, View};
use crate::clock::Micros;
use crate::spec::Rule;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Concurrency {
    permits: u64,
    ttl: Micros,
}

/// Holders without a name have numbers above the range of names, and there are so many at most.
const NAMELESS: Holder = 1 << 53;
const MAX_NAMELESS: u64 = 100_000;

/// Names one holder of a permit. Random, below 2^53.
pub(crate) type Holder = u64;

/// A key's state: who holds a permit, and until when.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holders {
    deadlines: BTreeMap<Holder, Micros>,
    /// Who the next permit goes to; 0 is nobody by name.
    pub(crate) next: Holder,
}

impl Concurrency {
    pub(super) fn new(rule: &Rule) -> Self {
        Concurrency { permits: rule.count, ttl: rule.period }
    }

    pub(super) fn script_arguments(&self) -> [u64; 4] {
        [self.permits, self.ttl, 0, 0]
    }

    /// Holders without a name, that last for a ttl.
    pub(super) fn revive(&self, view: &View, now: Micros) -> Holders {
        let mut state = Holders::default();
        self.spend(&mut state, now, self.permits.saturating_sub(view[0]));
        state
    }

    pub(crate) fn ttl(&self) -> Micros {
        self.ttl
    }

    /// Moves a holder's deadline ahead; false where it is no longer a holder.
    pub(crate) fn renew(&self, state: &mut Holders, now: Micros, holder: Holder) -> bool {
        self.change(state, now, holder, Some(now + self.ttl))
    }

    /// Frees a holder's permit; false where it is no longer a holder.
    pub(crate) fn release(&self, state: &mut Holders, now: Micros, holder: Holder) -> bool {
        self.change(state, now, holder, None)
    }

    fn change(&self, state: &mut Holders, now: Micros, holder: Holder, deadline: Option<Micros>) -> bool {
        let holds = state.deadlines.get(&holder).is_some_and(|deadline| *deadline > now);
        if holds {
            state.deadlines.remove(&holder);
            state.deadlines.extend(deadline.map(|deadline| (holder, deadline)));
            state.deadlines.retain(|_, deadline| *deadline > now);
        }
        holds
    }
}

impl Holders {
    fn live(&self, now: Micros) -> impl Iterator<Item = Micros> {
        self.deadlines.values().copied().filter(move |deadline| *deadline > now)
    }
}

impl Step for Concurrency {
    type State = Holders;

    /// Who has run out is dropped only when something changes.
    fn load(&self, state: &mut Holders, now: Micros) -> bool {
        let longest = now + self.ttl;
        let mut stepped = false;
        // Deadlines further ahead than a ttl come from a clock that stepped back.
        for deadline in state.deadlines.values_mut().filter(|deadline| **deadline > longest) {
            *deadline = longest;
            stepped = true;
        }
        stepped
    }

    fn fit(&self, state: &Holders, now: Micros, ask: &Ask) -> u64 {
        ask.calls.min(self.left(state, now) / ask.cost)
    }

    /// One permit for who is next, or some for nobody by name.
    fn spend(&self, state: &mut Holders, now: Micros, units: u64) {
        let names = if state.next == 0 {
            NAMELESS..NAMELESS + units.min(MAX_NAMELESS)
        } else {
            state.next..state.next + 1
        };
        state.deadlines.retain(|_, deadline| *deadline > now);
        state.deadlines.extend(names.map(|name| (name, now + self.ttl)));
    }

    fn give(&self, _state: &mut Holders, _now: Micros, _units: u64) {}

    fn left(&self, state: &Holders, now: Micros) -> u64 {
        self.permits.saturating_sub(state.live(now).count() as u64)
    }

    fn view(&self, state: &Holders, now: Micros, _cost: u64) -> View {
        let mut live: Vec<Micros> = state.live(now).collect();
        live.sort_unstable();
        // More than the first where a changed spec lowered their number.
        let too_many = live.len().saturating_sub(usize::try_from(self.permits).unwrap_or(usize::MAX));
        let next = live.get(too_many).map_or(0, |deadline| deadline - now);
        let last = self.fresh_at(state).saturating_sub(now);
        [self.left(state, now), next, last]
    }

    fn fresh_at(&self, state: &Holders) -> Micros {
        state.deadlines.values().max().copied().unwrap_or(0)
    }

    fn limit(&self) -> u64 {
        self.permits
    }

    fn report(&self, view: &View, _cost: u64, later: u64) -> Report {
        Report { remaining: view[0] + later, reset_after: view[2], wait: 0 }
    }

    fn refuses(&self, view: &View, ask: &Ask) -> bool {
        view[0] < ask.cost
    }

    /// When enough permits have run out, should nobody give one back before.
    fn retry_after(&self, view: &View, _cost: u64) -> Micros {
        view[1]
    }
}

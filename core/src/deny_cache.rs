//! What was refused a moment ago: a flood of refused calls needs no network.
//!
//! A refusal is remembered until its `retry_after`, but never longer than an option says, since
//! another process may give back. A refund or reset from this process forgets it.

use std::time::Duration;

use crate::cache::Recent;
use crate::clock::{Clock, Micros, micros};
use crate::decision::{Decision, Source};
use crate::store::{Op, Part, Plan};

pub(crate) struct DenyCache {
    refusals: Recent<Refusal>,
    longest: Micros,
    clock: Clock,
}

#[derive(Debug, Clone, Copy)]
struct Refusal {
    /// Which spec refused.
    plan: u64,
    cost: u64,
    at: Micros,
    until: Micros,
    decision: Decision,
}

impl DenyCache {
    /// Remembers refusals for `longest`; zero is off.
    pub(crate) fn new(longest: Duration, max_keys: usize, clock: Clock) -> Self {
        DenyCache { refusals: Recent::new(max_keys), longest: micros(longest), clock }
    }

    /// The refusal with which the store would repeat itself, were this taken now, if it is remembered.
    #[inline]
    pub(crate) fn get(&self, plan: &Plan, key: &[u8], cost: u64) -> Option<Decision> {
        if self.longest == 0 {
            return None;
        }
        let mut refusal = self.refusals.get(plan.members[0].id, key)?;
        let now = self.clock.steady();
        // A manual clock may have been set back.
        if refusal.plan != plan.id || refusal.cost != cost || !(refusal.at..refusal.until).contains(&now) {
            return None;
        }
        let passed = Duration::from_micros(now - refusal.at);
        let decision = &mut refusal.decision;
        decision.retry_after = decision.retry_after.map(|after| after.saturating_sub(passed));
        decision.reset_after = decision.reset_after.saturating_sub(passed);
        decision.source = Source::DenyCache;
        Some(refusal.decision)
    }

    /// Notes what the store said.
    pub(crate) fn saw(&self, op: Op, parts: &[Part<'_>], decision: Option<Decision>) {
        match (op, parts, decision) {
            (Op::Take { wait: 0 }, [part], Some(decision)) if !decision.allowed && self.longest > 0 => {
                let at = self.clock.steady();
                let lasts = decision.retry_after.map_or(self.longest, micros).min(self.longest);
                let refusal =
                    Refusal { plan: part.plan.id, cost: part.cost, at, until: at + lasts, decision };
                self.refusals.put(part.state_id(), part.key, refusal);
            }
            (Op::Refund | Op::Reset | Op::Cancel | Op::Release(_), ..) => self.forget(parts),
            _ => {}
        }
    }

    /// Forgets the refusals of these keys.
    pub(crate) fn forget(&self, parts: &[Part<'_>]) {
        if self.longest > 0 {
            for part in parts {
                self.refusals.remove(part.state_id(), part.key);
            }
        }
    }

    pub(crate) fn keys(&self) -> usize {
        self.refusals.len()
    }
}

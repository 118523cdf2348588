//! Where state lives, and the common language of those places: a call on one or several limits
//! goes in, the state after it comes out.

pub(crate) mod batch;
pub(crate) mod connection;
pub(crate) mod direct;
pub(crate) mod flight;
pub(crate) mod job;
pub(crate) mod memory;
pub(crate) mod queue;
pub(crate) mod redis;
pub(crate) mod script;
pub(crate) mod sentinel;
pub(crate) mod target;
pub(crate) mod traffic;

use std::sync::Arc;

use smallvec::SmallVec;

use crate::algorithm::concurrency::Holder;
use crate::algorithm::{Ask, Mark, State, Twin, View};
use crate::clock::Micros;
use crate::decision::{Decision, Source};
use crate::kept_key::KeptKey;
use crate::outage::OnOutage;
use crate::spec::{Algorithm, Spec};

/// A limit, worked out: what a limiter knows of a name and a spec.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    /// Names the limit with its spec, in this process's memory.
    pub(crate) id: u64,
    pub(crate) spec: Spec,
    pub(crate) members: SmallVec<[Member; 1]>,
    pub(crate) on_outage: OnOutage,
}

impl Plan {
    /// Whether a turn in the future can be taken. Of several limits each would take its own, and
    /// the earlier ones would have drained when the caller goes at the latest.
    pub(crate) fn hands_out_turns(&self) -> bool {
        matches!(self.spec.rules[..], [rule] if rule.algorithm.reserves())
    }

    /// Whether it counts units, and not permits alone.
    pub(crate) fn has_units(&self) -> bool {
        self.spec.rules.iter().any(|rule| rule.algorithm != Algorithm::Concurrency)
    }
}

/// One rule of a spec.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) twin: Twin,
    /// What all its keys in Redis begin with, up to and including the opening brace.
    pub(crate) head: String,
    /// The same for this process's memory.
    pub(crate) id: u64,
}

/// What to do with a key's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    /// Take the cost, now or within `wait`.
    Take { wait: Micros },
    /// Say whether the cost would be admitted now.
    Peek,
    /// Give back.
    Refund,
    /// Take what was admitted elsewhere, as far as there is something left to take.
    Debit,
    /// Give back a turn that has not come.
    Cancel,
    /// Take a permit for this holder.
    Hold(Holder),
    /// Move the deadline of a holder's permit ahead.
    Renew(Holder),
    /// Free a holder's permit.
    Release(Holder),
    /// Forget the key.
    Reset,
}

impl Op {
    pub(crate) fn wait(self) -> Micros {
        if let Op::Take { wait } = self { wait } else { 0 }
    }
}

/// One limit, one key and a cost: what a call is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) plan: &'a Arc<Plan>,
    /// As it is kept: see [`crate::key::kept`].
    pub(crate) key: &'a [u8],
    pub(crate) cost: u64,
}

impl Part<'_> {
    /// Names the state under whatever spec, in this process's memory.
    pub(crate) fn state_id(&self) -> u64 {
        self.plan.members[0].id
    }

    pub(crate) fn owned(&self) -> OwnedPart {
        OwnedPart {
            plan: Arc::clone(self.plan),
            key: self.key.into(),
            cost: self.cost,
            marks: SmallVec::new(),
        }
    }
}

/// The same, owned, for a call that goes to another thread.
#[derive(Debug, Clone)]
pub(crate) struct OwnedPart {
    pub(crate) plan: Arc<Plan>,
    pub(crate) key: KeptKey,
    pub(crate) cost: u64,
    /// Where its turn is, member by member; only for [`Op::Cancel`].
    pub(crate) marks: SmallVec<[Mark; 1]>,
}

impl OwnedPart {
    pub(crate) fn state_id(&self) -> u64 {
        self.plan.members[0].id
    }

    pub(crate) fn part(&self) -> Part<'_> {
        Part { plan: &self.plan, key: &self.key, cost: self.cost }
    }
}

/// Which rules a call is held to.
pub(crate) trait Rules {
    /// The twin of member `index` of a part.
    fn twin(&self, part: &Part<'_>, index: usize) -> Twin;
    /// The state of a key that is not in the store.
    fn state(&self, part: &Part<'_>, index: usize, now: Micros) -> State;
}

/// The rules as the spec says them.
pub(crate) struct Whole;

impl Rules for Whole {
    fn twin(&self, part: &Part<'_>, index: usize) -> Twin {
        part.plan.members[index].twin
    }

    fn state(&self, part: &Part<'_>, index: usize, now: Micros) -> State {
        let twin = self.twin(part, index);
        let mut state = twin.fresh();
        twin.load(&mut state, now);
        state
    }
}

/// The views of one part's members.
pub(crate) type Views = SmallVec<[View; 1]>;

/// What came of a call on one or several parts.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// The store's time.
    pub(crate) now: Micros,
    /// How many of the equal calls were admitted.
    pub(crate) admitted: u64,
    /// Part by part, after the admitted calls.
    pub(crate) views: SmallVec<[Views; 1]>,
}

impl Outcome {
    /// The decision for the call that was number `turn` among equal ones: what all members of
    /// all its parts say together.
    pub(crate) fn decision(
        &self,
        op: Op,
        parts: &[Part<'_>],
        rules: &dyn Rules,
        turn: u64,
        source: Source,
    ) -> Decision {
        let allowed = turn < self.admitted;
        let takes = matches!(op, Op::Take { .. } | Op::Hold(_));
        let members = parts.iter().zip(&self.views).flat_map(|(part, views)| {
            views.iter().enumerate().map(move |(member, view)| (part, member, view))
        });
        let decisions = members.map(|(part, member, view)| {
            let twin = rules.twin(part, member);
            let spent = if takes { part.cost } else { 0 };
            let decision = if allowed {
                twin.admission(view, spent, (self.admitted - 1 - turn) * spent, source)
            } else if twin.refuses(view, &Ask { calls: 1, cost: part.cost, wait: op.wait() }) {
                twin.refusal(view, part.cost, source)
            } else {
                // Another limit of the same call refused, and this one took nothing.
                twin.admission(view, 0, 0, source)
            };
            Decision { rule: member, ..decision }
        });
        let mut decision = Decision::binding(decisions).unwrap_or_else(|| unreachable!("a spec has a rule"));
        decision.allowed = allowed;
        decision
    }

    /// Where the turn of call number `turn` on the one part is.
    pub(crate) fn marks(&self, part: &Part<'_>, rules: &dyn Rules, turn: u64) -> SmallVec<[Mark; 1]> {
        let later = (self.admitted.saturating_sub(1 + turn)) * part.cost;
        let views = self.views[0].iter().enumerate();
        views.map(|(member, view)| rules.twin(part, member).mark(view, self.now, later)).collect()
    }
}

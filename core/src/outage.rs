//! When the store is away: what to do, with what share, and what is owed afterwards.
//!
//! Each process takes a fixed part of every limit, and the parts add up to the limit. It begins
//! with its part of what was last seen remaining. What it admits is a debt, which is taken in
//! Redis before the key's next decision there.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::algorithm::{State, Twin, View};
use crate::cache::Recent;
use crate::clock::{Clock, Micros};
use crate::decision::{Decision, Source};
use crate::engine::{Answered, limit, refusal};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Events;
use crate::membership::{Membership, Standing};
use crate::spec::{Algorithm, Rule};
use crate::status::{Status, StoreState};
use crate::store::job::Job;
use crate::store::memory::{Full, MemoryStore};
use crate::store::redis::Watcher;
use crate::store::script::Entry;
use crate::store::{Op, Outcome, OwnedPart, Part, Rules};

/// What a limit does while the store can't be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(i32)]
pub enum OnOutage {
    /// Each process decides by its share of the limit; the shares add up to the limit.
    #[default]
    Share = 0,
    /// Everything is admitted.
    Allow = 1,
    /// Everything is refused.
    Deny = 2,
    /// Calls fail with [`ErrorKind::Outage`](crate::ErrorKind::Outage).
    Raise = 3,
}

impl OnOutage {
    /// Every mode, for bindings that test their mapping against the whole list.
    pub const ALL: [OnOutage; 4] = [OnOutage::Share, OnOutage::Allow, OnOutage::Deny, OnOutage::Raise];

    /// `share`, `allow`, `deny` or `raise`.
    pub fn as_str(self) -> &'static str {
        match self {
            OnOutage::Share => "share",
            OnOutage::Allow => "allow",
            OnOutage::Deny => "deny",
            OnOutage::Raise => "raise",
        }
    }
}

/// What a refusal says that no state is behind: look again when Redis may be back.
const RETRY_AFTER: Micros = 1_000_000;
/// Debts that are paid between two signs of life.
const DEBTS_AT_ONCE: usize = 512;

pub(crate) struct Outage {
    clock: Clock,
    timeout: Duration,
    membership: Arc<Membership>,
    events: Arc<Events>,
    state: AtomicU8,
    stalled: AtomicBool,
    /// Whether the store has answered since this process last decided by its share.
    answered: AtomicBool,
    details: Mutex<Details>,
    /// The states of this process's shares.
    shares: MemoryStore,
    /// What was last seen in the store.
    seen: Recent<Seen>,
    debts: Mutex<HashMap<Place, OwnedPart>>,
    in_debt: AtomicBool,
    /// What is on its way to be debited, and so is still owed.
    paying: Mutex<HashMap<Place, u64>>,
    max_keys: usize,
    /// To hand to the jobs that pay debts.
    this: std::sync::Weak<Outage>,
}

/// Where a debt is: the state and the key.
type Place = (u64, Box<[u8]>);

fn place(id: u64, key: &[u8]) -> Place {
    (id, key.into())
}

struct Details {
    since: SystemTime,
    last_error: Option<String>,
    /// As it was when this process began to decide by its share.
    standing: Standing,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    view: View,
    /// Here, and by the store's clock.
    at: Micros,
    of: Micros,
}

impl Outage {
    pub(crate) fn new(
        clock: Clock,
        timeout: Duration,
        max_keys: usize,
        membership: Arc<Membership>,
        events: Arc<Events>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Outage {
            clock,
            timeout,
            membership,
            events,
            state: AtomicU8::new(StoreState::Connecting as u8),
            stalled: AtomicBool::new(false),
            answered: AtomicBool::new(true),
            details: Mutex::new(Details {
                since: SystemTime::now(),
                last_error: None,
                standing: Standing { processes: 1, rank: 0 },
            }),
            shares: MemoryStore::new(max_keys),
            seen: Recent::new(max_keys),
            debts: Mutex::new(HashMap::new()),
            in_debt: AtomicBool::new(false),
            paying: Mutex::new(HashMap::new()),
            max_keys,
            this: this.clone(),
        })
    }

    /// Whether calls are decided here without asking the store.
    pub(crate) fn is_here(&self) -> bool {
        self.state.load(Ordering::Acquire) == StoreState::Out as u8 || self.stalled.load(Ordering::Acquire)
    }

    /// Whether the store decides.
    pub(crate) fn is_up(&self) -> bool {
        self.state.load(Ordering::Acquire) == StoreState::Up as u8 && !self.stalled.load(Ordering::Acquire)
    }

    /// Whether the store decides, and is owed nothing.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_up() && !self.in_debt.load(Ordering::Acquire)
    }

    /// Decides a call that the store has not answered; `why`, where that is known of this call.
    pub(crate) fn decide(&self, op: Op, parts: &[Part<'_>], why: Option<&str>) -> Result<Answered> {
        if let Some(why) = why {
            lock(&self.details).last_error = Some(why.to_owned());
        }
        let modes = || parts.iter().map(|part| part.plan.on_outage);
        if modes().any(|mode| mode == OnOutage::Raise) {
            let why = lock(&self.details).last_error.clone().unwrap_or_default();
            return Err(Error::new(ErrorKind::Outage, format!("the store can't be reached: {why}")));
        }
        if modes().any(|mode| mode == OnOutage::Deny) {
            return Ok(flat(parts, false).into());
        }
        if modes().all(|mode| mode == OnOutage::Allow) {
            if matches!(op, Op::Take { .. }) {
                self.owe(parts);
            }
            return Ok(flat(parts, true).into());
        }
        self.begin();
        let rules = Shares { outage: self, standing: lock(&self.details).standing };
        let shared: SmallVec<[Part<'_>; 1]> =
            parts.iter().filter(|part| part.plan.on_outage == OnOutage::Share).copied().collect();
        let takes = matches!(op, Op::Take { .. } | Op::Hold(_) | Op::Peek);
        let nothing =
            |part: &Part<'_>| part.plan.spec.rules.iter().any(|rule| rules.standing.share(rule).is_none());
        if shared.iter().any(nothing) {
            return Ok(flat(parts, !takes).into());
        }
        let now = self.clock.now();
        match self.shares.run(now, op, &shared, &rules) {
            Ok(outcome) => {
                match op {
                    Op::Take { .. } if outcome.admitted > 0 => self.owe(parts),
                    Op::Refund => self.forgive(parts),
                    Op::Reset => self.forget(parts),
                    _ => {}
                }
                let mut answered = Answered::new(op, &shared, &rules, &outcome, 0, Source::Outage);
                if shared.len() < parts.len() {
                    let rest: SmallVec<[Part<'_>; 1]> =
                        parts.iter().filter(|part| part.plan.on_outage == OnOutage::Allow).copied().collect();
                    answered.decision = Decision::binding([answered.decision, flat(&rest, true)])
                        .unwrap_or(answered.decision);
                }
                Ok(answered)
            }
            Err(Full(retry_after)) => {
                self.events.full();
                Ok(refusal(parts, retry_after, Source::Outage).into())
            }
        }
    }

    /// Gives back a turn that was taken here.
    pub(crate) fn cancel(&self, part: &OwnedPart) {
        let rules = Shares { outage: self, standing: lock(&self.details).standing };
        if part.plan.spec.rules.iter().all(|rule| rules.standing.share(rule).is_some()) {
            self.shares.cancel(self.clock.now(), &part.part(), &part.marks, &rules);
            self.forgive(&[part.part()]);
        }
    }

    /// The first decision here after the store last answered starts from what was seen then.
    fn begin(&self) {
        if self.answered.swap(false, Ordering::AcqRel) {
            let standing = self.membership.standing();
            lock(&self.details).standing = standing.unwrap_or(Standing { processes: 1, rank: 0 });
            self.shares.clear();
        }
    }

    /// Notes what the store will have to be told.
    fn owe(&self, parts: &[Part<'_>]) {
        let mut debts = lock(&self.debts);
        for part in parts.iter().filter(|part| part.cost > 0 && part.plan.has_units()) {
            let place = place(part.state_id(), part.key);
            if let Some(debt) = debts.get_mut(&place) {
                debt.cost = debt.cost.saturating_add(part.cost).min(1 << 44);
            } else if debts.len() < self.max_keys {
                debts.insert(place, part.owned());
            }
        }
        self.in_debt.store(true, Ordering::Release);
    }

    fn forgive(&self, parts: &[Part<'_>]) {
        let mut debts = lock(&self.debts);
        for part in parts {
            if let Some(debt) = debts.get_mut(&place(part.state_id(), part.key)) {
                debt.cost = debt.cost.saturating_sub(part.cost);
            }
        }
    }

    fn forget(&self, parts: &[Part<'_>]) {
        let mut debts = lock(&self.debts);
        for part in parts {
            debts.remove(&place(part.state_id(), part.key));
            for member in &part.plan.members {
                self.seen.remove(member.id, part.key);
            }
        }
    }

    /// What is owed to another server from now on, since that has the keys.
    pub(crate) fn hand_over(&self, to: &dyn Fn(&[u8]) -> Option<Arc<Outage>>) {
        let mut gone = Vec::new();
        lock(&self.debts).retain(|(_, key), debt| match to(key) {
            Some(outage) => {
                gone.push((outage, debt.clone()));
                false
            }
            None => true,
        });
        for (outage, debt) in gone {
            outage.owe(&[debt.part()]);
        }
    }

    fn owed(&self, part: &Part<'_>) -> u64 {
        let place = place(part.state_id(), part.key);
        let waiting = lock(&self.debts).get(&place).map_or(0, |debt| debt.cost);
        waiting + lock(&self.paying).get(&place).copied().unwrap_or(0)
    }

    /// Jobs that take what is owed. A debt whose job is lost is owed again: twice is the safe
    /// side. One whose state here is as good as fresh has refilled, and is nothing; one whose state
    /// was forgotten, as when a late reply began another outage, is still owed.
    fn pay(&self, debts: Vec<OwnedPart>) -> Vec<Job> {
        let now = self.clock.now();
        let deadline = Instant::now() + self.timeout;
        let due = debts.into_iter().filter(|debt| debt.cost > 0 && !self.shares.is_fresh(now, &debt.part()));
        due.map(|debt| {
            let this = self.this.clone();
            *lock(&self.paying).entry(place(debt.state_id(), &debt.key)).or_default() += debt.cost;
            Job::new(Op::Debit, SmallVec::from_elem(debt, 1), deadline, move |reply, owed| {
                let Some(this) = this.upgrade() else { return };
                for owed in owed {
                    if reply.is_err() {
                        this.owe(&[owed.part()]);
                    }
                    this.paid(owed);
                }
            })
        })
        .collect()
    }

    fn paid(&self, debt: &OwnedPart) {
        let mut paying = lock(&self.paying);
        let place = place(debt.state_id(), &debt.key);
        if let Some(left) = paying.get_mut(&place) {
            *left = left.saturating_sub(debt.cost);
            if *left == 0 {
                paying.remove(&place);
            }
        }
    }

    pub(crate) fn fill(&self, status: &mut Status) {
        let details = lock(&self.details);
        status.state = self.state();
        status.since = details.since;
        status.last_error.clone_from(&details.last_error);
        let standing = self.membership.standing();
        (status.processes, status.rank) =
            standing.map_or((0, 0), |standing| (standing.processes, standing.rank));
        status.local_keys = self.shares.keys() as u64;
        status.refused_full = self.shares.refused_full();
    }

    fn state(&self) -> StoreState {
        let state = self.state.load(Ordering::Acquire);
        let known = StoreState::ALL.into_iter().find(|known| *known as u8 == state);
        if self.is_here() { StoreState::Out } else { known.unwrap_or(StoreState::Out) }
    }

    fn enter(&self, state: StoreState, why: Option<&str>) {
        self.stalled.store(false, Ordering::Release);
        let before = self.state.swap(state as u8, Ordering::AcqRel);
        let mut details = lock(&self.details);
        if before != state as u8 {
            details.since = SystemTime::now();
        }
        if let Some(why) = why {
            details.last_error = Some(why.to_owned());
        }
        drop(details);
        self.events.store(|| self.state(), why);
    }
}

impl Watcher for Outage {
    fn connecting(&self) {
        self.enter(StoreState::Connecting, None);
    }

    fn up(&self) {
        self.enter(StoreState::Up, None);
    }

    fn out(&self, why: &str) {
        self.enter(StoreState::Out, Some(why));
    }

    fn stalled(&self, stalled: bool) {
        if self.stalled.swap(stalled, Ordering::AcqRel) == stalled {
            return;
        }
        let mut details = lock(&self.details);
        details.since = SystemTime::now();
        const WHY: &str = "Redis does not answer within the timeout";
        if stalled {
            details.last_error = Some(WHY.to_owned());
        }
        drop(details);
        self.events.store(|| self.state(), Some(WHY));
    }

    fn saw(&self, entry: &Entry, outcome: &Outcome) {
        // What is paid before this process goes on in the store does not begin its share anew.
        if self.is_up() {
            self.answered.store(true, Ordering::Release);
        }
        let at = self.clock.now();
        for (part, views) in entry.parts.iter().zip(&outcome.views) {
            if part.plan.on_outage == OnOutage::Share {
                for (member, view) in part.plan.members.iter().zip(views) {
                    let seen = Seen { view: *view, at, of: outcome.now };
                    // Answers of two connections may overtake each other.
                    self.seen.put_if(member.id, &part.key, seen, |before| before.of <= seen.of);
                }
            }
        }
    }

    fn has_shared(&self) -> bool {
        !self.answered.load(Ordering::Acquire)
    }

    fn debits(&self, jobs: &VecDeque<Job>) -> Vec<Job> {
        if !self.in_debt.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut debts = lock(&self.debts);
        let mut taken = Vec::new();
        for part in jobs.iter().flat_map(|job| &job.parts) {
            taken.extend(debts.remove(&place(part.state_id(), &part.key)));
        }
        self.in_debt.store(!debts.is_empty(), Ordering::Release);
        drop(debts);
        self.pay(taken)
    }

    fn more_debits(&self) -> Vec<Job> {
        let mut debts = lock(&self.debts);
        let some: Vec<_> = debts.keys().take(DEBTS_AT_ONCE).cloned().collect();
        let taken = some.iter().filter_map(|place| debts.remove(place)).collect();
        self.in_debt.store(!debts.is_empty(), Ordering::Release);
        drop(debts);
        self.pay(taken)
    }
}

/// The rules of this process's share.
struct Shares<'a> {
    outage: &'a Outage,
    standing: Standing,
}

impl Rules for Shares<'_> {
    fn twin(&self, part: &Part<'_>, index: usize) -> Twin {
        let rule = &part.plan.spec.rules[index];
        self.standing.share(rule).map_or(part.plan.members[index].twin, |share| Twin::new(&share))
    }

    /// A share of what was last seen remaining, less what was admitted since and is still owed.
    fn state(&self, part: &Part<'_>, index: usize, now: Micros) -> State {
        let share = self.twin(part, index);
        let whole = part.plan.members[index].twin;
        let seen = self.outage.seen.get(part.plan.members[index].id, part.key);
        let mut state = share.fresh();
        share.load(&mut state, now);
        let Some(seen) = seen else { return state };
        let mut last = whole.revive(&seen.view, seen.at);
        whole.load(&mut last, now);
        let left = self.standing.part(whole.left(&last, now)).saturating_sub(self.outage.owed(part));
        share.begin(&mut state, &last, now);
        let used = share.left(&state, now).saturating_sub(left);
        if used > 0 {
            share.spend(&mut state, now, used);
        }
        state
    }
}

impl Standing {
    /// This rank's part of a whole number: the parts add up to it.
    fn part(self, whole: u64) -> u64 {
        whole / self.processes + u64::from(self.rank < whole % self.processes)
    }

    /// This rank's share of a rule; `None` where nothing is left for it.
    fn share(self, rule: &Rule) -> Option<Rule> {
        let mut share = *rule;
        match rule.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra => {
                // Only ranks that get some of the burst share the rate. It is divided by
                // stretching the period, so that the parts are equal and add up exactly.
                share.depth = self.part(rule.depth);
                share.period = rule.period * self.processes.min(rule.depth);
                (share.depth > 0).then_some(share)
            }
            // One queue can't be kept in several places.
            Algorithm::LeakyBucket => (self.rank == 0).then_some(share),
            _ => {
                share.count = self.part(rule.count);
                (share.count > 0).then_some(share)
            }
        }
    }
}

/// The same answer to every call, that no state is behind.
fn flat(parts: &[Part<'_>], allowed: bool) -> Decision {
    if !allowed {
        let mut refused = refusal(parts, RETRY_AFTER, Source::Outage);
        // What can never fit is not to be tried again.
        if parts.iter().any(|part| part.cost > limit(&[*part])) {
            refused.retry_after = None;
        }
        return refused;
    }
    let limit = limit(parts);
    Decision {
        allowed,
        limit,
        remaining: limit,
        retry_after: None,
        reset_after: Duration::ZERO,
        wait: Duration::ZERO,
        source: Source::Outage,
        rule: 0,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;
    use crate::store::{Member, Plan};

    #[test]
    fn shares_add_up_to_the_limit() {
        for (text, processes) in [("100/s burst 50", 7), ("3/s burst 2", 5), ("gcra 1/d burst 1", 3)] {
            let rule = text.parse::<Spec>().unwrap().rules[0];
            let shares: Vec<Rule> =
                (0..processes).filter_map(|rank| Standing { processes, rank }.share(&rule)).collect();
            assert_eq!(shares.iter().map(|share| share.depth).sum::<u64>(), rule.depth, "{text}");
            // rate = count / period, and all shares have the count: so sum of 1/period = 1/period.
            let sum: f64 = shares.iter().map(|share| 1.0 / share.period as f64).sum();
            assert!((sum * rule.period as f64 - 1.0).abs() < 1e-9, "{text}");
        }
        for text in ["fixed-window 10/h", "sliding-log 3/s", "concurrency 5 ttl 1s", "sliding-window 2/s"] {
            let rule = text.parse::<Spec>().unwrap().rules[0];
            let count = (0..4).filter_map(|rank| Standing { processes: 4, rank }.share(&rule));
            assert_eq!(count.map(|share| share.count).sum::<u64>(), rule.count, "{text}");
        }
    }

    #[test]
    fn a_debt_outlives_the_state_it_came_from() {
        let membership = Arc::new(Membership::new("sg"));
        let outage =
            Outage::new(Clock::System, Duration::from_secs(1), 1000, membership, Arc::new(Events::new(None)));
        let spec: Spec = "1000/d".parse().unwrap();
        let twin = Twin::new(&spec.rules[0]);
        let members = smallvec::smallvec![Member { twin, head: "sg:test:{".to_owned(), id: 1 }];
        let plan = Plan { name: "test".to_owned(), id: 1, spec, members, on_outage: OnOutage::Share };
        let part = Part { plan: &Arc::new(plan), key: b"k", cost: 3 };
        assert!(outage.decide(Op::Take { wait: 0 }, &[part], None).unwrap().decision.allowed);
        // The store answers, and a later call finds it away again: the shares begin anew.
        outage.answered.store(true, Ordering::Release);
        outage.begin();
        let jobs = outage.more_debits();
        assert_eq!(jobs.iter().map(|job| job.parts[0].cost).collect::<Vec<_>>(), [3]);
    }
}

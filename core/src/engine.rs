//! One decision's way: what was refused a moment ago, the store, else the outage.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::algorithm::{Mark, Twin};
use crate::clock::{Clock, Micros};
use crate::config::Config;
use crate::decision::{Decision, Source};
use crate::deny_cache::DenyCache;
use crate::error::{Error, Result};
use crate::event::Events;
use crate::key;
use crate::lane::Settings;
use crate::membership::Membership;
use crate::outage::OnOutage;
use crate::routes::{Group, Routes};
use crate::runtime::PerProcess;
use crate::spec::Spec;
use crate::status::{Status, StoreState};
use crate::store::job::{Job, Lost, Reply};
use crate::store::memory::{Full, MemoryStore};
use crate::store::target::Target;
use crate::store::{Member, Op, Outcome, OwnedPart, Part, Plan, Rules, Whole};

/// The decision on a call, and where its turns are.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) decision: Decision,
    /// Of a call on one part that has to wait for its turn.
    pub(crate) marks: SmallVec<[Mark; 1]>,
}

impl Answered {
    /// What the call that was number `turn` among equal ones gets.
    pub(crate) fn new(
        op: Op,
        parts: &[Part<'_>],
        rules: &dyn Rules,
        outcome: &Outcome,
        turn: u64,
        source: Source,
    ) -> Answered {
        let decision = outcome.decision(op, parts, rules, turn, source);
        let waits = parts.len() == 1 && !decision.wait.is_zero();
        let marks = if waits { outcome.marks(&parts[0], rules, turn) } else { SmallVec::new() };
        Answered { decision, marks }
    }
}

impl From<Decision> for Answered {
    fn from(decision: Decision) -> Answered {
        Answered { decision, marks: SmallVec::new() }
    }
}

/// Take the cost now.
pub(crate) const TAKE: Op = Op::Take { wait: 0 };

/// Is told what came of a call, once.
pub(crate) trait Done: FnOnce(Result<Answered>) + Send + 'static {}

impl<D: FnOnce(Result<Answered>) + Send + 'static> Done for D {}

pub(crate) struct Engine {
    config: Config,
    backend: PerProcess<Backend>,
    events: PerProcess<Arc<Events>>,
    opened: SystemTime,
    closed: AtomicBool,
}

enum Backend {
    Memory(MemoryStore),
    Redis(Arc<Redis>),
}

/// The way to Redis, of one process.
struct Redis {
    routes: Routes,
    denied: DenyCache,
    timeout: Duration,
}

impl Engine {
    pub(crate) fn open(config: Config) -> Result<Engine> {
        let engine = Engine {
            config,
            backend: PerProcess::new(),
            events: PerProcess::new(),
            opened: SystemTime::now(),
            closed: AtomicBool::new(false),
        };
        engine.backend()?;
        Ok(engine)
    }

    pub(crate) fn events(&self) -> &Arc<Events> {
        let made = || Ok::<_, Infallible>(Arc::new(Events::new(self.config.on_event.clone())));
        match self.events.get_or_try_init(made) {
            Ok(events) => events,
            Err(never) => match never {},
        }
    }

    fn backend(&self) -> Result<&Backend> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        self.backend.get_or_try_init(|| match self.config.target {
            Target::Memory => Ok(Backend::Memory(MemoryStore::new(self.config.max_keys))),
            _ => self.connect().map(|redis| Backend::Redis(Arc::new(redis))),
        })
    }

    fn connect(&self) -> Result<Redis> {
        let Config { target, prefix, timeout, max_keys, max_waiting, clock, deny_cache, .. } =
            self.config.clone();
        let denied = DenyCache::new(deny_cache, max_keys, clock.clone());
        let membership = Arc::new(Membership::new(&prefix));
        let events = Arc::clone(self.events());
        let routes =
            Routes::open(&target, Settings { timeout, max_keys, max_waiting, clock, membership, events })?;
        Ok(Redis { routes, denied, timeout })
    }

    /// What the limiter is, without secrets.
    pub(crate) fn describe(&self) -> String {
        format!("{}, prefix {:?}", self.config.target.describe(), self.config.prefix)
    }

    pub(crate) fn on_outage(&self) -> OnOutage {
        self.config.on_outage
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.config.clock
    }

    pub(crate) fn plan(&self, name: &str, spec: Spec, on_outage: OnOutage) -> Result<Plan> {
        spec.check()?;
        let escaped = key::escaped_name(name)?;
        let several = spec.rules.len() > 1;
        let members = spec.rules.iter().enumerate().map(|(index, rule)| {
            let index = if several { format!("#{index}") } else { String::new() };
            let head = format!("{}:{}:{escaped}{index}:{{", self.config.prefix, rule.algorithm.as_str());
            Member { twin: Twin::new(rule), id: key::state_id(&head), head }
        });
        let id = key::state_id(&format!("{name}\n{spec}"));
        Ok(Plan { name: name.to_owned(), id, members: members.collect(), spec, on_outage })
    }

    /// Decides without waiting, where that can be done; `None` sends the caller to
    /// [`Engine::submit`].
    pub(crate) fn decide_now(&self, op: Op, parts: &[Part<'_>]) -> Option<Result<Answered>> {
        if let (TAKE, [part]) = (op, parts) {
            return self
                .take_now(part.plan, part.key, part.cost)
                .map(|decision| decision.map(Answered::from));
        }
        match self.backend() {
            Ok(Backend::Memory(store)) => Some(Ok(self.remember(store, op, parts))),
            Ok(Backend::Redis(redis)) => redis.decide_now(op, parts),
            Err(error) => Some(Err(error)),
        }
    }

    /// The same for the commonest call, which is made as cheap as it can be: to take from one limit now.
    /// It has no turn to wait for, and so no marks.
    #[inline(always)]
    pub(crate) fn take_now(&self, plan: &Arc<Plan>, key: &[u8], cost: u64) -> Option<Result<Decision>> {
        match self.backend.get() {
            Some(Backend::Memory(store)) if !self.closed.load(Ordering::Acquire) => {
                let now = self.config.clock.now();
                if let [member] = &plan.members[..]
                    && let Some(taken) = store.take(now, member, key, cost)
                {
                    return Some(Ok(taken.decision(Source::Memory)));
                }
                Some(Ok(self.take_in_memory(store, now, &Part { plan, key, cost })))
            }
            Some(Backend::Redis(redis)) if !self.closed.load(Ordering::Acquire) => {
                match redis.denied.get(plan, key, cost) {
                    Some(decision) => Some(Ok(decision)),
                    None => redis.take_here(&Part { plan, key, cost }),
                }
            }
            // The first call in this process, or one on a limiter that is closed.
            _ => self.take_kept(&Part { plan, key, cost }),
        }
    }

    /// [`Engine::take_now`], where its speed is not what counts.
    #[inline(never)]
    pub(crate) fn take_kept(&self, part: &Part<'_>) -> Option<Result<Decision>> {
        match self.backend() {
            Ok(Backend::Memory(store)) => Some(Ok(self.take_in_memory(store, self.config.clock.now(), part))),
            Ok(Backend::Redis(redis)) => match redis.denied.get(part.plan, part.key, part.cost) {
                Some(decision) => Some(Ok(decision)),
                None => redis.take_here(part),
            },
            Err(error) => Some(Err(error)),
        }
    }

    #[inline(never)]
    fn take_in_memory(&self, store: &MemoryStore, now: Micros, part: &Part<'_>) -> Decision {
        if let [member] = &part.plan.members[..]
            && let Some(taken) = store.take_any(now, member, part.key, part.cost)
        {
            return taken.decision(Source::Memory);
        }
        self.remember(store, TAKE, &[*part]).decision
    }

    /// Starts a call; `done` hears of its end, here or on another thread.
    pub(crate) fn submit(&self, op: Op, parts: Group, done: impl Done) {
        self.send(op, parts, done, false);
    }

    /// The same for a thread that may block for the budget of a decision: where it can carry out
    /// the call itself, `done` has heard of its end when this returns.
    pub(crate) fn submit_blocking(&self, op: Op, parts: Group, done: impl Done) {
        self.send(op, parts, done, true);
    }

    fn send(&self, op: Op, parts: Group, done: impl Done, may_block: bool) {
        match self.backend() {
            Ok(Backend::Redis(redis)) => Redis::send(redis, op, parts, done, may_block),
            _ => {
                let borrowed: SmallVec<[Part<'_>; 1]> = parts.iter().map(OwnedPart::part).collect();
                done(self.decide_now(op, &borrowed).unwrap_or_else(|| Err(Error::closed())));
            }
        }
    }

    /// Gives back a turn that has not come, where it was taken.
    pub(crate) fn cancel(&self, part: OwnedPart, source: Source) {
        match self.backend() {
            Ok(Backend::Memory(store)) => {
                store.cancel(self.config.clock.now(), &part.part(), &part.marks, &Whole);
            }
            Ok(Backend::Redis(redis)) => {
                let lane = redis.routes.lane(&part.key);
                if source == Source::Outage {
                    lane.outage.cancel(&part);
                } else if !lane.outage.is_here() {
                    self.submit(Op::Cancel, SmallVec::from_elem(part, 1), |_| {});
                }
                // Else the turn passes unused.
            }
            Err(_) => {}
        }
    }

    fn remember(&self, store: &MemoryStore, op: Op, parts: &[Part<'_>]) -> Answered {
        match store.run(self.config.clock.now(), op, parts, &Whole) {
            Ok(outcome) => Answered::new(op, parts, &Whole, &outcome, 0, Source::Memory),
            Err(Full(retry_after)) => {
                self.events().full();
                refusal(parts, retry_after, Source::Memory).into()
            }
        }
    }

    pub(crate) fn status(&self) -> Status {
        let mut status = Status {
            state: StoreState::Up,
            since: self.opened,
            processes: 1,
            rank: 0,
            last_error: None,
            local_keys: 0,
            refused_full: 0,
            deny_cache_keys: 0,
        };
        match self.backend.get() {
            Some(Backend::Memory(store)) => {
                status.local_keys = store.keys() as u64;
                status.refused_full = store.refused_full();
            }
            Some(Backend::Redis(redis)) => {
                redis.routes.fill(&mut status);
                status.deny_cache_keys = redis.denied.keys() as u64;
            }
            None => {}
        }
        if self.closed.load(Ordering::Acquire) {
            status.state = StoreState::Closed;
        }
        status
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if let Some(Backend::Redis(redis)) = self.backend.get() {
            redis.routes.close();
        }
        self.events().close();
    }
}

impl Redis {
    #[inline(never)]
    fn take_here(&self, part: &Part<'_>) -> Option<Result<Decision>> {
        self.decide_now(TAKE, &[*part]).map(|answered| answered.map(|answered| answered.decision))
    }

    fn decide_now(&self, op: Op, parts: &[Part<'_>]) -> Option<Result<Answered>> {
        let lane = self.routes.lane(parts.first()?.key);
        if !lane.outage.is_here() || !self.routes.are_together(parts.iter().map(|part| part.key)) {
            return None;
        }
        self.denied.saw(op, parts, None);
        Some(lane.outage.decide(op, parts, None))
    }

    /// Sends a call to the server that has its keys, or to the servers that have them.
    fn send(this: &Arc<Redis>, op: Op, parts: Group, done: impl Done, may_block: bool) {
        let deadline = Instant::now() + this.timeout;
        if this.routes.are_together(parts.iter().map(|part| &*part.key)) {
            return Redis::send_together(this, op, parts, deadline, done, may_block);
        }
        let groups = this.routes.groups(parts).into();
        let redis = Arc::clone(this);
        let done = Box::new(done);
        InTurn { redis, op, groups, taken: Vec::new(), refused: None, deadline, done, may_block }.go_on();
    }

    fn send_together(
        this: &Arc<Redis>,
        op: Op,
        parts: Group,
        deadline: Instant,
        done: impl Done,
        may_block: bool,
    ) {
        let lane = this.routes.lane(&parts[0].key);
        if lane.outage.is_here() {
            let parts: SmallVec<[Part<'_>; 1]> = parts.iter().map(OwnedPart::part).collect();
            this.denied.saw(op, &parts, None);
            return done(lane.outage.decide(op, &parts, None));
        }
        let redis = Arc::clone(this);
        let finish = move |reply: std::result::Result<Reply<'_>, Lost>, parts: &[OwnedPart]| {
            let parts: SmallVec<[Part<'_>; 1]> = parts.iter().map(OwnedPart::part).collect();
            done(match reply {
                Ok(Reply { outcome, turn }) => {
                    let answered = Answered::new(op, &parts, &Whole, outcome, turn, Source::Redis);
                    redis.denied.saw(op, &parts, Some(answered.decision));
                    Ok(answered)
                }
                // Where the keys are now: they may have moved since.
                Err(Lost(why)) => redis.routes.lane(parts[0].key).outage.decide(op, &parts, Some(&why)),
            });
        };
        this.routes.send(&lane, Job::new(op, parts, deadline, finish), may_block);
    }
}

/// A call on keys that are in several slots of a Cluster: one slot after the other takes. Where
/// one refuses, what those before it took is given back, and those behind it are only asked what
/// they would say. So the sum is never over, though for a moment less may be left for others.
struct InTurn {
    redis: Arc<Redis>,
    op: Op,
    /// By slot: two calls on the same keys meet at the first that they share.
    groups: VecDeque<Group>,
    taken: Vec<(Group, Decision)>,
    refused: Option<Decision>,
    deadline: Instant,
    done: Box<dyn Done>,
    may_block: bool,
}

impl InTurn {
    fn go_on(mut self) {
        let Some(group) = self.groups.pop_front() else {
            let taken = self.taken.iter().map(|(_, decision)| *decision);
            let decision = Decision::binding(taken.chain(self.refused));
            return self.end(decision.map(Answered::from).ok_or_else(Error::closed));
        };
        let op = if self.refused.is_some() { Op::Peek } else { self.op };
        let (redis, own) = (Arc::clone(&self.redis), group.clone());
        let (deadline, may_block) = (self.deadline, self.may_block);
        let then = move |answered: Result<Answered>| match answered {
            Ok(Answered { decision, .. }) => {
                if !decision.allowed {
                    let refusals = self.refused.into_iter().chain([decision]);
                    self.refused = Decision::binding(refusals);
                } else if self.refused.is_none() {
                    self.taken.push((own, decision));
                }
                self.go_on();
            }
            Err(error) => self.end(Err(error)),
        };
        Redis::send_together(&redis, op, group, deadline, then, may_block);
    }

    fn end(self, answer: Result<Answered>) {
        if !matches!(&answer, Ok(answered) if answered.decision.allowed) {
            for (group, _) in self.taken {
                Redis::send(&self.redis, Op::Refund, group, |_| {}, false);
            }
        }
        (self.done)(answer);
    }
}

/// A refusal that no state is behind, as when there is no room for one.
pub(crate) fn refusal(parts: &[Part<'_>], retry_after: Micros, source: Source) -> Decision {
    Decision {
        allowed: false,
        limit: limit(parts),
        remaining: 0,
        retry_after: Some(Duration::from_micros(retry_after)),
        reset_after: Duration::ZERO,
        wait: Duration::ZERO,
        source,
        rule: 0,
    }
}

/// The least of the parts' limits.
pub(crate) fn limit(parts: &[Part<'_>]) -> u64 {
    let members = parts.iter().flat_map(|part| &part.plan.members);
    members.map(|member| member.twin.limit()).min().unwrap_or(0)
}

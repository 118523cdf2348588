//! One decision's way: what was refused a moment ago, the store, else the outage.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use smallvec::{SmallVec, smallvec};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::algorithm::{Mark, Twin};
use crate::clock::Clock;
use crate::config::Config;
use crate::decision::{Decision, Source};
use crate::deny_cache::DenyCache;
use crate::error::{Error, Result};
use crate::event::Events;
use crate::key;
use crate::membership::Membership;
use crate::outage::{OnOutage, Outage};
use crate::runtime::{self, PerProcess};
use crate::spec::Spec;
use crate::status::{Status, StoreState};
use crate::store::batch::{Job, Lost, Queue, Reply};
use crate::store::direct::{Direct, Sent};
use crate::store::memory::{Full, MemoryStore};
use crate::store::redis::{Store, Watcher};
use crate::store::target::Target;
use crate::store::{Member, Op, Outcome, OwnedPart, Part, Plan, Rules, Whole};

/// The decisions on the parts of a call, and where its turns are.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) decisions: SmallVec<[Decision; 1]>,
    /// Of a call on one part that has to wait for its turn.
    pub(crate) marks: SmallVec<[Mark; 1]>,
    pub(crate) source: Source,
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
        let parts_of = parts.iter().enumerate();
        let decisions: SmallVec<[Decision; 1]> =
            parts_of.map(|(index, part)| outcome.decision(op, part, rules, (index, turn), source)).collect();
        let waits = decisions.len() == 1 && !decisions[0].wait.is_zero();
        let marks = if waits { outcome.marks(&parts[0], rules, (0, turn)) } else { SmallVec::new() };
        Answered { decisions, marks, source }
    }

    pub(crate) fn decision(&self) -> Option<Decision> {
        self.decisions.first().copied()
    }

    pub(crate) fn wait(&self) -> Duration {
        self.decision().map_or(Duration::ZERO, |decision| decision.wait)
    }
}

/// Is told what came of a call, once.
pub(crate) type Done = Box<dyn FnOnce(Result<Answered>) + Send>;

pub(crate) struct Engine {
    config: Config,
    backend: PerProcess<Backend>,
    events: PerProcess<Arc<Events>>,
    opened: SystemTime,
    closed: AtomicBool,
}

enum Backend {
    Memory(MemoryStore),
    Redis(Redis),
}

/// The way to Redis, of one process.
struct Redis {
    queue: Arc<Queue>,
    outage: Arc<Outage>,
    denied: Arc<DenyCache>,
    /// For threads that may block, where the store is one server.
    direct: Option<Arc<Direct>>,
    doubt: Arc<Notify>,
    /// Says that the limiter is closed; its end says so too.
    closing: watch::Sender<bool>,
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
            _ => self.connect().map(Backend::Redis),
        })
    }

    fn connect(&self) -> Result<Redis> {
        let Config { target, prefix, timeout, max_keys, clock, .. } = &self.config;
        let membership = Arc::new(Membership::new(prefix));
        let outage = Outage::new(
            clock.clone(),
            *timeout,
            *max_keys,
            Arc::clone(&membership),
            Arc::clone(self.events()),
        );
        let queue = Arc::new(Queue::default());
        let doubt = Arc::new(Notify::new());
        let direct = match target {
            Target::Redis(info) => Some(Arc::new(Direct::new(info.clone(), *timeout, clock.clone()))),
            Target::Memory => None,
        };
        let (closing, closed) = watch::channel(false);
        let store = Store {
            target: target.clone(),
            timeout: *timeout,
            clock: clock.clone(),
            queue: Arc::clone(&queue),
            membership,
            watcher: Arc::clone(&outage) as _,
            doubt: Arc::clone(&doubt),
        };
        runtime::handle()?.spawn(store.run(closed));
        let denied = Arc::new(DenyCache::new(self.config.deny_cache, *max_keys, clock.clone()));
        Ok(Redis { queue, outage, denied, direct, doubt, closing })
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
        match self.backend() {
            Ok(Backend::Memory(store)) => Some(Ok(self.remember(store, op, parts))),
            Ok(Backend::Redis(redis)) => match redis.denied.get(op, parts) {
                Some(decision) => Some(Ok(Answered {
                    decisions: smallvec![decision],
                    marks: SmallVec::new(),
                    source: Source::DenyCache,
                })),
                None if redis.outage.is_here() => {
                    redis.denied.saw(op, parts, None);
                    Some(redis.outage.decide(op, parts, None))
                }
                None => None,
            },
            Err(error) => Some(Err(error)),
        }
    }

    /// Starts a call; `done` hears of its end, here or on another thread.
    pub(crate) fn submit(&self, op: Op, parts: SmallVec<[OwnedPart; 1]>, done: Done) {
        self.send(op, parts, done, false);
    }

    /// The same for a thread that may block for the budget of a decision: where it can carry out
    /// the call itself, `done` has heard of its end when this returns.
    pub(crate) fn submit_blocking(&self, op: Op, parts: SmallVec<[OwnedPart; 1]>, done: Done) {
        self.send(op, parts, done, true);
    }

    fn send(&self, op: Op, parts: SmallVec<[OwnedPart; 1]>, done: Done, may_block: bool) {
        let Redis { queue, outage, denied, direct, doubt, .. } = match self.backend() {
            Ok(Backend::Redis(redis)) if !redis.outage.is_here() => redis,
            _ => {
                let borrowed: SmallVec<[Part<'_>; 1]> = parts.iter().map(OwnedPart::part).collect();
                return done(self.decide_now(op, &borrowed).unwrap_or_else(|| Err(Error::closed())));
            }
        };
        let (here, denied, own) = (Arc::clone(outage), Arc::clone(denied), parts.clone());
        let finish = move |reply: std::result::Result<Reply, Lost>| {
            let parts: SmallVec<[Part<'_>; 1]> = own.iter().map(OwnedPart::part).collect();
            done(match reply {
                Ok(Reply { outcome, turn }) => {
                    let answered = Answered::new(op, &parts, &Whole, &outcome, turn, Source::Redis);
                    denied.saw(op, &parts, answered.decision());
                    Ok(answered)
                }
                Err(Lost(why)) => here.decide(op, &parts, Some(&why)),
            });
        };
        let deadline = Instant::now() + self.config.timeout;
        let job = Job::new(op, parts, deadline, Box::new(finish));
        let direct = direct.as_ref().filter(|_| may_block && queue.is_idle() && outage.is_settled());
        let sent = match direct {
            Some(direct) => direct.call(job, &|entry, outcome| outage.saw(entry, outcome)),
            None => Sent::No(job),
        };
        match sent {
            Sent::Answered => {}
            Sent::No(job) => queue.push(job),
            Sent::Lost => {
                outage.stalled(true);
                doubt.notify_one();
            }
        }
    }

    /// Gives back a turn that has not come, where it was taken.
    pub(crate) fn cancel(&self, part: OwnedPart, source: Source) {
        match self.backend() {
            Ok(Backend::Memory(store)) => {
                store.cancel(self.config.clock.now(), &part.part(), &part.marks, &Whole);
            }
            Ok(Backend::Redis(redis)) if source == Source::Outage => redis.outage.cancel(&part),
            Ok(Backend::Redis(redis)) if !redis.outage.is_here() => {
                self.submit(Op::Cancel, SmallVec::from_elem(part, 1), Box::new(|_| {}));
            }
            // The turn passes unused.
            _ => {}
        }
    }

    fn remember(&self, store: &MemoryStore, op: Op, parts: &[Part<'_>]) -> Answered {
        match store.run(self.config.clock.now(), op, parts, &Whole) {
            Ok(outcome) => Answered::new(op, parts, &Whole, &outcome, 0, Source::Memory),
            Err(Full(retry_after)) => {
                self.events().full();
                full(parts, retry_after, Source::Memory)
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
                redis.outage.fill(&mut status);
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
            redis.closing.send_replace(true);
        }
        self.events().close();
    }
}

/// The refusal of a key for which there is no room.
fn full(parts: &[Part<'_>], retry_after: u64, source: Source) -> Answered {
    let refuse = |part: &Part<'_>| Decision {
        allowed: false,
        limit: part.plan.members.iter().map(|member| member.twin.limit()).min().unwrap_or(0),
        remaining: 0,
        retry_after: Some(Duration::from_micros(retry_after)),
        reset_after: Duration::ZERO,
        wait: Duration::ZERO,
        source,
        rule: 0,
    };
    Answered { decisions: parts.iter().map(refuse).collect(), marks: SmallVec::new(), source }
}

//! One decision's way: what was refused a moment ago, the store, else the outage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use smallvec::SmallVec;

use crate::algorithm::{Mark, Twin};
use crate::clock::Clock;
use crate::config::Config;
use crate::decision::{Decision, Source};
use crate::error::{Error, Result};
use crate::key;
use crate::outage::OnOutage;
use crate::runtime::PerProcess;
use crate::spec::Spec;
use crate::status::{Status, StoreState};
use crate::store::memory::{Full, MemoryStore};
use crate::store::target::Target;
use crate::store::{Member, Op, Outcome, OwnedPart, Part, Plan};

/// The decisions on the parts of a call, and where its turns are.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) decisions: SmallVec<[Decision; 1]>,
    /// Of a call on one part that has to wait for its turn.
    pub(crate) marks: SmallVec<[Mark; 1]>,
}

impl Answered {
    pub(crate) fn decision(&self) -> Option<Decision> {
        self.decisions.first().copied()
    }

    pub(crate) fn wait(&self) -> Duration {
        self.decision().map_or(Duration::ZERO, |decision| decision.wait)
    }

    /// What the call that was number `turn` among equal ones gets.
    pub(crate) fn new(op: Op, parts: &[Part<'_>], outcome: &Outcome, turn: u64, source: Source) -> Answered {
        let parts_of = parts.iter().enumerate();
        let decisions: SmallVec<[Decision; 1]> =
            parts_of.map(|(index, part)| outcome.decision(op, part, index, turn, source)).collect();
        let waits = decisions.len() == 1 && !decisions[0].wait.is_zero();
        let marks = if waits { outcome.marks(&parts[0], 0, turn) } else { SmallVec::new() };
        Answered { decisions, marks }
    }
}

/// Is told what came of a call, once.
pub(crate) type Done = Box<dyn FnOnce(Result<Answered>) + Send>;

pub(crate) struct Engine {
    config: Arc<Config>,
    backend: PerProcess<Backend>,
    opened: SystemTime,
    closed: AtomicBool,
}

enum Backend {
    Memory(MemoryStore),
}

impl Engine {
    pub(crate) fn open(config: Config) -> Result<Engine> {
        let engine = Engine {
            config: Arc::new(config),
            backend: PerProcess::new(),
            opened: SystemTime::now(),
            closed: AtomicBool::new(false),
        };
        engine.backend()?;
        Ok(engine)
    }

    fn backend(&self) -> Result<&Backend> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        self.backend.get_or_try_init(|| match self.config.target {
            Target::Memory => Ok(Backend::Memory(MemoryStore::new(self.config.max_keys))),
            Target::Redis => Err(Error::config("not yet")),
        })
    }

    /// What the limiter is, without secrets.
    pub(crate) fn describe(&self) -> String {
        "memory://".to_owned()
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
        Ok(Plan { name: name.to_owned(), members: members.collect(), spec, on_outage })
    }

    /// Decides without waiting, where that can be done; `None` sends the caller to
    /// [`Engine::submit`].
    pub(crate) fn decide_now(&self, op: Op, parts: &[Part<'_>]) -> Option<Result<Answered>> {
        match self.backend() {
            Ok(Backend::Memory(store)) => Some(Ok(self.remember(store, op, parts))),
            Err(error) => Some(Err(error)),
        }
    }

    /// Starts a call; `done` hears of its end, here or on another thread.
    pub(crate) fn submit(&self, op: Op, parts: Vec<OwnedPart>, done: Done) {
        match self.backend() {
            Ok(Backend::Memory(store)) => {
                if op == Op::Cancel {
                    let own = |part: &Part<'_>, index: usize| part.plan.members[index].twin;
                    for part in &parts {
                        store.cancel(self.config.clock.now(), &part.part(), &part.marks, &own);
                    }
                }
                let parts: SmallVec<[Part<'_>; 1]> = parts.iter().map(OwnedPart::part).collect();
                let op = if op == Op::Cancel { Op::Peek } else { op };
                done(Ok(self.remember(store, op, &parts)));
            }
            Err(error) => done(Err(error)),
        }
    }

    fn remember(&self, store: &MemoryStore, op: Op, parts: &[Part<'_>]) -> Answered {
        let own = |part: &Part<'_>, index: usize| part.plan.members[index].twin;
        match store.run(self.config.clock.now(), op, parts, &own) {
            Ok(outcome) => Answered::new(op, parts, &outcome, 0, Source::Memory),
            Err(Full(retry_after)) => full(parts, retry_after, Source::Memory),
        }
    }

    pub(crate) fn status(&self) -> Status {
        let closed = self.closed.load(Ordering::Acquire);
        let mut status = Status {
            state: if closed { StoreState::Closed } else { StoreState::Up },
            since: self.opened,
            processes: 1,
            rank: 0,
            last_error: None,
            local_keys: 0,
            refused_full: 0,
            deny_cache_keys: 0,
        };
        if let Some(Backend::Memory(store)) = self.backend.get() {
            status.local_keys = store.keys() as u64;
            status.refused_full = store.refused_full();
        }
        status
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
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
    };
    Answered { decisions: parts.iter().map(refuse).collect(), marks: SmallVec::new() }
}

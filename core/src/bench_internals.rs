//! The private parts as `core/benches` needs them. Not for users: it changes without notice, and is
//! there only under the feature `bench-internals`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redis::{Arg, Cmd, Value};
use smallvec::smallvec;
use tokio::time::Instant;

use crate::algorithm::{Ask, State, Twin};
use crate::clock::{Clock, Micros};
use crate::deny_cache::DenyCache;
use crate::key::state_id;
use crate::outage::OnOutage;
use crate::store::batch::Batch;
use crate::store::job::Job;
use crate::store::script::{Programs, reply_of};
use crate::store::{Member, Op, OwnedPart, Part, Plan};
use crate::{Decision, Result, Source, Spec};

const TAKE: Op = Op::Take { wait: 0 };

fn plan(spec: &str) -> Result<Arc<Plan>> {
    let spec: Spec = spec.parse()?;
    let members = spec.rules.iter().map(|rule| {
        let head = format!("sg:{}:bench:{{", rule.algorithm.as_str());
        Member { twin: Twin::new(rule), id: state_id(&head), head }
    });
    let members = members.collect();
    Ok(Arc::new(Plan { name: "bench".to_owned(), id: 1, members, spec, on_outage: OnOutage::Share }))
}

/// One algorithm on one key, with the time going on by a microsecond a call.
pub struct OneKey {
    twin: Twin,
    state: State,
    now: Micros,
}

impl OneKey {
    /// A key that was never used. `spec` is one limit.
    ///
    /// # Errors
    /// Those of the spec.
    pub fn new(spec: &str) -> Result<OneKey> {
        let twin = plan(spec)?.members[0].twin;
        Ok(OneKey { twin, state: twin.fresh(), now: 1_700_000_000_000_000 })
    }

    /// What a `take` of one unit is to the algorithm; says whether it was admitted.
    pub fn take(&mut self) -> Decision {
        self.now += 1;
        let (twin, state, now) = (&self.twin, &mut self.state, self.now);
        twin.load(state, now);
        let fits = twin.fit(state, now, &Ask { calls: 1, cost: 1, wait: 0 }) == 1;
        if fits {
            twin.spend(state, now, 1);
        }
        let view = twin.view(state, now, 1);
        if fits {
            twin.admission(&view, 1, 0, Source::Memory)
        } else {
            twin.refusal(&view, 1, Source::Memory)
        }
    }
}

/// Refusals that are remembered.
pub struct Refusals {
    cache: DenyCache,
    plan: Arc<Plan>,
}

impl Refusals {
    /// Remembers a refusal of each key.
    ///
    /// # Errors
    /// None in practice.
    pub fn of(keys: &[String]) -> Result<Refusals> {
        let cache = DenyCache::new(Duration::from_secs(3600), 1_000_000, Clock::System);
        let refusals = Refusals { cache, plan: plan("1/day")? };
        let refused = Decision {
            allowed: false,
            limit: 1,
            remaining: 0,
            retry_after: Some(Duration::from_secs(86_400)),
            reset_after: Duration::from_secs(86_400),
            wait: Duration::ZERO,
            source: Source::Redis,
            rule: 0,
        };
        for key in keys {
            refusals.cache.saw(TAKE, &[refusals.part(key)], Some(refused));
        }
        Ok(refusals)
    }

    fn part<'a>(&'a self, key: &'a str) -> Part<'a> {
        Part { plan: &self.plan, key: key.as_bytes(), cost: 1 }
    }

    /// What is remembered of the key.
    pub fn get(&self, key: &str) -> Option<Decision> {
        self.cache.get(&self.plan, key.as_bytes(), 1)
    }
}

/// Calls that wait for a round trip.
pub struct Calls {
    plan: Arc<Plan>,
    programs: RefCell<Programs>,
}

/// Calls before they are put together.
pub struct Waiting(VecDeque<Job>);

/// Calls that were put together.
pub struct Assembled(Batch);

/// What Redis replies to them.
pub struct Replies(Vec<Value>);

impl Calls {
    /// Calls on one limit, whose program Redis knows.
    ///
    /// # Errors
    /// Those of the spec.
    pub fn on(spec: &str) -> Result<Calls> {
        let calls = Calls { plan: plan(spec)?, programs: RefCell::default() };
        let first = calls.waiting(&["first".to_owned()]);
        calls.assemble(first);
        Ok(calls)
    }

    /// A call on each key.
    pub fn waiting(&self, keys: &[String]) -> Waiting {
        let job = |key: &String| {
            let plan = Arc::clone(&self.plan);
            let part = OwnedPart { plan, key: key.as_bytes().into(), cost: 1, marks: smallvec![] };
            Job::new(TAKE, smallvec![part], Instant::now(), |_, _| {})
        };
        Waiting(keys.iter().map(job).collect())
    }

    /// Orders the calls into runs.
    pub fn assemble(&self, calls: Waiting) -> Assembled {
        Assembled(Batch::new(calls.0, &mut self.programs.borrow_mut(), None, false))
    }

    /// The calls put together, and what Redis replies where all are admitted.
    pub fn assembled(&self, keys: &[String]) -> (Assembled, Replies) {
        let waiting = self.waiting(keys);
        let batch = Batch::new(waiting.0, &mut self.programs.borrow_mut(), None, false);
        let replies = batch.pipeline().cmd_iter().map(reply_to).collect();
        (Assembled(batch), Replies(replies))
    }
}

/// The reply that admits every call of a run on one limit with a token bucket.
fn reply_to(command: &Cmd) -> Value {
    let keys = command.args_iter().nth(2).and_then(|word| match word {
        Arg::Simple(word) => str::from_utf8(word).ok()?.parse().ok(),
        _ => None,
    });
    let of_entries = [1, 1, 0].repeat(keys.unwrap_or(0));
    reply_of(std::iter::once(1_700_000_000_000_000).chain(of_entries))
}

impl Assembled {
    /// What goes out.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.pipeline().get_packed_pipeline()
    }

    /// Tells every call what came of it.
    pub fn hand_out(&mut self, replies: Replies) {
        self.0.finish(replies.0, &|_, _| {});
    }
}

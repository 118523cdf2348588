//! The verbs: what a program calls.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::argument::{check_cost, check_duration};
use crate::call::{Answer, Call, Submitted, answer_to};
use crate::clock::{MAX_EXACT, micros};
use crate::config::Builder;
use crate::decision::Decision;
use crate::engine::{Answered, Engine, TAKE};
use crate::error::{Error, ErrorKind, Result, quote};
use crate::event::Event;
use crate::key;
use crate::outage::OnOutage;
use crate::permit::Permit;
use crate::spec::{Algorithm, Spec};
use crate::status::Status;
use crate::store::{Op, OwnedPart, Part, Plan};
use crate::waiting::{self, Wait};

/// A store, its connections and its limits: what a process opens once.
///
/// Clones are cheap and are the same limiter. A limiter may be used from any number of threads,
/// and goes on working on both sides of a fork.
#[derive(Clone)]
pub struct Limiter {
    engine: Arc<Engine>,
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Limiter({})", self.engine.describe())
    }
}

impl Limiter {
    /// Opens a limiter with the default options. It waits for nothing: a limiter that is opened
    /// while Redis is down decides in outage mode, and joins when Redis comes.
    ///
    /// URLs are `redis://`, `rediss://` (TLS), `redis+unix://`, `redis+cluster://h:p,h:p`,
    /// `redis+sentinel://h:p,h:p/master` and `memory://`. Those of TLS take the parameters
    /// `ssl_ca_certs`, `ssl_certfile` and `ssl_keyfile`, which name PEM files.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a bad URL.
    pub fn open(url: &str) -> Result<Limiter> {
        Limiter::builder().url(url).open()
    }

    /// A limiter whose options are still to be said.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(engine: Engine) -> Limiter {
        Limiter { engine: Arc::new(engine) }
    }

    /// A limit: a name, shared by all processes that use it, and a spec such as
    /// `"100/s burst 200"`.
    ///
    /// # Errors
    /// [`ErrorKind::Spec`] for a spec that can't be read or met, [`ErrorKind::Argument`] for an
    /// empty, overlong or unprintable name.
    pub fn limit<S>(&self, name: &str, spec: S) -> Result<Limit>
    where
        S: TryInto<Spec>,
        Error: From<S::Error>,
    {
        self.limit_on_outage(name, spec, self.engine.on_outage())
    }

    /// A limit with its own behaviour in an outage.
    ///
    /// # Errors
    /// As [`Limiter::limit`].
    pub fn limit_on_outage<S>(&self, name: &str, spec: S, on_outage: OnOutage) -> Result<Limit>
    where
        S: TryInto<Spec>,
        Error: From<S::Error>,
    {
        let plan = self.engine.plan(name, spec.try_into()?, on_outage)?;
        let has_concurrency = plan.spec.rules.iter().any(|rule| rule.algorithm == Algorithm::Concurrency);
        Ok(Limit { limiter: self.clone(), plan: Arc::new(plan), has_concurrency })
    }

    /// Takes from several limits or from none, in one atomic step. The one decision speaks for the
    /// limit with the longest wait where it refuses, and for the one with the least remaining
    /// where it allows.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for a bad cost or key, an empty list, more than 64 entries, or one
    /// that names a limit and key twice; [`ErrorKind::Unsupported`] for a concurrency limit.
    pub async fn try_acquire_all<K: AsRef<[u8]>>(&self, entries: &[(&Limit, K, u64)]) -> Result<Decision> {
        let parts = self.parts(entries);
        self.submit_all(parts).answer().await.and_then(only_decision)
    }

    /// [`Limiter::try_acquire_all`] for a thread that may block.
    ///
    /// # Errors
    /// The same.
    pub fn try_acquire_all_blocking<K: AsRef<[u8]>>(&self, entries: &[(&Limit, K, u64)]) -> Result<Decision> {
        let parts = self.parts(entries);
        self.send_all(parts, true).wait().and_then(only_decision)
    }

    fn parts<K: AsRef<[u8]>>(&self, entries: &[(&Limit, K, u64)]) -> Vec<(Limit, Vec<u8>, u64)> {
        let own = |(limit, key, cost): &(&Limit, K, u64)| ((*limit).clone(), key.as_ref().to_vec(), *cost);
        entries.iter().map(own).collect()
    }

    /// [`Limiter::try_acquire_all`] for a language binding: decides now where that needs no
    /// waiting, and otherwise starts the call.
    pub fn submit_all(&self, entries: Vec<(Limit, Vec<u8>, u64)>) -> Submitted {
        self.send_all(entries, false)
    }

    /// [`Limiter::submit_all`] for a thread that may block for the budget of a decision: it
    /// starts the call only where it can't carry it out itself.
    pub fn submit_all_blocking(&self, entries: Vec<(Limit, Vec<u8>, u64)>) -> Submitted {
        self.send_all(entries, true)
    }

    fn send_all(&self, entries: Vec<(Limit, Vec<u8>, u64)>, may_block: bool) -> Submitted {
        match self.check_all(&entries) {
            Ok(parts) => {
                let answer = |answered: Answered| Answer::Decision(answered.decision);
                Submitted::from_engine(&self.engine, Op::Take { wait: 0 }, parts, may_block, answer)
            }
            Err(error) => Submitted::Now(Err(error)),
        }
    }

    fn check_all(&self, entries: &[(Limit, Vec<u8>, u64)]) -> Result<SmallVec<[OwnedPart; 1]>> {
        const MOST: usize = 64;
        if entries.is_empty() || entries.len() > MOST {
            let got = entries.len();
            return Err(Error::argument(format!("try_acquire_all takes 1 to {MOST} entries, got {got}")));
        }
        let mut parts: SmallVec<[OwnedPart; 1]> = SmallVec::with_capacity(entries.len());
        for (limit, key, cost) in entries {
            if !Arc::ptr_eq(&limit.limiter.engine, &self.engine) {
                let name = quote(&limit.plan.name);
                return Err(Error::argument(format!("limit {name} belongs to another limiter")));
            }
            limit.refuse_concurrency("try_acquire_all")?;
            let part = limit.part(key, *cost)?;
            let same = |other: &OwnedPart| {
                other.key == part.key
                    && other.plan.members.iter().any(|a| part.plan.members.iter().any(|b| a.id == b.id))
            };
            if parts.iter().any(same) {
                let (name, key) = (quote(&limit.plan.name), quote(&String::from_utf8_lossy(key)));
                return Err(Error::argument(format!(
                    "limit {name} with key {key} is named twice; add up the costs"
                )));
            }
            parts.push(part);
        }
        Ok(parts)
    }

    /// What the limiter knows of its store and of itself.
    pub fn status(&self) -> Status {
        self.engine.status()
    }

    /// What has changed since this was last asked, the oldest first: the last 64 events at most. It is
    /// for who would rather ask than be told by [`Builder::on_event`]; both hear of every event.
    pub fn take_events(&self) -> Vec<Event> {
        self.engine.events().take()
    }

    /// Whether [`Limiter::take_events`] has something to say. Costs next to nothing.
    pub fn has_events(&self) -> bool {
        self.engine.events().any()
    }

    /// Leaves the store and closes the connections. Calls that are under way are still answered;
    /// later ones get [`ErrorKind::Closed`]. A limiter that is dropped closes by itself.
    pub fn close(&self) {
        self.engine.close();
    }
}

/// A name plus a spec: what keys are held to. Clones are cheap and are the same limit.
#[derive(Clone)]
pub struct Limit {
    limiter: Limiter,
    plan: Arc<Plan>,
    has_concurrency: bool,
}

impl std::fmt::Debug for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Limit({:?}, \"{}\")", self.plan.name, self.plan.spec)
    }
}

impl Limit {
    /// The limit's name.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// The spec; it prints as its one canonical text.
    pub fn spec(&self) -> &Spec {
        &self.plan.spec
    }

    /// The limiter that it belongs to.
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Decides now, in one round trip at most. A cost of 0 is allowed and changes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for an empty key or a cost above 2^53, [`ErrorKind::Unsupported`]
    /// for a concurrency limit, [`ErrorKind::Outage`] under `on_outage = raise`,
    /// [`ErrorKind::Closed`].
    pub async fn try_acquire(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision> {
        let key = key.as_ref();
        match self.take_now(key, cost) {
            Some(decision) => decision,
            None => self.send(TAKE, cost, key, false)?.answer().await.and_then(only_decision),
        }
    }

    /// Waits its turn, first come first served, and gives up at once when the wait would be
    /// longer than `timeout`; the decision then is a refusal. A caller that is dropped while it
    /// waits gives its turn back, as far as nobody has taken a later one; a turn in the middle of
    /// the queue passes unused.
    ///
    /// token-bucket, gcra and leaky-bucket keep the order over all processes. The windowed
    /// algorithms and specs of several limits can't reserve: there, callers wait for `retry_after`
    /// with jitter.
    ///
    /// # Errors
    /// As [`Limit::try_acquire`].
    pub async fn acquire(&self, key: impl AsRef<[u8]>, cost: u64, timeout: Duration) -> Result<Decision> {
        self.decide(Call::Acquire { cost, timeout: Some(timeout) }, key).await
    }

    /// Takes the turn, if it comes within `max_wait`, and says in [`Decision::wait`] how long to
    /// wait for it. [`Limit::refund`] gives it back.
    ///
    /// # Errors
    /// As [`Limit::try_acquire`]; [`ErrorKind::Unsupported`] for algorithms other than
    /// token-bucket, gcra and leaky-bucket, and for a spec of several limits.
    pub async fn reserve(&self, key: impl AsRef<[u8]>, cost: u64, max_wait: Duration) -> Result<Decision> {
        self.decide(Call::Reserve { cost, max_wait: Some(max_wait) }, key).await
    }

    /// Says whether a cost of 1 would pass now, and changes nothing.
    ///
    /// # Errors
    /// As [`Limit::try_acquire`], but a concurrency limit can be looked at.
    pub async fn peek(&self, key: impl AsRef<[u8]>) -> Result<Decision> {
        self.decide(Call::Peek, key).await
    }

    /// Gives back `cost` units, never above the capacity; the decision tells the state after.
    ///
    /// # Errors
    /// As [`Limit::try_acquire`].
    pub async fn refund(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision> {
        self.decide(Call::Refund { cost }, key).await
    }

    /// Forgets the key: it is as if never used.
    ///
    /// # Errors
    /// As [`Limit::try_acquire`], but a concurrency limit can be reset.
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.call(Call::Reset, key).await.map(drop)
    }

    /// Takes a permit of a concurrency limit, waiting up to `timeout` for one. The permit is
    /// there where the decision allows; it is renewed while held and given back when dropped.
    ///
    /// # Errors
    /// As [`Limit::try_acquire`]; [`ErrorKind::Unsupported`] where the spec has no concurrency
    /// limit.
    pub async fn hold(&self, key: impl AsRef<[u8]>, timeout: Duration) -> Result<(Decision, Option<Permit>)> {
        self.call(Call::Hold { timeout: Some(timeout) }, key).await.map(into_held)
    }

    /// [`Limit::try_acquire`] for a thread that may block.
    ///
    /// # Errors
    /// The same.
    pub fn try_acquire_blocking(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision> {
        let key = key.as_ref();
        match self.take_now(key, cost) {
            Some(decision) => decision,
            None => self.take_blocking(key, cost),
        }
    }

    /// [`Limit::acquire`] for a thread that may block.
    ///
    /// # Errors
    /// The same.
    pub fn acquire_blocking(&self, key: impl AsRef<[u8]>, cost: u64, timeout: Duration) -> Result<Decision> {
        self.decide_blocking(Call::Acquire { cost, timeout: Some(timeout) }, key)
    }

    /// [`Limit::reserve`] for a thread that may block.
    ///
    /// # Errors
    /// The same.
    pub fn reserve_blocking(&self, key: impl AsRef<[u8]>, cost: u64, max_wait: Duration) -> Result<Decision> {
        self.decide_blocking(Call::Reserve { cost, max_wait: Some(max_wait) }, key)
    }

    /// [`Limit::peek`] for a thread that may block.
    ///
    /// # Errors
    /// The same.
    pub fn peek_blocking(&self, key: impl AsRef<[u8]>) -> Result<Decision> {
        self.decide_blocking(Call::Peek, key)
    }

    /// [`Limit::refund`] for a thread that may block.
    ///
    /// # Errors
    /// The same.
    pub fn refund_blocking(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision> {
        self.decide_blocking(Call::Refund { cost }, key)
    }

    /// [`Limit::reset`] for a thread that may block.
    ///
    /// # Errors
    /// The same.
    pub fn reset_blocking(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.call_blocking(Call::Reset, key).map(drop)
    }

    /// [`Limit::hold`] for a thread that may block.
    ///
    /// # Errors
    /// The same.
    pub fn hold_blocking(
        &self,
        key: impl AsRef<[u8]>,
        timeout: Duration,
    ) -> Result<(Decision, Option<Permit>)> {
        self.call_blocking(Call::Hold { timeout: Some(timeout) }, key).map(into_held)
    }

    /// Any verb, as data.
    ///
    /// # Errors
    /// Those of the verb.
    pub async fn call(&self, call: Call, key: impl AsRef<[u8]>) -> Result<Answer> {
        self.submit(call, key.as_ref()).answer().await
    }

    /// Any verb, as data, for a thread that may block.
    ///
    /// # Errors
    /// Those of the verb.
    pub fn call_blocking(&self, call: Call, key: impl AsRef<[u8]>) -> Result<Answer> {
        self.submit_blocking(call, key.as_ref()).wait()
    }

    /// Any verb, for a language binding: decides now where that needs no waiting, and otherwise
    /// starts the call.
    pub fn submit(&self, call: Call, key: &[u8]) -> Submitted {
        self.start(call, key, false).unwrap_or_else(|error| Submitted::Now(Err(error)))
    }

    /// [`Limit::submit`] for a thread that may block for the budget of a decision: it starts the
    /// call only where it can't carry it out itself, or where a turn has to be waited for.
    pub fn submit_blocking(&self, call: Call, key: &[u8]) -> Submitted {
        self.start(call, key, true).unwrap_or_else(|error| Submitted::Now(Err(error)))
    }

    /// The answer to any verb, for a language binding, where it needs neither waiting nor blocking;
    /// `None` where [`Limit::submit`] or [`Limit::submit_blocking`] is needed. A call that may have
    /// to wait for its turn is never answered here.
    pub fn decide_now(&self, call: Call, key: &[u8]) -> Option<Result<Answer>> {
        match self.step(call) {
            Ok(step) => step.and_then(|(op, cost)| self.step_now(op, cost, key)),
            Err(error) => Some(Err(error)),
        }
    }

    fn start(&self, call: Call, key: &[u8], may_block: bool) -> Result<Submitted> {
        let Some((op, cost)) = self.step(call)? else {
            return self.start_waiting(call, key, may_block);
        };
        if let Some(answer) = self.step_now(op, cost, key) {
            return Ok(Submitted::Now(answer));
        }
        self.send(op, cost, key, may_block)
    }

    /// Starts a call that can't be answered without waiting.
    fn send(&self, op: Op, cost: u64, key: &[u8], may_block: bool) -> Result<Submitted> {
        let parts = smallvec::smallvec![self.part(key, cost)?];
        Ok(Submitted::from_engine(&self.limiter.engine, op, parts, may_block, answer_to(op)))
    }

    #[cold]
    fn take_blocking(&self, key: &[u8], cost: u64) -> Result<Decision> {
        self.send(TAKE, cost, key, true)?.wait().and_then(only_decision)
    }

    /// [`Limit::step_now`] for what most calls are: to take now.
    fn take_now(&self, key: &[u8], cost: u64) -> Option<Result<Decision>> {
        if self.has_concurrency || cost > MAX_EXACT || key.is_empty() {
            return Some(Err(self.why_not(key, cost)));
        }
        if key::is_plain(key) {
            self.limiter.engine.take_now(&self.plan, key, cost)
        } else {
            self.take_hashed(key, cost)
        }
    }

    #[inline(never)]
    fn take_hashed(&self, key: &[u8], cost: u64) -> Option<Result<Decision>> {
        self.limiter.engine.take_kept(&Part { plan: &self.plan, key: &key::kept(key), cost })
    }

    /// The one step that answers a call; `None` for the verbs that wait.
    fn step(&self, call: Call) -> Result<Option<(Op, u64)>> {
        Ok(Some(match call {
            Call::TryAcquire { cost } => {
                self.refuse_concurrency("try_acquire")?;
                (Op::Take { wait: 0 }, cost)
            }
            Call::Reserve { cost, max_wait } => {
                self.require_turns()?;
                (Op::Take { wait: longest("max_wait", max_wait)? }, cost)
            }
            Call::Peek => (Op::Peek, 1),
            Call::Refund { cost } => {
                self.refuse_concurrency("refund")?;
                (Op::Refund, cost)
            }
            Call::Reset => (Op::Reset, 0),
            Call::Acquire { .. } | Call::Hold { .. } => return Ok(None),
        }))
    }

    fn step_now(&self, op: Op, cost: u64, key: &[u8]) -> Option<Result<Answer>> {
        if op == TAKE {
            return self.take_now(key, cost).map(|decision| decision.map(Answer::Decision));
        }
        if let Err(error) = check(key, cost) {
            return Some(Err(error));
        }
        let kept = key::kept(key);
        let part = Part { plan: &self.plan, key: &kept, cost };
        self.limiter.engine.decide_now(op, &[part]).map(|answered| answered.map(answer_to(op)))
    }

    #[cold]
    fn why_not(&self, key: &[u8], cost: u64) -> Error {
        let checked = self.refuse_concurrency("try_acquire").and_then(|()| check(key, cost));
        checked.err().unwrap_or_else(|| unreachable!("a good call"))
    }

    fn start_waiting(&self, call: Call, key: &[u8], may_block: bool) -> Result<Submitted> {
        let wait = |cost| -> Result<Wait> {
            Ok(Wait { engine: Arc::clone(&self.limiter.engine), part: self.part(key, cost)? })
        };
        match call {
            Call::Acquire { cost, timeout } => {
                self.refuse_concurrency("acquire")?;
                Ok(waiting::acquire(wait(cost)?, longest("timeout", timeout)?, may_block))
            }
            Call::Hold { timeout } => {
                self.require_concurrency()?;
                Ok(waiting::hold(wait(1)?, longest("timeout", timeout)?))
            }
            _ => unreachable!("{call:?} is answered in one step"),
        }
    }

    async fn decide(&self, call: Call, key: impl AsRef<[u8]>) -> Result<Decision> {
        self.call(call, key).await.and_then(only_decision)
    }

    fn decide_blocking(&self, call: Call, key: impl AsRef<[u8]>) -> Result<Decision> {
        self.call_blocking(call, key).and_then(only_decision)
    }

    fn part(&self, key: &[u8], cost: u64) -> Result<OwnedPart> {
        key::check_key(key)?;
        Ok(OwnedPart {
            plan: Arc::clone(&self.plan),
            key: key::kept(key).into(),
            cost: check_cost(cost)?,
            marks: Default::default(),
        })
    }

    fn refuse_concurrency(&self, verb: &str) -> Result<()> {
        self.require(!self.has_concurrency, |name| {
            format!("{verb} has no meaning for limit {name}: a concurrency limit hands out permits; use hold")
        })
    }

    fn require_concurrency(&self) -> Result<()> {
        self.require(self.has_concurrency, |name| {
            format!("hold has no meaning for limit {name}: only a concurrency limit hands out permits; use try_acquire or acquire")
        })
    }

    fn require_turns(&self) -> Result<()> {
        self.require(self.plan.hands_out_turns(), |name| {
            format!("reserve has no meaning for limit {name}: only token-bucket, gcra and leaky-bucket hand out turns, and only where a spec is one limit; use acquire")
        })
    }

    fn require(&self, holds: bool, message: impl FnOnce(String) -> String) -> Result<()> {
        if holds { Ok(()) } else { Err(Error::unsupported(message(quote(&self.plan.name)))) }
    }

    /// A token bucket: `count` per `period`, and as many at once unless
    /// [`burst`](Spec::burst) says otherwise.
    pub fn token_bucket(count: u64, period: Duration) -> Spec {
        Spec::rate(Algorithm::TokenBucket, count, period)
    }

    /// The token bucket's decisions, kept as one arrival time.
    pub fn gcra(count: u64, period: Duration) -> Spec {
        Spec::rate(Algorithm::Gcra, count, period)
    }

    /// A constant pace; `count` may wait unless [`queue`](Spec::queue) says otherwise.
    pub fn leaky_bucket(count: u64, period: Duration) -> Spec {
        Spec::rate(Algorithm::LeakyBucket, count, period)
    }

    /// `count` per window of `period`, from the first hit unless [`align`](Spec::align) is said.
    pub fn fixed_window(count: u64, period: Duration) -> Spec {
        Spec::rate(Algorithm::FixedWindow, count, period)
    }

    /// Never more than `count` in any `period`, kept in 10 slices unless
    /// [`buckets`](Spec::buckets) says otherwise.
    pub fn sliding_window(count: u64, period: Duration) -> Spec {
        Spec::rate(Algorithm::SlidingWindow, count, period)
    }

    /// Never more than `count` in any `period`, exactly.
    pub fn sliding_log(count: u64, period: Duration) -> Spec {
        Spec::rate(Algorithm::SlidingLog, count, period)
    }

    /// At most `permits` held at a time; one whose holder died is free after `ttl`.
    pub fn concurrency(permits: u64, ttl: Duration) -> Spec {
        Spec::rate(Algorithm::Concurrency, permits, ttl)
    }
}

fn check(key: &[u8], cost: u64) -> Result<()> {
    check_cost(cost)?;
    key::check_key(key)
}

fn longest(name: &str, wait: Option<Duration>) -> Result<u64> {
    check_duration(name, wait.unwrap_or(Duration::from_secs(366 * 86_400))).map(micros)
}

fn only_decision(answer: Answer) -> Result<Decision> {
    answer.decision().ok_or_else(|| Error::new(ErrorKind::Internal, "the call gave no decision"))
}

fn into_held(answer: Answer) -> (Decision, Option<Permit>) {
    match answer {
        Answer::Held(decision, permit) => (decision, permit),
        _ => unreachable!("hold answers with Held"),
    }
}

//! The limiting algorithms: pure steps on a key's state, with the time as an argument.
//!
//! Each file here is the twin of `lua/<name>.lua`, function by function; a generated stream of
//! calls holds the two to the same answers. Invariant: nothing here knows a clock, a store or a
//! language, and no floating-point number is used.

mod bucket;
pub(crate) mod concurrency;
mod fixed_window;
mod gcra;
mod kept;
mod leaky_bucket;
mod sliding_log;
mod sliding_window;
mod token_bucket;

use std::time::Duration;

use crate::clock::Micros;
use crate::decision::{Decision, Source};
use crate::spec::{Algorithm, Rule};

pub(crate) use bucket::RefillRate;
pub(crate) use kept::Kept;
use kept::{Small, Words};

/// What one call, or several equal ones, asks of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// How many equal calls, one after the other.
    pub(crate) calls: u64,
    /// Units that each call takes.
    pub(crate) cost: u64,
    /// How long a call is willing to wait for its turn; 0 but for `reserve`.
    pub(crate) wait: Micros,
}

/// What a script replies of a key's state, after the admitted calls: up to three integers, whose
/// meaning is the algorithm's (`lua/README.md` lists them). What it does not reply is zero.
pub(crate) type View = [u64; 3];

/// What holds a place in the future: enough to give it back. Two integers, by algorithm.
pub(crate) type Mark = [u64; 2];

/// One algorithm on one key. The time never runs back within a state: `load` settles that.
pub(crate) trait Step {
    /// What is kept for a key. The default is a key that was never used.
    type State: Default;

    /// Brings the state to `now`: refills, drops what has expired, and converts a changed spec's
    /// units. A clock that stepped far back is settled, and it is said: that is to be kept even
    /// if the call is refused, or the state would stand still until the clock is where it was.
    fn load(&self, state: &mut Self::State, now: Micros) -> bool;
    /// How many of the calls asked for are admitted. The cost is above 0.
    fn fit(&self, state: &Self::State, now: Micros, ask: &Ask) -> u64;
    /// Takes `units`.
    fn spend(&self, state: &mut Self::State, now: Micros, units: u64);
    /// Gives back `units`, never above the capacity.
    fn give(&self, state: &mut Self::State, now: Micros, units: u64);
    /// Whole units left to take now.
    fn left(&self, state: &Self::State, now: Micros) -> u64;
    /// The state as a script replies it. `cost` is that of the next call.
    fn view(&self, state: &Self::State, now: Micros, cost: u64) -> View;
    /// When the state will be as if never used.
    fn fresh_at(&self, state: &Self::State) -> Micros;

    /// The most that can pass at once.
    fn limit(&self) -> u64;
    /// What a decision that took `cost` says of the state, when `later` units were taken after
    /// it by equal calls of the same moment.
    fn report(&self, view: &View, cost: u64, later: u64) -> Report;
    /// Whether one more call is refused in this state.
    fn refuses(&self, view: &View, ask: &Ask) -> bool;
    /// When `cost`, which is at most the limit, would be admitted without waiting.
    fn retry_after(&self, view: &View, cost: u64) -> Micros;

    /// What holds the place of a call that was told to wait.
    fn mark(&self, _view: &View, _now: Micros, _later: u64) -> Mark {
        [0, 0]
    }
    /// Where a turn is among those of its key: the later, the greater.
    fn order(&self, _mark: Mark) -> u128 {
        0
    }
    /// Gives back a turn that has not come, as far as nobody has taken a later one; says whether
    /// there was something to give back.
    fn cancel(&self, _state: &mut Self::State, _now: Micros, _cost: u64, _mark: Mark) -> bool {
        false
    }
}

/// The part of a decision that depends on the state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    pub(crate) remaining: u64,
    pub(crate) reset_after: Micros,
    pub(crate) wait: Micros,
}

/// A key's state under any of the algorithms, while it is worked with.
#[derive(Debug, Clone)]
pub(crate) enum State {
    TokenBucket(bucket::Level),
    Gcra(gcra::Arrival),
    LeakyBucket(bucket::Level),
    FixedWindow(fixed_window::Window),
    SlidingWindow(sliding_window::Slices),
    SlidingLog(sliding_log::Log),
    Concurrency(concurrency::Holders),
}

impl State {
    /// What to go back to after a call that changes nothing: another spec may load the state
    /// next, and must find it as it was written. `None` where loading loses nothing.
    fn written(&self) -> Option<State> {
        match self {
            State::SlidingLog(_) | State::Concurrency(_) => None,
            other => Some(other.clone()),
        }
    }
}

/// What came of a call that took from one limit now, or did not.
#[derive(Debug)]
pub(crate) struct Taken {
    admitted: bool,
    /// Whether the state was changed.
    pub(crate) changed: bool,
    limit: u64,
    remaining: u64,
    reset_after: Micros,
    /// `NEVER` where it was admitted too.
    retry_after: Micros,
}

const NEVER: Micros = Micros::MAX;

impl Taken {
    /// When the state will be as if never used.
    #[inline(always)]
    pub(crate) fn fresh_at(&self, now: Micros) -> Micros {
        now + self.reset_after
    }

    #[inline(always)]
    pub(crate) fn decision(&self, source: Source) -> Decision {
        Decision {
            allowed: self.admitted,
            limit: self.limit,
            remaining: self.remaining,
            retry_after: (self.retry_after != NEVER).then(|| Duration::from_micros(self.retry_after)),
            reset_after: Duration::from_micros(self.reset_after),
            // To be admitted now is not to wait.
            wait: Duration::ZERO,
            source,
            rule: 0,
        }
    }
}

/// A rule with its numbers worked out: one of the algorithms.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Twin {
    TokenBucket(token_bucket::TokenBucket),
    Gcra(gcra::Gcra),
    LeakyBucket(leaky_bucket::LeakyBucket),
    FixedWindow(fixed_window::FixedWindow),
    SlidingWindow(sliding_window::SlidingWindow),
    SlidingLog(sliding_log::SlidingLog),
    Concurrency(concurrency::Concurrency),
}

/// Runs `$body` with the algorithm's own type as `$twin`.
macro_rules! with_twin {
    ($self:expr, |$twin:ident| $body:expr) => {
        match $self {
            Twin::TokenBucket($twin) => $body,
            Twin::Gcra($twin) => $body,
            Twin::LeakyBucket($twin) => $body,
            Twin::FixedWindow($twin) => $body,
            Twin::SlidingWindow($twin) => $body,
            Twin::SlidingLog($twin) => $body,
            Twin::Concurrency($twin) => $body,
        }
    };
}

/// The same, with the state of that type as `$state`.
macro_rules! with_state {
    ($self:expr, $any:expr, |$twin:ident, $state:ident| $body:expr) => {
        match ($self, $any) {
            (Twin::TokenBucket($twin), State::TokenBucket($state)) => $body,
            (Twin::Gcra($twin), State::Gcra($state)) => $body,
            (Twin::LeakyBucket($twin), State::LeakyBucket($state)) => $body,
            (Twin::FixedWindow($twin), State::FixedWindow($state)) => $body,
            (Twin::SlidingWindow($twin), State::SlidingWindow($state)) => $body,
            (Twin::SlidingLog($twin), State::SlidingLog($state)) => $body,
            (Twin::Concurrency($twin), State::Concurrency($state)) => $body,
            _ => unreachable!("a table holds the states of one algorithm"),
        }
    };
}

impl Twin {
    pub(crate) fn new(rule: &Rule) -> Twin {
        match rule.algorithm {
            Algorithm::TokenBucket => Twin::TokenBucket(token_bucket::TokenBucket::new(rule)),
            Algorithm::Gcra => Twin::Gcra(gcra::Gcra::new(rule)),
            Algorithm::LeakyBucket => Twin::LeakyBucket(leaky_bucket::LeakyBucket::new(rule)),
            Algorithm::FixedWindow => Twin::FixedWindow(fixed_window::FixedWindow::new(rule)),
            Algorithm::SlidingWindow => Twin::SlidingWindow(sliding_window::SlidingWindow::new(rule)),
            Algorithm::SlidingLog => Twin::SlidingLog(sliding_log::SlidingLog::new(rule)),
            Algorithm::Concurrency => Twin::Concurrency(concurrency::Concurrency::new(rule)),
        }
    }

    /// The state of a key that was never used.
    pub(crate) fn fresh(&self) -> State {
        match self {
            Twin::TokenBucket(_) => State::TokenBucket(Default::default()),
            Twin::Gcra(_) => State::Gcra(Default::default()),
            Twin::LeakyBucket(_) => State::LeakyBucket(Default::default()),
            Twin::FixedWindow(_) => State::FixedWindow(Default::default()),
            Twin::SlidingWindow(_) => State::SlidingWindow(Default::default()),
            Twin::SlidingLog(_) => State::SlidingLog(Default::default()),
            Twin::Concurrency(_) => State::Concurrency(Default::default()),
        }
    }

    /// Works on a kept state with `change`, which is given it as of `now`, and says what came of it
    /// and whether it changed something. Where nothing is changed, the state stays as it was
    /// written. Says too when the state will be as if never used, where it was changed.
    pub(crate) fn work<R>(
        &self,
        kept: &mut Kept,
        now: Micros,
        change: impl FnOnce(&mut State) -> (R, bool),
    ) -> (R, Option<Micros>) {
        let work = |state: &mut State| {
            let settled = self.load(state, now);
            let (result, changed) = change(state);
            (result, (changed || settled).then(|| self.fresh_at(state)))
        };
        match kept {
            Kept::Words(words) => {
                let mut state = self.state_of(*words);
                let done = work(&mut state);
                if done.1.is_some() {
                    *kept = state.into();
                }
                done
            }
            Kept::Boxed(state) => {
                let before = state.written();
                let done = work(state);
                if let (None, Some(before)) = (done.1, before) {
                    **state = before;
                }
                done
            }
        }
    }

    fn state_of(&self, words: Words) -> State {
        match self {
            Twin::TokenBucket(_) => State::TokenBucket(Small::of(words)),
            Twin::Gcra(_) => State::Gcra(Small::of(words)),
            Twin::LeakyBucket(_) => State::LeakyBucket(Small::of(words)),
            Twin::FixedWindow(_) => State::FixedWindow(Small::of(words)),
            _ => unreachable!("a large state is in a box"),
        }
    }

    /// What one call comes to that takes `cost` now from this limit alone, in one go.
    pub(crate) fn take(&self, kept: &mut Kept, now: Micros, cost: u64) -> Taken {
        if let Some(taken) = self.take_small(kept, now, cost) {
            return taken;
        }
        let Kept::Boxed(state) = kept else { unreachable!("a large state is in a box") };
        let before = state.written();
        let taken = with_state!(self, &mut **state, |twin, state| take(twin, state, now, cost));
        if let (false, Some(before)) = (taken.changed, before) {
            **state = before;
        }
        taken
    }

    /// The same for a small state; `None` for another.
    #[inline(always)]
    pub(crate) fn take_small(&self, kept: &mut Kept, now: Micros, cost: u64) -> Option<Taken> {
        let Kept::Words(words) = kept else { return None };
        match self {
            Twin::TokenBucket(twin) => Some(take_small(twin, words, now, cost)),
            Twin::Gcra(twin) => Some(take_small(twin, words, now, cost)),
            Twin::LeakyBucket(twin) => Some(take_small(twin, words, now, cost)),
            Twin::FixedWindow(twin) => Some(take_small(twin, words, now, cost)),
            _ => None,
        }
    }

    pub(crate) fn load(&self, state: &mut State, now: Micros) -> bool {
        with_state!(self, state, |twin, state| twin.load(state, now))
    }

    pub(crate) fn fit(&self, state: &State, now: Micros, ask: &Ask) -> u64 {
        if ask.cost == 0 {
            return ask.calls;
        }
        if ask.cost > self.limit() {
            return 0;
        }
        with_state!(self, state, |twin, state| twin.fit(state, now, ask))
    }

    pub(crate) fn spend(&self, state: &mut State, now: Micros, units: u64) {
        with_state!(self, state, |twin, state| twin.spend(state, now, units));
    }

    pub(crate) fn give(&self, state: &mut State, now: Micros, units: u64) {
        with_state!(self, state, |twin, state| twin.give(state, now, units));
    }

    pub(crate) fn left(&self, state: &State, now: Micros) -> u64 {
        with_state!(self, state, |twin, state| twin.left(state, now))
    }

    pub(crate) fn view(&self, state: &State, now: Micros, cost: u64) -> View {
        with_state!(self, state, |twin, state| twin.view(state, now, cost))
    }

    pub(crate) fn fresh_at(&self, state: &State) -> Micros {
        with_state!(self, state, |twin, state| twin.fresh_at(state))
    }

    pub(crate) fn cancel(&self, state: &mut State, now: Micros, cost: u64, mark: Mark) -> bool {
        with_state!(self, state, |twin, state| twin.cancel(state, now, cost, mark))
    }

    /// The state behind a view that was seen at `now`; where a view does not tell all, one that
    /// holds as much and lasts no shorter.
    pub(crate) fn revive(&self, view: &View, now: Micros) -> State {
        match self {
            Twin::TokenBucket(twin) => State::TokenBucket(twin.revive(view, now)),
            Twin::Gcra(twin) => State::Gcra(twin.revive(view, now)),
            Twin::LeakyBucket(twin) => State::LeakyBucket(twin.revive(view, now)),
            Twin::FixedWindow(twin) => State::FixedWindow(twin.revive(view, now)),
            Twin::SlidingWindow(twin) => State::SlidingWindow(twin.revive(view, now)),
            Twin::SlidingLog(twin) => State::SlidingLog(twin.revive(view, now)),
            Twin::Concurrency(twin) => State::Concurrency(twin.revive(view, now)),
        }
    }

    /// Lets a fresh state begin in the window of another, where windows have an end.
    pub(crate) fn begin(&self, state: &mut State, other: &State, now: Micros) {
        if let (State::FixedWindow(state), State::FixedWindow(other)) = (state, other) {
            fixed_window::FixedWindow::begin(state, other, now);
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        with_twin!(self, |twin| twin.limit())
    }

    pub(crate) fn mark(&self, view: &View, now: Micros, later: u64) -> Mark {
        with_twin!(self, |twin| twin.mark(view, now, later))
    }

    pub(crate) fn order(&self, mark: Mark) -> u128 {
        with_twin!(self, |twin| twin.order(mark))
    }

    /// Whether one more call is refused in the state of this view.
    pub(crate) fn refuses(&self, view: &View, ask: &Ask) -> bool {
        ask.cost > 0 && (ask.cost > self.limit() || with_twin!(self, |twin| twin.refuses(view, ask)))
    }

    /// The decision of an admitted call that took `cost`, after which `later` units were taken
    /// by equal calls. A cost of 0 took nothing and waits for nothing.
    pub(crate) fn admission(&self, view: &View, cost: u64, later: u64, source: Source) -> Decision {
        with_twin!(self, |twin| admission(twin, view, cost, later, source))
    }

    /// The decision of a refused call.
    pub(crate) fn refusal(&self, view: &View, cost: u64, source: Source) -> Decision {
        with_twin!(self, |twin| refusal(twin, view, cost, source))
    }

    /// How many numbers of a view its script replies.
    pub(crate) fn view_size(&self) -> usize {
        match self {
            Twin::TokenBucket(_) | Twin::Gcra(_) | Twin::LeakyBucket(_) | Twin::FixedWindow(_) => 2,
            Twin::SlidingWindow(_) | Twin::SlidingLog(_) | Twin::Concurrency(_) => 3,
        }
    }

    /// The numbers that the script of this algorithm works with, in its order. A debit takes what
    /// is left of a queue too, whoever waits.
    pub(crate) fn script_arguments(&self, wait: Micros, debit: bool) -> [u64; 4] {
        match self {
            Twin::TokenBucket(twin) => twin.script_arguments(wait),
            Twin::Gcra(twin) => twin.script_arguments(wait),
            Twin::LeakyBucket(twin) => twin.script_arguments(if debit { Micros::MAX } else { wait }),
            Twin::FixedWindow(twin) => twin.script_arguments(),
            Twin::SlidingWindow(twin) => twin.script_arguments(),
            Twin::SlidingLog(twin) => twin.script_arguments(),
            Twin::Concurrency(twin) => twin.script_arguments(),
        }
    }
}

fn admission(twin: &impl Step, view: &View, cost: u64, later: u64, source: Source) -> Decision {
    let report = twin.report(view, cost, later);
    Decision {
        allowed: true,
        limit: twin.limit(),
        remaining: report.remaining,
        retry_after: None,
        reset_after: Duration::from_micros(report.reset_after),
        wait: Duration::from_micros(if cost == 0 { 0 } else { report.wait }),
        source,
        rule: 0,
    }
}

fn refusal(twin: &impl Step, view: &View, cost: u64, source: Source) -> Decision {
    let retry_after = (cost <= twin.limit()).then(|| Duration::from_micros(twin.retry_after(view, cost)));
    Decision { allowed: false, retry_after, wait: Duration::ZERO, ..admission(twin, view, 0, 0, source) }
}

#[inline(always)]
fn take<S: Step>(twin: &S, state: &mut S::State, now: Micros, cost: u64) -> Taken {
    let settled = twin.load(state, now);
    let limit = twin.limit();
    let fits = cost > 0 && cost <= limit && twin.fit(state, now, &Ask { calls: 1, cost, wait: 0 }) > 0;
    if fits {
        twin.spend(state, now, cost);
    }
    let view = twin.view(state, now, cost);
    let report = twin.report(&view, if fits { cost } else { 0 }, 0);
    let admitted = fits || cost == 0;
    let retry_after = if admitted || cost > limit { NEVER } else { twin.retry_after(&view, cost) };
    Taken {
        admitted,
        changed: fits || settled,
        limit,
        remaining: report.remaining,
        reset_after: report.reset_after,
        retry_after,
    }
}

#[inline(always)]
fn take_small<S: Step<State: Small>>(twin: &S, words: &mut Words, now: Micros, cost: u64) -> Taken {
    let mut state = S::State::of(*words);
    let taken = take(twin, &mut state, now, cost);
    if taken.changed {
        *words = state.words();
    }
    taken
}

/// How many of `calls` find room, where each takes `each`.
#[inline]
fn whole_calls(calls: u64, room: u64, each: u64) -> u64 {
    // Most calls come alone, and a comparison is cheaper than a division.
    if calls == 1 { u64::from(room >= each) } else { calls.min(room / each) }
}

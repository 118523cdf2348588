//! Calls that wait while a round trip is in flight, and go out together in the next one.
//!
//! There is no artificial delay: a lone call goes at once. Equal calls on one key become one
//! entry with a count; entries of one limit become one run of a program. The order of arrival is
//! kept for each key, so the answers are those that calls one after the other would have got.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use redis::{Pipeline, Value};
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::script::{Entry, Program, Programs, outcomes};
use super::{Op, Outcome, OwnedPart, Plan};
use crate::key;
use crate::spec::{Algorithm, Rule};

/// Microseconds for which one run may hold Redis, by the estimates of [`weight`]: so many that a
/// run pays, so few that nobody else waits long.
const MAX_WEIGHT: u64 = 100;
/// Calls of one batch.
const MAX_BATCH: usize = 4_096;

/// What came of a call, and which of the equal calls of its entry it was.
pub(crate) struct Reply {
    pub(crate) outcome: Arc<Outcome>,
    pub(crate) turn: u64,
}

/// Why a call has no answer from the store. It may have run there.
#[derive(Debug, Clone)]
pub(crate) struct Lost(pub(crate) Arc<str>);

impl From<String> for Lost {
    fn from(why: String) -> Self {
        Lost(why.into())
    }
}

/// Hears once what came of a call, and of which.
pub(crate) type Finish = Box<dyn FnOnce(Result<Reply, Lost>, &[OwnedPart]) + Send>;

/// One call on its way.
pub(crate) struct Job {
    pub(crate) op: Op,
    pub(crate) parts: SmallVec<[OwnedPart; 1]>,
    pub(crate) deadline: Instant,
    pub(crate) finish: Option<Finish>,
    pub(crate) way: Way,
    /// Held from when it is queued until it is answered.
    queued: Option<Queued>,
}

/// How a call finds the server of its slot, where that is moving.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Way {
    /// How often it was sent elsewhere.
    pub(crate) hops: u8,
    /// It goes to the server that the slot is moving to.
    pub(crate) asking: bool,
    /// It has a run of its own, as the slot's keys are in two places.
    pub(crate) alone: bool,
}

/// A call that a server did not carry out, since its slot is elsewhere.
pub(crate) struct Astray {
    pub(crate) job: Job,
    pub(crate) to: Elsewhere,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// The slot has another server: host, which is empty for the same one, and port.
    Moved(String, u16),
    /// The slot is moving, and this key is at the other end already.
    Ask(String, u16),
    /// The slot is moving, and the keys of the run are at both ends.
    TryAgain,
}

impl Elsewhere {
    fn new(code: &str, details: &str) -> Option<Elsewhere> {
        // As in "MOVED 3999 127.0.0.1:6381".
        let address = || {
            let (host, port) = details.rsplit(' ').next()?.rsplit_once(':')?;
            Some((host.to_owned(), port.parse().ok()?))
        };
        match code {
            "MOVED" => address().map(|(host, port)| Elsewhere::Moved(host, port)),
            "ASK" => address().map(|(host, port)| Elsewhere::Ask(host, port)),
            "TRYAGAIN" => Some(Elsewhere::TryAgain),
            _ => None,
        }
    }
}

/// What came of a batch as a whole.
#[derive(Default)]
pub(crate) struct Landed {
    /// Why Redis can't serve at all, where it says so.
    pub(crate) unfit: Option<String>,
    pub(crate) astray: Vec<Astray>,
    /// Whether a reply was not one of our scripts': whose it is, nobody knows.
    pub(crate) odd: bool,
}

/// Counts a queue's calls that have no answer yet.
struct Queued(Arc<AtomicUsize>);

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Job {
    pub(crate) fn new(op: Op, parts: SmallVec<[OwnedPart; 1]>, deadline: Instant, finish: Finish) -> Job {
        Job { op, parts, deadline, finish: Some(finish), way: Way::default(), queued: None }
    }

    pub(crate) fn finish(&mut self, reply: Result<Reply, Lost>) {
        self.queued = None;
        if let Some(finish) = self.finish.take() {
            finish(reply, &self.parts);
        }
    }
}

impl Job {
    /// The call, to be sent again; what stays behind is as if answered.
    fn take(&mut self) -> Job {
        Job {
            op: self.op,
            parts: std::mem::take(&mut self.parts),
            deadline: self.deadline,
            finish: self.finish.take(),
            way: self.way,
            queued: self.queued.take(),
        }
    }

    /// The Cluster slot of its keys.
    pub(crate) fn slot(&self) -> u16 {
        self.parts.first().map_or(0, |part| key::slot(&part.key))
    }
}

impl Drop for Job {
    /// Whoever drops a call on the way, as when the limiter is closed, still answers it.
    fn drop(&mut self) {
        self.finish(Err(Lost("the limiter was closed".into())));
    }
}

/// The calls that wait for the next round trip, in order of arrival.
pub(crate) struct Queue {
    /// More are answered as lost.
    max_waiting: usize,
    jobs: Mutex<VecDeque<Job>>,
    closed: AtomicBool,
    arrived: Notify,
    unanswered: Arc<AtomicUsize>,
}

impl Queue {
    pub(crate) fn new(max_waiting: usize) -> Queue {
        Queue {
            max_waiting,
            jobs: Mutex::default(),
            closed: AtomicBool::new(false),
            arrived: Notify::new(),
            unanswered: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no call waits or is in flight: one that goes another way would overtake it.
    pub(crate) fn is_idle(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) == 0
    }

    /// Counts one more call without an answer.
    fn queued(&self) -> Queued {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        Queued(Arc::clone(&self.unanswered))
    }

    pub(crate) fn push(&self, job: Job) {
        if let Some(mut job) = self.try_push(job) {
            job.finish(Err(Lost("the connection was given up".into())));
        }
    }

    /// The same, but gives the call back where nobody serves the queue any more.
    pub(crate) fn try_push(&self, mut job: Job) -> Option<Job> {
        job.queued = Some(self.queued());
        let mut jobs = self.lock();
        if self.closed.load(Ordering::Acquire) {
            drop(jobs);
            job.queued = None;
            return Some(job);
        } else if jobs.len() < self.max_waiting {
            jobs.push_back(job);
            if jobs.len() == 1 {
                self.arrived.notify_one();
            }
        } else {
            drop(jobs);
            job.finish(Err(Lost(format!("{} calls wait already (max_waiting)", self.max_waiting).into())));
        }
        None
    }

    /// Puts what has to be done before all that waits in front of it.
    pub(crate) fn push_first(&self, first: Vec<Job>) {
        let mut jobs = self.lock();
        if self.closed.load(Ordering::Acquire) {
            drop(jobs);
            return fail(first, &Lost("the connection was given up".into()));
        }
        let was_empty = jobs.is_empty();
        // The first deadline stays the earliest.
        let deadline = jobs.front().map(|job| job.deadline);
        for mut job in first.into_iter().rev() {
            job.queued = Some(self.queued());
            job.deadline = deadline.map_or(job.deadline, |deadline| deadline.min(job.deadline));
            jobs.push_front(job);
        }
        if was_empty && !jobs.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// Nobody serves it any more: answers all calls as lost, also those that come later.
    pub(crate) fn close(&self, why: &Lost) {
        let jobs = {
            let mut jobs = self.lock();
            self.closed.store(true, Ordering::Release);
            std::mem::take(&mut *jobs)
        };
        fail(jobs, why);
    }

    /// Takes all calls that wait.
    pub(crate) fn take(&self) -> VecDeque<Job> {
        std::mem::take(&mut *self.lock())
    }

    /// Waits for calls, and takes them.
    pub(crate) async fn next(&self) -> VecDeque<Job> {
        loop {
            {
                let mut jobs = self.lock();
                let count = jobs.len().min(MAX_BATCH);
                if count > 0 {
                    return jobs.drain(..count).collect();
                }
            }
            self.arrived.notified().await;
        }
    }

    /// The deadline of the call that came first. All calls have the same budget, so it is the
    /// earliest.
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.lock().front().map(|job| job.deadline)
    }

    /// Answers as lost the calls whose deadline has come.
    pub(crate) fn fail_until(&self, now: Instant, why: &Lost) {
        let overdue: Vec<Job> = {
            let mut jobs = self.lock();
            let count = jobs.partition_point(|job| job.deadline <= now);
            jobs.drain(..count).collect()
        };
        fail(overdue, why);
    }

    /// Answers all waiting calls as lost.
    pub(crate) fn fail_all(&self, why: &Lost) {
        let jobs = std::mem::take(&mut *self.lock());
        fail(jobs, why);
    }
}

fn fail(jobs: impl IntoIterator<Item = Job>, why: &Lost) {
    for mut job in jobs {
        job.finish(Err(why.clone()));
    }
}

/// One run of a program: calls of one verb on one set of limits.
struct Run {
    op: Op,
    program: Arc<Program>,
    /// Whether Redis should know the program.
    known: bool,
    /// Whether it goes to the server that the slot is moving to.
    asking: bool,
    weight: u64,
    entries: Vec<Entry>,
    /// The jobs of each entry, by their place in the batch.
    jobs: Vec<SmallVec<[usize; 1]>>,
}

impl Run {
    fn takes(&self, job: &Job) -> bool {
        let first = &self.entries[0].parts;
        self.op == job.op
            && self.weight < MAX_WEIGHT
            && first.len() == 1
            && job.parts.len() == 1
            && Arc::ptr_eq(&first[0].plan, &job.parts[0].plan)
            && !job.way.alone
    }

    fn command(&self, known: bool, now: Option<u64>) -> redis::Cmd {
        self.program.run(known, now, self.op, &self.entries)
    }
}

/// The calls of one round trip.
pub(crate) struct Batch {
    jobs: VecDeque<Job>,
    runs: Vec<Run>,
    now: Option<u64>,
    in_cluster: bool,
}

/// Where the last call on a key is: its run, and its entry there.
type Places<'a> = HashMap<&'a [u8], (usize, usize)>;

impl Batch {
    /// Orders jobs into runs; in a Cluster, each with keys of one slot. `now` is the time to
    /// decide by, where it is not Redis's own.
    pub(crate) fn new(
        mut jobs: VecDeque<Job>,
        programs: &mut Programs,
        now: Option<u64>,
        in_cluster: bool,
    ) -> Batch {
        latest_turn_first(&mut jobs);
        let mut runs: Vec<Run> = Vec::new();
        let mut places: Places<'_> = HashMap::with_capacity_and_hasher(jobs.len(), Default::default());
        let mut open: HashMap<(*const Plan, Op, u16), usize> = HashMap::default();
        for (index, job) in jobs.iter().enumerate() {
            let slot = if in_cluster { job.slot() } else { 0 };
            let kind = (Arc::as_ptr(&job.parts[0].plan), job.op, slot);
            let last = job.parts.iter().filter_map(|part| places.get(&*part.key).copied()).max();
            // A call may join a run only if no earlier call on its keys is in a later run.
            let run = open.get(&kind).copied().filter(|run| last.is_none_or(|(last, _)| last <= *run));
            let run = run.filter(|run| runs[*run].takes(job)).unwrap_or_else(|| {
                let (program, known) = programs.of(&job.parts);
                runs.push(Run {
                    op: job.op,
                    program,
                    known,
                    asking: job.way.asking,
                    weight: 0,
                    entries: Vec::new(),
                    jobs: Vec::new(),
                });
                runs.len() - 1
            });
            if !job.way.alone {
                open.insert(kind, run);
            }
            let place = last.filter(|(last, entry)| *last == run && merges(job, &runs[run].entries[*entry]));
            let entry = if let Some((_, entry)) = place {
                runs[run].entries[entry].calls += 1;
                entry
            } else {
                runs[run].weight += job.parts.iter().map(|part| weight(&part.plan)).sum::<u64>();
                runs[run].entries.push(Entry { calls: 1, parts: job.parts.clone() });
                runs[run].jobs.push(SmallVec::new());
                runs[run].entries.len() - 1
            };
            runs[run].jobs[entry].push(index);
            places.extend(job.parts.iter().map(|part| (&*part.key, (run, entry))));
        }
        drop(places);
        Batch { jobs, runs, now, in_cluster }
    }

    /// The commands of all runs.
    pub(crate) fn pipeline(&self) -> Pipeline {
        self.commands(|run| run.known)
    }

    fn commands(&self, known: impl Fn(&Run) -> bool) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(self.runs.len());
        for run in &self.runs {
            if run.asking {
                pipeline.add_command(redis::cmd("ASKING"));
            }
            pipeline.add_command(run.command(known(run), self.now));
        }
        pipeline
    }

    /// Hands out the replies, except those of runs whose program Redis did not know: these did
    /// not run, and stay in the batch. `saw` hears what came of each entry; what Redis says of
    /// its own state as a whole is returned, and what it has sent elsewhere.
    pub(crate) fn finish(&mut self, replies: Vec<Value>, saw: &dyn Fn(&Entry, &Outcome)) -> Landed {
        let mut unknown = Vec::new();
        let mut landed = Landed::default();
        let runs = std::mem::take(&mut self.runs);
        let mut replies = replies.into_iter();
        for run in runs {
            if run.asking {
                replies.next();
            }
            let why = match replies.next() {
                Some(Value::ServerError(error)) if error.code() == "NOSCRIPT" => {
                    unknown.push(run);
                    continue;
                }
                Some(Value::ServerError(error)) => {
                    let to = Elsewhere::new(error.code(), error.details().unwrap_or_default());
                    if let Some(to) = to.filter(|_| self.in_cluster) {
                        let jobs = run.jobs.iter().flatten().map(|job| self.jobs[*job].take());
                        landed.astray.extend(jobs.map(|job| Astray { job, to: to.clone() }));
                        continue;
                    }
                    let why = error.to_string();
                    if UNFIT.contains(&error.code()) {
                        landed.unfit = Some(why.clone());
                    }
                    why
                }
                Some(reply) => match outcomes(&reply, &run.entries) {
                    Some(outcomes) => {
                        self.hand_out(&run, outcomes, saw);
                        continue;
                    }
                    None => {
                        landed.odd = true;
                        "Redis sent a reply that is not one of our scripts'".to_owned()
                    }
                },
                None => "Redis sent fewer replies than it got commands".to_owned(),
            };
            let why = Lost(why.into());
            for job in run.jobs.iter().flatten() {
                self.jobs[*job].finish(Err(why.clone()));
            }
        }
        self.runs = unknown;
        landed
    }

    fn hand_out(&mut self, run: &Run, outcomes: Vec<Outcome>, saw: &dyn Fn(&Entry, &Outcome)) {
        for ((entry, jobs), outcome) in run.entries.iter().zip(&run.jobs).zip(outcomes) {
            saw(entry, &outcome);
            let outcome = Arc::new(outcome);
            for (turn, job) in (0..).zip(jobs) {
                self.jobs[*job].finish(Ok(Reply { outcome: Arc::clone(&outcome), turn }));
            }
        }
    }

    /// The commands of the runs that are left, with their programs in full; `None` where there
    /// are none.
    pub(crate) fn pipeline_in_full(&self) -> Option<Pipeline> {
        (!self.runs.is_empty()).then(|| self.commands(|_| false))
    }

    /// The earliest deadline among calls that have no answer yet.
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.jobs.iter().filter(|job| job.finish.is_some()).map(|job| job.deadline).min()
    }

    /// Answers as lost the calls whose deadline has come.
    pub(crate) fn fail_until(&mut self, now: Instant, why: &Lost) {
        let overdue = self.jobs.iter_mut().filter(|job| job.deadline <= now);
        overdue.for_each(|job| job.finish(Err(why.clone())));
    }

    /// Answers all calls that have no answer yet as lost.
    pub(crate) fn fail_all(&mut self, why: &Lost) {
        self.jobs.iter_mut().for_each(|job| job.finish(Err(why.clone())));
    }
}

/// Errors that say that Redis as a whole can't serve now.
const UNFIT: [&str; 9] =
    ["LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "NOAUTH", "NOPERM", "OOM", "MISCONF", "MOVED"];

/// About how many microseconds an entry on these limits takes Redis, as measured in runs of many.
fn weight(plan: &Plan) -> u64 {
    let of_rule = |rule: &Rule| match rule.algorithm {
        Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket | Algorithm::FixedWindow => 2,
        Algorithm::SlidingWindow => 2 + rule.buckets / 5,
        Algorithm::SlidingLog | Algorithm::Concurrency => 10,
    };
    plan.spec.rules.iter().map(of_rule).sum()
}

/// Turns that are given back together, latest first: a turn is given back only as far as nobody
/// has a later one.
fn latest_turn_first(jobs: &mut VecDeque<Job>) {
    let jobs = jobs.make_contiguous();
    for cancels in jobs.chunk_by_mut(|a, b| a.op == Op::Cancel && b.op == Op::Cancel) {
        if cancels.len() > 1 {
            cancels.sort_by_key(|job| Reverse(when(job)));
        }
    }
}

/// Where a turn is among those of its key.
fn when(job: &Job) -> u128 {
    let part = &job.parts[0];
    part.marks.first().map_or(0, |mark| part.plan.members[0].twin.order(*mark))
}

/// Whether a call can be one more of an entry's equal calls.
fn merges(job: &Job, entry: &Entry) -> bool {
    matches!(job.op, Op::Take { .. })
        && job.parts.len() == 1
        && entry.parts.len() == 1
        && !job.way.alone
        && entry.parts[0].cost == job.parts[0].cost
        && entry.parts[0].key == job.parts[0].key
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use smallvec::smallvec;

    use super::*;
    use crate::algorithm::Twin;
    use crate::limiter::Limit;
    use crate::outage::OnOutage;
    use crate::store::Member;

    fn job(plan: &Arc<Plan>, op: Op, mark: [u64; 2]) -> Job {
        let part = OwnedPart { plan: Arc::clone(plan), key: (*b"k").into(), cost: 1, marks: smallvec![mark] };
        Job::new(op, smallvec![part], Instant::now(), Box::new(|_, _| {}))
    }

    fn plan(spec: crate::Spec) -> Arc<Plan> {
        let twin = Twin::new(&spec.rules[0]);
        let members = smallvec![Member { twin, head: "sg:test:{".to_owned(), id: 1 }];
        Arc::new(Plan { name: "test".to_owned(), id: 1, spec, members, on_outage: OnOutage::Share })
    }

    #[test]
    fn turns_are_given_back_latest_first() {
        let plan = plan(Limit::token_bucket(1, Duration::from_secs(1)));
        // Debts of 2, 4 and 3 seconds' worth, and one of 1 that was counted from 2 s later.
        let marks = [[2_000_000, 5], [4_000_000, 5], [3_000_000, 5], [1_000_000, 2_000_005]];
        let mut jobs: VecDeque<Job> = marks.iter().map(|mark| job(&plan, Op::Cancel, *mark)).collect();
        jobs.push_back(job(&plan, Op::Peek, [9_000_000, 9]));
        latest_turn_first(&mut jobs);
        let order: Vec<u64> = jobs.iter().map(|job| job.parts[0].marks[0][0]).collect();
        assert_eq!(order[0], 4_000_000);
        assert_eq!(order[3..], [2_000_000, 9_000_000]);
    }

    #[test]
    fn equal_calls_share_an_entry_and_others_keep_their_order() {
        let plan = plan(Limit::token_bucket(100, Duration::from_secs(1)));
        let take = Op::Take { wait: 0 };
        let ops = [take, take, Op::Peek, take, take];
        let jobs = ops.iter().map(|op| job(&plan, *op, [0, 0])).collect();
        let batch = Batch::new(jobs, &mut Programs::default(), None, false);
        let shape: Vec<(Op, Vec<u64>)> = batch
            .runs
            .iter()
            .map(|run| (run.op, run.entries.iter().map(|entry| entry.calls).collect()))
            .collect();
        assert_eq!(shape, [(take, vec![2]), (Op::Peek, vec![1]), (take, vec![2])]);
    }
}

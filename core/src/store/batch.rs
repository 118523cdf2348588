//! The calls of one round trip: what they become in Redis, and who gets which part of the reply.
//!
//! Equal calls on one key become one entry with a count; entries of one limit become one run of a
//! program. The order of arrival is kept for each key, so the answers are those that calls one
//! after the other would have got.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::HashMap;
use redis::{Pipeline, Value};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::job::{Astray, Elsewhere, Job, Lost, Reply};
use super::script::{Entry, Program, Programs, outcomes};
use super::{Op, Outcome, Plan};
use crate::spec::{Algorithm, Rule};
use crate::wake;

/// Microseconds for which one run may hold Redis, by the estimates of [`weight`]: so many that a
/// run pays, so few that nobody else waits long.
const MAX_WEIGHT: u64 = 100;

/// What came of a batch as a whole.
#[derive(Default)]
pub(crate) struct Landed {
    /// Why Redis can't serve at all, where it says so.
    pub(crate) unfit: Option<String>,
    pub(crate) astray: Vec<Astray>,
    /// Whether a reply was not one of our scripts': whose it is, nobody knows.
    pub(crate) odd: bool,
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
    first_deadline: Option<Instant>,
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
        let first_deadline = jobs.iter().map(|job| job.deadline).min();
        Batch { jobs, runs, now, in_cluster, first_deadline }
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
                        wake::together(|| self.hand_out(&run, outcomes, saw));
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
            for (turn, job) in (0..).zip(jobs) {
                self.jobs[*job].finish(Ok(Reply { outcome: &outcome, turn }));
            }
        }
    }

    /// The commands of the runs that are left, with their programs in full; `None` where there
    /// are none.
    pub(crate) fn pipeline_in_full(&self) -> Option<Pipeline> {
        (!self.runs.is_empty()).then(|| self.commands(|_| false))
    }

    pub(crate) fn calls(&self) -> usize {
        self.jobs.len()
    }

    /// Whether most of its calls are entries of their own: what is merged is soon done.
    pub(crate) fn is_spread(&self) -> bool {
        self.runs.iter().map(|run| run.entries.len()).sum::<usize>() * 2 > self.jobs.len()
    }

    /// No later than the earliest deadline among calls that have no answer yet; `None` where there
    /// are none.
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.first_deadline
    }

    /// Answers as lost the calls whose deadline has come.
    pub(crate) fn fail_until(&mut self, now: Instant, why: &Lost) {
        let overdue = self.jobs.iter_mut().filter(|job| job.deadline <= now);
        overdue.for_each(|job| job.finish(Err(why.clone())));
        let open = self.jobs.iter().filter(|job| job.finish.is_some());
        self.first_deadline = open.map(|job| job.deadline).min();
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
    use crate::store::{Member, OwnedPart};

    fn job(plan: &Arc<Plan>, op: Op, mark: [u64; 2]) -> Job {
        let part = OwnedPart { plan: Arc::clone(plan), key: (*b"k").into(), cost: 1, marks: smallvec![mark] };
        Job::new(op, smallvec![part], Instant::now(), |_, _| {})
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

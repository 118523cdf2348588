//! Ways in for the fuzz targets of `tests/fuzz`. They are there only in a build for a fuzzer, which
//! sets `cfg(fuzzing)`, and promise nothing to anybody else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::Value;
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::argument::check_cost;
use crate::clock::{Clock, ManualClock};
use crate::cluster;
use crate::config::{self, Config};
use crate::decision::Source;
use crate::engine::{Answered, Engine};
use crate::error::Result;
use crate::key;
use crate::outage::OnOutage;
use crate::spec::Spec;
use crate::store::batch::Batch;
use crate::store::job::{Job, Lost, Reply};
use crate::store::script::{Entry, Programs};
use crate::store::sentinel;
use crate::store::target::Target;
use crate::store::{Op, Outcome, OwnedPart, Whole};

/// What a URL is taken for: the store, without secrets.
///
/// # Errors
/// Those of [`Limiter::open`](crate::Limiter::open).
pub fn describe_url(url: &str) -> Result<String> {
    config::target(url).map(|target| target.describe())
}

/// One call: a number that stands for a verb, a spec by its place, a key and a cost.
pub type Call = (u8, usize, u8, u64);

/// Sends calls on their way and answers them by `replies`, each as the bytes of one reply to one
/// command. Every call is answered, and once.
pub fn answer_calls(specs: &[Spec], calls: &[Call], replies: &[&[u8]], in_cluster: bool) {
    let engine = Engine::open(Config {
        target: Target::Memory,
        prefix: "sg".to_owned(),
        timeout: std::time::Duration::from_secs(1),
        on_outage: OnOutage::Raise,
        deny_cache: std::time::Duration::ZERO,
        max_keys: 64,
        max_waiting: 100_000,
        clock: Clock::Manual(ManualClock::default()),
        on_event: None,
    });
    let engine = engine.unwrap_or_else(|error| panic!("{error}"));
    let plans: Vec<_> = (0..)
        .zip(specs)
        .filter_map(|(index, spec)| {
            engine.plan(&format!("n{index}"), spec.clone(), OnOutage::Share).ok().map(Arc::new)
        })
        .collect();
    let answered = Arc::new(AtomicUsize::new(0));
    let job = |(verb, spec, key, cost): &Call| {
        let plan = plans.get(*spec)?;
        let units = plan.has_units();
        let op = match verb % 9 {
            0..=2 if units => Op::Take { wait: 0 },
            3 if plan.hands_out_turns() => Op::Take { wait: check_cost(*cost).ok()? },
            4 => Op::Peek,
            5 if units => Op::Refund,
            6 if units => Op::Debit,
            7 => Op::Reset,
            _ if !units => Op::Hold(1 + u64::from(*key)),
            _ => return None,
        };
        let part = OwnedPart {
            plan: Arc::clone(plan),
            key: key::kept(&[*key]).into(),
            cost: if matches!(op, Op::Hold(_)) { 1 } else { check_cost(*cost).ok()? },
            marks: SmallVec::new(),
        };
        let count = Arc::clone(&answered);
        let finish = move |reply: std::result::Result<Reply<'_>, Lost>, parts: &[OwnedPart]| {
            count.fetch_add(1, Ordering::Relaxed);
            if let Ok(Reply { outcome, turn }) = reply {
                look_at(&Answered::new(op, &[parts[0].part()], &Whole, outcome, turn, Source::Redis));
            }
        };
        Some(Job::new(op, SmallVec::from_elem(part, 1), Instant::now(), finish))
    };
    let jobs: VecDeque<Job> = calls.iter().filter_map(job).collect();
    let sent = jobs.len();
    let mut batch = Batch::new(jobs, &mut Programs::default(), None, in_cluster);
    let mut replies = replies.iter().map(|reply| value(reply));
    let mut pipeline = Some(batch.pipeline());
    // As the store does it, but what Redis never knows has an end here.
    for _ in 0..3 {
        let Some(commands) = pipeline else { break };
        let _ = commands.get_packed_pipeline();
        let landed = batch.finish(replies.by_ref().take(commands.len()).collect(), &begin_outage);
        drop(landed.astray);
        pipeline = batch.pipeline_in_full();
    }
    batch.fail_all(&Lost("the end".into()));
    drop(batch);
    assert_eq!(answered.load(Ordering::Relaxed), sent, "a call was answered twice or never");
}

/// What an outage would start from.
fn begin_outage(entry: &Entry, outcome: &Outcome) {
    for (part, views) in entry.parts.iter().zip(&outcome.views) {
        for (member, view) in part.plan.members.iter().zip(views) {
            let mut state = member.twin.revive(view, outcome.now);
            for now in [outcome.now, 0, outcome.now + 1] {
                member.twin.load(&mut state, now);
                let _ = (member.twin.left(&state, now), member.twin.fresh_at(&state));
            }
        }
    }
}

/// Reads what a server says of a Cluster's slots, and what a sentinel says of a master.
pub fn read_topology(reply: &[u8]) {
    let reply = value(reply);
    let _ = cluster::ranges(&reply, "host");
    let _ = sentinel::master(&reply);
}

fn value(reply: &[u8]) -> Value {
    redis::parse_redis_value(reply).unwrap_or(Value::Nil)
}

fn look_at(Answered { decision, .. }: &Answered) {
    assert!(!decision.allowed || decision.retry_after.is_none(), "{decision:?}");
    assert!(decision.allowed || decision.wait.is_zero(), "{decision:?}");
}

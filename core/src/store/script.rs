//! The scripts that Redis runs: which parts of `lua/` make up a program, and how a call is
//! written down for it. `lua/README.md` is the contract.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use redis::{Cmd, Value};
use smallvec::SmallVec;

use super::{Op, Outcome, OwnedPart, Views};
use crate::algorithm::View;
use crate::clock::MAX_EXACT;
use crate::key;
use crate::spec::Algorithm;

const COMMON: &str = include_str!("../../lua/common.lua");
const RUN: &str = include_str!("../../lua/run.lua");
const MEMBERSHIP: &str = include_str!("../../lua/membership.lua");

/// A text that Redis runs, and the name under which it remembers it.
#[derive(Debug)]
pub(crate) struct Program {
    text: String,
    sha: String,
}

impl Program {
    fn new(text: String) -> Program {
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Program { text, sha }
    }

    /// The program with the rules of these algorithms.
    fn of_rules(algorithms: &BTreeSet<Algorithm>) -> Program {
        let mut text = String::from("local rules = {}\n");
        text.push_str(COMMON);
        let libraries: BTreeSet<&str> =
            algorithms.iter().filter_map(|algorithm| library(*algorithm)).collect();
        text.extend(libraries);
        // Each in a block of its own, since Lua allows a program 200 local names.
        for algorithm in algorithms {
            let _ = write!(text, "do\n{}end\n", source(*algorithm));
        }
        text.push_str(RUN);
        Program::new(text)
    }

    /// A process's sign of life.
    pub(crate) fn membership() -> Program {
        Program::new(MEMBERSHIP.to_owned())
    }

    /// EVALSHA, or EVAL where Redis has forgotten the program, on so many keys.
    pub(crate) fn command(&self, known: bool, keys: usize) -> Cmd {
        let mut command = Cmd::new();
        if known {
            command.arg("EVALSHA").arg(&self.sha);
        } else {
            command.arg("EVAL").arg(&self.text);
        }
        command.arg(keys);
        command
    }

    /// One run on these entries, which have the same limits. `now` is the time to decide by, where it
    /// is not Redis's own.
    pub(crate) fn run(&self, known: bool, now: Option<u64>, op: Op, entries: &[Entry]) -> Cmd {
        let [first, rest @ ..] = entries else { unreachable!("a run has an entry") };
        let rules =
            || first.parts.iter().flat_map(|part| part.plan.spec.rules.iter().zip(&part.plan.members));
        let members = rules().count();
        let mut command = self.command(known, entries.len() * members);
        write_keys(entries, &mut command);
        match now {
            Some(now) => command.arg(now),
            None => command.arg(""),
        };
        command.arg(verb(op)).arg(members);
        for (rule, member) in rules() {
            let numbers = member.twin.script_arguments(op.wait(), op == Op::Debit);
            command.arg(rule.algorithm.as_str()).arg(&numbers);
        }
        write_entry(op, first, &mut command);
        if !rest.iter().all(|entry| entry.asks_like(first)) {
            rest.iter().for_each(|entry| write_entry(op, entry, &mut command));
        }
        command
    }
}

/// What an algorithm's file builds on.
fn library(algorithm: Algorithm) -> Option<&'static str> {
    match algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => Some(include_str!("../../lua/bucket.lua")),
        Algorithm::Gcra => Some(include_str!("../../lua/arrival.lua")),
        Algorithm::SlidingWindow => Some(include_str!("../../lua/slices.lua")),
        Algorithm::SlidingLog => Some(include_str!("../../lua/log.lua")),
        Algorithm::FixedWindow | Algorithm::Concurrency => None,
    }
}

fn source(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::TokenBucket => include_str!("../../lua/token-bucket.lua"),
        Algorithm::Gcra => include_str!("../../lua/gcra.lua"),
        Algorithm::LeakyBucket => include_str!("../../lua/leaky-bucket.lua"),
        Algorithm::FixedWindow => include_str!("../../lua/fixed-window.lua"),
        Algorithm::SlidingWindow => include_str!("../../lua/sliding-window.lua"),
        Algorithm::SlidingLog => include_str!("../../lua/sliding-log.lua"),
        Algorithm::Concurrency => include_str!("../../lua/concurrency.lua"),
    }
}

/// The programs that a connection has used, by their algorithms. There are at most 2^7.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    known: Vec<(BTreeSet<Algorithm>, Arc<Program>)>,
}

impl Programs {
    /// The program for these parts, and whether Redis should know it by now. What is new goes in
    /// full, so that no call is overtaken by those behind it.
    pub(crate) fn of(&mut self, parts: &[OwnedPart]) -> (Arc<Program>, bool) {
        let rules = parts.iter().flat_map(|part| &part.plan.spec.rules);
        let algorithms: BTreeSet<Algorithm> = rules.map(|rule| rule.algorithm).collect();
        if let Some((_, program)) = self.known.iter().find(|(known, _)| *known == algorithms) {
            return (Arc::clone(program), true);
        }
        let program = Arc::new(Program::of_rules(&algorithms));
        self.known.push((algorithms, Arc::clone(&program)));
        (program, false)
    }
}

/// Equal calls on one set of keys: a line in a run of a program.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) calls: u64,
    pub(crate) parts: SmallVec<[OwnedPart; 1]>,
}

impl Entry {
    /// Whether it asks for the same, on keys of its own.
    fn asks_like(&self, other: &Entry) -> bool {
        let alike =
            |(part, other): (&OwnedPart, &OwnedPart)| part.cost == other.cost && part.marks == other.marks;
        self.calls == other.calls && self.parts.iter().zip(&other.parts).all(alike)
    }
}

/// The keys of all entries, member by member.
fn write_keys(entries: &[Entry], command: &mut Cmd) {
    let mut name = String::new();
    for part in entries.iter().flat_map(|entry| &entry.parts) {
        let key = key::escaped_key(&part.key);
        for member in &part.plan.members {
            name.clear();
            name.extend([&*member.head, &*key, "}"]);
            command.arg(&name);
        }
    }
}

/// How many calls, or who holds a permit; the costs; for a cancelled turn its marks.
fn write_entry(op: Op, entry: &Entry, command: &mut Cmd) {
    command.arg(match op {
        Op::Hold(holder) | Op::Renew(holder) | Op::Release(holder) => holder,
        _ => entry.calls,
    });
    for part in &entry.parts {
        for _ in &part.plan.members {
            command.arg(part.cost);
        }
    }
    if op == Op::Cancel {
        for mark in entry.parts.iter().flat_map(|part| &part.marks) {
            command.arg(mark);
        }
    }
}

fn verb(op: Op) -> &'static str {
    match op {
        Op::Take { .. } => "take",
        Op::Peek => "peek",
        Op::Refund => "refund",
        Op::Debit => "debit",
        Op::Cancel => "cancel",
        Op::Hold(_) => "hold",
        Op::Renew(_) => "renew",
        Op::Release(_) => "release",
        Op::Reset => "reset",
    }
}

/// Reads a run's reply: for each entry what came of it. `None` where it is not of our making: the
/// arithmetic behind relies on numbers that a script can reply.
pub(crate) fn outcomes(reply: &Value, entries: &[Entry]) -> Option<Vec<Outcome>> {
    let Value::BulkString(bytes) = reply else { return None };
    let (numbers, []) = bytes.as_chunks() else { return None };
    // One below zero is above all others here.
    let mut numbers =
        numbers.iter().map(|bytes| Some(u64::from_be_bytes(*bytes)).filter(|number| *number <= MAX_EXACT));
    let now = numbers.next()??;
    let mut outcomes = Vec::with_capacity(entries.len());
    for entry in entries {
        let units = |admitted: u64| {
            let exact = |part: &OwnedPart| admitted.checked_mul(part.cost).is_some_and(|n| n <= MAX_EXACT);
            entry.parts.iter().all(exact)
        };
        let possible = |admitted: &u64| *admitted <= entry.calls && units(*admitted);
        let admitted = numbers.next()?.filter(possible)?;
        let mut views = SmallVec::with_capacity(entry.parts.len());
        for part in &entry.parts {
            let mut of_part = Views::new();
            for member in &part.plan.members {
                let mut view = View::default();
                for number in view.iter_mut().take(member.twin.view_size()) {
                    *number = numbers.next()??;
                }
                of_part.push(view);
            }
            views.push(of_part);
        }
        outcomes.push(Outcome { now, admitted, views });
    }
    numbers.next().is_none().then_some(outcomes)
}

/// A reply as a run writes it, for tests and measurements.
#[cfg(any(test, feature = "bench-internals"))]
pub(crate) fn reply_of(numbers: impl IntoIterator<Item = i64>) -> Value {
    Value::BulkString(numbers.into_iter().flat_map(i64::to_be_bytes).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use smallvec::smallvec;

    use super::*;
    use crate::algorithm::Twin;
    use crate::decision::Source;
    use crate::outage::OnOutage;
    use crate::spec::Spec;
    use crate::store::{Member, Plan, Whole};

    #[test]
    fn a_reply_that_no_script_sends_is_refused() {
        let spec: Spec = "leaky-bucket 10/s queue 3".parse().unwrap();
        let twin = Twin::new(&spec.rules[0]);
        let members = smallvec![Member { twin, head: "sg:test:{".to_owned(), id: 1 }];
        let plan = Plan { name: "test".to_owned(), id: 1, spec, members, on_outage: OnOutage::Share };
        let part = OwnedPart { plan: Arc::new(plan), key: (*b"k").into(), cost: 1, marks: smallvec![] };
        let mut entries = [Entry { calls: 2, parts: smallvec![part] }];
        let reply = |numbers: &[i64]| reply_of(numbers.iter().copied());
        let read = |numbers: &[i64]| outcomes(&reply(numbers), &entries).is_some();
        assert!(read(&[1 << 53, 2, 1 << 53, 0]));
        assert!(!read(&[5, 3, 0, 0]), "more were admitted than asked");
        assert!(!read(&[5, i64::MAX, 0, 0]));
        for place in 0..4 {
            for number in [-1, (1 << 53) + 1, i64::MIN, i64::MAX] {
                let mut numbers = [5, 1, 0, 0];
                numbers[place] = number;
                assert!(!read(&numbers), "{number} at {place}");
            }
        }
        assert!(!read(&[5, 1, 0]), "too few");
        assert!(!read(&[5, 1, 0, 0, 0]), "too many");
        for cut in 1..8 {
            let Value::BulkString(mut bytes) = reply(&[5, 1, 0, 0]) else { unreachable!() };
            bytes.truncate(bytes.len() - cut);
            assert!(outcomes(&Value::BulkString(bytes), &entries).is_none(), "a number is cut off");
        }
        assert!(outcomes(&Value::Nil, &entries).is_none());
        // What a script can't have admitted is not worked with either: this would leave 64 bits.
        entries[0].parts[0].cost = MAX_EXACT;
        assert!(outcomes(&reply(&[5, 2, 0, 0]), &entries).is_none());
        let [outcome] = outcomes(&reply(&[5, 1, 0, 0]), &entries).unwrap().try_into().unwrap();
        let part = entries[0].parts[0].part();
        let decision = outcome.decision(Op::Take { wait: 0 }, &[part], &Whole, 0, Source::Redis);
        assert_eq!((decision.allowed, decision.remaining), (true, 4));
    }
}

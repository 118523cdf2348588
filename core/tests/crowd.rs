//! Many calls at once, on many keys: two round trips are under way, and nobody notices but by the
//! clock. Runs where `SLUICEGATE_TEST_REDIS` names a Redis.

use std::collections::HashMap;
use std::time::Duration;

use sluicegate::{Answer, Call, Completions, Limiter, Source};

const KEYS: usize = 300;
const CALLS_A_KEY: usize = 5;
const ROUNDS: usize = 20;

fn collect(completions: &Completions, count: usize) -> HashMap<u64, Answer> {
    let until = std::time::Instant::now() + Duration::from_secs(30);
    let mut answers = HashMap::new();
    while answers.len() < count {
        assert!(std::time::Instant::now() < until, "{} of {count} calls are answered", answers.len());
        let some = completions.collect(1_000);
        if some.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        answers.extend(some.into_iter().map(|(tag, answer)| (tag, answer.unwrap())));
    }
    answers
}

/// Whoever calls first on a key is admitted first, whichever round trips their calls are in; and Redis forgets
/// its scripts in between.
#[test]
fn first_come_first_served_over_round_trips() {
    let Ok(url) = std::env::var("SLUICEGATE_TEST_REDIS") else {
        eprintln!("skipped: SLUICEGATE_TEST_REDIS names no Redis");
        return;
    };
    let mut redis = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
    let prefix = format!("crowd{:x}", rand::random::<u64>());
    let limiter =
        Limiter::builder().url(&url).prefix(&prefix).timeout(Duration::from_secs(20)).open().unwrap();
    let limit = limiter.limit("crowd", "3/h").unwrap();
    let completions = Completions::new(Completions::MOST).unwrap();
    for round in 0..ROUNDS {
        for number in 0..KEYS * CALLS_A_KEY {
            let key = format!("{round}/{}", number % KEYS);
            let submitted = limit.submit(Call::TryAcquire { cost: 1 }, key.as_bytes());
            completions.submit(completions.place().unwrap(), number as u64, submitted).unwrap();
            if number == KEYS {
                let _: () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut redis).unwrap();
            }
        }
        for (number, answer) in collect(&completions, KEYS * CALLS_A_KEY) {
            let Answer::Decision(decision) = answer else { panic!("{answer:?}") };
            let turn = number as usize / KEYS;
            assert_eq!(decision.allowed, turn < 3, "round {round}, call {turn} on its key: {decision:?}");
            assert!(matches!(decision.source, Source::Redis | Source::DenyCache), "{decision:?}");
            if decision.allowed {
                assert_eq!(decision.remaining, 2 - turn as u64, "round {round}: {decision:?}");
            }
        }
    }
}

//! Runs the scenarios of `tests/scenarios/`: one named test for each scenario, store and way to
//! call (blocking or awaited). `tests/scenarios/README.md` says what the data means.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libtest_mimic::{Arguments, Failed, Trial};
use serde::{Deserialize, Deserializer};
use sluicegate::argument::{cost_from_float, cost_from_int, duration_from_micros};
use sluicegate::{Decision, Error, Limit, Limiter, ManualClock, Permit, Source};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "about")]
    _about: String,
    scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    name: String,
    limits: HashMap<String, String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    advance_us: Option<i64>,
    verb: Option<String>,
    #[serde(default = "default_limit")]
    limit: String,
    #[serde(default = "default_key")]
    key: String,
    #[serde(default = "default_cost")]
    cost: serde_json::Number,
    timeout_us: Option<i64>,
    max_wait_us: Option<i64>,
    times: Option<u64>,
    #[serde(rename = "as")]
    label: Option<String>,
    permit: Option<String>,
    entries: Option<Vec<(String, String, serde_json::Number)>>,
    spec: Option<String>,
    expect: Option<Expect>,
    expect_each: Option<Expect>,
    error: Option<String>,
    error_contains: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    allowed: Option<bool>,
    limit: Option<u64>,
    remaining: Option<u64>,
    /// `Some(None)` is a null: there must be none.
    #[serde(default, deserialize_with = "present")]
    retry_after_us: Option<Option<u64>>,
    reset_after_us: Option<u64>,
    wait_us: Option<u64>,
}

fn default_limit() -> String {
    "main".to_owned()
}

fn default_key() -> String {
    "k".to_owned()
}

fn default_cost() -> serde_json::Number {
    1.into()
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// Which of the two kinds of verbs is called.
#[derive(Clone, Copy)]
enum Way {
    Blocking,
    Awaited,
}

struct Runner {
    limiter: Limiter,
    clock: ManualClock,
    limits: HashMap<String, Limit>,
    permits: HashMap<String, Permit>,
    way: Way,
    runtime: tokio::runtime::Runtime,
    source: Source,
}

impl Runner {
    fn new(scenario: &Scenario, url: &str, way: Way, prefix: &str) -> Result<Runner, Error> {
        let clock = ManualClock::default();
        let limiter = Limiter::builder()
            .url(url)
            .prefix(prefix)
            .timeout(Duration::from_secs(5))
            .deny_cache(Duration::ZERO)
            .clock(&clock)
            .open()?;
        let mut limits = HashMap::new();
        for (name, spec) in &scenario.limits {
            limits.insert(name.clone(), limiter.limit(name, spec)?);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::new(sluicegate::ErrorKind::Internal, error.to_string()))?;
        let source = if url.starts_with("memory:") { Source::Memory } else { Source::Redis };
        Ok(Runner { limiter, clock, limits, permits: HashMap::new(), way, runtime, source })
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        if let Some(by) = step.advance_us {
            let ahead = Duration::from_micros(by.unsigned_abs());
            if by >= 0 { self.clock.advance(ahead) } else { self.clock.set(self.clock.now() - ahead) }
        }
        let Some(verb) = &step.verb else { return Ok(()) };
        let times = step.times.unwrap_or(1);
        for turn in 1..=times {
            let outcome = self.call(verb, step);
            self.check(step, outcome, turn == times).map_err(|why| format!("call {turn}: {why}"))?;
        }
        Ok(())
    }

    /// The decision that the verb gives, if any.
    fn call(&mut self, verb: &str, step: &Step) -> Result<Option<Decision>, Error> {
        let wait = |name: &str, micros: Option<i64>| {
            duration_from_micros(name, micros.unwrap_or_else(|| panic!("the step must say {name}_us")))
        };
        if let Some(outcome) = self.call_on_limiter(verb, step) {
            return outcome;
        }
        let limit = self.limits[&step.limit].clone();
        let key = step.key.as_str();
        match verb {
            "try_acquire" => {
                let cost = cost(&step.cost)?;
                self.one(limit.try_acquire(key, cost), || limit.try_acquire_blocking(key, cost))
            }
            "acquire" => {
                let (cost, timeout) = (cost(&step.cost)?, wait("timeout", step.timeout_us)?);
                self.one(limit.acquire(key, cost, timeout), || limit.acquire_blocking(key, cost, timeout))
            }
            "reserve" => {
                let (cost, most) = (cost(&step.cost)?, wait("max_wait", step.max_wait_us)?);
                self.one(limit.reserve(key, cost, most), || limit.reserve_blocking(key, cost, most))
            }
            "peek" => self.one(limit.peek(key), || limit.peek_blocking(key)),
            "refund" => {
                let cost = cost(&step.cost)?;
                self.one(limit.refund(key, cost), || limit.refund_blocking(key, cost))
            }
            "reset" => self.run(limit.reset(key), || limit.reset_blocking(key)).map(|()| None),
            "hold" => {
                let timeout = wait("timeout", step.timeout_us)?;
                let (decision, permit) =
                    self.run(limit.hold(key, timeout), || limit.hold_blocking(key, timeout))?;
                assert_eq!(permit.is_some(), decision.allowed, "a permit comes with an admission");
                if let Some(permit) = permit {
                    let label = step.label.clone().unwrap_or_else(|| panic!("a permit needs a name: as"));
                    self.permits.insert(label, permit);
                }
                Ok(Some(decision))
            }
            _ => panic!("no verb {verb:?}"),
        }
    }

    /// The verbs that are not a limit's.
    fn call_on_limiter(&mut self, verb: &str, step: &Step) -> Option<Result<Option<Decision>, Error>> {
        Some(match verb {
            "release" => {
                let label = step.permit.as_deref().unwrap_or_default();
                self.permits[label].release();
                Ok(None)
            }
            "try_acquire_all" => self.try_acquire_all(step),
            "respec" => {
                let spec = step.spec.as_deref().unwrap_or_else(|| panic!("respec needs a spec"));
                self.limiter.limit(&step.limit, spec).map(|limit| {
                    self.limits.insert(step.limit.clone(), limit);
                    None
                })
            }
            _ => return None,
        })
    }

    fn try_acquire_all(&self, step: &Step) -> Result<Option<Decision>, Error> {
        let mut entries = Vec::new();
        for (name, key, units) in step.entries.iter().flatten() {
            entries.push((&self.limits[name], key, cost(units)?));
        }
        let limiter = &self.limiter;
        self.one(limiter.try_acquire_all(&entries), || limiter.try_acquire_all_blocking(&entries))
    }

    fn run<T>(
        &self,
        awaited: impl Future<Output = Result<T, Error>>,
        blocking: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.way {
            Way::Blocking => blocking(),
            Way::Awaited => self.runtime.block_on(awaited),
        }
    }

    fn one(
        &self,
        awaited: impl Future<Output = Result<Decision, Error>>,
        blocking: impl FnOnce() -> Result<Decision, Error>,
    ) -> Result<Option<Decision>, Error> {
        self.run(awaited, blocking).map(Some)
    }

    fn check(&self, step: &Step, outcome: Result<Option<Decision>, Error>, last: bool) -> Result<(), String> {
        let decision = match (outcome, &step.error) {
            (Err(error), Some(kind)) => {
                let wanted = step.error_contains.as_deref().unwrap_or_default();
                let right = error.kind().as_str() == kind && error.message().contains(wanted);
                return if right { Ok(()) } else { Err(format!("another error came: {error:?}")) };
            }
            (Err(error), None) => return Err(format!("failed: {error:?}")),
            (Ok(decision), Some(kind)) => {
                return Err(format!("expected an error of kind {kind}, got {decision:?}"));
            }
            (Ok(decision), None) => decision,
        };
        if let Some(decision) = decision.filter(|decision| decision.source != self.source) {
            return Err(format!("decided elsewhere: {decision:?}"));
        }
        for expect in step.expect_each.iter().chain(step.expect.iter().filter(|_| last)) {
            expect.check(&decision.ok_or("the verb gave no decision")?)?;
        }
        Ok(())
    }
}

impl Expect {
    fn check(&self, decision: &Decision) -> Result<(), String> {
        let micros = |duration: Duration| duration.as_micros() as u64;
        let mut wrong = Vec::new();
        let mut compare = |field: &str, expected: Option<String>, got: String| {
            if let Some(expected) = expected.filter(|expected| *expected != got) {
                wrong.push(format!("{field}: expected {expected}, got {got}"));
            }
        };
        let or_null = |value: Option<u64>| value.map_or("null".to_owned(), |value| value.to_string());
        let text = |value: Option<u64>| value.map(|value| value.to_string());
        compare("allowed", self.allowed.map(|allowed| allowed.to_string()), decision.allowed.to_string());
        compare("limit", text(self.limit), decision.limit.to_string());
        compare("remaining", text(self.remaining), decision.remaining.to_string());
        compare(
            "retry_after_us",
            self.retry_after_us.map(or_null),
            or_null(decision.retry_after.map(micros)),
        );
        compare("reset_after_us", text(self.reset_after_us), micros(decision.reset_after).to_string());
        compare("wait_us", text(self.wait_us), micros(decision.wait).to_string());
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

/// A cost as a program would have it; what no `u64` can say goes to core's own check.
fn cost(number: &serde_json::Number) -> Result<u64, Error> {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(cost), ..) => Ok(cost),
        (_, Some(negative), _) => cost_from_int(negative.into()),
        (.., float) => cost_from_float(float.unwrap_or(f64::NAN)),
    }
}

fn run(scenario: &Scenario, url: &str, way: Way, prefix: &str) -> Result<(), Failed> {
    let mut runner = Runner::new(scenario, url, way, prefix)?;
    for (index, step) in scenario.steps.iter().enumerate() {
        runner.step(step).map_err(|why| format!("step {}: {why}", index + 1))?;
    }
    Ok(())
}

/// A defect could leave a call waiting for a clock that nobody moves.
fn bounded(run: impl FnOnce() -> Result<(), Failed> + Send + 'static) -> Result<(), Failed> {
    let (send, receive) = mpsc::channel();
    let thread = thread::spawn(move || send.send(run()));
    match receive.recv_timeout(Duration::from_secs(60)) {
        Ok(outcome) => outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => Err("a call waits, and nobody moves the clock".into()),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => Err("ended without an outcome".into()),
        },
    }
}

fn load() -> Vec<(String, Arc<Scenario>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios");
    let mut scenarios = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        let topic = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_none_or(|extension| extension != "json") || topic == "schema" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let file: File = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{topic}.json: {error}"));
        scenarios.extend(file.scenarios.into_iter().map(|scenario| (topic.clone(), Arc::new(scenario))));
    }
    scenarios.sort_by(|(a, _), (b, _)| a.cmp(b));
    scenarios
}

fn main() {
    let arguments = Arguments::from_args();
    let scenarios = load();
    let mut stores = vec![("memory", "memory://".to_owned())];
    if let Ok(url) = std::env::var("SLUICEGATE_TEST_REDIS") {
        stores.push(("redis", url));
    }
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros());
    let mut trials = Vec::new();
    for (store, url) in &stores {
        for (topic, scenario) in &scenarios {
            for (name, way) in [("blocking", Way::Blocking), ("awaited", Way::Awaited)] {
                let prefix = format!("sc-{started}-{}", trials.len());
                let (scenario, url) = (Arc::clone(scenario), url.clone());
                let title = format!("{topic}: {} [{store}, {name}]", scenario.name);
                let trial = move || bounded(move || run(&scenario, &url, way, &prefix));
                trials.push(Trial::test(title, trial));
            }
        }
    }
    let stores = stores.iter().map(|(store, _)| *store).collect::<Vec<_>>().join(" and ");
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        let runs = conclusion.num_passed + conclusion.num_failed;
        println!("rust: {} scenarios, {runs} runs on {stores}, blocking and awaited", scenarios.len());
    }
    conclusion.exit();
}

//! A Rust process of the demo in `examples/demo`: `demo_worker URL SPEC CALLS_PER_SECOND`

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sluicegate::{Decision, Error, Limit, Limiter};

const TASKS: u32 = 2;

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

struct Report {
    since: f64,
    admitted: Vec<(f64, f64, &'static str)>,
    refused: BTreeMap<&'static str, u64>,
    errors: u64,
    error: Option<String>,
    longest: f64,
}

impl Report {
    fn new() -> Report {
        let (admitted, refused) = (Vec::new(), BTreeMap::new());
        Report { since: now(), admitted, refused, errors: 0, error: None, longest: 0.0 }
    }

    fn call_ended(&mut self, started: f64, outcome: Result<Decision, Error>) {
        let ended = now();
        self.longest = self.longest.max(ended - started);
        match outcome {
            Ok(d) if d.allowed => self.admitted.push((started, ended, d.source.as_str())),
            Ok(d) => *self.refused.entry(d.source.as_str()).or_default() += 1,
            Err(error) => {
                self.errors += 1;
                self.error = Some(error.to_string());
            }
        }
    }

    fn flush(&mut self) {
        let report = std::mem::replace(self, Report::new());
        let line = serde_json::json!({
            "from": report.since,
            "to": now(),
            "admitted": report.admitted,
            "refused": report.refused,
            "errors": report.errors,
            "error": report.error,
            "longest_ms": report.longest * 1000.0,
        });
        println!("{line}");
    }
}

async fn hammer(limit: Limit, pause: Duration, report: Arc<Mutex<Report>>, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        let started = now();
        let outcome = limit.try_acquire("everyone", 1).await;
        report.lock().expect("no holder panics").call_ended(started, outcome);
        tokio::time::sleep(pause).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [url, spec, pace] = std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "usage")?;
    let limiter = Limiter::open(&url)?;
    let limit = limiter.limit("demo", spec.as_str())?;

    println!(r#"{{"ready": true}}"#);
    std::io::stdin().read_line(&mut String::new())?;
    let over = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&over);
    // The end of the input says stop; it also comes when the demo dies.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        end.store(true, Ordering::Relaxed);
    });

    let report = Arc::new(Mutex::new(Report::new()));
    let pause = Duration::from_secs_f64(f64::from(TASKS) / pace.parse::<f64>()?);
    let start = |_| tokio::spawn(hammer(limit.clone(), pause, Arc::clone(&report), Arc::clone(&over)));
    let tasks: Vec<_> = (0..TASKS).map(start).collect();
    while !over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        report.lock().expect("no holder panics").flush();
    }
    for task in tasks {
        task.await?;
    }
    limiter.close();
    report.lock().expect("no holder panics").flush();
    Ok(())
}

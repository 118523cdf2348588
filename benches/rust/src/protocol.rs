//! How the rig and a contender talk: a line in asks for a round, a line out tells what came of it.

use std::error::Error;
use std::io::{BufRead, stdin};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Ask {
    warm: f64,
    seconds: f64,
}

/// What came of some seconds of calls.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) decisions: u64,
    pub(crate) seconds: f64,
    /// Nanoseconds of each call, where calls are slow enough to be timed one by one.
    pub(crate) latencies: Vec<u32>,
    /// Decisions that were not of the kind that is measured.
    pub(crate) odd: u64,
}

/// Serves rounds until the input ends.
pub(crate) fn serve(
    mut run: impl FnMut(Duration) -> Result<Tally, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    println!("{}", json!({ "ready": true }));
    for line in stdin().lock().lines() {
        let ask: Ask = serde_json::from_str(&line?)?;
        let warm = run(Duration::from_secs_f64(ask.warm))?;
        let mut tally = run(Duration::from_secs_f64(ask.seconds))?;
        tally.latencies.sort_unstable();
        println!(
            "{}",
            json!({
                "decisions": tally.decisions,
                "seconds": tally.seconds,
                "total": warm.decisions + tally.decisions,
                "odd": warm.odd + tally.odd,
                "p50_us": quantile(&tally.latencies, 0.50),
                "p99_us": quantile(&tally.latencies, 0.99),
            })
        );
    }
    Ok(())
}

fn quantile(sorted: &[u32], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(f64::from(sorted[(last as f64 * share) as usize]) / 1000.0)
}

//! `driver URL SPEC TIMEOUT_MS`: for each line of input, one call with that key.

use std::io::BufRead;
use std::time::{Duration, Instant};

use sluicegate::Limiter;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [url, spec, timeout_ms] = std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "usage")?;
    let limiter = Limiter::builder().url(&url).timeout(Duration::from_millis(timeout_ms.parse()?)).open()?;
    let limit = limiter.limit("driven", spec.as_str())?;
    for line in std::io::stdin().lock().lines() {
        let started = Instant::now();
        let (allowed, source, error) = match limit.try_acquire_blocking(line?.trim(), 1) {
            Ok(d) => (d.allowed.to_string(), format!("{:?}", d.source.as_str()), "null".to_owned()),
            Err(error) => ("null".to_owned(), "null".to_owned(), format!("{:?}", error.kind().as_str())),
        };
        let ms = started.elapsed().as_secs_f64() * 1e3;
        println!(r#"{{"allowed": {allowed}, "source": {source}, "error": {error}, "ms": {ms}}}"#);
    }
    Ok(())
}

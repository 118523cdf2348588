//! Who shares the limits: each process registers once for a URL and prefix, and shows signs of
//! life. So each knows how many live, and its own rank among them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::Rng;
use redis::{Pipeline, Value};

use crate::key;
use crate::store::connection::Link;
use crate::store::script::Program;

/// How many processes live, and this one's rank among them, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) processes: u64,
    pub(crate) rank: u64,
}

pub(crate) struct Membership {
    id: String,
    keys: Vec<String>,
    slot: u16,
    program: Program,
    /// Processes and rank in one number, as they belong together.
    standing: AtomicU64,
}

const INTERVAL: Duration = Duration::from_secs(1);
/// So many signs of life a second at most, over all processes: a larger fleet shows them less
/// often.
const FLEET_PER_SECOND: u64 = 1_000;
/// A process that was silent for so many intervals is gone.
const SILENCE: u32 = 3;

impl Membership {
    pub(crate) fn new(prefix: &str) -> Membership {
        Membership {
            id: format!("{:016x}", rand::rng().random::<u64>()),
            keys: vec![format!("{prefix}:members:{{{prefix}}}"), format!("{prefix}:heartbeats:{{{prefix}}}")],
            slot: key::slot_of_tag(prefix),
            program: Program::membership(),
            standing: AtomicU64::new(0),
        }
    }

    /// As of the last sign of life; a process that knows of none stands alone.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let packed = self.standing.load(Ordering::Acquire);
        let standing = Standing { processes: packed >> 32, rank: packed & u64::from(u32::MAX) };
        (standing.processes > 0).then_some(standing)
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The Cluster slot of its keys.
    pub(crate) fn slot(&self) -> u16 {
        self.slot
    }

    /// How long until the next sign of life.
    pub(crate) fn interval(&self) -> Duration {
        let processes = self.standing().map_or(1, |standing| standing.processes);
        INTERVAL.max(Duration::from_micros(processes * (1_000_000 / FLEET_PER_SECOND)))
    }

    /// Shows a sign of life, and learns who else lives.
    pub(crate) async fn beat(&self, link: &mut Link) -> Result<(), String> {
        let [processes, rank] = self.run(link, "join").await?;
        self.standing.store(processes << 32 | rank.min(u64::from(u32::MAX)), Ordering::Release);
        Ok(())
    }

    /// Tells the others that this process has gone.
    pub(crate) async fn leave(&self, link: &mut Link) -> Result<(), String> {
        self.run(link, "leave").await.map(drop)
    }

    async fn run(&self, link: &mut Link, verb: &str) -> Result<[u64; 2], String> {
        let lifetime = (self.interval() * SILENCE).as_micros().to_string();
        let arguments = [self.id.clone(), lifetime, verb.to_owned()];
        for known in [true, false] {
            let mut pipeline = Pipeline::with_capacity(1);
            let mut command = self.program.command(known, self.keys.len());
            command.arg(&self.keys).arg(&arguments);
            pipeline.add_command(command);
            match link.send(&pipeline).await?.into_iter().next() {
                Some(Value::ServerError(error)) if known && error.code() == "NOSCRIPT" => {}
                Some(Value::ServerError(error)) => return Err(error.to_string()),
                Some(Value::Array(reply)) => match reply[..] {
                    [Value::Int(processes), Value::Int(rank)] => {
                        return Ok([processes, rank].map(|number| u64::try_from(number).unwrap_or(0)));
                    }
                    _ => break,
                },
                _ => break,
            }
        }
        Err("Redis sent a reply that is not the membership script's".to_owned())
    }
}

//! State in Redis: one task that keeps a connection, and sends what waits on it.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Outcome;
use super::batch::{Batch, Job, Lost, Queue};
use super::connection::Link;
use super::script::{Entry, Programs};
use super::target::Target;
use crate::clock::Clock;
use crate::membership::Membership;

/// A connection is tried for this long when it was lost before; the first time, and right after
/// a loss, for the budget of a decision.
const RECONNECT: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_millis(400);
const MIN_PAUSE: Duration = Duration::from_millis(25);
/// A connection on which a reply is so late is given up.
const SILENCE: Duration = Duration::from_secs(1);

/// Why a connection is given up.
enum Loss {
    /// It ended; a server that was restarted is back at once.
    Ended(String),
    /// Nothing comes back on it; calls are not to wait for the next one.
    Silent,
}

/// Who is told how the store does, and what it said.
pub(crate) trait Watcher: Send + Sync {
    /// A connection is being made, and calls may wait for it.
    fn connecting(&self);
    /// The store decides.
    fn up(&self);
    /// The store is away.
    fn out(&self, why: &str);
    /// A reply is so late that no call waits for it any more, or it has come after all.
    fn stalled(&self, stalled: bool);
    /// What came of an entry.
    fn saw(&self, entry: &Entry, outcome: &Outcome);
    /// What was admitted elsewhere and has to be taken before these calls.
    fn debits(&self, jobs: &std::collections::VecDeque<Job>) -> Vec<Job>;
    /// Some more of that, when there is time.
    fn more_debits(&self) -> Vec<Job>;
}

/// What a task of the store works with.
pub(crate) struct Store {
    pub(crate) target: Target,
    pub(crate) timeout: Duration,
    pub(crate) clock: Clock,
    pub(crate) queue: Arc<Queue>,
    pub(crate) membership: Arc<Membership>,
    pub(crate) watcher: Arc<dyn Watcher>,
    /// Asks for a sign of life at once, because something seemed amiss.
    pub(crate) doubt: Arc<Notify>,
}

impl Store {
    /// Keeps a connection and serves the queue until `closing` says true or its sender is gone.
    pub(crate) async fn run(self, mut closing: watch::Receiver<bool>) {
        let mut failures = 0;
        loop {
            // Right after a loss calls may wait for the connection: a server that was restarted
            // is back at once.
            let patience = if failures == 0 { self.timeout } else { RECONNECT };
            let joined = tokio::select! {
                joined = self.join(patience) => joined,
                () = closed(&mut closing) => break,
            };
            let why = match joined {
                Ok((mut link, mut lost)) => {
                    failures = 0;
                    self.watcher.up();
                    let since = Instant::now();
                    let loss = tokio::select! {
                        loss = self.serve(&mut link, &mut lost) => loss,
                        () = closed(&mut closing) => {
                            let _ = timeout(self.timeout, self.membership.leave(&mut link)).await;
                            break;
                        }
                    };
                    match loss {
                        Loss::Ended(why) if since.elapsed() >= SILENCE => {
                            self.watcher.connecting();
                            why
                        }
                        // What answers and fails at once is not to be tried without a pause.
                        Loss::Ended(why) => {
                            failures = 1;
                            self.watcher.out(&why);
                            why
                        }
                        Loss::Silent => {
                            failures = 1;
                            let why = "Redis does not answer".to_owned();
                            self.watcher.out(&why);
                            why
                        }
                    }
                }
                Err(why) => {
                    failures += 1;
                    self.watcher.out(&why);
                    why
                }
            };
            self.queue.fail_all(&Lost(why.into()));
            let pause = (MIN_PAUSE * 2_u32.pow(failures.min(6))).min(MAX_PAUSE);
            let pause = pause.mul_f64(rand::rng().random_range(0.5..1.5));
            tokio::select! {
                () = sleep(pause), if failures > 0 => {}
                () = closed(&mut closing), if failures > 0 => break,
                else => {}
            }
        }
        self.queue.fail_all(&Lost("the limiter was closed".into()));
    }

    /// Connects, and shows two signs of life: one success alone may be luck.
    async fn join(&self, patience: Duration) -> Result<(Link, mpsc::Receiver<String>), String> {
        let joining = async {
            let (mut link, lost) = Link::open(&self.target, patience).await?;
            self.membership.beat(&mut link).await?;
            self.membership.beat(&mut link).await?;
            Ok((link, lost))
        };
        match timeout(patience, joining).await {
            Ok(joined) => joined,
            Err(_) => Err(format!("Redis did not answer within {} ms", patience.as_millis())),
        }
    }

    /// Sends what waits, one batch after the other, until the connection is lost; says why.
    async fn serve(&self, link: &mut Link, lost: &mut mpsc::Receiver<String>) -> Loss {
        let mut programs = Programs::default();
        let mut beating = std::pin::pin!(self.beat(link.clone()));
        loop {
            let mut jobs = tokio::select! {
                jobs = self.queue.next() => jobs,
                loss = reason(lost) => return loss,
                loss = &mut beating => return loss,
            };
            for debit in self.watcher.debits(&jobs).into_iter().rev() {
                jobs.push_front(debit);
            }
            let mut batch = Batch::new(jobs, &mut programs, self.clock.sent());
            let loss = {
                let mut flight = std::pin::pin!(self.fly(link, &mut batch));
                tokio::select! {
                    loss = &mut flight => loss,
                    loss = reason(lost) => Some(loss),
                    loss = &mut beating => Some(loss),
                }
            };
            if let Some(loss) = loss {
                batch.fail_all(&Lost(match &loss {
                    Loss::Ended(why) => why.as_str().into(),
                    Loss::Silent => "Redis does not answer".into(),
                }));
                return loss;
            }
        }
    }

    /// One round trip. It says why where the connection can't be used any more.
    async fn fly(&self, link: &mut Link, batch: &mut Batch) -> Option<Loss> {
        let mut pipeline = Some(batch.pipeline());
        while let Some(commands) = pipeline {
            let replies = {
                let mut other = link.clone();
                let mut sending = std::pin::pin!(other.send(&commands));
                let mut stalled_since = None;
                loop {
                    let first =
                        [batch.first_deadline(), self.queue.first_deadline()].into_iter().flatten().min();
                    let late = stalled_since
                        .map_or_else(|| first.unwrap_or_else(far), |since: Instant| since + SILENCE);
                    tokio::select! {
                        biased;
                        replies = &mut sending => {
                            if stalled_since.is_some() {
                                self.watcher.stalled(false);
                            }
                            break replies;
                        }
                        () = sleep_until(late) => {
                            if stalled_since.is_some() {
                                return Some(Loss::Silent);
                            }
                            let why = Lost("the reply did not come within the timeout".into());
                            batch.fail_until(Instant::now(), &why);
                            self.queue.fail_until(Instant::now(), &why);
                            if batch.first_deadline().is_none() {
                                // Nobody waits for it any more, and who comes now need not either.
                                self.watcher.stalled(true);
                                self.queue.fail_all(&why);
                                stalled_since = Some(Instant::now());
                            }
                        }
                    }
                }
            };
            match replies {
                Ok(replies) => {
                    let unfit = batch.finish(replies, &|entry, outcome| self.watcher.saw(entry, outcome));
                    if let Some(why) = unfit {
                        return Some(Loss::Ended(why));
                    }
                    pipeline = batch.pipeline_in_full();
                }
                Err(why) => return Some(Loss::Ended(why)),
            }
        }
        None
    }

    /// Shows signs of life, and says why where Redis does not hear them.
    async fn beat(&self, mut link: Link) -> Loss {
        loop {
            let patience = tokio::select! {
                () = sleep(self.membership.interval()) => SILENCE.max(self.timeout),
                () = self.doubt.notified() => self.timeout,
            };
            match timeout(patience, self.membership.beat(&mut link)).await {
                Ok(Ok(())) => self.watcher.stalled(false),
                Ok(Err(why)) => return Loss::Ended(why),
                Err(_) => return Loss::Silent,
            }
            for job in self.watcher.more_debits() {
                self.queue.push(job);
            }
        }
    }
}

async fn reason(lost: &mut mpsc::Receiver<String>) -> Loss {
    Loss::Ended(lost.recv().await.unwrap_or_else(|| "the connection was closed".to_owned()))
}

async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

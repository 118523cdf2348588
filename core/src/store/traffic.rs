//! A connection's calls: when they go out, when they are given up, and what a reply means for the connection.

use std::collections::VecDeque;
use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, sleep_until};

use super::batch::Batch;
use super::connection::Link;
use super::flight::Flights;
use super::job::{Job, Lost};
use super::redis::{Loss, SILENCE, Store};
use super::script::Programs;

/// So many calls show whether those of this time merge.
const MANY: usize = 8;

/// The calls of a connection, waiting and under way.
pub(super) struct Traffic<'a> {
    store: &'a Store,
    link: Link,
    programs: Programs,
    flights: Flights,
    /// Since when all calls under way have been given up, and none is to wait for the connection.
    stalled_since: Option<Instant>,
    /// Whether calls were mostly on keys of their own, the last time that there were many.
    spread: bool,
}

impl Traffic<'_> {
    pub(super) fn new<'a>(store: &'a Store, link: &Link) -> Traffic<'a> {
        Traffic {
            store,
            link: link.clone(),
            programs: Programs::default(),
            flights: Flights::default(),
            stalled_since: None,
            spread: true,
        }
    }

    /// Answers all calls that are under way as lost.
    pub(super) fn fail_all(&mut self, why: &Lost) {
        self.flights.fail_all(why);
    }

    /// Whether none is to wait for the connection.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled_since.is_some()
    }

    /// Carries calls to Redis and their answers back until the connection can't be used any more;
    /// says why. Who stops it can begin it again.
    pub(super) async fn carry(&mut self) -> Loss {
        let queue = &self.store.queue;
        let mut alarm = std::pin::pin!(sleep_until(far()));
        loop {
            let late = self.late();
            // It may ring early, so that it is not set anew for each round trip.
            if late < alarm.deadline() {
                alarm.as_mut().reset(late);
            }
            let may_start = self.may_start();
            let under_way = self.flights.calls();
            tokio::select! {
                biased;
                (batch, replies) = self.flights.landed() => {
                    if let Some(loss) = self.land(batch, replies) {
                        return loss;
                    }
                }
                jobs = queue.next(under_way), if may_start => self.start(jobs),
                () = &mut alarm => {
                    if let Some(loss) = self.give_up_late() {
                        return loss;
                    }
                    alarm.as_mut().reset(self.late());
                }
            }
        }
    }

    /// Calls that merge gain nothing by a second round trip beside the first: they take Redis less
    /// time than the wake-ups around them take everyone.
    fn may_start(&self) -> bool {
        let beside = self.spread && self.flights.have_room();
        (self.flights.is_empty() || beside) && self.stalled_since.is_none()
    }

    fn start(&mut self, mut jobs: VecDeque<Job>) {
        let store = self.store;
        for debit in store.watcher.debits(&jobs).into_iter().rev() {
            jobs.push_front(debit);
        }
        let batch = Batch::new(jobs, &mut self.programs, store.clock.sent(), store.peers.is_some());
        if batch.calls() >= MANY {
            self.spread = batch.is_spread();
        }
        let commands = batch.pipeline();
        self.flights.start(batch, commands, &self.link);
    }

    /// Hands out what has come back; says why where the connection can't be used any more.
    fn land(&mut self, mut batch: Batch, replies: Result<Vec<Value>, String>) -> Option<Loss> {
        let store = self.store;
        let loss = match replies {
            Ok(replies) => {
                let landed = batch.finish(replies, &|entry, outcome| store.watcher.saw(entry, outcome));
                if let Some(peers) = store.peers.as_ref().filter(|_| !landed.astray.is_empty()) {
                    peers.redirect(landed.astray);
                }
                if landed.odd {
                    Some("Redis sent a reply that is not one of our scripts'".to_owned())
                } else {
                    landed.unfit
                }
            }
            Err(why) => Some(why),
        };
        if let Some(why) = loss {
            batch.fail_all(&Lost(why.as_str().into()));
            return Some(Loss::Ended(why));
        }
        if let Some(commands) = batch.pipeline_in_full() {
            self.flights.start(batch, commands, &self.link);
        }
        if self.stalled_since.is_some() {
            // The connection lives; but where another batch is late, nobody is to wait behind it.
            let goes_on = self.flights.is_empty() || self.flights.first_deadline().is_some();
            self.stalled_since = (!goes_on).then(Instant::now);
            store.watcher.stalled(!goes_on);
        }
        None
    }

    /// When to look for what is late.
    fn late(&self) -> Instant {
        match self.stalled_since {
            // A call may have come just before it was known.
            Some(since) => (since + SILENCE).min(Instant::now() + self.store.timeout),
            None => {
                let deadlines = [self.flights.first_deadline(), self.store.queue.first_deadline()];
                deadlines.into_iter().flatten().min().unwrap_or_else(far)
            }
        }
    }

    /// Answers the calls whose deadline has come; says so where the connection is too silent.
    fn give_up_late(&mut self) -> Option<Loss> {
        let store = self.store;
        let now = Instant::now();
        let why = Lost("the reply did not come within the timeout".into());
        self.flights.fail_until(now, &why);
        store.queue.fail_until(now, &why);
        if let Some(since) = self.stalled_since {
            return (now >= since + SILENCE).then_some(Loss::Silent);
        }
        if !self.flights.is_empty() && self.flights.first_deadline().is_none() {
            // Nobody waits for it any more, and who comes now need not either.
            store.watcher.stalled(true);
            store.queue.fail_all(&why);
            self.stalled_since = Some(now);
        }
        None
    }
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

//! The way to one Redis server, and what is decided here while that server is away.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::clock::Clock;
use crate::event::Events;
use crate::membership::Membership;
use crate::outage::Outage;
use crate::runtime;
use crate::store::direct::{Direct, Sent};
use crate::store::job::{Astray, Elsewhere, Job, Lost};
use crate::store::queue::Queue;
use crate::store::redis::{Aim, Peers, Store, Watcher as _};
use crate::store::sentinel;
use crate::store::target::{Sentinels, Server};

/// What the lanes of a limiter have in common.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    pub(crate) max_keys: usize,
    pub(crate) max_waiting: usize,
    pub(crate) clock: Clock,
    pub(crate) membership: Arc<Membership>,
    pub(crate) events: Arc<Events>,
}

pub(crate) struct Lane {
    pub(crate) outage: Arc<Outage>,
    pub(crate) queue: Arc<Queue>,
    direct: Arc<Direct>,
    doubt: Arc<Notify>,
    /// Says that the lane is closed; its end says so too.
    closing: watch::Sender<bool>,
}

impl Lane {
    /// A lane without a server: whoever holds it serves its queue.
    pub(crate) fn unserved(settings: &Settings, in_cluster: bool) -> (Lane, watch::Receiver<bool>) {
        let Settings { timeout, max_keys, max_waiting, clock, membership, events } = settings.clone();
        let (closing, closed) = watch::channel(false);
        let lane = Lane {
            outage: Outage::new(clock.clone(), timeout, max_keys, membership, events),
            queue: Arc::new(Queue::new(max_waiting)),
            direct: Arc::new(Direct::new(timeout, clock, in_cluster)),
            doubt: Arc::new(Notify::new()),
            closing,
        };
        (lane, closed)
    }

    /// A lane to a server that stands alone, or of a Cluster.
    pub(crate) fn to(
        server: Server,
        settings: &Settings,
        peers: Option<Box<dyn Peers>>,
    ) -> crate::Result<Lane> {
        Lane::start(Aim::Server(Box::new(server)), settings, peers)
    }

    /// A lane to the server that sentinels name.
    pub(crate) fn to_master(sentinels: Sentinels, settings: &Settings) -> crate::Result<Lane> {
        let (sentinels, (heard, switched)) = (Arc::new(sentinels), watch::channel(0));
        let membership = Arc::clone(&settings.membership);
        let watching = sentinel::watch(Arc::clone(&sentinels), heard, move || membership.interval());
        runtime::handle()?.spawn(watching);
        Lane::start(Aim::Master(sentinels, switched), settings, None)
    }

    fn start(aim: Aim, settings: &Settings, peers: Option<Box<dyn Peers>>) -> crate::Result<Lane> {
        let (lane, closed) = Lane::unserved(settings, peers.is_some());
        let store = Store {
            aim,
            peers,
            direct: Arc::clone(&lane.direct),
            timeout: settings.timeout,
            clock: settings.clock.clone(),
            queue: Arc::clone(&lane.queue),
            membership: Arc::clone(&settings.membership),
            is_member: AtomicBool::new(false),
            watcher: Arc::clone(&lane.outage) as _,
            doubt: Arc::clone(&lane.doubt),
        };
        runtime::handle()?.spawn(store.run(closed));
        Ok(lane)
    }

    /// Sends a call on its way. A thread that may block carries it out itself where it can; what
    /// the server did not carry out then, as its slot is elsewhere, is returned.
    pub(crate) fn send(&self, job: Job, may_block: bool) -> Vec<Astray> {
        let own = may_block && self.queue.is_idle() && self.outage.is_settled();
        let sent = if own {
            self.direct.call(job, &|entry, outcome| self.outage.saw(entry, outcome))
        } else {
            Sent::No(job)
        };
        match sent {
            Sent::Answered => {}
            Sent::No(job) => {
                // The slots were found meanwhile: the call is to look for its lane again.
                if let Some(job) = self.queue.push(job) {
                    return vec![Astray { job, to: Elsewhere::TryAgain }];
                }
            }
            Sent::Astray(astray) => return astray,
            Sent::Lost => {
                self.outage.stalled(true);
                self.doubt.notify_one();
            }
        }
        Vec::new()
    }

    /// Leaves the server. Calls that are under way are still answered.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Answers what waits as lost, where no task does it.
    pub(crate) fn close_unserved(&self, why: &str) {
        self.close();
        self.queue.close(&Lost(why.into()));
    }
}

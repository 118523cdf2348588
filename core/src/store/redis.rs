//! State in a Redis server: one task that keeps a connection, and sends what waits on it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::Rng;
use redis::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use super::connection::{Link, News};
use super::direct::Direct;
use super::job::{Astray, Job, Lost};
use super::queue::Queue;
use super::script::Entry;
use super::target::{Sentinels, Server};
use super::traffic::Traffic;
use super::{Outcome, sentinel};
use crate::clock::Clock;
use crate::membership::Membership;

/// A connection is tried for this long when it was lost before; the first time, and right after
/// a loss, for the budget of a decision.
const RECONNECT: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_millis(300);
const MIN_PAUSE: Duration = Duration::from_millis(25);
/// Who comes back goes on deciding here for so long, and pays what it owes: longer than the
/// longest pause, so that the others are back too before anyone takes what they owe.
const SETTLE: Duration = Duration::from_millis(500);
const PAY: Duration = Duration::from_millis(50);
/// A connection on which a reply is so late is given up.
pub(super) const SILENCE: Duration = Duration::from_secs(1);

/// Why a connection is given up.
pub(super) enum Loss {
    /// It ended; a server that was restarted is back at once.
    Ended(String),
    /// Another server has taken its place, and is there already.
    Replaced,
    /// Nothing comes back on it; calls are not to wait for the next one.
    Silent,
}

impl Loss {
    fn why(&self) -> &str {
        match self {
            Loss::Ended(why) => why,
            Loss::Replaced => "another server is the master now",
            Loss::Silent => "Redis does not answer",
        }
    }
}

/// Which server it is.
pub(crate) enum Aim {
    Server(Box<Server>),
    /// The one that these sentinels name, and the highest epoch that was heard of.
    Master(Arc<Sentinels>, watch::Receiver<u64>),
}

/// What a server of a Cluster asks of the whole.
pub(crate) trait Peers: Send + Sync {
    /// Whether calls on this slot come to this server.
    fn serves(&self, slot: u16) -> bool;
    /// Sends on what this server did not carry out, since the slots are elsewhere.
    fn redirect(&self, astray: Vec<Astray>);
    /// Something has changed: asks which slots are where.
    fn look_again(&self);
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
    /// Whether calls were decided by share since the store last answered.
    fn has_shared(&self) -> bool;
    /// What was admitted elsewhere and has to be taken before these calls.
    fn debits(&self, jobs: &VecDeque<Job>) -> Vec<Job>;
    /// Some more of that, when there is time.
    fn more_debits(&self) -> Vec<Job>;
}

/// What the task that keeps a server's connection works with.
pub(crate) struct Store {
    pub(crate) aim: Aim,
    pub(crate) peers: Option<Box<dyn Peers>>,
    pub(crate) direct: Arc<Direct>,
    pub(crate) timeout: Duration,
    pub(crate) clock: Clock,
    pub(crate) queue: Arc<Queue>,
    pub(crate) membership: Arc<Membership>,
    /// Whether it is with this server that the process is a member.
    pub(crate) is_member: AtomicBool,
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
                Ok(mut joined) => {
                    let settles = failures > 0 && self.watcher.has_shared();
                    failures = 0;
                    let since = Instant::now();
                    let loss = tokio::select! {
                        loss = self.serve(&mut joined, settles) => loss,
                        () = closed(&mut closing) => {
                            if self.is_member.load(Ordering::Acquire) {
                                let _ = timeout(self.timeout, self.membership.leave(&mut joined.link)).await;
                            }
                            break;
                        }
                    };
                    // What answers and fails at once is not to be tried without a pause.
                    let at_once = match loss {
                        Loss::Ended(_) => since.elapsed() >= SILENCE,
                        Loss::Replaced => true,
                        Loss::Silent => false,
                    };
                    let why = loss.why().to_owned();
                    if at_once {
                        self.watcher.connecting();
                    } else {
                        failures = 1;
                        self.watcher.out(&why);
                    }
                    why
                }
                Err(why) => {
                    failures += 1;
                    self.watcher.out(&why);
                    why
                }
            };
            self.direct.aim(None);
            if let Some(peers) = &self.peers {
                peers.look_again();
            }
            self.queue.fail_all(&Lost(why.into()));
            let pause = (MIN_PAUSE * 2_u32.pow(failures.min(6))).min(MAX_PAUSE);
            let pause = pause.mul_f64(rand::rng().random_range(0.5..1.5));
            tokio::select! {
                () = sleep(pause), if failures > 0 => {}
                () = closed(&mut closing), if failures > 0 => break,
                else => {}
            }
        }
        self.direct.aim(None);
        self.queue.close(&Lost("the limiter was closed".into()));
    }

    /// Connects, and shows two signs of life: one success alone may be luck.
    async fn join(&self, patience: Duration) -> Result<Joined, String> {
        let joining = async {
            let (server, switched) = match &self.aim {
                Aim::Server(server) => (Server::clone(server), None),
                Aim::Master(sentinels, switched) => {
                    let (server, epoch) = sentinel::find(sentinels, patience).await?;
                    (server, Some((switched.clone(), epoch)))
                }
            };
            let (mut link, news) = Link::open(&server, patience).await?;
            if switched.is_some() {
                sentinel::check_role(&mut link).await?;
            }
            self.show_life(&mut link).await?;
            self.show_life(&mut link).await?;
            Ok(Joined { server, link, news, switched })
        };
        match timeout(patience, joining).await {
            Ok(joined) => joined,
            Err(_) => Err(format!("Redis did not answer within {} ms", patience.as_millis())),
        }
    }

    async fn show_life(&self, link: &mut Link) -> Result<(), String> {
        if self.peers.is_some() {
            cluster_is_ok(link).await?;
        }
        let is_member = self.peers.as_ref().is_none_or(|peers| peers.serves(self.membership.slot()));
        self.is_member.store(is_member, Ordering::Release);
        if !is_member {
            return Ok(());
        }
        match (self.membership.beat(link).await, &self.peers) {
            // It is another server that keeps it now, or soon.
            (Err(why), Some(peers)) if ["MOVED", "ASK", "TRYAGAIN"].iter().any(|code| why.contains(code)) => {
                peers.look_again();
                Ok(())
            }
            (shown, _) => shown,
        }
    }

    /// Sends what waits until the connection is lost; says why.
    async fn serve(&self, Joined { server, link, news, switched }: &mut Joined, settles: bool) -> Loss {
        let mut traffic = Traffic::new(self, link);
        let loss = {
            let mut losing = std::pin::pin!(lost(news, switched));
            let settled = if settles {
                tokio::select! {
                    loss = traffic.carry() => Some(loss),
                    loss = &mut losing => Some(loss),
                    () = self.settle() => None,
                }
            } else {
                None
            };
            match settled {
                Some(loss) => loss,
                None => {
                    self.watcher.up();
                    self.watcher.stalled(traffic.is_stalled());
                    self.direct.aim(Some(server));
                    tokio::select! {
                        biased;
                        loss = losing => loss,
                        loss = self.beat(link.clone()) => loss,
                        loss = traffic.carry() => loss,
                    }
                }
            }
        };
        traffic.fail_all(&Lost(loss.why().into()));
        loss
    }

    /// Pays what is owed while calls are still decided here.
    async fn settle(&self) {
        let until = Instant::now() + SETTLE;
        while Instant::now() < until {
            self.queue.push_first(self.watcher.more_debits());
            sleep(PAY).await;
        }
        while !self.queue.is_idle() {
            sleep(PAY).await;
        }
    }

    /// Shows signs of life, and says why where Redis does not hear them.
    async fn beat(&self, mut link: Link) -> Loss {
        loop {
            let patience = tokio::select! {
                () = sleep(self.membership.interval()) => SILENCE.max(self.timeout),
                () = self.doubt.notified() => self.timeout,
            };
            match timeout(patience, self.show_life(&mut link)).await {
                Ok(Ok(())) => self.watcher.stalled(false),
                Ok(Err(why)) => return Loss::Ended(why),
                Err(_) => return Loss::Silent,
            }
            self.queue.push_first(self.watcher.more_debits());
        }
    }
}

/// A connection that is in use.
struct Joined {
    server: Server,
    link: Link,
    news: mpsc::Receiver<News>,
    /// Of a master: the highest epoch that was heard of, and its own.
    switched: Option<(watch::Receiver<u64>, u64)>,
}

/// Waits until the connection is not to be used any more.
async fn lost(news: &mut mpsc::Receiver<News>, switched: &mut Option<(watch::Receiver<u64>, u64)>) -> Loss {
    let ended = async {
        loop {
            match news.recv().await {
                Some(News::Message) => {}
                Some(News::Gone(why)) => return Loss::Ended(why),
                None => return Loss::Ended("the connection was closed".to_owned()),
            }
        }
    };
    let replaced = async {
        if let Some((epoch, own)) = switched
            && epoch.wait_for(|epoch| epoch > own).await.is_ok()
        {
            return Loss::Replaced;
        }
        std::future::pending().await
    };
    tokio::select! {
        loss = ended => loss,
        loss = replaced => loss,
    }
}

/// Whether a server of a Cluster serves its slots: one that is cut off from the others does not.
async fn cluster_is_ok(link: &mut Link) -> Result<(), String> {
    let mut command = redis::cmd("CLUSTER");
    command.arg("INFO");
    let text = match link.ask(&command).await? {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::VerbatimString { text, .. } => text,
        _ => String::new(),
    };
    match text.lines().find_map(|line| line.trim().strip_prefix("cluster_state:")) {
        Some("ok") => Ok(()),
        Some(_) => Err("CLUSTERDOWN the Cluster does not serve all of its slots".to_owned()),
        None => Err("the reply to CLUSTER INFO can't be read".to_owned()),
    }
}

async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

//! State in a Redis server: one task that keeps a connection, and sends what waits on it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::Rng;
use redis::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::batch::Batch;
use super::connection::{Link, News};
use super::direct::Direct;
use super::flight::Flights;
use super::job::{Astray, Job, Lost};
use super::queue::Queue;
use super::script::{Entry, Programs};
use super::target::{Sentinels, Server};
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
const SILENCE: Duration = Duration::from_secs(1);

/// So many calls show whether those of this time merge.
const MANY: usize = 8;

/// Why a connection is given up.
enum Loss {
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
                    self.watcher.stalled(traffic.stalled_since.is_some());
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
        traffic.flights.fail_all(&Lost(loss.why().into()));
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

/// The calls of a connection, waiting and under way.
struct Traffic<'a> {
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
    fn new<'a>(store: &'a Store, link: &Link) -> Traffic<'a> {
        Traffic {
            store,
            link: link.clone(),
            programs: Programs::default(),
            flights: Flights::default(),
            stalled_since: None,
            spread: true,
        }
    }

    /// Carries calls to Redis and their answers back until the connection can't be used any more;
    /// says why. Who stops it can begin it again.
    async fn carry(&mut self) -> Loss {
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

fn far() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

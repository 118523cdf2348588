//! A Cluster: which slots are where, and a lane to each of its servers.
//!
//! Servers say themselves where a slot has gone (`MOVED`, `ASK`), and such a call has not run; it
//! is sent on within its budget. A lost reply is never sent on. What was admitted here while a
//! slot's server was away is owed to the slot: the debt follows it to its next server.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use redis::Value;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::Result;
use crate::event::Events;
use crate::key::{self, SLOTS};
use crate::lane::{Lane, Settings};
use crate::runtime;
use crate::store::connection::Link;
use crate::store::job::{Astray, Elsewhere, Job, Lost, Way};
use crate::store::redis::{Peers, Watcher as _};
use crate::store::target::Server;

/// Servers that are known and asked; a Cluster has at most 1,000 or so.
const MAX_SERVERS: usize = 1_024;
/// How often a call is sent on.
const MAX_HOPS: u8 = 16;
/// Between two tries while a slot's keys are in two places.
const TRY_AGAIN: Duration = Duration::from_millis(3);
/// Between two looks at the Cluster.
const LOOK: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(1);
/// A lane without slots is kept for so long: a slot that is moving to its server asks there.
const UNUSED: Duration = Duration::from_secs(30);

pub(crate) struct Cluster {
    seeds: Vec<Server>,
    settings: Settings,
    map: RwLock<Map>,
    look: Arc<Notify>,
    closing: watch::Sender<bool>,
    this: Weak<Cluster>,
}

struct Map {
    /// The first is for slots that no server has.
    nodes: Vec<Node>,
    /// For each slot the place of its node.
    slots: Box<[u16]>,
    replicas: Vec<(String, u16)>,
}

struct Node {
    /// `None` for the first.
    server: Option<Server>,
    address: (String, u16),
    lane: Arc<Lane>,
    used: Instant,
}

/// Slots, and the servers that have them: the master first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    first: u16,
    last: u16,
    servers: Vec<(String, u16)>,
}

impl Cluster {
    pub(crate) fn open(seeds: Vec<Server>, settings: Settings) -> Result<Arc<Cluster>> {
        let handle = runtime::handle()?;
        let (lane, _) = Lane::unserved(&settings, true);
        let nowhere =
            Node { server: None, address: Default::default(), lane: Arc::new(lane), used: Instant::now() };
        let slots = vec![0; usize::from(SLOTS)].into_boxed_slice();
        let map = Map { nodes: vec![nowhere], slots, replicas: Vec::new() };
        let (closing, closed) = watch::channel(false);
        let look = Arc::new(Notify::new());
        let cluster = Arc::new_cyclic(|this| Cluster {
            seeds,
            settings,
            map: RwLock::new(map),
            look: Arc::clone(&look),
            closing,
            this: Weak::clone(this),
        });
        handle.spawn(keep(Weak::clone(&cluster.this), look, closed));
        Ok(cluster)
    }

    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lane(&self, slot: u16) -> Arc<Lane> {
        Arc::clone(&self.read().node(slot).lane)
    }

    /// All lanes; the one to nowhere only while there are slots that no server has.
    pub(crate) fn lanes(&self) -> Vec<Arc<Lane>> {
        let map = self.read();
        let whole = !map.slots.contains(&0);
        map.nodes.iter().skip(usize::from(whole)).map(|node| Arc::clone(&node.lane)).collect()
    }

    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
        let lanes: Vec<_> = self.read().nodes.iter().map(|node| Arc::clone(&node.lane)).collect();
        lanes[0].close_unserved("the limiter was closed");
        lanes.iter().skip(1).for_each(|lane| lane.close());
    }

    /// Sends on what the server of a lane did not carry out.
    pub(crate) fn redirect(&self, astray: Vec<Astray>, from: &Lane) {
        if astray.is_empty() {
            return;
        }
        let host = {
            let map = self.read();
            let node = map.nodes.iter().find(|node| std::ptr::eq(&*node.lane, from));
            node.map_or_else(String::new, |node| node.address.0.clone())
        };
        for Astray { job, to } in astray {
            self.send_on(job, to, &host);
        }
    }

    fn send_on(&self, mut job: Job, to: Elsewhere, host: &str) {
        let hops = job.way.hops + 1;
        if hops > MAX_HOPS || Instant::now() >= job.deadline {
            return job.finish(Err(Lost("the slot is moving, and took too long".into())));
        }
        let alone = job.way.alone;
        let named = |name: String| if name.is_empty() { host.to_owned() } else { name };
        match to {
            Elsewhere::Moved(name, port) => {
                job.way = Way { hops, ..Way::default() };
                self.point(job.slot(), &(named(name), port));
                self.look.notify_one();
                self.route(job);
            }
            Elsewhere::Ask(name, port) if alone => {
                job.way = Way { hops, asking: true, alone };
                match self.lane_at(&(named(name), port)) {
                    Some(lane) => give_up(push(&lane, job)),
                    None => job.finish(Err(Lost("the slot is moving to an unknown server".into()))),
                }
            }
            // Of the keys that went together some may be here and some there.
            Elsewhere::Ask(..) => {
                job.way = Way { hops, asking: false, alone: true };
                self.route(job);
            }
            Elsewhere::TryAgain => {
                job.way = Way { hops, asking: false, alone: true };
                let this = Weak::clone(&self.this);
                let later = async move {
                    sleep(if alone { TRY_AGAIN } else { Duration::ZERO }).await;
                    if let Some(this) = this.upgrade() {
                        this.route(job);
                    }
                };
                match runtime::handle() {
                    Ok(handle) => drop(handle.spawn(later)),
                    Err(_) => drop(later),
                }
            }
        }
    }

    /// Puts a call into the lane of its slot.
    fn route(&self, job: Job) {
        // A lane that has just ended has lost its slots to another.
        let back = push(&self.lane(job.slot()), job);
        give_up(back.and_then(|job| push(&self.lane(job.slot()), job)));
    }

    /// Notes that a slot has another server.
    fn point(&self, slot: u16, address: &(String, u16)) {
        let mut map = self.write();
        let Some(place) = self.place(&mut map, address) else { return };
        let before = std::mem::replace(&mut map.slots[usize::from(slot)], place);
        if before != place {
            let map = &*map;
            let to = &map.nodes[usize::from(place)].lane.outage;
            map.nodes[usize::from(before)]
                .lane
                .outage
                .hand_over(&|key| (key::slot(key) == slot).then(|| Arc::clone(to)));
        }
    }

    fn lane_at(&self, address: &(String, u16)) -> Option<Arc<Lane>> {
        let mut map = self.write();
        let place = self.place(&mut map, address)?;
        let node = &mut map.nodes[usize::from(place)];
        node.used = Instant::now();
        Some(Arc::clone(&node.lane))
    }

    /// The place of a server's node, which is made if there is none.
    fn place(&self, map: &mut Map, address: &(String, u16)) -> Option<u16> {
        if let Some(place) =
            map.nodes.iter().position(|node| node.server.is_some() && node.address == *address)
        {
            return u16::try_from(place).ok();
        }
        let place = u16::try_from(map.nodes.len()).ok().filter(|_| map.nodes.len() < MAX_SERVERS)?;
        let server = self.seeds.first()?.at(&address.0, address.1).ok()?;
        let peer = Peer { cluster: Weak::clone(&self.this), address: address.clone() };
        let lane = Lane::to(server.clone(), &self.settings, Some(Box::new(peer))).ok()?;
        map.nodes.push(Node {
            server: Some(server),
            address: address.clone(),
            lane: Arc::new(lane),
            used: Instant::now(),
        });
        Some(place)
    }

    /// Takes over which slots are where.
    fn take_over(&self, ranges: &[Range]) {
        // That slots have no server is told by the lane whose slots they were.
        let quiet = Settings { events: Arc::new(Events::new(None)), ..self.settings.clone() };
        let (lane, _) = Lane::unserved(&quiet, true);
        lane.outage.out("no server of the Cluster has the slot");
        let mut map = self.write();
        let mut slots = vec![0_u16; usize::from(SLOTS)].into_boxed_slice();
        for range in ranges {
            let place = range.servers.first().and_then(|master| self.place(&mut map, master)).unwrap_or(0);
            slots[usize::from(range.first)..=usize::from(range.last)].fill(place);
        }
        let replicas: HashSet<&(String, u16)> =
            ranges.iter().flat_map(|range| range.servers.iter().skip(1)).take(MAX_SERVERS).collect();
        map.replicas = replicas.into_iter().cloned().collect();
        let before = std::mem::replace(&mut map.slots, slots);
        let nowhere = std::mem::replace(&mut map.nodes[0].lane, Arc::new(lane));
        map.hand_over(&before, &nowhere);
        map.drop_unused();
        drop(map);
        nowhere.close();
        for job in nowhere.queue.end() {
            self.route(job);
        }
    }

    /// Whom to ask about the Cluster: first those that answer.
    fn known(&self) -> Vec<Server> {
        let map = self.read();
        let nodes = || map.nodes.iter().filter_map(|node| Some((node.server.clone()?, &node.lane.outage)));
        let up = nodes().filter(|(_, outage)| outage.is_up()).map(|(server, _)| server);
        let rest = nodes().filter(|(_, outage)| !outage.is_up()).map(|(server, _)| server);
        let replicas =
            map.replicas.iter().filter_map(|(host, port)| self.seeds.first()?.at(host, *port).ok());
        up.chain(self.seeds.iter().cloned()).chain(replicas).chain(rest).take(MAX_SERVERS).collect()
    }

    /// Asks the known servers, one after the other without waiting long for each; the first
    /// answer counts.
    async fn ask(&self, patience: Duration) -> std::result::Result<Vec<Range>, String> {
        let until = Instant::now() + patience;
        let mut known = self.known().into_iter();
        let mut asking = JoinSet::new();
        let mut last = "no server of the Cluster answered".to_owned();
        loop {
            if let Some(server) = known.next() {
                asking.spawn(async move {
                    let (mut link, _news) = Link::open(&server, patience).await?;
                    let mut command = redis::cmd("CLUSTER");
                    command.arg("SLOTS");
                    let reply = link.ask(&command).await?;
                    ranges(&reply, server.host()).ok_or_else(|| format!("{server} knows of no slots"))
                });
            } else if asking.is_empty() {
                return Err(last);
            }
            let next = (Instant::now() + patience / 8).min(until);
            match timeout_at(next, asking.join_next()).await {
                Ok(Some(Ok(Ok(ranges)))) => return Ok(ranges),
                Ok(Some(Ok(Err(why)))) => last = why,
                _ => {}
            }
            if Instant::now() >= until {
                return Err(last);
            }
        }
    }
}

/// Puts a call into a lane, or answers it as lost where the lane's server is away. It is given back
/// where the lane has ended.
fn push(lane: &Lane, mut job: Job) -> Option<Job> {
    if lane.outage.is_here() {
        job.finish(Err(Lost("the server that has the slot is away".into())));
        return None;
    }
    lane.queue.push(job)
}

fn give_up(job: Option<Job>) {
    if let Some(mut job) = job {
        job.finish(Err(Lost("the connection was given up".into())));
    }
}

/// Learns where the slots are, at first and whenever something has changed.
async fn keep(this: Weak<Cluster>, look: Arc<Notify>, mut closed: watch::Receiver<bool>) {
    let mut failures = 0_u32;
    loop {
        {
            let Some(cluster) = this.upgrade() else { return };
            let patience = if failures == 0 { cluster.settings.timeout } else { PATIENCE };
            match cluster.ask(patience).await {
                Ok(ranges) => {
                    failures = 0;
                    cluster.take_over(&ranges);
                }
                Err(why) => {
                    failures = failures.saturating_add(1);
                    let nowhere = Arc::clone(&cluster.read().nodes[0].lane);
                    nowhere.outage.out(&why);
                    nowhere.queue.close(&Lost(why.into()));
                }
            }
        }
        let pause = LOOK.mul_f64(rand::random_range(0.5..1.5)) * failures.clamp(1, 4);
        tokio::select! {
            () = async {
                sleep(pause).await;
                if failures == 0 {
                    look.notified().await;
                }
            } => {}
            _ = closed.wait_for(|closed| *closed) => return,
        }
    }
}

impl Map {
    fn node(&self, slot: u16) -> &Node {
        &self.nodes[usize::from(self.slots[usize::from(slot)])]
    }

    /// Hands what is owed to the lanes that have the slots now.
    fn hand_over(&mut self, before: &[u16], nowhere: &Lane) {
        let now = Instant::now();
        let mut losers: HashSet<u16> = HashSet::new();
        for (old, new) in before.iter().zip(&self.slots) {
            if old != new || *old == 0 {
                losers.insert(*old);
            }
            self.nodes[usize::from(*new)].used = now;
        }
        for place in losers {
            let outage =
                if place == 0 { &nowhere.outage } else { &self.nodes[usize::from(place)].lane.outage };
            outage.hand_over(&|key| {
                let to = &self.node(key::slot(key)).lane.outage;
                (!Arc::ptr_eq(to, outage)).then(|| Arc::clone(to))
            });
        }
    }

    /// Closes lanes that have had no slots for long.
    fn drop_unused(&mut self) {
        let keep: Vec<bool> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(place, node)| place == 0 || node.used.elapsed() < UNUSED)
            .collect();
        if keep.iter().all(|keep| *keep) {
            return;
        }
        let mut next = 0;
        let places: Vec<u16> = keep
            .iter()
            .map(|keep| {
                let place = next;
                next += u16::from(*keep);
                place
            })
            .collect();
        for slot in &mut self.slots {
            *slot = places[usize::from(*slot)];
        }
        let mut kept = keep.into_iter();
        self.nodes.retain(|node| {
            let keep = kept.next().unwrap_or(true);
            if !keep {
                node.lane.close();
            }
            keep
        });
    }
}

/// What a lane's task asks of its Cluster.
struct Peer {
    cluster: Weak<Cluster>,
    address: (String, u16),
}

impl Peers for Peer {
    fn serves(&self, slot: u16) -> bool {
        self.cluster.upgrade().is_some_and(|cluster| {
            let map = cluster.read();
            let node = map.node(slot);
            node.server.is_some() && node.address == self.address
        })
    }

    fn redirect(&self, astray: Vec<Astray>) {
        if let Some(cluster) = self.cluster.upgrade() {
            for Astray { job, to } in astray {
                cluster.send_on(job, to, &self.address.0);
            }
        }
    }

    fn look_again(&self) {
        if let Some(cluster) = self.cluster.upgrade() {
            cluster.look.notify_one();
        }
    }
}

/// Reads the reply to `CLUSTER SLOTS` of a server on `host`; `None` where it knows of no slots.
pub(crate) fn ranges(reply: &Value, host: &str) -> Option<Vec<Range>> {
    let Value::Array(items) = reply else { return None };
    let ranges: Vec<Range> = items.iter().filter_map(|item| range(item, host)).collect();
    (!ranges.is_empty()).then_some(ranges)
}

fn range(item: &Value, host: &str) -> Option<Range> {
    let Value::Array(fields) = item else { return None };
    let number = |value: Option<&Value>| match value {
        Some(Value::Int(number)) => u16::try_from(*number).ok(),
        _ => None,
    };
    let (first, last) = (number(fields.first())?, number(fields.get(1))?);
    if first > last || last >= SLOTS {
        return None;
    }
    let server = |value: &Value| {
        let Value::Array(fields) = value else { return None };
        let name = match fields.first()? {
            Value::BulkString(name) => String::from_utf8_lossy(name).into_owned(),
            Value::Nil => String::new(),
            _ => return None,
        };
        // An empty name is the answering server's own; "?" is one that it does not know.
        let name = if name.is_empty() { host.to_owned() } else { name };
        Some((name, number(fields.get(1))?)).filter(|(name, _)| name != "?")
    };
    let servers: Vec<_> = fields.iter().skip(2).filter_map(server).collect();
    (!servers.is_empty()).then_some(Range { first, last, servers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_read_as_the_server_says_them() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let server =
            |host: Value, port| Value::Array(vec![host, Value::Int(port), text("id"), Value::Array(vec![])]);
        let reply = Value::Array(vec![
            Value::Array(vec![Value::Int(0), Value::Int(5), server(text("a"), 1), server(text("b"), 2)]),
            Value::Array(vec![
                Value::Int(6),
                Value::Int(16_383),
                server(Value::Nil, 3),
                server(text("?"), 4),
            ]),
            Value::Array(vec![Value::Int(7), Value::Int(6), server(text("a"), 1)]),
            Value::Array(vec![Value::Int(7), Value::Int(16_384), server(text("a"), 1)]),
            Value::Int(1),
        ]);
        let range = |first, last, servers: &[(&str, u16)]| Range {
            first,
            last,
            servers: servers.iter().map(|(host, port)| ((*host).to_owned(), *port)).collect(),
        };
        assert_eq!(
            ranges(&reply, "me"),
            Some(vec![range(0, 5, &[("a", 1), ("b", 2)]), range(6, 16_383, &[("me", 3)])])
        );
        assert_eq!(ranges(&Value::Array(Vec::new()), "me"), None);
    }
}

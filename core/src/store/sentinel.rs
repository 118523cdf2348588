//! Which server is the master, as its sentinels see it.
//!
//! Each sentinel is listened to, so that a switch is heard of at once. Which server is the master
//! is not taken from one of them: a sentinel that was cut off still names the old one, and the old
//! one still takes itself for the master. The highest configuration epoch decides.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connection::{Link, News};
use super::target::{Sentinels, Server};

/// How long the other sentinels may still answer when one has.
const OTHERS: Duration = Duration::from_millis(20);
const CONNECT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(500);

/// What one sentinel says of the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Master {
    epoch: u64,
    host: String,
    port: u16,
}

/// Asks all sentinels, and returns the server that they say is the master, with its epoch.
pub(crate) async fn find(sentinels: &Sentinels, patience: Duration) -> Result<(Server, u64), String> {
    let mut asking = JoinSet::new();
    for node in &sentinels.nodes {
        let (node, name) = (node.clone(), sentinels.master.clone());
        asking.spawn(async move {
            let (mut link, _news) = Link::open(&node, patience).await?;
            ask(&mut link, &name).await.map_err(|why| format!("sentinel at {node}: {why}"))
        });
    }
    let mut until = Instant::now() + patience;
    let mut best: Option<Master> = None;
    let mut last = format!("no sentinel answered within {} ms", patience.as_millis());
    while let Ok(Some(answer)) = timeout_at(until, asking.join_next()).await {
        match answer {
            Ok(Ok(master)) => {
                until = until.min(Instant::now() + OTHERS);
                if best.as_ref().is_none_or(|best| master.epoch > best.epoch) {
                    best = Some(master);
                }
            }
            Ok(Err(why)) => last = why,
            Err(_) => {}
        }
    }
    let Some(master) = best else { return Err(last) };
    let server = sentinels.template.at(&master.host, master.port);
    server.map(|server| (server, master.epoch)).map_err(|error| error.message().to_owned())
}

/// Whether a server takes itself for a master: one that was demoted does not.
pub(crate) async fn check_role(link: &mut Link) -> Result<(), String> {
    match link.ask(&redis::cmd("ROLE")).await? {
        Value::Array(reply) if text(reply.first()) == "master" => Ok(()),
        _ => Err("the server that the sentinels name is not a master".to_owned()),
    }
}

/// Listens to all sentinels until nobody listens to `switched`, the highest epoch heard of.
/// `interval` says how often a sentinel is asked whether it is still there.
pub(crate) async fn watch(
    sentinels: Arc<Sentinels>,
    switched: watch::Sender<u64>,
    interval: impl Fn() -> Duration + Clone + Send + Sync + 'static,
) {
    let switched = Arc::new(switched);
    let mut listening = JoinSet::new();
    for node in sentinels.nodes.clone() {
        let (name, switched, interval) = (sentinels.master.clone(), Arc::clone(&switched), interval.clone());
        listening.spawn(async move {
            loop {
                if let Ok((link, news)) = Link::open(&node, CONNECT).await {
                    let _ = listen(link, news, &name, &switched, &interval).await;
                }
                sleep(PAUSE.mul_f64(rand::random_range(0.5..1.5))).await;
            }
        });
    }
    // Dropping the set ends the tasks.
    switched.closed().await;
}

async fn listen(
    mut link: Link,
    mut news: mpsc::Receiver<News>,
    name: &str,
    switched: &watch::Sender<u64>,
    interval: &impl Fn() -> Duration,
) -> Result<(), String> {
    timeout(CONNECT, link.subscribe("+switch-master")).await.map_err(|_| "no answer".to_owned())??;
    loop {
        // What was missed while nobody listened shows in the epoch.
        let master = timeout(CONNECT, ask(&mut link, name)).await.map_err(|_| "no answer".to_owned())??;
        announce(switched, master.epoch);
        tokio::select! {
            heard = news.recv() => match heard {
                Some(News::Message) => {}
                Some(News::Gone(why)) => return Err(why),
                None => return Err("the connection was closed".to_owned()),
            },
            () = sleep(interval()) => {}
        }
    }
}

fn announce(switched: &watch::Sender<u64>, epoch: u64) {
    switched.send_if_modified(|known| {
        let newer = epoch > *known;
        *known = (*known).max(epoch);
        newer
    });
}

async fn ask(link: &mut Link, name: &str) -> Result<Master, String> {
    let mut command = redis::cmd("SENTINEL");
    command.arg("MASTER").arg(name);
    let reply = link.ask(&command).await?;
    master(&reply).ok_or_else(|| "the reply to SENTINEL MASTER can't be read".to_owned())
}

/// Reads the fields, a map or a list of names and values.
pub(crate) fn master(reply: &Value) -> Option<Master> {
    let fields: Vec<(&Value, &Value)> = match reply {
        Value::Map(fields) => fields.iter().map(|(name, value)| (name, value)).collect(),
        Value::Array(fields) => fields.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        _ => return None,
    };
    let field = |wanted: &str| {
        fields.iter().find(|(name, _)| text(Some(name)) == wanted).map(|(_, value)| text(Some(value)))
    };
    Some(Master {
        epoch: field("config-epoch")?.parse().ok()?,
        host: field("ip")?,
        port: field("port")?.parse().ok()?,
    })
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(Value::SimpleString(text)) => text.clone(),
        Some(Value::Int(number)) => number.to_string(),
        _ => String::new(),
    }
}

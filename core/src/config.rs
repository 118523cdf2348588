//! The options of a limiter, and the URL of its store.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::argument::{bound_from_int, check_duration};
use crate::clock::{Clock, ManualClock};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result, quote};
use crate::event::{Event, OnEvent};
use crate::key;
use crate::limiter::Limiter;
use crate::outage::OnOutage;
use crate::store::target::Target;

/// The options of a limiter. Start with [`Limiter::builder`].
#[derive(Clone)]
pub struct Builder {
    url: String,
    prefix: String,
    timeout: Duration,
    on_outage: OnOutage,
    deny_cache: Duration,
    max_keys: usize,
    max_waiting: usize,
    clock: Clock,
    on_event: Option<OnEvent>,
}

/// Options that were checked.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) target: Target,
    pub(crate) prefix: String,
    pub(crate) timeout: Duration,
    pub(crate) on_outage: OnOutage,
    pub(crate) deny_cache: Duration,
    pub(crate) max_keys: usize,
    pub(crate) max_waiting: usize,
    pub(crate) clock: Clock,
    pub(crate) on_event: Option<OnEvent>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            url: "memory://".to_owned(),
            prefix: "sg".to_owned(),
            timeout: Duration::from_millis(100),
            on_outage: OnOutage::Share,
            deny_cache: Duration::from_millis(100),
            max_keys: 1_000_000,
            max_waiting: 100_000,
            clock: Clock::System,
            on_event: None,
        }
    }
}

impl Builder {
    /// Where the state lives; `memory://` unless said. See [`Limiter::open`] for the forms.
    pub fn url(mut self, url: &str) -> Self {
        self.url = url.to_owned();
        self
    }

    /// What all keys in Redis begin with: 1 to 128 bytes without braces or spaces; `sg` unless
    /// said. Limiters with one URL and prefix share their limits.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// The time budget of a decision, 1 ms to 1 minute; 100 ms unless said. A call that Redis
    /// has not answered by then is decided here, as [`Builder::on_outage`] says.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What to do when the store can't be reached; [`OnOutage::Share`] unless said.
    pub fn on_outage(mut self, on_outage: OnOutage) -> Self {
        self.on_outage = on_outage;
        self
    }

    /// How long at most a refusal is remembered, so that a flood of refused calls needs no
    /// network; 100 ms unless said, 0 is off, at most 1 minute.
    pub fn deny_cache(mut self, longest: Duration) -> Self {
        self.deny_cache = longest;
        self
    }

    /// The bound of each table of keys that this process keeps, 64 to 2^32; 1,000,000 unless
    /// said. A full table drops keys that are as good as fresh and refuses new ones where there
    /// is none.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// How many calls of this process may wait for one server's answer, 64 to 2^32; 100,000 unless
    /// said. More are decided here at once, as [`Builder::on_outage`] says.
    pub fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.max_waiting = max_waiting;
        self
    }

    /// A clock that is moved by hand, for tests.
    pub fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Clock::Manual(clock.clone());
        self
    }

    /// Who is told when something changes: the first connection, the store away and back, a table of
    /// keys that is full. Nothing is told while nothing changes.
    ///
    /// It is called on a thread of Sluicegate's that does nothing else, one event after the other, and
    /// may take its time and use the limiter: decisions do not wait for it. [`Limiter::close`] does,
    /// after which it is not called any more. A panic in it is caught. Events that it is too slow for
    /// are forgotten, the oldest first, when 64 wait.
    pub fn on_event(mut self, on_event: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.on_event = Some(OnEvent(Arc::new(on_event)));
        self
    }

    /// Opens the limiter. It waits for nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a bad URL or option.
    pub fn open(self) -> Result<Limiter> {
        let timeout = check_option("timeout", self.timeout, Duration::from_millis(1))?;
        let deny_cache = check_option("deny_cache", self.deny_cache, Duration::ZERO)?;
        let config = Config {
            target: target(&self.url)?,
            prefix: key::checked_prefix(&self.prefix)?,
            timeout,
            on_outage: self.on_outage,
            deny_cache,
            max_keys: bound_from_int("max_keys", self.max_keys as i128)?,
            max_waiting: bound_from_int("max_waiting", self.max_waiting as i128)?,
            clock: self.clock,
            on_event: self.on_event,
        };
        Ok(Limiter::new(Engine::open(config)?))
    }
}

impl fmt::Debug for Builder {
    /// The URL without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = target(&self.url).map_or("unreadable".to_owned(), |target| target.describe());
        f.debug_struct("Builder")
            .field("url", &url)
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .field("on_outage", &self.on_outage)
            .field("deny_cache", &self.deny_cache)
            .field("max_keys", &self.max_keys)
            .field("max_waiting", &self.max_waiting)
            .field("clock", &self.clock)
            .finish()
    }
}

/// The store that a URL names.
///
/// What divides a URL must not stand bare in a user or password, or part of a secret would pass for
/// a host or for the name of a parameter, which are dialled and shown. No such part is quoted here.
pub(crate) fn target(url: &str) -> Result<Target> {
    const WRITE: &str = "write /, ?, #, & and @ as %2F, %3F, %23, %26 and %40 where they divide nothing";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host_ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if !scheme.ends_with("unix") && rest[host_ends..].contains('@') {
        return Err(Error::config(format!("url can't be read: an @ stands behind the host; {WRITE}")));
    }
    let (before, _) = rest.split_once('#').unwrap_or((rest, ""));
    let parameters = before.split_once('?').map_or("", |(_, parameters)| parameters);
    let named = |parameter: &str| {
        let name = parameter.split_once('=').map_or("", |(name, _)| name);
        let word = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        word && !name.is_empty() && !parameter.contains('?')
    };
    if !parameters.is_empty() && !parameters.split('&').all(named) {
        let form = "a parameter is not of the form name=value, with & between them";
        return Err(Error::config(format!("url can't be read: {form}; {WRITE}")));
    }
    url.parse().map_err(|error: Error| Error::new(error.kind(), shortened(error.message())))
}

/// A URL may be a megabyte of nonsense, and what is wrong with it is still to be read.
fn shortened(message: &str) -> String {
    const MOST: usize = 500;
    match message.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

fn check_option(name: &str, value: Duration, least: Duration) -> Result<Duration> {
    const MOST: Duration = Duration::from_secs(60);
    match check_duration(name, value) {
        Ok(value) if (least..=MOST).contains(&value) => Ok(value),
        _ => {
            let (least, got) = (least.as_secs_f64(), value.as_secs_f64());
            Err(Error::config(format!("{name} must be {least} to 60 seconds, got {got}")))
        }
    }
}

impl FromStr for OnOutage {
    type Err = Error;

    fn from_str(text: &str) -> Result<OnOutage> {
        OnOutage::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| {
            let modes = OnOutage::ALL.map(OnOutage::as_str).join(", ");
            Error::new(ErrorKind::Config, format!("on_outage must be one of {modes}, got {}", quote(text)))
        })
    }
}

impl fmt::Display for OnOutage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

//! A connection for threads that may block: when nobody else is calling, the caller's own thread
//! sends and reads, and no other thread is woken.
//!
//! Whoever finds it taken, or not connected yet, goes to the queue, where calls travel together.
//! It is a plain socket, because a call's budget is held over all of its reads: a reply that
//! drips in, or a signal in the middle of a read, neither stretches nor breaks it. Where TLS is
//! spoken there is none, and calls go to the queue.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use redis::{ConnectionAddr, Parser, Pipeline, Value};

use super::Outcome;
use super::batch::Batch;
use super::connection::explain;
use super::job::{Astray, Job};
use super::script::{Entry, Programs};
use super::target::Server;
use crate::clock::Clock;
use crate::runtime;

/// A connection that was idle for so long is looked at before it is used: a server may have
/// closed it.
const FRESH: Duration = Duration::from_secs(1);

pub(crate) struct Direct {
    timeout: Duration,
    clock: Clock,
    in_cluster: bool,
    open: Mutex<Place>,
    connecting: AtomicBool,
}

/// Where the connection goes, and the connection.
#[derive(Default)]
struct Place {
    server: Option<Server>,
    /// Goes up whenever the server is set: a connection to an earlier one comes too late.
    turn: u64,
    open: Option<Open>,
}

struct Open {
    socket: Socket,
    parser: Parser,
    programs: Programs,
    used: Instant,
}

/// What became of a job.
pub(crate) enum Sent {
    /// It was answered.
    Answered,
    /// It was not sent, as another thread is at it or there is no connection; here it is again.
    No(Job),
    /// The server did not carry it out, since its slot is elsewhere.
    Astray(Vec<Astray>),
    /// It was answered as lost, and so is the connection.
    Lost,
}

impl Direct {
    pub(crate) fn new(timeout: Duration, clock: Clock, in_cluster: bool) -> Direct {
        let (open, connecting) = (Mutex::new(Place::default()), AtomicBool::new(false));
        Direct { timeout, clock, in_cluster, open, connecting }
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which server calls go to from now on; `None` where it is away. A connection to
    /// another is given up.
    pub(crate) fn aim(&self, server: Option<&Server>) {
        let mut place = self.lock();
        place.turn += 1;
        place.open = None;
        place.server = server.filter(|server| Socket::speaks(server.info().addr())).cloned();
    }

    /// Carries out one job on this thread, within the budget of a decision.
    pub(crate) fn call(self: &Arc<Self>, job: Job, saw: &dyn Fn(&Entry, &Outcome)) -> Sent {
        let mut place = match self.open.try_lock() {
            Ok(place) => place,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Sent::No(job),
        };
        // Taken out, so that whatever goes wrong leaves no half-read connection behind.
        let Some(mut open) = place.open.take().filter(Open::is_fresh) else {
            if place.server.is_some() {
                self.connect_aside();
            }
            return Sent::No(job);
        };
        open.used = Instant::now();
        let mut batch = Batch::new([job].into(), &mut open.programs, self.clock.sent(), self.in_cluster);
        let mut commands = Some(batch.pipeline());
        let mut astray = Vec::new();
        while let Some(pipeline) = commands {
            match open.exchange(&pipeline.get_packed_pipeline(), pipeline.len(), self.timeout) {
                Ok(replies) => {
                    let landed = batch.finish(replies, saw);
                    if let Some(why) = landed.unfit {
                        batch.fail_all(&why.into());
                        return Sent::Lost;
                    }
                    // Replies that are out of step would answer other calls.
                    if landed.odd || open.has_more() {
                        batch.fail_all(
                            &"Redis sent other replies than those that were asked for".to_owned().into(),
                        );
                        return Sent::Lost;
                    }
                    astray.extend(landed.astray);
                    commands = batch.pipeline_in_full();
                }
                Err(why) => {
                    batch.fail_all(&why.into());
                    return Sent::Lost;
                }
            }
        }
        place.open = Some(open);
        if astray.is_empty() { Sent::Answered } else { Sent::Astray(astray) }
    }

    /// Connects on another thread, as that may take longer than a decision.
    fn connect_aside(self: &Arc<Self>) {
        if self.connecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        let connect = move || {
            let (server, turn) = {
                let place = this.lock();
                (place.server.clone(), place.turn)
            };
            if let Some(open) = server.and_then(|server| Open::connect(&server, this.timeout).ok()) {
                let mut place = this.lock();
                if place.turn == turn {
                    place.open = Some(open);
                }
            }
            this.connecting.store(false, Ordering::Release);
        };
        match runtime::handle() {
            Ok(handle) => drop(handle.spawn_blocking(connect)),
            Err(_) => self.connecting.store(false, Ordering::Release),
        }
    }
}

impl Open {
    fn connect(server: &Server, timeout: Duration) -> Result<Open, String> {
        let info = server.info();
        let socket = Socket::connect(info.addr(), timeout).map_err(|error| error.to_string())?;
        let mut open =
            Open { socket, parser: Parser::new(), programs: Programs::default(), used: Instant::now() };
        let settings = info.redis_settings();
        let mut greeting = Pipeline::new();
        if let Some(password) = settings.password() {
            let mut auth = redis::cmd("AUTH");
            if let Some(user) = settings.username() {
                auth.arg(user);
            }
            auth.arg(password);
            greeting.add_command(auth);
        }
        if settings.db() != 0 {
            let mut select = redis::cmd("SELECT");
            select.arg(settings.db());
            greeting.add_command(select);
        }
        greeting.add_command(redis::cmd("PING"));
        let replies = open.exchange(&greeting.get_packed_pipeline(), greeting.len(), timeout)?;
        match replies.into_iter().find_map(|reply| match reply {
            Value::ServerError(error) => Some(error.to_string()),
            _ => None,
        }) {
            Some(why) => Err(why),
            None => Ok(open),
        }
    }

    /// Whether it can be used. Nothing is said on it unasked, so whatever is there to be read
    /// is its end.
    fn is_fresh(&self) -> bool {
        self.used.elapsed() < FRESH || self.socket.is_silent()
    }

    /// Whether another reply than those that were read came with them.
    fn has_more(&mut self) -> bool {
        // A parser that has seen an end is of no more use.
        std::mem::take(&mut self.parser).parse_value(io::empty()).is_ok()
    }

    /// Sends what is packed and returns so many replies, within `timeout` from when the call
    /// began. A failure leaves it unusable.
    fn exchange(&mut self, packed: &[u8], count: usize, timeout: Duration) -> Result<Vec<Value>, String> {
        self.socket.write_all(packed).map_err(|error| error.to_string())?;
        let mut reader = Bounded { socket: &mut self.socket, until: self.used + timeout, reads: 0 };
        let mut replies = Vec::with_capacity(count);
        for _ in 0..count {
            let reply = self.parser.parse_value(&mut reader);
            replies.push(reply.map_err(|error| match error.is_timeout() {
                true => "the reply did not come within the timeout".to_owned(),
                false => explain(error),
            })?);
        }
        if reader.reads > 1 {
            self.socket.set_patience(timeout).map_err(|error| error.to_string())?;
        }
        Ok(replies)
    }
}

/// Reads until a time, however many reads that takes.
struct Bounded<'a> {
    socket: &'a mut Socket,
    until: Instant,
    reads: u32,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // The first read is bounded by the socket's own patience, which is the whole budget.
            if self.reads > 0 {
                let left = self.until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.socket.set_patience(left)?;
            }
            self.reads = self.reads.saturating_add(1);
            match self.socket.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn speaks(address: &ConnectionAddr) -> bool {
        matches!(address, ConnectionAddr::Tcp(..) | ConnectionAddr::Unix(_))
    }

    fn connect(address: &ConnectionAddr, timeout: Duration) -> io::Result<Socket> {
        let socket = match address {
            ConnectionAddr::Tcp(host, port) => {
                let mut last = io::Error::other("the host has no address");
                let mut found = None;
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, timeout) {
                        Ok(stream) => {
                            found = Some(stream);
                            break;
                        }
                        Err(error) => last = error,
                    }
                }
                let stream = found.ok_or(last)?;
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(timeout))?;
                Socket::Tcp(stream)
            }
            ConnectionAddr::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_write_timeout(Some(timeout))?;
                Socket::Unix(stream)
            }
            _ => return Err(io::Error::other("neither TCP nor a Unix socket")),
        };
        socket.set_patience(timeout)?;
        Ok(socket)
    }

    /// How long a read waits at most.
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_read_timeout(Some(patience)),
            Socket::Unix(stream) => stream.set_read_timeout(Some(patience)),
        }
    }

    /// Whether it is open and nothing is there to be read.
    fn is_silent(&self) -> bool {
        let look = |nonblocking: &dyn Fn(bool) -> io::Result<()>, peek: &dyn Fn() -> io::Result<usize>| {
            let silent = nonblocking(true).is_ok()
                && matches!(peek(), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
            nonblocking(false).is_ok() && silent
        };
        match self {
            Socket::Tcp(stream) => look(&|on| stream.set_nonblocking(on), &|| stream.peek(&mut [0])),
            Socket::Unix(stream) => {
                // A Unix stream can't be peeked at; a byte that is read here would be a stray one.
                look(&|on| stream.set_nonblocking(on), &|| (&*stream).read(&mut [0]))
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.write_all(bytes),
            Socket::Unix(stream) => stream.write_all(bytes),
        }
    }
}

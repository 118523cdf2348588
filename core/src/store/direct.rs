//! A connection for threads that may block: when nobody else is calling, the caller's own thread
//! sends and reads, and no other thread is woken.
//!
//! Whoever finds it taken, or not connected yet, goes to the queue, where calls travel together. Measured against a hop
//! to the background thread and back, a lone caller saves most of the time above the round trip.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use redis::{Client, Connection, ConnectionInfo, ConnectionLike};

use super::Outcome;
use super::batch::{Batch, Job};
use super::connection::explain;
use super::script::{Entry, Programs};
use super::signals::SignalsHeld;
use crate::clock::Clock;
use crate::runtime;

pub(crate) struct Direct {
    info: Box<ConnectionInfo>,
    timeout: Duration,
    clock: Clock,
    open: Mutex<Option<Open>>,
    connecting: AtomicBool,
}

struct Open {
    connection: Connection,
    programs: Programs,
}

/// What became of a job.
pub(crate) enum Sent {
    /// It was answered.
    Answered,
    /// It was not sent, as another thread is at it or there is no connection; here it is again.
    No(Job),
    /// It was answered as lost, and so is the connection.
    Lost,
}

impl Direct {
    pub(crate) fn new(info: Box<ConnectionInfo>, timeout: Duration, clock: Clock) -> Direct {
        Direct { info, timeout, clock, open: Mutex::new(None), connecting: AtomicBool::new(false) }
    }

    /// Carries out one job on this thread, within the budget of a decision.
    pub(crate) fn call(self: &Arc<Self>, job: Job, saw: &dyn Fn(&Entry, &Outcome)) -> Sent {
        let mut open = match self.open.try_lock() {
            Ok(open) => open,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Sent::No(job),
        };
        let _signals = SignalsHeld::new();
        // Taken out, so that whatever goes wrong leaves no half-read connection behind.
        let Some(mut at) = open.take() else {
            drop(open);
            self.connect_aside();
            return Sent::No(job);
        };
        let mut batch = Batch::new([job].into(), &mut at.programs, self.clock.sent());
        let mut commands = Some(batch.pipeline());
        while let Some(pipeline) = commands {
            let packed = pipeline.get_packed_pipeline();
            let sent = at.connection.send_packed_command(&packed);
            match sent.and_then(|()| at.connection.recv_response()) {
                Ok(reply) => {
                    if let Some(why) = batch.finish(vec![reply], saw) {
                        batch.fail_all(&why.into());
                        return Sent::Lost;
                    }
                    commands = batch.pipeline_in_full();
                }
                Err(error) => {
                    batch.fail_all(&explain(error).into());
                    return Sent::Lost;
                }
            }
        }
        *open = Some(at);
        Sent::Answered
    }

    /// Connects on another thread, as that may take longer than a decision.
    fn connect_aside(self: &Arc<Self>) {
        if self.connecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        let connect = move || {
            if let Some(at) = this.connect() {
                *this.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
            }
            this.connecting.store(false, Ordering::Release);
        };
        match runtime::handle() {
            Ok(handle) => drop(handle.spawn_blocking(connect)),
            Err(_) => self.connecting.store(false, Ordering::Release),
        }
    }

    fn connect(&self) -> Option<Open> {
        let client = Client::open((*self.info).clone()).ok()?;
        let connection = client.get_connection_with_timeout(self.timeout).ok()?;
        connection.set_read_timeout(Some(self.timeout)).ok()?;
        connection.set_write_timeout(Some(self.timeout)).ok()?;
        connection.is_open().then(|| Open { connection, programs: Programs::default() })
    }
}

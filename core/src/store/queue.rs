//! The queue of a server: where calls wait for a round trip, and how many it takes.
//!
//! There is no artificial delay: a lone call goes at once, and so do all that wait when no other is
//! under way. Beside one that is, a second goes as soon as it is worth it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::job::{Job, Lost, Queued};

/// Calls of one batch.
const MAX_BATCH: usize = 4_096;
/// Fewer calls are not worth a round trip of their own while another is under way: its wake-ups
/// cost three processes more than it gains.
const MIN_BESIDE: usize = 32;

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// As soon as so many wait, who serves them is told.
    wanted: usize,
    /// Nobody serves the queue any more.
    closed: bool,
}

/// The calls that wait for the next round trip, in order of arrival.
pub(crate) struct Queue {
    /// More are answered as lost.
    max_waiting: usize,
    waiting: Mutex<Waiting>,
    arrived: Notify,
    unanswered: Arc<AtomicUsize>,
}

impl Queue {
    pub(crate) fn new(max_waiting: usize) -> Queue {
        Queue { max_waiting, waiting: Mutex::default(), arrived: Notify::new(), unanswered: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no call waits or is in flight: one that goes another way would overtake it.
    pub(crate) fn is_idle(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) == 0
    }

    /// Has a call wait, or gives it back where nobody serves the queue any more.
    pub(crate) fn push(&self, mut job: Job) -> Option<Job> {
        job.queued = Some(Queued::new(&self.unanswered));
        let mut waiting = self.lock();
        if waiting.closed {
            drop(waiting);
            job.queued = None;
            return Some(job);
        } else if waiting.jobs.len() < self.max_waiting {
            waiting.jobs.push_back(job);
            if waiting.jobs.len() == waiting.wanted {
                self.arrived.notify_one();
            }
        } else {
            drop(waiting);
            job.finish(Err(Lost(format!("{} calls wait already (max_waiting)", self.max_waiting).into())));
        }
        None
    }

    /// Puts what has to be done before all that waits in front of it.
    pub(crate) fn push_first(&self, first: Vec<Job>) {
        let mut waiting = self.lock();
        if waiting.closed {
            drop(waiting);
            return fail(first, &Lost("the connection was given up".into()));
        }
        // The first deadline stays the earliest.
        let deadline = waiting.jobs.front().map(|job| job.deadline);
        for mut job in first.into_iter().rev() {
            job.queued = Some(Queued::new(&self.unanswered));
            job.deadline = deadline.map_or(job.deadline, |deadline| deadline.min(job.deadline));
            waiting.jobs.push_front(job);
        }
        if waiting.jobs.len() >= waiting.wanted {
            self.arrived.notify_one();
        }
    }

    /// Nobody serves it any more: answers all calls as lost, also those that come later.
    pub(crate) fn close(&self, why: &Lost) {
        fail(self.end(), why);
    }

    /// The same, but gives the calls that wait to the caller. In one step: a call that comes at this moment is
    /// among them, or is given back to who brings it.
    pub(crate) fn end(&self) -> VecDeque<Job> {
        let mut waiting = self.lock();
        waiting.closed = true;
        std::mem::take(&mut waiting.jobs)
    }

    /// Waits for calls that are worth a round trip while so many others are under way, and takes
    /// them: all, or, beside others, no more than half of those that have no answer yet.
    pub(crate) async fn next(&self, under_way: usize) -> VecDeque<Job> {
        loop {
            {
                let mut waiting = self.lock();
                waiting.wanted = worth_a_trip(under_way);
                let count = waiting.jobs.len();
                if count >= waiting.wanted {
                    let count = match under_way {
                        0 => count,
                        _ => (count + under_way).div_ceil(2).max(MIN_BESIDE),
                    };
                    return waiting.jobs.drain(..count.min(MAX_BATCH)).collect();
                }
            }
            self.arrived.notified().await;
        }
    }

    /// The deadline of the call that came first. All calls have the same budget, so it is the
    /// earliest.
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.lock().jobs.front().map(|job| job.deadline)
    }

    /// Answers as lost the calls whose deadline has come.
    pub(crate) fn fail_until(&self, now: Instant, why: &Lost) {
        let overdue: Vec<Job> = {
            let mut waiting = self.lock();
            let count = waiting.jobs.partition_point(|job| job.deadline <= now);
            waiting.jobs.drain(..count).collect()
        };
        fail(overdue, why);
    }

    /// Answers all waiting calls as lost.
    pub(crate) fn fail_all(&self, why: &Lost) {
        let jobs = std::mem::take(&mut self.lock().jobs);
        fail(jobs, why);
    }
}

/// How many calls go out while so many are under way: any number where none are, else as many,
/// so that neither round trip is a small part of all.
fn worth_a_trip(under_way: usize) -> usize {
    if under_way == 0 { 1 } else { MIN_BESIDE.max(under_way) }
}

fn fail(jobs: impl IntoIterator<Item = Job>, why: &Lost) {
    for mut job in jobs {
        job.finish(Err(why.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use smallvec::smallvec;

    use super::*;
    use crate::store::Op;

    /// Has so many calls wait where so many wait already, and says how many go out beside so many.
    fn goes(queue: &Queue, more: usize, under_way: usize) -> Option<usize> {
        let mut next = pin!(queue.next(under_way));
        let mut context = Context::from_waker(Waker::noop());
        assert!(more == 0 || next.as_mut().poll(&mut context).is_pending(), "before they came");
        for _ in 0..more {
            let call = Job::new(Op::Peek, smallvec![], Instant::now(), |_, _| {});
            assert!(queue.push(call).is_none());
        }
        match next.as_mut().poll(&mut context) {
            Poll::Ready(jobs) => Some(jobs.len()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn no_call_is_lost_when_a_queue_ends() {
        for _ in 0..200 {
            let queue = Queue::new(10_000);
            let answered = Arc::new(AtomicUsize::new(0));
            let call = || {
                let answered = Arc::clone(&answered);
                Job::new(Op::Peek, smallvec![], Instant::now(), move |_, _| {
                    answered.fetch_add(1, Ordering::Relaxed);
                })
            };
            let calls: Vec<Job> = (0..100).map(|_| call()).collect();
            let (taken, back) = std::thread::scope(|scope| {
                let brings = scope.spawn(|| calls.into_iter().filter_map(|job| queue.push(job)).collect());
                let taken = queue.end();
                let back: Vec<Job> = brings.join().unwrap();
                (taken, back)
            });
            assert_eq!(taken.len() + back.len(), 100);
            assert_eq!(answered.load(Ordering::Relaxed), 0, "a call was answered as lost");
        }
    }

    #[test]
    fn a_round_trip_takes_all_or_as_many_as_another_has() {
        let queue = Queue::new(10_000);
        assert_eq!(goes(&queue, 1, 0), Some(1), "a lone call goes at once");
        assert_eq!(goes(&queue, 200, 0), Some(200), "all go where none are under way");
        assert_eq!(goes(&queue, MIN_BESIDE - 1, 1), None, "few wait");
        assert_eq!(goes(&queue, 1, 1), Some(MIN_BESIDE));
        assert_eq!(goes(&queue, 99, 100), None, "fewer than are under way");
        assert_eq!(goes(&queue, 1, 100), Some(100));
        assert_eq!(goes(&queue, 40, 50), None);
        assert_eq!(goes(&queue, 0, 40), Some(40), "now fewer are under way");
        assert_eq!(goes(&queue, 300, 100), Some(200), "no more than half of all");
        assert_eq!(goes(&queue, 0, 300), None);
        assert_eq!(goes(&queue, 0, 0), Some(100));
        assert_eq!(goes(&queue, 5_000, 0), Some(MAX_BATCH));
        assert_eq!(goes(&queue, 0, 0), Some(5_000 - MAX_BATCH));
    }
}

//! The form of the verbs that never blocks, for programs with an event loop of their own.

use std::ffi::{CString, c_char, c_void};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use sluicegate::{Answer, Call, Completions, PerProcess, Result, Submitted};

use crate::call;
use crate::convert::{UNSET, key, out, reference};
use crate::decision::{sg_decision, sg_source};
use crate::limit::sg_limit;
use crate::limiter::{sg_entry, sg_limiter};
use crate::permit::{self, sg_permit};
use crate::result::{failure, full, guard, guard_code, guard_quietly, sg_result};

/// Calls that are under way, for a program with an event loop of its own: submit calls, poll the
/// descriptor of sg_queue_fd, and collect what has finished. None of this waits for anything.
///
/// A program has one for each event loop. Any limits of any limiters may be used with it.
/// Functions that take a queue may be called from any thread, but it is collected by one thread at
/// a time.
///
/// After a fork, the calls under way stay with the parent. The child's queue is empty and has a
/// descriptor of its own: ask sg_queue_fd for it.
pub struct sg_queue {
    here: PerProcess<Here>,
}

struct Here {
    completions: Completions,
    kept: Mutex<Kept>,
}

/// What the completions that were collected last point to.
#[derive(Default)]
struct Kept {
    messages: Vec<CString>,
}

/// A call that has finished.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sg_completion {
    /// As it was given when the call was submitted.
    pub tag: u64,
    /// What came of the call: SG_OK, or SG_ERR_OUTAGE, SG_ERR_CLOSED or SG_ERR_INTERNAL.
    pub result: sg_result,
    /// The decision. Where there is none, as `result` is not SG_OK or the call was sg_submit_reset,
    /// `retry_after` is -1 and the rest zero.
    pub decision: sg_decision,
    /// Of sg_submit_hold: the permit, which sg_release gives back; else NULL, and also where the
    /// decision refuses.
    pub permit: *mut sg_permit,
    /// What was wrong, until this queue is next collected or closed; NULL where `result` is SG_OK.
    pub message: *const c_char,
}

const NO_DECISION: sg_decision = sg_decision {
    allowed: false,
    source: sg_source::SG_SOURCE_REDIS,
    limit: 0,
    remaining: 0,
    retry_after: UNSET,
    reset_after: 0,
    wait: 0,
    rule: 0,
};

impl Here {
    fn new() -> Result<Here> {
        Ok(Here { completions: Completions::new(Completions::MOST)?, kept: Mutex::default() })
    }
}

impl sg_queue {
    fn here(&self) -> Result<&Here> {
        self.here.get_or_try_init(Here::new)
    }
}

impl Kept {
    fn completion(&mut self, tag: u64, answer: Result<Answer>) -> sg_completion {
        let mut completion = sg_completion {
            tag,
            result: sg_result::SG_OK,
            decision: NO_DECISION,
            permit: ptr::null_mut(),
            message: ptr::null(),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let (result, message) = failure(&error);
                completion.result = result;
                completion.message = message.as_ptr();
                self.messages.push(message);
                return completion;
            }
        };
        completion.decision = answer.decision().map_or(NO_DECISION, sg_decision::from);
        if let Answer::Held(_, held) = answer {
            completion.permit = permit::handle(held);
        }
        completion
    }
}

/// Opens a queue. sg_queue_close closes what is written to `queue`.
///
/// SG_ERR_INTERNAL where the system has no more descriptors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_queue_open(queue: *mut *mut sg_queue) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { out("queue", queue) }?;
        let queue = sg_queue { here: PerProcess::new() };
        queue.here()?;
        place.write(Box::into_raw(Box::new(queue)));
        Ok(())
    })
}

/// Gives up the calls that are under way and frees the queue: turns that have not come and permits
/// that were not collected are given back, decisions that are under way are still made. Take its
/// descriptor out of what is polled first. Permits that were collected stay. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_queue_close(queue: *mut sg_queue) {
    guard_quietly(|| {
        if !queue.is_null() {
            // SAFETY: the caller's promise: it came from sg_queue_open and is closed once.
            drop(unsafe { Box::from_raw(queue) });
        }
    });
}

/// A descriptor that is readable while there is something to collect, for poll, epoll, kqueue or an
/// event library. It is the queue's: it must not be read, written or closed. It changes in a forked
/// child, and nowhere else. -1 where `queue` is NULL or a child has no descriptors left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_queue_fd(queue: *const sg_queue) -> i32 {
    let mut descriptor = UNSET as i32;
    guard(|| {
        // SAFETY: the caller's promise.
        descriptor = unsafe { reference("queue", queue) }?.here()?.completions.as_raw_fd();
        Ok(())
    });
    descriptor
}

/// Writes what has finished to the `capacity` places at `completions`, and how many these are, from
/// 0 on, to `count`. What does not fit is there for the next call, and the descriptor stays readable.
/// It waits for nothing.
///
/// Call it when the descriptor is readable; to poll edge-triggered, call it until `count` is
/// less than `capacity`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_queue_collect(
    queue: *mut sg_queue,
    completions: *mut sg_completion,
    capacity: usize,
    count: *mut usize,
) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let (queue, _, count) =
            unsafe { (reference("queue", queue)?, out("completions", completions)?, out("count", count)?) };
        let here = queue.here()?;
        let mut kept = here.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.messages.clear();
        let finished = here.completions.collect(capacity);
        count.write(finished.len());
        for (index, (tag, answer)) in finished.into_iter().enumerate() {
            // SAFETY: the caller's promise: there are `capacity` places, and no more were asked for.
            unsafe { completions.add(index).write(kept.completion(tag, answer)) };
        }
        Ok(())
    })
}

/// Gives up the calls that were submitted with `tag` and not collected: nothing of them is
/// collected any more, so what `tag` stands for may be freed. A turn that has not come is given
/// back, and so is a permit; a decision that is under way is still made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_queue_cancel(queue: *mut sg_queue, tag: u64) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { reference("queue", queue) }?.here()?.completions.give_up(tag);
        Ok(())
    })
}

/// Starts sg_try_acquire. The key is copied. `tag` is anything that tells the caller which call it
/// was, such as a number or a pointer made into one.
///
/// After SG_OK, exactly one completion with `tag` is to be collected, unless it is cancelled or the
/// queue is closed: also where the decision was there at once, and whatever happens to the store.
/// After any other result there is none: SG_ERR_ARGUMENT and SG_ERR_UNSUPPORTED as for
/// sg_try_acquire, SG_ERR_FULL where the queue holds 100,000 calls that were not collected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_submit_try_acquire(
    queue: *mut sg_queue,
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    cost: i64,
    tag: u64,
) -> sg_result {
    // SAFETY: the caller's promise.
    unsafe { submit(queue, limit, key, key_len, tag, || call::try_acquire(cost)) }
}

/// Starts sg_acquire, as sg_submit_try_acquire does; it is finished when the turn has come.
/// sg_queue_cancel gives the turn up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_submit_acquire(
    queue: *mut sg_queue,
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    cost: i64,
    timeout_us: i64,
    tag: u64,
) -> sg_result {
    // SAFETY: the caller's promise.
    unsafe { submit(queue, limit, key, key_len, tag, || call::acquire(cost, timeout_us)) }
}

/// Starts sg_reserve, as sg_submit_try_acquire does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_submit_reserve(
    queue: *mut sg_queue,
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    cost: i64,
    max_wait_us: i64,
    tag: u64,
) -> sg_result {
    // SAFETY: the caller's promise.
    unsafe { submit(queue, limit, key, key_len, tag, || call::reserve(cost, max_wait_us)) }
}

/// Starts sg_peek, as sg_submit_try_acquire does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_submit_peek(
    queue: *mut sg_queue,
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    tag: u64,
) -> sg_result {
    // SAFETY: the caller's promise.
    unsafe { submit(queue, limit, key, key_len, tag, || Ok(Call::Peek)) }
}

/// Starts sg_refund, as sg_submit_try_acquire does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_submit_refund(
    queue: *mut sg_queue,
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    cost: i64,
    tag: u64,
) -> sg_result {
    // SAFETY: the caller's promise.
    unsafe { submit(queue, limit, key, key_len, tag, || call::refund(cost)) }
}

/// Starts sg_reset, as sg_submit_try_acquire does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_submit_reset(
    queue: *mut sg_queue,
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    tag: u64,
) -> sg_result {
    // SAFETY: the caller's promise.
    unsafe { submit(queue, limit, key, key_len, tag, || Ok(Call::Reset)) }
}

/// Starts sg_hold, as sg_submit_try_acquire does. The completion has the permit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_submit_hold(
    queue: *mut sg_queue,
    limit: *const sg_limit,
    key: *const c_void,
    key_len: usize,
    timeout_us: i64,
    tag: u64,
) -> sg_result {
    // SAFETY: the caller's promise.
    unsafe { submit(queue, limit, key, key_len, tag, || call::hold(timeout_us)) }
}

/// Starts sg_try_acquire_all, as sg_submit_try_acquire does. The entries are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_submit_try_acquire_all(
    queue: *mut sg_queue,
    limiter: *const sg_limiter,
    entries: *const sg_entry,
    count: usize,
    tag: u64,
) -> sg_result {
    let start = || {
        // SAFETY: the caller's promise.
        let (limiter, parts) = unsafe { (reference("limiter", limiter)?, call::parts(entries, count)?) };
        Ok(limiter.0.submit_all(parts))
    };
    // SAFETY: the caller's promise.
    unsafe { place(queue, tag, start) }
}

/// # Safety
/// The caller's promise.
unsafe fn submit(
    queue: *mut sg_queue,
    limit: *const sg_limit,
    bytes: *const c_void,
    length: usize,
    tag: u64,
    what: impl FnOnce() -> Result<Call>,
) -> sg_result {
    let start = || {
        // SAFETY: as above.
        let (limit, key) = unsafe { (reference("limit", limit)?, key(bytes, length)?) };
        Ok(limit.limit.submit(what()?, key))
    };
    // SAFETY: as above.
    unsafe { place(queue, tag, start) }
}

/// Starts a call if there is room for its answer.
///
/// # Safety
/// The caller's promise.
unsafe fn place(queue: *mut sg_queue, tag: u64, start: impl FnOnce() -> Result<Submitted>) -> sg_result {
    guard_code(|| {
        // SAFETY: as above.
        let completions = &unsafe { reference("queue", queue) }?.here()?.completions;
        let Some(place) = completions.place() else { return Ok(full(Completions::MOST)) };
        completions.submit(place, tag, start()?)?;
        Ok(sg_result::SG_OK)
    })
}

//! A clock that a test moves by hand.

use sluicegate::ManualClock;
use sluicegate::argument::time_from_micros;

use crate::convert::{UNSET, micros, out, reference};
use crate::result::{guard, guard_quietly, sg_result};

/// A clock that stands still until it is moved, for tests of code that uses limits.
///
/// Give it to sg_options.clock. A limiter on Redis sends its time along instead of letting Redis
/// use its own, so all limiters of a test should share one clock.
pub struct sg_manual_clock(pub(crate) ManualClock);

/// Makes a clock that stands at `start_us` microseconds after the Unix epoch: 0 to 2^53. -1 leaves
/// the start to the library: 2001-09-09T01:46:40Z. sg_manual_clock_free frees it.
///
/// SG_ERR_ARGUMENT for a start out of range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_manual_clock_new(start_us: i64, clock: *mut *mut sg_manual_clock) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let clock = unsafe { out("clock", clock) }?;
        let made = match start_us {
            UNSET => ManualClock::default(),
            start_us => ManualClock::new(time_from_micros("start_us", start_us)?),
        };
        clock.write(Box::into_raw(Box::new(sg_manual_clock(made))));
        Ok(())
    })
}

/// Moves a clock ahead by `by_us` microseconds: 0 to 2^53. Who waits for a time that has now come
/// is woken.
///
/// SG_ERR_ARGUMENT for a step out of range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_manual_clock_advance(clock: *mut sg_manual_clock, by_us: i64) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let clock = unsafe { reference("clock", clock) }?;
        clock.0.advance(time_from_micros("by_us", by_us)?);
        Ok(())
    })
}

/// Puts a clock at `time_us` microseconds after the Unix epoch, ahead or back: 0 to 2^53.
///
/// SG_ERR_ARGUMENT for a time out of range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_manual_clock_set(clock: *mut sg_manual_clock, time_us: i64) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let clock = unsafe { reference("clock", clock) }?;
        clock.0.set(time_from_micros("time_us", time_us)?);
        Ok(())
    })
}

/// The time on a clock, in microseconds since the Unix epoch; -1 where `clock` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_manual_clock_now(clock: *const sg_manual_clock) -> i64 {
    let mut now = UNSET;
    guard(|| {
        // SAFETY: the caller's promise.
        let clock = unsafe { reference("clock", clock) }?;
        now = micros(clock.0.now());
        Ok(())
    });
    now
}

/// Frees a clock. Limiters that were opened with it go on with the time it shows. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_manual_clock_free(clock: *mut sg_manual_clock) {
    guard_quietly(|| {
        if !clock.is_null() {
            // SAFETY: the caller's promise: it came from sg_manual_clock_new and is freed once.
            drop(unsafe { Box::from_raw(clock) });
        }
    });
}

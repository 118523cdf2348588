//! What is asked for, from C's numbers.

use sluicegate::argument::cost_from_int;
use sluicegate::{Call, Limit, Result};

use crate::convert::{array, duration_or_unset, key, reference};
use crate::limiter::sg_entry;

pub(crate) fn try_acquire(cost: i64) -> Result<Call> {
    Ok(Call::TryAcquire { cost: cost_from_int(cost.into())? })
}

pub(crate) fn acquire(cost: i64, timeout_us: i64) -> Result<Call> {
    let cost = cost_from_int(cost.into())?;
    Ok(Call::Acquire { cost, timeout: duration_or_unset("timeout_us", timeout_us)? })
}

pub(crate) fn reserve(cost: i64, max_wait_us: i64) -> Result<Call> {
    let cost = cost_from_int(cost.into())?;
    Ok(Call::Reserve { cost, max_wait: duration_or_unset("max_wait_us", max_wait_us)? })
}

pub(crate) fn refund(cost: i64) -> Result<Call> {
    Ok(Call::Refund { cost: cost_from_int(cost.into())? })
}

pub(crate) fn hold(timeout_us: i64) -> Result<Call> {
    Ok(Call::Hold { timeout: duration_or_unset("timeout_us", timeout_us)? })
}

/// What core takes for the entries of a call on several limits.
///
/// # Safety
/// The caller's promise.
pub(crate) unsafe fn parts(entries: *const sg_entry, count: usize) -> Result<Vec<(Limit, Vec<u8>, u64)>> {
    // SAFETY: as above.
    let entries = unsafe { array("entries", entries, count) }?;
    let parts = entries.iter().map(|entry| {
        // SAFETY: as above.
        let (limit, key) =
            unsafe { (reference("entries[].limit", entry.limit)?, key(entry.key, entry.key_len)?) };
        Ok((limit.limit.clone(), key.to_vec(), cost_from_int(entry.cost.into())?))
    });
    parts.collect()
}

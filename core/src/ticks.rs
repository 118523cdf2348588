//! The machine's clocks, read by counting the processor's ticks since a real reading.
//!
//! A real reading cost a third of a decision in memory, as it also waits for all that the processor
//! has under way. So it is made once in a millisecond on each thread, and in between ticks are
//! added to it: some tens of nanoseconds off at most, where times are told in microseconds. A clock
//! that is set is followed within a millisecond, and ticks that jump mislead for no longer.

use std::cell::Cell;
use std::thread::LocalKey;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use counter::{rate, ticks};

/// For how long ticks are added to one reading: nanoseconds.
const WINDOW: u128 = 1_000_000;

/// A reading of a clock, and of the ticks at that moment.
#[derive(Clone, Copy)]
struct Reading {
    ticks: u64,
    nanos: u64,
    /// Nanoseconds for 2^32 ticks. The largest number where no ticks can be added.
    rate: u64,
}

impl Reading {
    const NONE: Reading = Reading { ticks: 0, nanos: 0, rate: u64::MAX };
}

thread_local! {
    static WALL: Cell<Reading> = const { Cell::new(Reading::NONE) };
    static STEADY: Cell<Reading> = const { Cell::new(Reading::NONE) };
}

/// Nanoseconds of the wall clock since the Unix epoch.
#[inline]
pub(crate) fn wall() -> u64 {
    read(&WALL, || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos))
}

/// Nanoseconds since `started`, always the same moment, on a clock that is never set.
#[inline]
pub(crate) fn steady(started: Instant) -> u64 {
    read(&STEADY, || nanos(started.elapsed()))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[inline(always)]
fn read(last: &'static LocalKey<Cell<Reading>>, clock: impl FnOnce() -> u64) -> u64 {
    let Reading { ticks: then, nanos, rate } = last.get();
    let passed = (u128::from(ticks().wrapping_sub(then)) * u128::from(rate)) >> 32;
    if passed < WINDOW { nanos + passed as u64 } else { read_clock(last, clock) }
}

#[cold]
#[inline(never)]
fn read_clock(last: &'static LocalKey<Cell<Reading>>, clock: impl FnOnce() -> u64) -> u64 {
    let before = ticks();
    let nanos = clock();
    let after = ticks();
    last.set(match rate() {
        Some(rate) if are_close(before, after) => Reading { ticks: before.midpoint(after), nanos, rate },
        _ => Reading::NONE,
    });
    nanos
}

/// Whether so little happened between two readings of the ticks, some microseconds at most, that a
/// reading of a clock between them is of the same moment. Else the thread was interrupted.
fn are_close(before: u64, after: u64) -> bool {
    after.wrapping_sub(before) < 10_000
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod counter {
    use std::fs;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use super::{are_close, nanos};

    /// Over so much time the ticks are compared with a clock.
    const LONG_ENOUGH: Duration = Duration::from_millis(50);

    #[inline(always)]
    pub(super) fn ticks() -> u64 {
        // SAFETY: every x86-64 has a time stamp counter, and Linux lets programs read it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    /// Nanoseconds for 2^32 ticks; `None` until that is known, and where ticks are no measure of time.
    pub(super) fn rate() -> Option<u64> {
        static RATE: AtomicU64 = AtomicU64::new(0);
        static EVEN: OnceLock<bool> = OnceLock::new();
        static FIRST: OnceLock<(u64, Instant)> = OnceLock::new();
        match RATE.load(Ordering::Relaxed) {
            0 if *EVEN.get_or_init(are_even) => {}
            0 => return None,
            known => return Some(known),
        }
        let Some((first, began)) = FIRST.get() else {
            let _ = FIRST.set(both()?);
            return None;
        };
        if began.elapsed() < LONG_ENOUGH {
            return None;
        }
        let (ticks, now) = both()?;
        let passed = u128::from(nanos(now - *began)) << 32;
        let rate = u64::try_from(passed / u128::from(ticks.wrapping_sub(*first).max(1))).ok()?;
        RATE.store(rate, Ordering::Relaxed);
        Some(rate)
    }

    /// The ticks and a clock at one moment.
    fn both() -> Option<(u64, Instant)> {
        let (before, now, after) = (ticks(), Instant::now(), ticks());
        are_close(before, after).then_some((before.midpoint(after), now))
    }

    /// Linux tells the time by the ticks itself where it finds them even and alike on all processors.
    fn are_even() -> bool {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        fs::read_to_string(source).is_ok_and(|source| source.trim() == "tsc")
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod counter {
    /// One more than a reading that never was: no window is so long.
    pub(super) fn ticks() -> u64 {
        1
    }

    pub(super) fn rate() -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// As far as that can be said on a machine that may interrupt it anywhere.
    #[test]
    fn it_keeps_to_the_machines_clocks() {
        let started = Instant::now();
        thread::sleep(Duration::from_millis(60));
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos);
        let mut last = 0;
        for _ in 0..100_000 {
            let (before, read, after) = (clock(), wall(), clock());
            assert!(before <= read + 5_000 && read <= after + 5_000, "{before} {read} {after}");
            let (before, read, after) = (nanos(started.elapsed()), steady(started), nanos(started.elapsed()));
            assert!(before <= read + 5_000 && read <= after + 5_000, "{before} {read} {after}");
            assert!(read + 5_000 > last, "{last} {read}");
            last = read;
        }
    }
}

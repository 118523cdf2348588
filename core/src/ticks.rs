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

use crate::clock::{Micros, micros};

/// A reading of a clock, and of the ticks at that moment.
#[derive(Clone, Copy)]
struct Reading {
    ticks: u64,
    /// Microseconds, times 1,024.
    time: u64,
    /// How many ticks are added to it at most: a millisecond's, or 0 where they tell nothing.
    most: u64,
    /// What 2^32 ticks are, in microseconds times 1,024.
    rate: u64,
}

thread_local! {
    static WALL: Cell<Reading> = const { Cell::new(Reading::ALONE) };
    static STEADY: Cell<Reading> = const { Cell::new(Reading::ALONE) };
}

/// The wall clock.
#[inline]
pub(crate) fn wall() -> Micros {
    read(&WALL, || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The time since `started`, always the same moment, on a clock that is never set.
#[inline]
pub(crate) fn steady(started: Instant) -> Micros {
    read(&STEADY, || started.elapsed())
}

#[inline(always)]
fn read(last: &'static LocalKey<Cell<Reading>>, clock: impl FnOnce() -> Duration) -> Micros {
    let reading = last.get();
    if reading.most > 0 {
        let passed = ticks().wrapping_sub(reading.ticks);
        if passed < reading.most {
            // A millisecond's at most: so the product has some 52 bits.
            return (reading.time + ((passed * reading.rate) >> 32)) >> 10;
        }
    }
    read_clock(last, clock)
}

#[cold]
#[inline(never)]
fn read_clock(last: &'static LocalKey<Cell<Reading>>, clock: impl FnOnce() -> Duration) -> Micros {
    let Some(rate) = rate() else { return micros(clock()) };
    let before = ticks();
    let now = clock();
    let after = ticks();
    let close = are_close(before, after);
    last.set(if close { Reading::new(before.midpoint(after), now, rate) } else { Reading::ALONE });
    micros(now)
}

impl Reading {
    const ALONE: Reading = Reading { ticks: 0, time: 0, most: 0, rate: 0 };

    fn new(ticks: u64, now: Duration, rate: u64) -> Reading {
        let time = micros(now) << 10 | u64::from(now.subsec_nanos() % 1_000 * 1_024 / 1_000);
        Reading { ticks, time, most: ((1_000 << 10) << 32) / rate, rate }
    }
}

/// Whether so little happened between two readings of the ticks, some microseconds at most, that a
/// reading of a clock between them is of the same moment. Else the thread was interrupted.
fn are_close(before: u64, after: u64) -> bool {
    after.wrapping_sub(before) < 10_000
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod counter {
    use std::cell::Cell;
    use std::fs;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use super::are_close;

    /// Over so much time the ticks are compared with a clock.
    const LONG_ENOUGH: Duration = Duration::from_millis(50);

    #[inline(always)]
    pub(super) fn ticks() -> u64 {
        // SAFETY: every x86-64 has a time stamp counter, and Linux lets programs read it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    /// What 2^32 ticks are, in microseconds times 1,024; `None` until that is known, and where ticks are
    /// no measure of time. It holds no lock, which a fork could leave locked in the child.
    pub(super) fn rate() -> Option<u64> {
        const UNEVEN: u64 = u64::MAX;
        static RATE: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static FIRST: Cell<Option<(u64, Instant)>> = const { Cell::new(None) };
        }
        match RATE.load(Ordering::Relaxed) {
            0 => {}
            UNEVEN => return None,
            known => return Some(known),
        }
        let Some((first, began)) = FIRST.get() else {
            if are_even() {
                FIRST.set(both());
            } else {
                RATE.store(UNEVEN, Ordering::Relaxed);
            }
            return None;
        };
        if began.elapsed() < LONG_ENOUGH {
            return None;
        }
        let (ticks, now) = both()?;
        let passed = ((now - began).as_nanos() * 1_024 / 1_000) << 32;
        let rate = u64::try_from(passed / u128::from(ticks.wrapping_sub(first).max(1))).unwrap_or(UNEVEN);
        // From 100 MHz to 8 GHz: else the ticks are not what they are taken for.
        let sound = (0x2000_0000..0xb_0000_0000).contains(&rate);
        RATE.store(if sound { rate } else { UNEVEN }, Ordering::Relaxed);
        sound.then_some(rate)
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

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
mod counter {
    pub(super) fn ticks() -> u64 {
        0
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
        steady(started);
        thread::sleep(Duration::from_millis(60));
        let clock = || micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
        let mut last = 0;
        for _ in 0..100_000 {
            let (before, read, after) = (clock(), wall(), clock());
            assert!(before <= read + 5 && read <= after + 5, "{before} {read} {after}");
            let (before, read, after) =
                (micros(started.elapsed()), steady(started), micros(started.elapsed()));
            assert!(before <= read + 5 && read <= after + 5, "{before} {read} {after}");
            assert!(read + 5 > last, "{last} {read}");
            last = read;
        }
    }
}

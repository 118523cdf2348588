//! The ranges of arguments and options, checked once for all languages.
//!
//! A language whose numbers can be negative, fractional or no number at all brings them here as
//! they came, and gets the whole number or the error that says what is allowed.

use std::fmt::Display;
use std::time::Duration;

use crate::clock::MAX_EXACT;
use crate::error::{Error, Result};

/// How long `hold` waits for a permit unless said: not at all, so a full limit refuses at once.
pub const HOLD_TIMEOUT: Duration = Duration::ZERO;

const MAX_DURATION: Duration = Duration::from_secs(366 * 86_400);

fn cost_error(value: impl Display) -> Error {
    Error::argument(format!("cost must be a whole number from 0 to {MAX_EXACT}, got {value}"))
}

/// A cost from a signed whole number.
pub fn cost_from_int(value: i128) -> Result<u64> {
    match u64::try_from(value) {
        Ok(cost) if cost <= MAX_EXACT => Ok(cost),
        _ => Err(cost_error(value)),
    }
}

/// A cost from a floating-point number, as in JavaScript.
pub fn cost_from_float(value: f64) -> Result<u64> {
    // Above 2^53 not every whole number has a double, so the comparison is with that bound.
    if value.fract() == 0.0 && (0.0..=MAX_EXACT as f64).contains(&value) {
        Ok(value as u64)
    } else {
        Err(cost_error(value))
    }
}

/// A cost that a caller could not even represent, quoted as `value`.
pub fn cost_out_of_range(value: impl Display) -> Error {
    cost_error(value)
}

pub(crate) fn check_cost(cost: u64) -> Result<u64> {
    cost_from_int(i128::from(cost))
}

fn duration_error(name: &str, value: impl Display, unit: &str, scale: f64) -> Error {
    let most = MAX_DURATION.as_secs_f64() * scale;
    Error::argument(format!("{name} must be 0 to {most} {unit}, got {value}"))
}

fn duration_from_float(name: &str, value: f64, unit: &str, scale: f64) -> Result<Duration> {
    let seconds = value / scale;
    if (0.0..=MAX_DURATION.as_secs_f64()).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(duration_error(name, value, unit, scale))
    }
}

/// The argument or option `name` from seconds: 0 to 366 days.
pub fn duration_from_seconds(name: &str, value: f64) -> Result<Duration> {
    duration_from_float(name, value, "seconds", 1.0)
}

/// The argument or option `name` from milliseconds: 0 to 366 days.
pub fn duration_from_millis(name: &str, value: f64) -> Result<Duration> {
    duration_from_float(name, value, "milliseconds", 1e3)
}

/// The argument or option `name` from whole microseconds: 0 to 366 days.
pub fn duration_from_micros(name: &str, value: i64) -> Result<Duration> {
    match u64::try_from(value).map(Duration::from_micros) {
        Ok(duration) if duration <= MAX_DURATION => Ok(duration),
        _ => Err(duration_error(name, value, "microseconds", 1e6)),
    }
}

/// The time `name` of a manual clock, or a step of it, from whole microseconds: 0 to 2^53.
pub fn time_from_micros(name: &str, value: i64) -> Result<Duration> {
    match u64::try_from(value) {
        Ok(micros) if micros <= MAX_EXACT => Ok(Duration::from_micros(micros)),
        _ => Err(Error::argument(format!("{name} must be 0 to {MAX_EXACT} microseconds, got {value}"))),
    }
}

fn time_from_float(name: &str, value: f64, unit: &str, scale: f64) -> Result<Duration> {
    let micros = (value * scale).round();
    if (0.0..=MAX_EXACT as f64).contains(&micros) {
        Ok(Duration::from_micros(micros as u64))
    } else {
        let most = MAX_EXACT as f64 / scale;
        Err(Error::argument(format!("{name} must be 0 to {most} {unit}, got {value}")))
    }
}

/// The time `name` of a manual clock, or a step of it, from seconds, to the nearest microsecond: 0
/// to 2^53 microseconds.
pub fn time_from_seconds(name: &str, value: f64) -> Result<Duration> {
    time_from_float(name, value, "seconds", 1e6)
}

/// The time `name` of a manual clock, or a step of it, from milliseconds, to the nearest
/// microsecond: 0 to 2^53 microseconds.
pub fn time_from_millis(name: &str, value: f64) -> Result<Duration> {
    time_from_float(name, value, "milliseconds", 1e3)
}

/// The option `name`, a bound such as `max_keys` or `max_waiting`, from a signed whole number.
pub fn bound_from_int(name: &str, value: i128) -> Result<usize> {
    const MOST: i128 = 1 << 32;
    match usize::try_from(value) {
        Ok(bound) if (64..=MOST).contains(&value) => Ok(bound),
        _ => Err(Error::config(format!("{name} must be 64 to {MOST}, got {value}"))),
    }
}

/// The option `name`, a bound, from a floating-point number, as in JavaScript.
pub fn bound_from_float(name: &str, value: f64) -> Result<usize> {
    // Every whole number up to the largest allowed has a double; what saturates is out of range.
    if value.fract() == 0.0 {
        bound_from_int(name, value as i128)
    } else {
        Err(Error::config(format!("{name} must be a whole number, got {value}")))
    }
}

pub(crate) fn check_duration(name: &str, value: Duration) -> Result<Duration> {
    if value <= MAX_DURATION {
        Ok(value)
    } else {
        Err(duration_error(name, value.as_secs_f64(), "seconds", 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_whole_and_exact() {
        assert_eq!(cost_from_float(3.0).unwrap(), 3);
        assert_eq!(cost_from_int(1 << 53).unwrap(), 1 << 53);
        for bad in [-1.0, 0.5, f64::NAN, f64::INFINITY, 9.3e15] {
            assert!(cost_from_float(bad).unwrap_err().message().contains("got"), "{bad}");
        }
        assert!(cost_from_int((1 << 53) + 1).is_err());
    }

    #[test]
    fn durations_are_finite_and_not_negative() {
        assert_eq!(duration_from_millis("timeoutMs", 1.5).unwrap(), Duration::from_micros(1500));
        for bad in [-0.1, f64::NAN, f64::INFINITY, 1e9] {
            assert!(
                duration_from_seconds("timeout", bad).unwrap_err().message().contains("timeout"),
                "{bad}"
            );
        }
        assert!(duration_from_micros("timeout_us", -1).is_err());
    }

    #[test]
    fn times_and_table_sizes_have_bounds() {
        assert_eq!(time_from_micros("start_us", 1 << 53).unwrap(), Duration::from_micros(MAX_EXACT));
        for bad in [-1, i64::MIN, (1 << 53) + 1] {
            assert!(
                time_from_micros("start_us", bad).unwrap_err().message().starts_with("start_us"),
                "{bad}"
            );
        }
        assert_eq!(
            time_from_millis("ms", 1e12 + 0.001).unwrap(),
            Duration::from_micros(1_000_000_000_000_001)
        );
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e14] {
            assert!(time_from_millis("ms", bad).unwrap_err().message().starts_with("ms"), "{bad}");
        }
        assert_eq!(bound_from_int("max_keys", 64).unwrap(), 64);
        assert_eq!(bound_from_float("max_keys", 64.0).unwrap(), 64);
        for bad in [-1.0, 64.5, f64::NAN, f64::INFINITY, 1e300] {
            assert!(bound_from_float("max_keys", bad).is_err(), "{bad}");
        }
        for bad in [-1, 63, (1 << 32) + 1] {
            assert!(bound_from_int("max_keys", bad).is_err(), "{bad}");
        }
    }
}

//! Arguments, from Python's types to the core's. What is allowed, the core says.

use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyString};
use sluicegate as core;
use sluicegate::{ErrorKind, argument};

use crate::clock::ManualClock;
use crate::error;

/// Text that came as a `str`.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl<'a, 'py> FromPyObject<'a, 'py> for Text<'a> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        object.extract().map(Text).map_err(|failed| not_utf8(object.py(), failed))
    }
}

fn not_utf8(py: Python<'_>, failed: PyErr) -> PyErr {
    if !failed.is_instance_of::<PyUnicodeEncodeError>(py) {
        return failed;
    }
    let message =
        "text must be valid Unicode, got a str with a lone surrogate; bytes can hold what is not text";
    error::to_py(py, &core::Error::new(ErrorKind::Argument, message))
}

/// Who is limited: a `str`, taken as UTF-8, or `bytes`.
pub(crate) struct Key<'a>(pub(crate) &'a [u8]);

impl<'a, 'py> FromPyObject<'a, 'py> for Key<'a> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() {
            let Text(text) = object.extract()?;
            Ok(Key(text.as_bytes()))
        } else if object.is_instance_of::<PyBytes>() {
            Ok(Key(object.extract()?))
        } else {
            Err(wrong_type("key must be str or bytes", &object))
        }
    }
}

/// How many units.
pub(crate) struct Cost(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for Cost {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let cost = if let Ok(number) = object.cast::<PyFloat>() {
            argument::cost_from_float(number.extract()?)
        } else {
            match object.extract::<i128>() {
                Ok(number) => argument::cost_from_int(number),
                // Python refuses to print very long numbers, and nobody would read them.
                Err(failed) if failed.is_instance_of::<PyOverflowError>(py) => {
                    Err(argument::cost_out_of_range("a number of more than 127 bits"))
                }
                Err(_) => return Err(wrong_type("cost must be int", &object)),
            }
        };
        cost.map(Cost).map_err(|failed| error::to_py(py, &failed))
    }
}

/// A number of seconds, not checked yet.
#[derive(Clone, Copy)]
pub(crate) struct Seconds(f64);

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.extract() {
            Ok(seconds) => Ok(Seconds(seconds)),
            // An int that no float can hold is out of every range.
            Err(failed) if failed.is_instance_of::<PyOverflowError>(object.py()) => {
                Ok(Seconds(f64::INFINITY))
            }
            Err(_) => Err(wrong_type("seconds must be float", &object)),
        }
    }
}

impl Seconds {
    pub(crate) const ZERO: Seconds = Seconds(0.0);

    /// The argument `name` of a call.
    pub(crate) fn duration(self, name: &str) -> core::Result<Duration> {
        argument::duration_from_seconds(name, self.0).map(whole_micros)
    }

    /// The option `name` of a limiter.
    fn option(self, name: &str) -> core::Result<Duration> {
        self.duration(name).map_err(|failed| core::Error::new(ErrorKind::Config, failed.message()))
    }

    /// A manual clock's time since the Unix epoch, or a step of it.
    pub(crate) fn time(self, name: &str) -> core::Result<Duration> {
        argument::time_from_seconds(name, self.0)
    }
}

/// The nearest microsecond: a float close to 1.7e9 s is never one exactly.
fn whole_micros(duration: Duration) -> Duration {
    Duration::from_micros((duration.as_secs_f64() * 1e6).round() as u64)
}

pub(crate) fn wrong_type(expected: &str, got: &Bound<'_, PyAny>) -> PyErr {
    let got = got.get_type().name().map_or_else(|_| "another type".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{expected}, not {got}"))
}

/// An option that is a whole number.
pub(crate) struct Whole(i128);

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<i128>() {
            Ok(number) => Ok(Whole(number)),
            Err(failed) if failed.is_instance_of::<PyOverflowError>(object.py()) => Ok(Whole(i128::MAX)),
            Err(_) => Err(wrong_type("a bound must be int", &object)),
        }
    }
}

/// The options of a limiter; those that were not given are left to the core.
pub(crate) struct Options<'a> {
    pub(crate) url: Option<Text<'a>>,
    pub(crate) prefix: Option<Text<'a>>,
    pub(crate) timeout: Option<Seconds>,
    pub(crate) on_outage: Option<Text<'a>>,
    pub(crate) deny_cache: Option<Seconds>,
    pub(crate) max_keys: Option<Whole>,
    pub(crate) max_waiting: Option<Whole>,
    pub(crate) clock: Option<PyRef<'a, ManualClock>>,
}

impl Options<'_> {
    pub(crate) fn open(self, mut builder: core::Builder) -> core::Result<core::Limiter> {
        if let Some(Text(url)) = self.url {
            builder = builder.url(url);
        }
        if let Some(Text(prefix)) = self.prefix {
            builder = builder.prefix(prefix);
        }
        if let Some(timeout) = self.timeout {
            builder = builder.timeout(timeout.option("timeout")?);
        }
        if let Some(Text(on_outage)) = self.on_outage {
            builder = builder.on_outage(on_outage.parse()?);
        }
        if let Some(deny_cache) = self.deny_cache {
            builder = builder.deny_cache(deny_cache.option("deny_cache")?);
        }
        if let Some(Whole(max_keys)) = self.max_keys {
            builder = builder.max_keys(argument::bound_from_int("max_keys", max_keys)?);
        }
        if let Some(Whole(max_waiting)) = self.max_waiting {
            builder = builder.max_waiting(argument::bound_from_int("max_waiting", max_waiting)?);
        }
        if let Some(clock) = self.clock {
            builder = builder.clock(&clock.0);
        }
        builder.open()
    }
}

/// The limit of `limiter` that is called `name`.
pub(crate) fn limit(
    limiter: &core::Limiter,
    name: &str,
    spec: &str,
    on_outage: Option<Text<'_>>,
) -> core::Result<core::Limit> {
    match on_outage {
        Some(Text(mode)) => limiter.limit_on_outage(name, spec, mode.parse()?),
        None => limiter.limit(name, spec),
    }
}

/// The longest wait that was given, if any.
pub(crate) fn longest(name: &str, seconds: Option<Seconds>) -> core::Result<Option<Duration>> {
    seconds.map(|seconds| seconds.duration(name)).transpose()
}

/// What `try_acquire_all` takes: tuples of a limit, a key and a cost.
pub(crate) fn entries(
    given: &Bound<'_, PyAny>,
    core_limit: impl Fn(&Bound<'_, PyAny>) -> PyResult<core::Limit>,
) -> PyResult<Vec<(core::Limit, Vec<u8>, u64)>> {
    let mut entries = Vec::new();
    for entry in given.try_iter()? {
        let (limit, key, cost): (Bound<'_, PyAny>, Bound<'_, PyAny>, Cost) = entry?.extract()?;
        let Key(key) = key.extract()?;
        entries.push((core_limit(&limit)?, key.to_vec(), cost.0));
    }
    Ok(entries)
}

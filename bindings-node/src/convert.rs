//! JavaScript's values as core wants them. The ranges are core's to check.

use std::time::Duration;

use napi::bindgen_prelude::{BigInt, FromNapiValue, JsValue, Uint8ArraySlice, Unknown};
use napi::{JsString, ValueType, sys};
use sluicegate::argument;

use crate::error::{Result, Thrown, broken, thrown, wrong_type};

/// Milliseconds, fractional to the microsecond.
pub(crate) fn to_millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}

/// What must be given.
pub(crate) fn required<T>(name: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| wrong_type(format!("{name} must be given")))
}

/// A number, if given.
pub(crate) fn number(name: &str, value: &Unknown) -> Result<Option<f64>> {
    match value.get_type().map_err(broken)? {
        ValueType::Undefined => Ok(None),
        ValueType::Number => cast(value).map(Some),
        other => Err(wrong_type(format!("{name} must be a number, got {}", describe(other)))),
    }
}

/// A duration in milliseconds, if given.
pub(crate) fn millis(name: &str, value: &Unknown) -> Result<Option<Duration>> {
    let given = number(name, value)?;
    given.map(|value| argument::duration_from_millis(name, value).map_err(thrown)).transpose()
}

/// A time in milliseconds since the Unix epoch, if given.
pub(crate) fn time(name: &str, value: &Unknown) -> Result<Option<Duration>> {
    let given = number(name, value)?;
    given.map(|value| argument::time_from_millis(name, value).map_err(thrown)).transpose()
}

/// A text, if given.
pub(crate) fn text(name: &str, value: &Unknown) -> Result<Option<String>> {
    match value.get_type().map_err(broken)? {
        ValueType::Undefined => Ok(None),
        ValueType::String => {
            let text: String = cast(value)?;
            check_whole(name, value, text.as_bytes())?;
            Ok(Some(text))
        }
        other => Err(wrong_type(format!("{name} must be a string, got {}", describe(other)))),
    }
}

/// A cost.
pub(crate) fn cost(value: &Unknown) -> Result<u64> {
    match value.get_type().map_err(broken)? {
        ValueType::Number => argument::cost_from_float(cast(value)?).map_err(thrown),
        ValueType::BigInt => {
            let value: BigInt = cast(value)?;
            let size = match value.words[..] {
                [size] => i128::from(size),
                _ => return Err(thrown(argument::cost_out_of_range("a bigint of more than 64 bits"))),
            };
            argument::cost_from_int(if value.sign_bit { -size } else { size }).map_err(thrown)
        }
        other => Err(wrong_type(format!("cost must be a number or a bigint, got {}", describe(other)))),
    }
}

/// Calls `with` on the bytes of a key. Most keys are short and are never put on the heap.
pub(crate) fn with_key<R>(value: &Unknown, with: impl FnOnce(&[u8]) -> R) -> Result<R> {
    match value.get_type().map_err(broken)? {
        ValueType::String => {
            let mut short = [0; 256];
            let mut length = 0;
            let raw = value.value();
            // SAFETY: `raw` is a value of this call's scope, and the buffer is as long as is said.
            let status = unsafe {
                sys::napi_get_value_string_utf8(
                    raw.env,
                    raw.value,
                    short.as_mut_ptr().cast(),
                    short.len(),
                    &mut length,
                )
            };
            // The text is cut where the next character, of up to four bytes, or the final NUL does
            // not fit. Is there room for both, nothing was cut.
            if status == sys::Status::napi_ok && length + 5 <= short.len() {
                let bytes = &short[..length];
                check_whole("key", value, bytes)?;
                return Ok(with(bytes));
            }
            let long: String = cast(value)?;
            check_whole("key", value, long.as_bytes())?;
            Ok(with(long.as_bytes()))
        }
        ValueType::Object => {
            let bytes: Uint8ArraySlice = cast(value).map_err(|_| key_type("another object"))?;
            Ok(with(&bytes))
        }
        other => Err(key_type(describe(other))),
    }
}

fn key_type(got: &str) -> Thrown {
    wrong_type(format!("key must be a string or a Uint8Array, got {got}"))
}

/// Refuses half characters. Converting puts U+FFFD in their place, and two keys would be one.
fn check_whole(name: &str, value: &Unknown, converted: &[u8]) -> Result<()> {
    const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();
    // Only who finds U+FFFD needs to look whether it stood there.
    if !converted.contains(&REPLACEMENT[0])
        || !converted.windows(REPLACEMENT.len()).any(|window| window == REPLACEMENT)
    {
        return Ok(());
    }
    let units = cast::<JsString>(value)?.into_utf16().map_err(broken)?;
    if char::decode_utf16(units.iter().copied()).any(|unit| unit.is_err()) {
        return Err(wrong_type(format!(
            "{name} must be a well-formed string, got one with a lone surrogate; pass bytes instead"
        )));
    }
    Ok(())
}

/// The value as a `T`. The caller has looked at its type.
fn cast<T: FromNapiValue>(value: &Unknown) -> Result<T> {
    // SAFETY: a conversion asks Node-API, which answers a wrong type with an error.
    unsafe { value.cast() }.map_err(broken)
}

fn describe(given: ValueType) -> &'static str {
    match given {
        ValueType::Undefined => "undefined",
        ValueType::Null => "null",
        ValueType::Boolean => "a boolean",
        ValueType::Number => "a number",
        ValueType::BigInt => "a bigint",
        ValueType::String => "a string",
        ValueType::Symbol => "a symbol",
        ValueType::Function => "a function",
        _ => "an object",
    }
}

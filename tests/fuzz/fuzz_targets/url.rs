//! The URL parser: it never panics, and whatever stands where a password may stand is never shown,
//! neither in an error nor in what describes a limiter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use percent_encoding::percent_decode_str;
use sluicegate::{ErrorKind, Limiter, fuzzing};

const SECRET: &str = "Hunter2-Xq9";
/// What stands for the secret in an input.
const MARK: char = '*';

/// Puts the secret where credentials are: before the last `@`, or in a parameter.
fn with_secret(text: &str) -> String {
    let socket = text.starts_with("unix:") || text.starts_with("redis+unix:");
    let (before, after) = text.rsplit_once('@').filter(|_| !socket).unwrap_or(("", text));
    let (after, query) = after.split_once('?').unwrap_or((after, ""));
    let (before, after) = (before.replace(MARK, SECRET), after.replace(MARK, ""));
    let hidden = |parameter: &str| match parameter.split_once('=') {
        Some((name @ ("pass" | "password" | "sentinel_password"), rest)) => format!("{name}={SECRET}{rest}"),
        _ => parameter.replace(MARK, ""),
    };
    let query = query.split('&').map(hidden).collect::<Vec<_>>().join("&");
    if before.is_empty() { format!("{after}?{query}") } else { format!("{before}@{after}?{query}") }
}

fuzz_target!(|text: &str| {
    // A fuzzer reads the secret out of the comparison below, and would put it anywhere, also in pieces that
    // we or a URL's reader put together.
    let joined = text.replace([MARK, '\t', '\r', '\n'], "");
    let read = percent_decode_str(&joined).decode_utf8_lossy().to_lowercase();
    if read.contains(&SECRET.to_lowercase()) {
        return;
    }
    let url = with_secret(text);
    let shown = match fuzzing::describe_url(&url) {
        Ok(description) => description,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().len() < 1000, "{error}");
            format!("{error} {error:?}")
        }
    };
    let builder = format!("{:?}", Limiter::builder().url(&url));
    for shown in [shown, builder] {
        let shown = shown.to_lowercase();
        assert!(!shown.contains(&SECRET.to_lowercase()), "{url:?} is shown as {shown:?}");
    }
});

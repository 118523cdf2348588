//! The Rust contenders of `make bench`: `contender SCENARIO URL [keys | store threads]`.
//! `benches/README.md` has the protocol.

mod memory;
mod protocol;
mod redis;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["blocking", url] => redis::blocking(url),
        ["tasks", url, keys] => redis::tasks(url, keys.parse()?),
        ["flood", url] => redis::flood(url),
        ["memory", store, threads] => memory::run(store, threads.parse()?),
        _ => Err("usage: contender blocking URL | tasks URL KEYS | flood URL | memory STORE THREADS".into()),
    }
}

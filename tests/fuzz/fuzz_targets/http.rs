//! What an HTTP server is told: a client can't choose its key, whatever it puts into a header; and
//! no name of a limit breaks out of a header field or of JSON.
#![no_main]

use std::net::IpAddr;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use sluicegate::{ClientAddress, ForwardedHeader, Limiter, ManualClock};

const SPECS: [&str; 4] = ["2/s", "1/h; 3/d", "sliding-log 5/500ms", "leaky-bucket 1/s queue 2"];
const PROXY: &str = "10.0.0.1";
const CLIENT: &str = "203.0.113.7";

#[derive(Arbitrary, Debug)]
struct Input {
    trusted: Vec<String>,
    forwarded: bool,
    prefixes: (i16, i16),
    peer: String,
    values: Vec<Vec<u8>>,
    name: String,
    spec: u8,
    cost: u8,
}

fn is_key(key: &str) -> bool {
    let (address, bits) = key.split_once('/').unwrap_or((key, "1"));
    key.len() < 64 && (key == "unknown" || address.parse::<IpAddr>().is_ok() && bits.parse::<u8>().is_ok())
}

fn address(input: &Input, header: ForwardedHeader) {
    let values = &input.values;
    let nobody = ClientAddress::default().header(header);
    assert_eq!(nobody.key(&input.peer, values), nobody.key(&input.peer, [[0_u8; 0]; 0]));

    if let Ok(mut client) = ClientAddress::new(&input.trusted) {
        client = client.clone().ipv4_prefix(input.prefixes.0.into()).unwrap_or(client);
        client = client.clone().ipv6_prefix(input.prefixes.1.into()).unwrap_or(client).header(header);
        let key = client.key(&input.peer, values);
        assert!(is_key(&key), "{key:?}");
    }

    // One proxy, which has appended whom it saw to what the client sent, in its field or in another.
    let one = ClientAddress::new([PROXY]).unwrap().header(header);
    let seen = if header == ForwardedHeader::Forwarded { format!("for={CLIENT}") } else { CLIENT.to_owned() };
    let apart: Vec<&[u8]> = values.iter().map(Vec::as_slice).chain([seen.as_bytes()]).collect();
    assert_eq!(one.key(PROXY, apart), CLIENT);
    let together = [values.concat(), b", ".to_vec(), seen.into_bytes()].concat();
    assert_eq!(one.key(PROXY, [together]), CLIENT);
}

fuzz_target!(|input: Input| {
    let header = ForwardedHeader::ALL[usize::from(input.forwarded)];
    address(&input, header);

    let clock = ManualClock::default();
    let limiter = Limiter::builder().max_keys(64).clock(&clock).open().unwrap();
    let spec = SPECS[usize::from(input.spec) % SPECS.len()];
    let Ok(limit) = limiter.limit(&input.name, spec) else { return };
    let decision = limit.try_acquire_blocking("k", input.cost.into()).unwrap();
    for headers in [limit.http_headers(&decision), limit.http_headers(&decision).with_legacy()] {
        for (name, value) in headers.iter() {
            assert!(name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-'), "{name:?}");
            assert!(value.bytes().all(|c| (b' '..=b'~').contains(&c)), "{name}: {value:?}");
        }
    }
    let problem: serde_json::Value = serde_json::from_str(&limit.http_problem(&decision)).unwrap();
    assert!(problem.is_object(), "{problem}");
});

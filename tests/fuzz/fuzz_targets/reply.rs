//! The decoders of replies: whatever bytes a server answers with, nothing panics, and each call is
//! answered once.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use sluicegate::{Spec, fuzzing};

const SPECS: [&str; 9] = [
    "100/s burst 5",
    "gcra 999999937/366d burst 77",
    "leaky-bucket 10/s queue 3",
    "fixed-window 7/1500ms align",
    "sliding-window 40/m buckets 7",
    "sliding-log 1000000000/366d",
    "concurrency 3 ttl 2s",
    "3/s; fixed-window 50/m; sliding-log 5/s",
    "1000000000/s",
];

#[derive(Arbitrary, Debug)]
enum Reply {
    /// As it came.
    Bytes(Vec<u8>),
    /// A string of numbers, which is what our scripts reply.
    Numbers(Vec<u64>),
    /// A string of small numbers.
    Small(Vec<u8>),
    Error(u8),
    /// A server of a Cluster: from, to, and ports.
    Slots(u16, u16, Vec<u16>),
}

impl Reply {
    fn bytes(&self) -> Vec<u8> {
        const ERRORS: [&str; 7] = [
            "NOSCRIPT No matching script.",
            "READONLY no",
            "ERR no",
            "",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 :6381",
            "TRYAGAIN later",
        ];
        let string = |numbers: &mut dyn Iterator<Item = u64>| {
            let bytes: Vec<u8> = numbers.flat_map(u64::to_be_bytes).collect();
            [format!("${}\r\n", bytes.len()).into_bytes(), bytes, b"\r\n".to_vec()].concat()
        };
        match self {
            Reply::Bytes(bytes) => bytes.clone(),
            Reply::Numbers(numbers) => string(&mut numbers.iter().copied()),
            Reply::Small(numbers) => string(&mut numbers.iter().copied().map(u64::from)),
            Reply::Error(which) => {
                format!("-{}\r\n", ERRORS[usize::from(*which) % ERRORS.len()]).into_bytes()
            }
            Reply::Slots(first, last, ports) => {
                let server = |port: &u16| format!("*2\r\n$1\r\nh\r\n:{port}\r\n");
                let servers: String = ports.iter().map(server).collect();
                format!("*1\r\n*{}\r\n:{first}\r\n:{last}\r\n{servers}", 2 + ports.len()).into_bytes()
            }
        }
    }
}

#[derive(Arbitrary, Debug)]
struct Input {
    calls: Vec<(u8, u8, u8, u64)>,
    replies: Vec<Reply>,
    in_cluster: bool,
}

fuzz_target!(|input: Input| {
    let specs: Vec<Spec> = SPECS.iter().map(|spec| spec.parse().unwrap()).collect();
    let calls: Vec<fuzzing::Call> = input
        .calls
        .iter()
        .take(32)
        .map(|(verb, spec, key, cost)| (*verb, usize::from(*spec) % SPECS.len(), key % 4, *cost))
        .collect();
    let replies: Vec<Vec<u8>> = input.replies.iter().map(Reply::bytes).collect();
    let replies: Vec<&[u8]> = replies.iter().map(Vec::as_slice).collect();
    fuzzing::answer_calls(&specs, &calls, &replies, input.in_cluster);
    replies.iter().for_each(|reply| fuzzing::read_topology(reply));
});

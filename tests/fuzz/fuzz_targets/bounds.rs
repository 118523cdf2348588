//! Sequences of calls and clock steps on every algorithm, held to its bound in every window: the
//! rounds of `core/tests/invariants.rs`, where the fuzzer and not a seed says what happens next.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rand::RngCore;

#[path = "../../../core/tests/observer/mod.rs"]
mod observer;

use observer::round::{permits, round};

/// Random numbers from an input, and zeros after its end.
struct Input<'a>(&'a [u8]);

impl RngCore for Input<'_> {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill_bytes(&mut bytes);
        u32::from_be_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_be_bytes(bytes)
    }

    fn fill_bytes(&mut self, place: &mut [u8]) {
        let (now, later) = self.0.split_at(place.len().min(self.0.len()));
        place.fill(0);
        place[..now.len()].copy_from_slice(now);
        self.0 = later;
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    // A step uses some ten bytes.
    let steps = (rest.len() / 8).min(250);
    if first % 8 == 0 {
        permits("memory://", "sg", Input(rest), steps, |_| {});
    } else {
        round("memory://", "sg", Input(rest), steps, |_| {});
    }
});

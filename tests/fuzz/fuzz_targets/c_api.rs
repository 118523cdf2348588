//! The C interface under AddressSanitizer: any sequence of calls on any handles and places, NULL
//! among them, with any numbers and lengths. A caller keeps only the promises that the header asks
//! of it: a text ends with a NUL, a key has its length, a handle is closed once.
#![no_main]

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use sluicegate_c::address::*;
use sluicegate_c::clock::*;
use sluicegate_c::decision::*;
use sluicegate_c::event::*;
use sluicegate_c::http::*;
use sluicegate_c::limit::*;
use sluicegate_c::limiter::*;
use sluicegate_c::options::*;
use sluicegate_c::permit::*;
use sluicegate_c::queue::*;
use sluicegate_c::result::*;
use sluicegate_c::status::*;

/// The bytes of a decision, in its place.
#[repr(C, align(8))]
struct Decision([u8; size_of::<sg_decision>()]);

/// One of some handles; past their end it is NULL.
type Slot = u8;
const SLOTS: usize = 4;

#[derive(Arbitrary, Debug, Clone)]
enum Text {
    Null,
    Good(u8),
    Bytes(Vec<u8>),
}

#[derive(Arbitrary, Debug, Clone)]
enum Key {
    Null(u8),
    Bytes(Vec<u8>),
    /// No memory is as long.
    Endless,
    Small(u8),
}

#[derive(Arbitrary, Debug)]
struct Options {
    initialised: bool,
    size: Option<u16>,
    prefix: Text,
    timeout_us: Option<i64>,
    deny_cache_us: Option<i64>,
    max_keys: Option<i64>,
    on_outage: Option<i32>,
    clock: Slot,
    listens: bool,
}

#[derive(Arbitrary, Debug)]
struct Entry {
    limit: Slot,
    key: Key,
    cost: i64,
}

#[derive(Arbitrary, Debug)]
enum Step {
    NewClock(Slot, i64),
    MoveClock(Slot, i64),
    SetClock(Slot, i64),
    FreeClock(Slot),
    InitOptions(bool, u16),
    OpenLimiter(Slot, Text, Option<Options>, bool),
    CloseLimiter(Slot),
    OpenLimit(Slot, Slot, Text, Text, Option<i32>, bool),
    CloseLimit(Slot),
    Read(Slot),
    TryAcquire(Slot, Key, i64, bool),
    Acquire(Slot, Key, i64, i64, bool),
    Reserve(Slot, Key, i64, i64, bool),
    Peek(Slot, Key, bool),
    Refund(Slot, Key, i64, bool),
    Reset(Slot, Key),
    Hold(Slot, Slot, Key, i64, bool, bool),
    Release(Slot),
    All(Slot, Vec<Entry>, bool, Option<u8>),
    Status(Slot, bool),
    Names(i32),
    NewAddress(Slot, Vec<Text>, Text, i32, i32, bool),
    FreeAddress(Slot),
    AddressKey(Slot, Text, Vec<Text>, Buffer),
    /// What an HTTP server is told of a decision, which may be anything.
    Http(Slot, Option<[u8; size_of::<sg_decision>()]>, bool, Buffer),
    HttpAll(Slot, Vec<(Slot, [u8; size_of::<sg_decision>()])>, bool, Buffer),
    OpenQueue(Slot, bool),
    CloseQueue(Slot),
    Submit(Slot, Verb, Slot, Key, i64, i64, u8),
    SubmitAll(Slot, Slot, Vec<Entry>, u8),
    Collect(Slot, u8, bool, bool),
    Cancel(Slot, u8),
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Verb {
    TryAcquire,
    Acquire,
    Reserve,
    Peek,
    Refund,
    Reset,
    Hold,
}

/// Where a text is written to: how large it is, and whether it and the length's place are there.
#[derive(Arbitrary, Debug)]
struct Buffer {
    size: u16,
    there: bool,
    length_there: bool,
}

impl Buffer {
    /// Has `write` write to it, and checks what it wrote.
    fn filled(&self, write: impl FnOnce(*mut c_char, usize, *mut usize) -> sg_result) {
        let mut buffer = vec![0x55_u8; self.size.into()];
        let (mut length, place) = (usize::MAX, buffer.as_mut_ptr().cast());
        let length_place = if self.length_there { &raw mut length } else { ptr::null_mut() };
        let place = if self.there { place } else { ptr::null_mut() };
        let result = write(place, buffer.len(), length_place);
        told(result);
        if result == sg_result::SG_OK && self.there {
            let text = CStr::from_bytes_until_nul(&buffer).unwrap();
            assert!(!self.length_there || length == text.count_bytes());
            assert!(text.to_str().is_ok());
        } else {
            assert!(buffer.iter().all(|byte| *byte == 0x55), "written, and yet it failed");
        }
    }
}

/// Counts in what `user_data` points to.
unsafe extern "C" fn listen(event: *const sg_event, user_data: *mut c_void) {
    let told = unsafe { &*user_data.cast::<AtomicU64>() };
    let message = unsafe { CStr::from_ptr((*event).message) };
    assert!(!message.is_empty() && !unsafe { sg_event_kind_name((*event).kind).is_null() });
    told.fetch_add(1, Ordering::Relaxed);
}

static TOLD: AtomicU64 = AtomicU64::new(0);

const GOOD: [&CStr; 19] = [
    c"loopback",
    c"10.0.0.0/8",
    c"x-forwarded-for",
    c"forwarded",
    c"for=\"[2001:db8::1]:80\", for=10.0.0.1",
    c"memory://",
    c"sg",
    c"login",
    c"100/s burst 200",
    c"3/s",
    c"gcra 5/2h",
    c"leaky-bucket 50/s queue 10",
    c"fixed-window 1000/day align +01:00",
    c"sliding-window 300/h",
    c"sliding-log 20/s",
    c"concurrency 2 ttl 30s",
    c"10/s; 1000/h",
    c"redis+unix://:Hunter2@nowhere:x",
    c"rediss://u:Hunter2@[",
];

impl Text {
    /// The text, and a pointer to it while it lives. No URL leads to a server.
    fn made(&self) -> Option<CString> {
        match self {
            Text::Null => None,
            Text::Good(number) => Some(GOOD[usize::from(*number) % GOOD.len()].to_owned()),
            Text::Bytes(bytes) => {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                CString::new(&bytes[..end])
                    .ok()
                    .filter(|_| ![b'r', b'u', b'v'].contains(bytes.first().unwrap_or(&0)))
            }
        }
    }
}

fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}

impl Key {
    fn parts(&self) -> (*const c_void, usize) {
        match self {
            Key::Null(length) => (ptr::null(), (*length).into()),
            Key::Bytes(bytes) => (bytes.as_ptr().cast(), bytes.len()),
            Key::Endless => (c"k".as_ptr().cast(), usize::MAX),
            Key::Small(number) => (b"abcdefgh"[usize::from(number % 8)..].as_ptr().cast(), 1),
        }
    }
}

struct Handles<T>([*mut T; SLOTS]);

impl<T> Handles<T> {
    fn at(&self, slot: Slot) -> *mut T {
        self.0.get(usize::from(slot) % (SLOTS + 1)).copied().unwrap_or(ptr::null_mut())
    }

    /// Takes a handle out, and with it the promise to close it.
    fn take(&mut self, slot: Slot) -> *mut T {
        let place = self.0.get_mut(usize::from(slot) % (SLOTS + 1));
        place.map_or(ptr::null_mut(), |place| std::mem::replace(place, ptr::null_mut()))
    }

    fn empty(&self) -> bool {
        self.0.iter().all(|handle| handle.is_null())
    }
}

struct World {
    clocks: Handles<sg_manual_clock>,
    limiters: Handles<sg_limiter>,
    limits: Handles<sg_limit>,
    permits: Handles<sg_permit>,
    addresses: Handles<sg_client_address>,
    queues: Handles<sg_queue>,
    /// For each queue the calls that were submitted and not collected, at most.
    under_way: [usize; SLOTS],
}

/// A decision's place, which must be written exactly where the call is made.
fn place(there: bool, place: &mut MaybeUninit<sg_decision>) -> *mut sg_decision {
    if there { place.as_mut_ptr() } else { ptr::null_mut() }
}

fn check(result: sg_result, decision: &MaybeUninit<sg_decision>, written: bool) {
    assert_ne!(result, sg_result::SG_ERR_INTERNAL, "{:?}", message());
    if result == sg_result::SG_OK && written {
        // SAFETY: a call that was made has written its decision.
        let decision = unsafe { decision.assume_init() };
        assert!((0..=decision.limit).contains(&decision.remaining), "{decision:?}");
        assert!(
            decision.retry_after >= -1 && decision.reset_after >= 0 && decision.wait >= 0,
            "{decision:?}"
        );
        assert!(!decision.allowed || decision.retry_after == -1, "{decision:?}");
    }
    told(result);
}

/// An error says something.
fn told(result: sg_result) {
    assert_ne!(result, sg_result::SG_ERR_INTERNAL, "{:?}", message());
    if result != sg_result::SG_OK {
        let message = message();
        assert!((10..1000).contains(&message.len()), "{message:?}");
    }
}

fn message() -> String {
    // SAFETY: never NULL, and copied before the next call.
    unsafe { CStr::from_ptr(sg_last_error_message()) }.to_str().unwrap().to_owned()
}

/// A wait that a fuzzer has time for: none, or one that is refused.
fn short(wait: i64) -> i64 {
    match wait {
        -1 => 0,
        0..=31_622_400_000_000 => wait % 2 * 200,
        refused => refused,
    }
}

impl World {
    unsafe fn open_limiter(&mut self, slot: Slot, url: &Text, options: &Option<Options>, there: bool) {
        let url = url.made();
        let mut set = MaybeUninit::<sg_options>::zeroed();
        let prefix = options.as_ref().and_then(|options| options.prefix.made());
        if let Some(options) = options {
            let set = set.as_mut_ptr();
            if options.initialised {
                let size = options.size.map_or(size_of::<sg_options>(), usize::from);
                told(unsafe { sg_options_init_sized(set, size) });
            }
            let set = unsafe { &mut *set };
            set.prefix = pointer(&prefix);
            set.timeout_us = options.timeout_us.unwrap_or(-1);
            set.deny_cache_us = options.deny_cache_us.unwrap_or(-1);
            set.max_keys = options.max_keys.map_or(-1, |keys| keys % 1024);
            set.on_outage = options.on_outage.unwrap_or(-1);
            set.clock = self.clocks.at(options.clock);
            if options.listens {
                set.on_event = Some(listen);
                set.user_data = ptr::from_ref(&TOLD).cast_mut().cast();
            }
        }
        let set = if options.is_some() { set.as_ptr() } else { ptr::null() };
        let mut made = ptr::null_mut();
        let place = if there { &raw mut made } else { ptr::null_mut() };
        let result = unsafe { sg_limiter_open(pointer(&url), set, place) };
        told(result);
        assert!(result == sg_result::SG_OK || !message().contains("Hunter2"), "{:?}", message());
        assert_eq!(result == sg_result::SG_OK, !made.is_null());
        unsafe { self.put_limiter(slot, made) };
    }

    unsafe fn put_limiter(&mut self, slot: Slot, made: *mut sg_limiter) {
        let Some(place) = self.limiters.0.get_mut(usize::from(slot) % SLOTS) else { return };
        let before = std::mem::replace(place, made);
        unsafe { sg_limiter_close(before) };
    }

    unsafe fn step(&mut self, step: &Step) {
        let mut decision = MaybeUninit::uninit();
        match step {
            Step::NewClock(slot, start) => {
                let mut made = ptr::null_mut();
                told(unsafe { sg_manual_clock_new(*start, &raw mut made) });
                let place = &mut self.clocks.0[usize::from(*slot) % SLOTS];
                unsafe { sg_manual_clock_free(std::mem::replace(place, made)) };
            }
            Step::MoveClock(slot, by) => told(unsafe { sg_manual_clock_advance(self.clocks.at(*slot), *by) }),
            Step::SetClock(slot, to) => {
                let clock = self.clocks.at(*slot);
                let result = unsafe { sg_manual_clock_set(clock, *to) };
                told(result);
                if result == sg_result::SG_OK {
                    assert_eq!(unsafe { sg_manual_clock_now(clock) }, *to);
                }
            }
            Step::FreeClock(slot) => unsafe { sg_manual_clock_free(self.clocks.take(*slot)) },
            Step::InitOptions(there, size) => {
                let mut options = MaybeUninit::uninit();
                let place = if *there { options.as_mut_ptr() } else { ptr::null_mut() };
                told(unsafe { sg_options_init_sized(place, (*size).into()) });
            }
            Step::OpenLimiter(slot, url, options, there) => unsafe {
                self.open_limiter(*slot, url, options, *there);
            },
            Step::CloseLimiter(slot) => unsafe { sg_limiter_close(self.limiters.take(*slot)) },
            Step::OpenLimit(slot, limiter, name, spec, on_outage, there) => {
                let (name, spec, limiter) = (name.made(), spec.made(), self.limiters.at(*limiter));
                let mut made = ptr::null_mut();
                let place = if *there { &raw mut made } else { ptr::null_mut() };
                let (name, spec) = (pointer(&name), pointer(&spec));
                let result = match on_outage {
                    None => unsafe { sg_limit_open(limiter, name, spec, place) },
                    Some(mode) => unsafe { sg_limit_open_on_outage(limiter, name, spec, *mode, place) },
                };
                told(result);
                assert_eq!(result == sg_result::SG_OK, !made.is_null());
                let place = &mut self.limits.0[usize::from(*slot) % SLOTS];
                unsafe { sg_limit_close(std::mem::replace(place, made)) };
            }
            Step::CloseLimit(slot) => unsafe { sg_limit_close(self.limits.take(*slot)) },
            Step::Read(slot) => {
                let limit = self.limits.at(*slot);
                for text in unsafe { [sg_limit_name(limit), sg_limit_spec(limit)] } {
                    assert_eq!(text.is_null(), limit.is_null());
                    if !text.is_null() {
                        assert!(!unsafe { CStr::from_ptr(text) }.is_empty());
                    }
                }
            }
            Step::TryAcquire(limit, key, cost, there) => {
                let (key, length) = key.parts();
                let place = place(*there, &mut decision);
                let result = unsafe { sg_try_acquire(self.limits.at(*limit), key, length, *cost, place) };
                check(result, &decision, *there);
            }
            Step::Acquire(limit, key, cost, wait, there) => {
                let (key, length) = key.parts();
                let place = place(*there, &mut decision);
                // Under a clock that nobody moves a wait has no end.
                let wait = if self.clocks.empty() { short(*wait) } else { 0 };
                let result = unsafe { sg_acquire(self.limits.at(*limit), key, length, *cost, wait, place) };
                check(result, &decision, *there);
            }
            Step::Reserve(limit, key, cost, wait, there) => {
                let (key, length) = key.parts();
                let place = place(*there, &mut decision);
                let result = unsafe { sg_reserve(self.limits.at(*limit), key, length, *cost, *wait, place) };
                check(result, &decision, *there);
            }
            Step::Peek(limit, key, there) => {
                let (key, length) = key.parts();
                let place = place(*there, &mut decision);
                check(unsafe { sg_peek(self.limits.at(*limit), key, length, place) }, &decision, *there);
            }
            Step::Refund(limit, key, cost, there) => {
                let (key, length) = key.parts();
                let place = place(*there, &mut decision);
                let result = unsafe { sg_refund(self.limits.at(*limit), key, length, *cost, place) };
                check(result, &decision, *there);
            }
            Step::Reset(limit, key) => {
                let (key, length) = key.parts();
                told(unsafe { sg_reset(self.limits.at(*limit), key, length) });
            }
            Step::Hold(slot, limit, key, wait, there, permit_there) => {
                let (key, length) = key.parts();
                let mut made = ptr::null_mut();
                let place = place(*there, &mut decision);
                let permit = if *permit_there { &raw mut made } else { ptr::null_mut() };
                let wait = if self.clocks.empty() { short(*wait) } else { 0 };
                let result = unsafe { sg_hold(self.limits.at(*limit), key, length, wait, place, permit) };
                check(result, &decision, *there);
                let place = &mut self.permits.0[usize::from(*slot) % SLOTS];
                unsafe { sg_release(std::mem::replace(place, made)) };
            }
            Step::Release(slot) => unsafe { sg_release(self.permits.take(*slot)) },
            Step::All(limiter, entries, there, count) => {
                let entries: Vec<sg_entry> = entries
                    .iter()
                    .map(|entry| {
                        let (key, key_len) = entry.key.parts();
                        sg_entry { limit: self.limits.at(entry.limit), key, key_len, cost: entry.cost }
                    })
                    .collect();
                // As many as there are, or a number that nothing could back.
                let count = if count.is_some() { usize::MAX } else { entries.len() };
                let place = place(*there, &mut decision);
                let limiter = self.limiters.at(*limiter);
                let result = unsafe { sg_try_acquire_all(limiter, entries.as_ptr(), count, place) };
                check(result, &decision, *there);
            }
            Step::Status(limiter, there) => {
                let mut status = MaybeUninit::<sg_limiter_status>::uninit();
                let place = if *there { status.as_mut_ptr() } else { ptr::null_mut() };
                let result = unsafe { sg_status(self.limiters.at(*limiter), place) };
                told(result);
                if result == sg_result::SG_OK {
                    let status = unsafe { status.assume_init() };
                    assert!(status.local_keys >= 0 && status.processes >= 0, "{status:?}");
                }
            }
            Step::NewAddress(..)
            | Step::FreeAddress(_)
            | Step::AddressKey(..)
            | Step::Http(..)
            | Step::HttpAll(..) => unsafe { self.address_or_http(step) },
            Step::OpenQueue(..)
            | Step::CloseQueue(_)
            | Step::Submit(..)
            | Step::SubmitAll(..)
            | Step::Collect(..)
            | Step::Cancel(..) => unsafe { self.queue(step) },
            Step::Names(number) => {
                let names = [sg_result_name, sg_source_name, sg_store_state_name, sg_event_kind_name];
                for name in names.map(|name| name(*number)) {
                    assert!(!unsafe { CStr::from_ptr(name) }.is_empty());
                }
            }
        }
    }

    unsafe fn address_or_http(&mut self, step: &Step) {
        match step {
            Step::NewAddress(slot, trusted, header, ipv4, ipv6, there) => {
                let trusted: Vec<Option<CString>> = trusted.iter().map(Text::made).collect();
                let trusted: Vec<*const c_char> = trusted.iter().map(pointer).collect();
                let (header, mut made) = (header.made(), ptr::null_mut());
                let place = if *there { &raw mut made } else { ptr::null_mut() };
                let (list, count) = (trusted.as_ptr(), trusted.len());
                told(unsafe { sg_client_address_new(list, count, pointer(&header), *ipv4, *ipv6, place) });
                let place = &mut self.addresses.0[usize::from(*slot) % SLOTS];
                unsafe { sg_client_address_free(std::mem::replace(place, made)) };
            }
            Step::FreeAddress(slot) => unsafe { sg_client_address_free(self.addresses.take(*slot)) },
            Step::AddressKey(slot, peer, values, buffer) => {
                let client = self.addresses.at(*slot);
                assert_eq!(unsafe { sg_client_address_header(client) }.is_null(), client.is_null());
                let (peer, values) = (peer.made(), values.iter().map(Text::made).collect::<Vec<_>>());
                let values: Vec<*const c_char> = values.iter().map(pointer).collect();
                buffer.filled(|place, size, length| unsafe {
                    let (list, count) = (values.as_ptr(), values.len());
                    sg_client_address_key(client, pointer(&peer), list, count, place, size, length)
                });
            }
            Step::Http(limit, decision, legacy, buffer) => {
                let (limit, legacy) = (self.limits.at(*limit), i32::from(*legacy));
                let decision = decision.map(Decision);
                let decision =
                    decision.as_ref().map_or(ptr::null(), |decision| ptr::from_ref(decision).cast());
                buffer.filled(|place, size, length| unsafe {
                    sg_http_headers(limit, decision, legacy, place, size, length)
                });
                buffer.filled(|place, size, length| unsafe {
                    sg_http_problem(limit, decision, place, size, length)
                });
            }
            Step::HttpAll(limiter, pairs, legacy, buffer) => {
                let (limiter, legacy) = (self.limiters.at(*limiter), i32::from(*legacy));
                let (key, key_len, cost) = (ptr::null(), 0, 0);
                let entries = pairs.iter().map(|(limit, _)| self.limits.at(*limit));
                let entries: Vec<_> = entries.map(|limit| sg_entry { limit, key, key_len, cost }).collect();
                let decisions: Vec<Decision> = pairs.iter().map(|(_, bytes)| Decision(*bytes)).collect();
                let (entries, decisions, count) = (entries.as_ptr(), decisions.as_ptr().cast(), pairs.len());
                buffer.filled(|place, size, length| unsafe {
                    sg_http_headers_all(limiter, entries, decisions, count, legacy, place, size, length)
                });
                buffer.filled(|place, size, length| unsafe {
                    sg_http_problem_all(limiter, entries, decisions, count, place, size, length)
                });
            }
            _ => unreachable!("{step:?} is another's"),
        }
    }

    fn submitted(&mut self, queue: Slot, result: sg_result) {
        told(result);
        if result == sg_result::SG_OK {
            self.under_way[usize::from(queue) % (SLOTS + 1)] += 1;
        }
    }

    unsafe fn submit(
        &self,
        queue: *mut sg_queue,
        verb: Verb,
        limit: Slot,
        rest: (&Key, i64, i64, u64),
    ) -> sg_result {
        let (key, cost, wait, tag) = rest;
        let (limit, (key, length)) = (self.limits.at(limit), key.parts());
        unsafe {
            match verb {
                Verb::TryAcquire => sg_submit_try_acquire(queue, limit, key, length, cost, tag),
                Verb::Acquire => sg_submit_acquire(queue, limit, key, length, cost, wait, tag),
                Verb::Reserve => sg_submit_reserve(queue, limit, key, length, cost, wait, tag),
                Verb::Peek => sg_submit_peek(queue, limit, key, length, tag),
                Verb::Refund => sg_submit_refund(queue, limit, key, length, cost, tag),
                Verb::Reset => sg_submit_reset(queue, limit, key, length, tag),
                Verb::Hold => sg_submit_hold(queue, limit, key, length, wait, tag),
            }
        }
    }

    unsafe fn queue(&mut self, step: &Step) {
        match step {
            Step::OpenQueue(slot, there) => {
                let mut made = ptr::null_mut();
                told(unsafe { sg_queue_open(if *there { &raw mut made } else { ptr::null_mut() }) });
                let place = usize::from(*slot) % SLOTS;
                self.under_way[place] = 0;
                unsafe { sg_queue_close(std::mem::replace(&mut self.queues.0[place], made)) };
                assert_eq!(unsafe { sg_queue_fd(made) } >= 0, !made.is_null());
            }
            Step::CloseQueue(slot) => unsafe { sg_queue_close(self.queues.take(*slot)) },
            Step::Submit(slot, verb, limit, key, cost, wait, tag) => {
                let rest = (key, *cost, *wait, u64::from(*tag));
                let result = unsafe { self.submit(self.queues.at(*slot), *verb, *limit, rest) };
                self.submitted(*slot, result);
            }
            Step::SubmitAll(slot, limiter, entries, tag) => {
                let entries: Vec<sg_entry> = entries
                    .iter()
                    .map(|entry| {
                        let (key, key_len) = entry.key.parts();
                        sg_entry { limit: self.limits.at(entry.limit), key, key_len, cost: entry.cost }
                    })
                    .collect();
                let (queue, limiter) = (self.queues.at(*slot), self.limiters.at(*limiter));
                let (list, count) = (entries.as_ptr(), entries.len());
                let result =
                    unsafe { sg_submit_try_acquire_all(queue, limiter, list, count, u64::from(*tag)) };
                self.submitted(*slot, result);
            }
            Step::Collect(slot, capacity, there, count_there) => {
                let mut places = vec![MaybeUninit::<sg_completion>::uninit(); usize::from(*capacity % 16)];
                let mut count = usize::MAX;
                let (queue, capacity) = (self.queues.at(*slot), places.len());
                let list = if *there { places.as_mut_ptr().cast() } else { ptr::null_mut() };
                let count_place = if *count_there { &raw mut count } else { ptr::null_mut() };
                let result = unsafe { sg_queue_collect(queue, list, capacity, count_place) };
                told(result);
                if result != sg_result::SG_OK {
                    return assert_eq!(count, usize::MAX);
                }
                let under_way = &mut self.under_way[usize::from(*slot) % (SLOTS + 1)];
                assert!(count <= capacity && count <= *under_way, "{count} of {under_way}");
                *under_way -= count;
                for place in &places[..count] {
                    let completion = unsafe { place.assume_init() };
                    if completion.result == sg_result::SG_OK {
                        check(completion.result, &MaybeUninit::new(completion.decision), true);
                        assert!(completion.message.is_null());
                    } else {
                        assert!(!unsafe { CStr::from_ptr(completion.message) }.is_empty());
                    }
                    unsafe { sg_release(completion.permit) };
                }
            }
            Step::Cancel(slot, tag) => told(unsafe { sg_queue_cancel(self.queues.at(*slot), (*tag).into()) }),
            _ => unreachable!("{step:?} is another's"),
        }
    }

    unsafe fn close(mut self) {
        for slot in 0..SLOTS as Slot {
            unsafe {
                sg_manual_clock_free(self.clocks.take(slot));
                sg_limiter_close(self.limiters.take(slot));
                sg_release(self.permits.take(slot));
                sg_limit_close(self.limits.take(slot));
                sg_client_address_free(self.addresses.take(slot));
                sg_queue_close(self.queues.take(slot));
            }
        }
    }
}

fuzz_target!(|steps: Vec<Step>| {
    let mut world = World {
        clocks: Handles([ptr::null_mut(); SLOTS]),
        limiters: Handles([ptr::null_mut(); SLOTS]),
        limits: Handles([ptr::null_mut(); SLOTS]),
        permits: Handles([ptr::null_mut(); SLOTS]),
        addresses: Handles([ptr::null_mut(); SLOTS]),
        queues: Handles([ptr::null_mut(); SLOTS]),
        under_way: [0; SLOTS],
    };
    for step in steps.iter().take(64) {
        // SAFETY: the promises of the header are kept, as said above.
        unsafe { world.step(step) };
    }
    // SAFETY: as above; every handle is closed once.
    unsafe { world.close() };
});

//! The functions as C calls them, on memory://, in a form that Miri can run: `make miri`. What they
//! decide is tested elsewhere; here the pointers are what matters.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::ptr;

use crate::clock::*;
use crate::decision::*;
use crate::limit::*;
use crate::limiter::*;
use crate::options::*;
use crate::permit::*;
use crate::result::sg_result::*;
use crate::result::*;

fn text(pointer: *const c_char) -> &'static str {
    // SAFETY: all texts here are those of the library, looked at before the next call.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
}

/// A limiter on a clock of its own, which may be freed before it.
fn open() -> (*mut sg_limiter, *mut sg_manual_clock) {
    let (mut limiter, mut clock, mut options) = (ptr::null_mut(), ptr::null_mut(), MaybeUninit::uninit());
    // SAFETY: every place is there, and texts end with a NUL.
    unsafe {
        assert_eq!(sg_manual_clock_new(-1, &raw mut clock), SG_OK);
        assert_eq!(sg_options_init_sized(options.as_mut_ptr(), size_of::<sg_options>()), SG_OK);
        let mut options = options.assume_init();
        options.prefix = c"tests".as_ptr();
        options.timeout_us = 1_000_000;
        options.max_keys = 64;
        options.on_outage = 3;
        options.clock = clock;
        assert_eq!(sg_limiter_open(c"memory://".as_ptr(), &raw const options, &raw mut limiter), SG_OK);
    }
    (limiter, clock)
}

fn limit(limiter: *mut sg_limiter, spec: &CStr) -> *mut sg_limit {
    let mut limit = ptr::null_mut();
    // SAFETY: the limiter is open, and the place is there.
    let made = unsafe { sg_limit_open(limiter, c"n".as_ptr(), spec.as_ptr(), &raw mut limit) };
    assert_eq!(made, SG_OK, "{}", text(sg_last_error_message()));
    limit
}

#[test]
fn every_verb_reads_and_writes_its_places() {
    let (limiter, clock) = open();
    let (bucket, permits) = (limit(limiter, c"2/s"), limit(limiter, c"concurrency 1 ttl 1s"));
    let key = *b"k\0y";
    let (key, length) = (key.as_ptr().cast(), key.len());
    let mut place = MaybeUninit::<sg_decision>::uninit();
    let out = place.as_mut_ptr();
    // SAFETY: handles are open, lengths are right, and a decision is read after a call that was made.
    unsafe {
        assert_eq!(text(sg_limit_name(bucket)), "n");
        assert_eq!(text(sg_limit_spec(permits)), "concurrency 1 ttl 1s");
        assert_eq!(sg_try_acquire(bucket, key, length, 2, out), SG_OK);
        assert!(place.assume_init().allowed);
        assert_eq!(sg_try_acquire(bucket, key, length, 1, out), SG_OK);
        assert_eq!(place.assume_init().retry_after, 500_000);
        assert_eq!(sg_acquire(bucket, key, length, 1, 0, out), SG_OK);
        assert!(!place.assume_init().allowed);
        assert_eq!(sg_reserve(bucket, key, length, 1, -1, out), SG_OK);
        assert_eq!(place.assume_init().wait, 500_000);
        assert_eq!(sg_refund(bucket, key, length, 1, ptr::null_mut()), SG_OK);
        assert_eq!(sg_manual_clock_advance(clock, 500_000), SG_OK);
        assert_eq!(sg_peek(bucket, key, length, out), SG_OK);
        assert_eq!(place.assume_init().remaining, 1);
        assert_eq!(sg_reset(bucket, key, length), SG_OK);

        let mut permit = ptr::null_mut();
        assert_eq!(sg_hold(permits, key, length, 0, out, &raw mut permit), SG_OK);
        assert!(place.assume_init().allowed && !permit.is_null());
        let mut refused = ptr::dangling_mut();
        assert_eq!(sg_hold(permits, key, length, 0, out, &raw mut refused), SG_OK);
        assert!(!place.assume_init().allowed && refused.is_null());
        sg_release(permit);

        let entries = [
            sg_entry { limit: bucket, key, key_len: length, cost: 1 },
            sg_entry { limit: bucket, key, key_len: 1, cost: 2 },
        ];
        assert_eq!(sg_try_acquire_all(limiter, entries.as_ptr(), entries.len(), out), SG_OK);
        assert!(place.assume_init().allowed);

        let mut status = MaybeUninit::uninit();
        assert_eq!(sg_status(limiter, status.as_mut_ptr()), SG_OK);
        assert_eq!(status.assume_init().local_keys, 2);
        assert_eq!(text(status.assume_init().last_error.as_ptr()), "");

        sg_manual_clock_free(clock);
        sg_limiter_close(limiter);
        assert_eq!(sg_try_acquire(bucket, key, length, 1, out), SG_ERR_CLOSED);
        sg_limit_close(bucket);
        sg_limit_close(permits);
    }
}

#[test]
fn nothing_is_read_or_written_where_nothing_may_be() {
    let (limiter, clock) = open();
    let bucket = limit(limiter, c"2/s");
    let mut place = MaybeUninit::<sg_decision>::uninit();
    let (out, key) = (place.as_mut_ptr(), c"k".as_ptr().cast());
    // SAFETY: NULL is allowed everywhere, and a length that nothing could back is refused.
    unsafe {
        assert_eq!(sg_try_acquire(ptr::null(), key, 1, 1, out), SG_ERR_ARGUMENT);
        assert_eq!(sg_try_acquire(bucket, ptr::null(), 1, 1, out), SG_ERR_ARGUMENT);
        assert_eq!(sg_try_acquire(bucket, ptr::null(), 0, 1, out), SG_ERR_ARGUMENT);
        assert_eq!(sg_try_acquire(bucket, key, usize::MAX, 1, out), SG_ERR_ARGUMENT);
        assert_eq!(sg_try_acquire(bucket, key, 0, 1, out), SG_ERR_ARGUMENT);
        assert_eq!(sg_try_acquire(bucket, key, 1, -1, out), SG_ERR_ARGUMENT);
        assert_eq!(sg_try_acquire(bucket, key, 1, 1, ptr::null_mut()), SG_ERR_ARGUMENT);
        assert_eq!(sg_hold(bucket, key, 1, 0, out, ptr::null_mut()), SG_ERR_ARGUMENT);
        assert_eq!(sg_try_acquire_all(limiter, ptr::null(), 1, out), SG_ERR_ARGUMENT);
        let nowhere = sg_entry { limit: ptr::null(), key, key_len: 1, cost: 1 };
        assert_eq!(sg_try_acquire_all(limiter, &raw const nowhere, 1, out), SG_ERR_ARGUMENT);
        assert_eq!(sg_try_acquire_all(limiter, &raw const nowhere, usize::MAX, out), SG_ERR_ARGUMENT);
        assert_eq!(sg_options_init_sized(ptr::null_mut(), size_of::<sg_options>()), SG_ERR_ARGUMENT);
        assert_eq!(sg_status(limiter, ptr::null_mut()), SG_ERR_ARGUMENT);
        assert_eq!(sg_manual_clock_now(ptr::null()), -1);
        assert!(sg_limit_name(ptr::null()).is_null());

        let mut opened = ptr::null_mut();
        assert_eq!(sg_limiter_open(ptr::null(), ptr::null(), &raw mut opened), SG_ERR_ARGUMENT);
        assert_eq!(
            sg_limiter_open(c"redis://:secret@".as_ptr(), ptr::null(), &raw mut opened),
            SG_ERR_CONFIG
        );
        assert!(opened.is_null() && !text(sg_last_error_message()).contains("secret"));
        let unset = MaybeUninit::<sg_options>::zeroed();
        assert_eq!(sg_limiter_open(c"memory://".as_ptr(), unset.as_ptr(), &raw mut opened), SG_ERR_ARGUMENT);
        let mut made = ptr::null_mut();
        assert_eq!(sg_limit_open(limiter, c"\xff".as_ptr(), c"1/s".as_ptr(), &raw mut made), SG_ERR_ARGUMENT);
        assert_eq!(sg_limit_open(limiter, c"n".as_ptr(), c"1/".as_ptr(), &raw mut made), SG_ERR_SPEC);
        assert!(made.is_null());

        sg_limit_close(bucket);
        sg_limiter_close(limiter);
        sg_manual_clock_free(clock);
        sg_limit_close(ptr::null_mut());
        sg_limiter_close(ptr::null_mut());
        sg_manual_clock_free(ptr::null_mut());
        sg_release(ptr::null_mut());
    }
}

//! The options of a limiter, each of which may be left to core.

use std::ffi::{c_char, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::ptr;

use sluicegate::argument::{bound_from_int, duration_from_micros};
use sluicegate::{Builder, Error, ErrorKind, OnOutage, Result};

use crate::clock::sg_manual_clock;
use crate::convert::{UNSET, reference, text};
use crate::event::{Listener, sg_event_callback};
use crate::result::{guard, sg_result};

/// What a limit does while the store can't be reached.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sg_on_outage {
    /// Each process decides by its share of the limit; the shares add up to the limit.
    SG_ON_OUTAGE_SHARE = 0,
    /// Everything is admitted.
    SG_ON_OUTAGE_ALLOW = 1,
    /// Everything is refused.
    SG_ON_OUTAGE_DENY = 2,
    /// Calls fail with SG_ERR_OUTAGE.
    SG_ON_OUTAGE_RAISE = 3,
}

/// The options of a limiter. sg_options_init marks all of them as not set; then set what you need.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sg_options {
    /// Set by sg_options_init: which fields this struct has. Later versions may add some.
    pub struct_size: usize,
    /// What all keys in Redis begin with: 1 to 128 bytes without braces or spaces. Limiters with
    /// one URL and prefix share their limits. NULL is not set: "sg".
    pub prefix: *const c_char,
    /// The time budget of a decision: 1,000 (1 ms) to 60,000,000 (1 minute). A call that Redis has
    /// not answered by then is decided here, as `on_outage` says. -1 is not set: 100 ms.
    pub timeout_us: i64,
    /// How long at most a refusal is remembered, so that a flood of refused calls needs no network:
    /// 0 (off) to 60,000,000 (1 minute). -1 is not set: 100 ms.
    pub deny_cache_us: i64,
    /// The bound of each table of keys that this process keeps: 64 to 2^32. A full table drops keys
    /// that are as good as fresh, and refuses new ones where there is none. -1 is not set: 1,000,000.
    pub max_keys: i64,
    /// What to do when the store can't be reached: one of sg_on_outage. -1 is not set:
    /// SG_ON_OUTAGE_SHARE.
    pub on_outage: i32,
    /// A clock that is moved by hand, for tests. NULL is not set: the machine's own, and Redis's
    /// own there. It may be freed before the limiter is closed.
    pub clock: *const sg_manual_clock,
    /// Is told when something changes: the first connection, the store away and back, a table of keys
    /// that is full. It is called on a thread of the library's that does nothing else, one event after
    /// the other; it may take its time and call the library, but must not throw. sg_limiter_close waits
    /// until it has returned, after which it is not called any more. A forked child calls it too, for
    /// its own events. NULL is not set.
    pub on_event: sg_event_callback,
    /// What `on_event` gets with each event. It must be there until the limiter is closed.
    pub user_data: *mut c_void,
    /// How many calls of this process may wait for one server's answer: 64 to 2^32. More are decided
    /// here at once, as `on_outage` says. -1 is not set: 100,000.
    pub max_waiting: i64,
}

const NOTHING_SET: sg_options = sg_options {
    struct_size: size_of::<sg_options>(),
    prefix: ptr::null(),
    timeout_us: UNSET,
    deny_cache_us: UNSET,
    max_keys: UNSET,
    on_outage: UNSET as i32,
    clock: ptr::null(),
    on_event: None,
    user_data: ptr::null_mut(),
    max_waiting: UNSET,
};

/// The sizes that the struct has had: a caller has one of them, and what is beyond is not its own.
const SIZES: [usize; 2] = [offset_of!(sg_options, on_event), size_of::<sg_options>()];

/// What sg_options_init calls with the size that the caller was compiled with.
///
/// SG_ERR_ARGUMENT where `options` is NULL or the size is not that of any version's struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_options_init_sized(options: *mut sg_options, struct_size: usize) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { reference("options", options.cast::<MaybeUninit<u8>>()) }?;
        check_size(struct_size)?;
        let nothing = sg_options { struct_size, ..NOTHING_SET };
        // SAFETY: the caller's promise: it has as many bytes.
        unsafe {
            options.cast::<u8>().copy_from_nonoverlapping((&raw const nothing).cast(), struct_size);
        }
        Ok(())
    })
}

fn check_size(struct_size: usize) -> Result<()> {
    if SIZES.contains(&struct_size) {
        return Ok(());
    }
    let sizes = SIZES.map(|size| size.to_string()).join(" or ");
    Err(Error::new(
        ErrorKind::Argument,
        format!("options.struct_size must be {sizes}, got {struct_size}; call sg_options_init first"),
    ))
}

/// The mode that a C integer names.
pub(crate) fn on_outage(number: i32) -> Result<OnOutage> {
    // Where no mode has the number, core refuses it as it refuses any other unknown name.
    let mode = OnOutage::ALL.into_iter().find(|mode| *mode as i32 == number);
    mode.map_or_else(|| number.to_string().parse(), Ok)
}

impl sg_options {
    /// The options that stand there, in whatever version of the struct; `None` where the pointer is
    /// NULL.
    ///
    /// # Safety
    /// The caller's promise that there are as many bytes as `struct_size` says.
    pub(crate) unsafe fn read(options: *const sg_options) -> Result<Option<sg_options>> {
        if options.is_null() {
            return Ok(None);
        }
        // SAFETY: as above; every version begins with its size.
        let struct_size = unsafe { (&raw const (*options).struct_size).read() };
        check_size(struct_size)?;
        let mut read = NOTHING_SET;
        // SAFETY: as above, and ours is the longest.
        unsafe {
            (&raw mut read).cast::<u8>().copy_from_nonoverlapping(options.cast(), struct_size);
        }
        Ok(Some(read))
    }

    /// Passes on what is set.
    ///
    /// # Safety
    /// The caller's promise for what the fields point to.
    pub(crate) unsafe fn apply(&self, mut builder: Builder) -> Result<Builder> {
        if !self.prefix.is_null() {
            // SAFETY: as above.
            builder = builder.prefix(unsafe { text("prefix", self.prefix, ErrorKind::Config) }?);
        }
        if self.timeout_us != UNSET {
            builder = builder.timeout(duration_from_micros("timeout_us", self.timeout_us)?);
        }
        if self.deny_cache_us != UNSET {
            builder = builder.deny_cache(duration_from_micros("deny_cache_us", self.deny_cache_us)?);
        }
        if self.max_keys != UNSET {
            builder = builder.max_keys(bound_from_int("max_keys", self.max_keys.into())?);
        }
        if self.max_waiting != UNSET {
            builder = builder.max_waiting(bound_from_int("max_waiting", self.max_waiting.into())?);
        }
        if i64::from(self.on_outage) != UNSET {
            builder = builder.on_outage(on_outage(self.on_outage)?);
        }
        if !self.clock.is_null() {
            // SAFETY: as above.
            builder = builder.clock(&unsafe { reference("clock", self.clock) }?.0);
        }
        if let Some(callback) = self.on_event {
            let listener = Listener { callback, user_data: self.user_data };
            builder = builder.on_event(move |event| listener.tell(event));
        }
        Ok(builder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_with_an_older_struct_keeps_its_bytes() {
        for size in SIZES {
            let mut place = MaybeUninit::<sg_options>::uninit();
            let options = place.as_mut_ptr();
            // SAFETY: there are as many bytes.
            unsafe { options.write_bytes(0xa5, 1) };
            // SAFETY: there are as many bytes.
            assert_eq!(unsafe { sg_options_init_sized(options, size) }, sg_result::SG_OK);
            // SAFETY: all of them were written.
            let bytes = unsafe { std::slice::from_raw_parts(options.cast::<u8>(), size_of::<sg_options>()) };
            assert!(bytes[size..].iter().all(|byte| *byte == 0xa5));
            // SAFETY: as above.
            let read = unsafe { sg_options::read(options) }.unwrap().unwrap();
            assert_eq!(read.struct_size, size);
            assert!(read.on_event.is_none() && read.user_data.is_null() && read.prefix.is_null());
        }
    }

    #[test]
    fn every_mode_has_its_number() {
        use sg_on_outage::*;
        let ours = [SG_ON_OUTAGE_SHARE, SG_ON_OUTAGE_ALLOW, SG_ON_OUTAGE_DENY, SG_ON_OUTAGE_RAISE];
        assert_eq!(ours.len(), OnOutage::ALL.len());
        for (ours, mode) in ours.into_iter().zip(OnOutage::ALL) {
            assert_eq!(on_outage(ours as i32), Ok(mode));
            assert!(format!("{ours:?}").eq_ignore_ascii_case(&format!("SG_ON_OUTAGE_{}", mode.as_str())));
        }
        let error = on_outage(4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("share, allow, deny, raise"));
    }
}

//! The options of a limiter, each of which may be left to core.

use std::ffi::c_char;
use std::ptr;

use sluicegate::argument::{duration_from_micros, max_keys_from_int};
use sluicegate::{Builder, Error, ErrorKind, OnOutage, Result};

use crate::clock::sg_manual_clock;
use crate::convert::{UNSET, out, reference, text};
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
}

const NOTHING_SET: sg_options = sg_options {
    struct_size: size_of::<sg_options>(),
    prefix: ptr::null(),
    timeout_us: UNSET,
    deny_cache_us: UNSET,
    max_keys: UNSET,
    on_outage: UNSET as i32,
    clock: ptr::null(),
};

/// What sg_options_init calls with the size that the caller was compiled with.
///
/// SG_ERR_ARGUMENT where `options` is NULL or the size is not that of any version's struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_options_init_sized(options: *mut sg_options, struct_size: usize) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let options = unsafe { out("options", options) }?;
        check_size(struct_size)?;
        options.write(NOTHING_SET);
        Ok(())
    })
}

/// A later version that has grown the struct must go on taking this size, and must then neither
/// read nor write beyond it.
fn check_size(struct_size: usize) -> Result<()> {
    if struct_size == NOTHING_SET.struct_size {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Argument,
        format!(
            "options.struct_size must be {}, got {struct_size}; call sg_options_init first",
            NOTHING_SET.struct_size
        ),
    ))
}

/// The mode that a C integer names.
pub(crate) fn on_outage(number: i32) -> Result<OnOutage> {
    // Where no mode has the number, core refuses it as it refuses any other unknown name.
    let mode = OnOutage::ALL.into_iter().find(|mode| *mode as i32 == number);
    mode.map_or_else(|| number.to_string().parse(), Ok)
}

impl sg_options {
    /// Passes on what is set.
    ///
    /// # Safety
    /// The caller's promise for what the fields point to.
    pub(crate) unsafe fn apply(&self, mut builder: Builder) -> Result<Builder> {
        check_size(self.struct_size)?;
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
            builder = builder.max_keys(max_keys_from_int(self.max_keys.into())?);
        }
        if i64::from(self.on_outage) != UNSET {
            builder = builder.on_outage(on_outage(self.on_outage)?);
        }
        if !self.clock.is_null() {
            // SAFETY: as above.
            builder = builder.clock(&unsafe { reference("clock", self.clock) }?.0);
        }
        Ok(builder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

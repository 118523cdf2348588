//! The clock that tests move by hand.

use napi::bindgen_prelude::Unknown;
use napi_derive::napi;
use sluicegate::ManualClock as Core;

use crate::convert;
use crate::error::Result;

/// Core's manual clock.
#[napi]
pub struct ManualClock {
    pub(crate) core: Core,
}

#[napi]
impl ManualClock {
    /// A clock at `start` milliseconds, or where core starts it.
    #[napi(constructor, catch_unwind)]
    pub fn new(start: Unknown) -> Result<Self> {
        let core = convert::time("startMs", &start)?.map_or_else(Core::default, Core::new);
        Ok(ManualClock { core })
    }

    /// Moves the clock ahead.
    #[napi(catch_unwind)]
    pub fn advance(&self, by: Unknown) -> Result<()> {
        self.core.advance(convert::required("ms", convert::time("ms", &by)?)?);
        Ok(())
    }

    /// Puts the clock at a time.
    #[napi(catch_unwind)]
    pub fn set(&self, time: Unknown) -> Result<()> {
        self.core.set(convert::required("ms", convert::time("ms", &time)?)?);
        Ok(())
    }

    /// The time on the clock, in milliseconds.
    #[napi(catch_unwind)]
    pub fn now(&self) -> f64 {
        convert::to_millis(self.core.now())
    }
}

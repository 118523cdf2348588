//! A permit, until it is released or collected.

use napi_derive::napi;

/// Core's permit. It is given back when JavaScript's garbage collector finds it.
#[napi]
pub struct Permit {
    pub(crate) core: sluicegate::Permit,
}

#[napi]
impl Permit {
    /// Gives the permit back now.
    #[napi(catch_unwind)]
    pub fn release(&self) {
        self.core.release();
    }
}

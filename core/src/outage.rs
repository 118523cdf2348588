//! When the store is away: what to do, and with what share.

/// What a limit does while the store can't be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(i32)]
pub enum OnOutage {
    /// Each process decides by its share of the limit; the shares add up to the limit.
    #[default]
    Share = 0,
    /// Everything is admitted.
    Allow = 1,
    /// Everything is refused.
    Deny = 2,
    /// Calls fail with [`ErrorKind::Outage`](crate::ErrorKind::Outage).
    Raise = 3,
}

impl OnOutage {
    /// Every mode, for bindings that test their mapping against the whole list.
    pub const ALL: [OnOutage; 4] = [OnOutage::Share, OnOutage::Allow, OnOutage::Deny, OnOutage::Raise];

    /// `share`, `allow`, `deny` or `raise`.
    pub fn as_str(self) -> &'static str {
        match self {
            OnOutage::Share => "share",
            OnOutage::Allow => "allow",
            OnOutage::Deny => "deny",
            OnOutage::Raise => "raise",
        }
    }
}

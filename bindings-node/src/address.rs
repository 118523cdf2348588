//! Who the client is behind proxies.

use napi::bindgen_prelude::Unknown;
use napi_derive::napi;
use sluicegate::ForwardedHeader;

use crate::convert;
use crate::error::{Result, thrown};

/// Core's client address.
#[napi]
pub struct ClientAddress {
    core: sluicegate::ClientAddress,
}

#[napi]
impl ClientAddress {
    /// What is not given is not passed on.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        trusted: Vec<Unknown>,
        header: Unknown,
        ipv4_prefix: Unknown,
        ipv6_prefix: Unknown,
    ) -> Result<Self> {
        let network = |each: &Unknown| convert::required("trusted[]", convert::text("trusted[]", each)?);
        let networks: Result<Vec<String>> = trusted.iter().map(network).collect();
        let mut core = sluicegate::ClientAddress::new(networks?).map_err(thrown)?;
        if let Some(header) = convert::text("header", &header)? {
            core = core.header(header.parse::<ForwardedHeader>().map_err(thrown)?);
        }
        if let Some(bits) = convert::number("ipv4Prefix", &ipv4_prefix)? {
            core = core.ipv4_prefix(whole(bits)).map_err(thrown)?;
        }
        if let Some(bits) = convert::number("ipv6Prefix", &ipv6_prefix)? {
            core = core.ipv6_prefix(whole(bits)).map_err(thrown)?;
        }
        Ok(ClientAddress { core })
    }

    /// The name of the header whose values `key` wants.
    #[napi(getter, catch_unwind)]
    pub fn header(&self) -> &'static str {
        self.core.header_name()
    }

    /// Who the client is.
    #[napi(catch_unwind)]
    pub fn key(&self, peer: String, values: Vec<String>) -> String {
        self.core.key(&peer, values)
    }
}

/// Out of every range, where it is no whole number.
fn whole(bits: f64) -> i64 {
    if bits.fract() == 0.0 { bits as i64 } else { -1 }
}

//! Which store a URL names.

use std::str::FromStr;

use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use crate::error::{Error, Result};

#[derive(Clone)]
pub(crate) enum Target {
    Memory,
    Redis(Box<ConnectionInfo>),
}

const FORMS: &str = "memory://, redis://, rediss:// or redis+unix://";

impl FromStr for Target {
    type Err = Error;

    fn from_str(url: &str) -> Result<Target> {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        match scheme {
            "memory" if url == "memory://" => Ok(Target::Memory),
            "redis" | "rediss" | "redis+unix" | "unix" => {
                // RESP3 lets a disconnect be noticed at once.
                let info = url.into_connection_info().map_err(|error| unreadable(&error.to_string()))?;
                let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
                let tcp = info.tcp_settings().clone().set_nodelay(true);
                Ok(Target::Redis(Box::new(info.set_redis_settings(settings).set_tcp_settings(tcp))))
            }
            _ => Err(unreadable("its scheme is none of these")),
        }
    }
}

/// The URL itself is not quoted: it may hold a password.
fn unreadable(why: &str) -> Error {
    Error::config(format!("url can't be read ({why}); expected {FORMS}"))
}

impl Target {
    /// Where the store is, without user and password.
    pub(crate) fn describe(&self) -> String {
        match self {
            Target::Memory => "memory://".to_owned(),
            Target::Redis(info) => {
                format!("redis at {}, database {}", info.addr(), info.redis_settings().db())
            }
        }
    }
}

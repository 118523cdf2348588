//! Which store a URL names.

use std::str::FromStr;

use crate::error::{Error, Result};

#[derive(Clone)]
pub(crate) enum Target {
    Memory,
    Redis,
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(url: &str) -> Result<Target> {
        if url == "memory://" { Ok(Target::Memory) } else { Ok(Target::Redis) }
    }
}

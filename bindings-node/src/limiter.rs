//! A limiter and its options.

use std::rc::Rc;
use std::time::UNIX_EPOCH;

use napi::Env;
use napi::bindgen_prelude::{ClassInstance, JsObjectValue, Object, Unknown};
use napi_derive::napi;
use sluicegate::{Error, ErrorKind, OnOutage, argument};

use crate::clock::ManualClock;
use crate::convert;
use crate::error::{Result, broken, caught, thrown};
use crate::limit::Limit;
use crate::port::{Inner, Port};

/// What a limiter knows of its store and of itself.
#[napi(object, object_from_js = false)]
pub struct Status {
    /// A word.
    pub state: String,
    /// Milliseconds since the Unix epoch.
    pub since: f64,
    /// Processes that share the limiter's URL and prefix.
    pub processes: f64,
    /// This process's place among them.
    pub rank: f64,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Keys kept here.
    pub local_keys: f64,
    /// Calls refused because the table of keys was full.
    pub refused_full: f64,
    /// Refusals remembered.
    pub deny_cache_keys: f64,
}

/// A change.
#[napi(object, object_from_js = false)]
pub struct Event {
    /// A word.
    pub kind: String,
    /// Milliseconds since the Unix epoch.
    pub at: f64,
    /// What a log says of it.
    pub message: String,
}

/// Core's limiter.
#[napi]
pub struct Limiter {
    pub(crate) core: sluicegate::Limiter,
    port: Rc<Inner>,
}

#[napi]
impl Limiter {
    /// Opens a limiter. What is not given is not passed on: the defaults are core's. `eventful` is the
    /// number by which the port tells of its events, if anybody listens.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        port: &Port,
        url: Unknown,
        options: Object,
        clock: Option<&ManualClock>,
        eventful: Option<f64>,
    ) -> Result<Self> {
        let option = |name: &str| options.get_named_property_unchecked::<Unknown>(name).map_err(broken);
        let duration = |name: &str| {
            convert::number(name, &option(name)?).and_then(|value| {
                value.map(|value| configured(argument::duration_from_millis(name, value))).transpose()
            })
        };
        let mut builder = sluicegate::Limiter::builder();
        if let Some(url) = convert::text("url", &url)? {
            builder = builder.url(&url);
        }
        if let Some(prefix) = convert::text("prefix", &option("prefix")?)? {
            builder = builder.prefix(&prefix);
        }
        if let Some(timeout) = duration("timeoutMs")? {
            builder = builder.timeout(timeout);
        }
        if let Some(mode) = on_outage(&option("onOutage")?)? {
            builder = builder.on_outage(mode);
        }
        if let Some(longest) = duration("denyCacheMs")? {
            builder = builder.deny_cache(longest);
        }
        if let Some(keys) = convert::number("maxKeys", &option("maxKeys")?)? {
            builder = builder.max_keys(configured(argument::bound_from_float("max_keys", keys))?);
        }
        if let Some(calls) = convert::number("maxWaiting", &option("maxWaiting")?)? {
            builder = builder.max_waiting(configured(argument::bound_from_float("max_waiting", calls))?);
        }
        if let Some(clock) = clock {
            builder = builder.clock(&clock.core);
        }
        if let Some(limiter) = eventful {
            builder = builder.on_event(port.inner.on_event(limiter));
        }
        Ok(Limiter { core: builder.open().map_err(thrown)?, port: Rc::clone(&port.inner) })
    }

    /// A limit under a name.
    #[napi(catch_unwind)]
    pub fn limit(&self, name: Unknown, spec: Unknown, mode: Unknown) -> Result<Limit> {
        let name = convert::required("name", convert::text("name", &name)?)?;
        let spec = convert::required("spec", convert::text("spec", &spec)?)?;
        let core = match on_outage(&mode)? {
            Some(mode) => self.core.limit_on_outage(&name, spec.as_str(), mode),
            None => self.core.limit(&name, spec.as_str()),
        };
        Ok(Limit { core: core.map_err(thrown)?, port: Rc::clone(&self.port) })
    }

    /// Starts a call on several limits, as [`Limit::submitter`]'s function does on one.
    #[napi(catch_unwind)]
    pub fn submit_all(
        &self,
        env: Env,
        limits: Vec<ClassInstance<Limit>>,
        keys: Vec<Unknown>,
        costs: Vec<Unknown>,
    ) -> f64 {
        let entry = |((limit, key), cost): ((&ClassInstance<Limit>, &Unknown), &Unknown)| {
            let cost = convert::cost(cost)?;
            Ok((limit.core.clone(), convert::with_key(key, <[u8]>::to_vec)?, cost))
        };
        let entries: Result<Vec<_>> = limits.iter().zip(&keys).zip(&costs).map(entry).collect();
        self.port.start(env, caught(|| entries.map(|entries| self.core.submit_all(entries))))
    }

    /// The state at this moment.
    #[napi(catch_unwind)]
    pub fn status(&self) -> Status {
        let status = self.core.status();
        Status {
            state: status.state.as_str().to_owned(),
            since: status.since.duration_since(UNIX_EPOCH).map_or(0.0, convert::to_millis),
            processes: status.processes as f64,
            rank: status.rank as f64,
            last_error: status.last_error,
            local_keys: status.local_keys as f64,
            refused_full: status.refused_full as f64,
            deny_cache_keys: status.deny_cache_keys as f64,
        }
    }

    /// What has happened since this was last asked.
    #[napi(catch_unwind)]
    pub fn take_events(&self) -> Vec<Event> {
        let event = |event: sluicegate::Event| Event {
            kind: event.kind.as_str().to_owned(),
            at: event.at.duration_since(UNIX_EPOCH).map_or(0.0, convert::to_millis),
            message: event.message,
        };
        self.core.take_events().into_iter().map(event).collect()
    }

    /// Leaves the store.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.core.close();
    }
}

fn on_outage(value: &Unknown) -> Result<Option<OnOutage>> {
    convert::text("onOutage", value)?.map(|mode| mode.parse::<OnOutage>().map_err(thrown)).transpose()
}

/// What is wrong with an option is wrong with the configuration.
fn configured<T>(value: sluicegate::Result<T>) -> Result<T> {
    value.map_err(|error| thrown(Error::new(ErrorKind::Config, error.message())))
}

//! One limit's verbs.

use std::rc::Rc;

use napi::Env;
use napi::bindgen_prelude::{Function, FunctionCallContext, Unknown};
use napi_derive::napi;
use sluicegate::argument::HOLD_TIMEOUT;
use sluicegate::{Call, Submitted};

use crate::convert;
use crate::error::{Result, broken, caught};
use crate::port::Inner;

/// Which verb a call is.
#[napi]
pub enum Verb {
    /// `tryAcquire`
    TryAcquire,
    /// `acquire`
    Acquire,
    /// `reserve`
    Reserve,
    /// `peek`
    Peek,
    /// `refund`
    Refund,
    /// `reset`
    Reset,
    /// `hold`
    Hold,
}

/// Core's limit.
#[napi]
pub struct Limit {
    pub(crate) core: sluicegate::Limit,
    pub(crate) port: Rc<Inner>,
}

#[napi]
impl Limit {
    /// The limit's name.
    #[napi(getter, catch_unwind)]
    pub fn name(&self) -> String {
        self.core.name().to_owned()
    }

    /// The canonical text of its spec.
    #[napi(getter, catch_unwind)]
    pub fn spec(&self) -> String {
        self.core.spec().to_string()
    }

    /// The function that starts a call on this limit: `(verb, key, cost, wait) => token`. `wait`
    /// is the timeout or the longest wait, for the verbs that have one. It returns 0 where the
    /// record is written already, else the token of the record to come, and never throws.
    ///
    /// A closure, because a method call of napi-rs's costs several times as much as a decision.
    #[napi(catch_unwind)]
    pub fn submitter<'env>(&self, env: &'env Env) -> Result<Function<'env, Unknown<'env>, f64>> {
        let (core, port) = (self.core.clone(), Rc::clone(&self.port));
        let submit = move |context: FunctionCallContext| {
            let submitted = caught(|| submit(&core, &context));
            Ok(port.start(*context.env, submitted))
        };
        env.create_function_from_closure("submit", submit).map_err(broken)
    }
}

fn submit(limit: &sluicegate::Limit, context: &FunctionCallContext) -> Result<Submitted> {
    let argument = |place: usize| context.get::<Unknown>(place).map_err(broken);
    let cost = || convert::cost(&argument(2)?);
    let wait = |name: &str| convert::millis(name, &argument(3)?);
    let call = match context.get::<Verb>(0).map_err(broken)? {
        Verb::TryAcquire => Call::TryAcquire { cost: cost()? },
        Verb::Acquire => Call::Acquire { cost: cost()?, timeout: wait("timeoutMs")? },
        Verb::Reserve => Call::Reserve { cost: cost()?, max_wait: wait("maxWaitMs")? },
        Verb::Peek => Call::Peek,
        Verb::Refund => Call::Refund { cost: cost()? },
        Verb::Reset => Call::Reset,
        Verb::Hold => Call::Hold { timeout: wait("timeoutMs")?.or(Some(HOLD_TIMEOUT)) },
    };
    convert::with_key(&argument(1)?, |key| limit.submit(call, key))
}

//! What a server says of a decision.

use napi::bindgen_prelude::ClassInstance;
use napi_derive::napi;
use sluicegate::{Decision, HttpHeaders};

use crate::error::{Result, wrong_type};
use crate::limit::Limit;
use crate::limiter::Limiter;
use crate::record;

/// The decisions of a flat list, of six numbers each.
fn decisions(numbers: &[f64]) -> Result<Vec<Decision>> {
    let decisions: Option<Vec<_>> = numbers.chunks(record::WIDTH - 1).map(record::decision).collect();
    decisions.ok_or_else(|| wrong_type("decision must be a decision of a limit"))
}

fn pairs<'a>(
    limits: &'a [ClassInstance<Limit>],
    numbers: &[f64],
) -> Result<Vec<(&'a sluicegate::Limit, Decision)>> {
    let limits = limits.iter().map(|limit| &limit.core);
    Ok(limits.zip(decisions(numbers)?).collect())
}

/// Names and values in turn.
fn flat(headers: HttpHeaders, legacy: bool) -> Vec<String> {
    let headers = if legacy { headers.with_legacy() } else { headers };
    headers.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

#[napi]
impl Limiter {
    /// The header fields for the decisions of these limits.
    #[napi(catch_unwind)]
    pub fn http_headers(
        &self,
        limits: Vec<ClassInstance<Limit>>,
        numbers: Vec<f64>,
        legacy: bool,
    ) -> Result<Vec<String>> {
        Ok(flat(self.core.http_headers(&pairs(&limits, &numbers)?), legacy))
    }

    /// The problem details for them.
    #[napi(catch_unwind)]
    pub fn http_problem(&self, limits: Vec<ClassInstance<Limit>>, numbers: Vec<f64>) -> Result<String> {
        Ok(self.core.http_problem(&pairs(&limits, &numbers)?))
    }
}

#[napi]
impl Limit {
    /// The header fields for a decision.
    #[napi(catch_unwind)]
    pub fn http_headers(&self, numbers: Vec<f64>, legacy: bool) -> Result<Vec<String>> {
        let fields =
            decisions(&numbers)?.first().map(|decision| flat(self.core.http_headers(decision), legacy));
        Ok(fields.unwrap_or_default())
    }

    /// The problem details for a decision.
    #[napi(catch_unwind)]
    pub fn http_problem(&self, numbers: Vec<f64>) -> Result<String> {
        let problem = decisions(&numbers)?.first().map(|decision| self.core.http_problem(decision));
        Ok(problem.unwrap_or_default())
    }
}

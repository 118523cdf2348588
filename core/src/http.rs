//! What an HTTP server says of a decision: header fields, and the body of a refusal.
//!
//! `RateLimit-Policy` and `RateLimit` follow draft-ietf-httpapi-ratelimit-headers-10. They are
//! structured fields (RFC 9651), lists with one item for each limit of a spec:
//!
//! ```text
//! RateLimit-Policy: "login";q=100;w=1;sg-burst=200
//! RateLimit: "login";r=199;t=1
//! ```
//!
//! - The name is the limit's; where a spec has several limits, `login-1`, `login-2` and so on, in
//!   the order of the spec. What a structured field's string can't hold is percent-encoded, and so
//!   is `%`.
//! - `q` units per `w` seconds: the count and the period of the spec. As seconds must be whole, a
//!   rate such as `1/500ms` is said as `q=2;w=1`; a window is rounded up, which is the safe side. A
//!   burst other than `q` is `sg-burst`. A concurrency limit has no window, and the unit
//!   `qu="concurrent-requests"`.
//! - `r` is what remains, `t` the seconds, rounded up, until there is more: for a refusal the same
//!   as `Retry-After`. It is left out where nothing is missing, where nobody can know (permits come
//!   back when their holders like), and where a refused call can never fit. A sliding window or log
//!   says when all of it is there again, since a decision does not tell when the first part is.
//! - `RateLimit` speaks for the limit that the decision speaks for ([`Decision::rule`]).
//!
//! There is no partition key (`pk`): keys are addresses, users, tokens, and would leak into logs.

use std::cmp::Reverse;
use std::fmt::{self, Write as _};
use std::time::Duration;

use smallvec::SmallVec;

use crate::decision::Decision;
use crate::limiter::{Limit, Limiter};
use crate::spec::{Algorithm, Rule};

/// The status of a refusal: 429, Too Many Requests.
pub const STATUS: u16 = 429;

/// The `Content-Type` of [`Limit::http_problem`].
pub const PROBLEM_CONTENT_TYPE: &str = "application/problem+json";

const POLICY: &str = "RateLimit-Policy";
const SERVICE_LIMIT: &str = "RateLimit";
const RETRY_AFTER: &str = "Retry-After";
const LEGACY: [&str; 3] = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/// The header fields that go with a decision: names and values, to be set in this order.
///
/// Made by [`Limit::http_headers`]. All values are printable ASCII.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpHeaders {
    fields: SmallVec<[(&'static str, String); 6]>,
    /// Whom the older fields speak for.
    speaker: Option<Decision>,
}

impl HttpHeaders {
    /// Adds the older `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`: the most
    /// that can pass at once, what is left of it, and in how many whole seconds, rounded up, all of
    /// it will be there again. The reset is a number of seconds from now, not a time of day.
    pub fn with_legacy(mut self) -> Self {
        if let Some(Decision { limit, remaining, reset_after, .. }) = self.speaker {
            let values = [limit, remaining, whole_seconds(reset_after)];
            self.fields.extend(LEGACY.into_iter().zip(values.map(|value| value.to_string())));
        }
        self
    }

    /// Names and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &str)> {
        self.fields.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The value of a field, whatever the case of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl IntoIterator for HttpHeaders {
    type Item = (&'static str, String);
    type IntoIter = smallvec::IntoIter<[(&'static str, String); 6]>;

    fn into_iter(self) -> Self::IntoIter {
        self.fields.into_iter()
    }
}

impl Limit {
    /// The header fields for a decision of this limit: `RateLimit-Policy`, `RateLimit`, and, where it
    /// is a refusal that time can heal, `Retry-After` in whole seconds, rounded up. They fit every
    /// response, also one to a call that was admitted.
    pub fn http_headers(&self, decision: &Decision) -> HttpHeaders {
        headers(&[(self, *decision)])
    }

    /// The body of a refusal, as problem details (RFC 9457) of the draft's type `quota-exceeded`: a
    /// JSON object with `type`, `title`, `status`, `detail` and `violated-policies`, the name that
    /// the limit which refused has in `RateLimit-Policy`. Its content type is
    /// [`PROBLEM_CONTENT_TYPE`], its status [`STATUS`].
    pub fn http_problem(&self, decision: &Decision) -> String {
        problem(&[(self, *decision)])
    }

    /// What the limit number `index` of the spec is called, in printable ASCII.
    fn policy(&self, index: usize) -> String {
        let mut name = String::with_capacity(self.name().len() + 2);
        for byte in self.name().bytes() {
            match byte {
                b'%' | 0..b' ' | 0x7f.. => {
                    let _ = write!(name, "%{byte:02X}");
                }
                _ => name.push(char::from(byte)),
            }
        }
        if self.spec().rules.len() > 1 {
            let _ = write!(name, "-{}", index + 1);
        }
        name
    }
}

impl Limiter {
    /// [`Limit::http_headers`] for decisions on several limits, each with its limit:
    /// the policies of all of them, and the longest wait. A call that one of the limits can never
    /// admit is told apart from one that another limit has refused only where no limit names a wait.
    pub fn http_headers(&self, decisions: &[(&Limit, Decision)]) -> HttpHeaders {
        headers(decisions)
    }

    /// [`Limit::http_problem`] for decisions on several limits, each with its limit.
    /// It names the limits that say how long to wait; all of them, where none does.
    pub fn http_problem(&self, decisions: &[(&Limit, Decision)]) -> String {
        problem(decisions)
    }
}

fn headers(decisions: &[(&Limit, Decision)]) -> HttpHeaders {
    let (mut policies, mut limits) = (String::new(), String::new());
    for (limit, decision) in decisions {
        let rules = &limit.spec().rules;
        for (index, rule) in rules.iter().enumerate() {
            let _ = write!(next(&mut policies), "{}{}", Quoted(&limit.policy(index)), Quota(rule));
        }
        // A decision of another limit may speak for a rule that is not here.
        if let Some(rule) = rules.get(decision.rule) {
            let policy = limit.policy(decision.rule);
            let _ = write!(next(&mut limits), "{};r={}", Quoted(&policy), decision.remaining);
            if let Some(more) = until_more(rule, decision) {
                let _ = write!(limits, ";t={}", whole_seconds(more));
            }
        }
    }
    let wait = decisions.iter().filter_map(|(_, decision)| retry_after(decision)).max();
    let fields = [
        (POLICY, Some(policies)),
        (SERVICE_LIMIT, Some(limits)),
        (RETRY_AFTER, wait.map(|wait| wait.to_string())),
    ];
    let fields = fields.into_iter().filter_map(|(name, value)| {
        // A list without members is no field at all.
        value.filter(|value| !value.is_empty()).map(|value| (name, value))
    });
    // The one that is refused for longest, else the one with the least remaining.
    let speaker = decisions.iter().map(|(_, decision)| *decision);
    let speaker = speaker.min_by_key(|decision| (Reverse(decision.retry_after), decision.remaining));
    HttpHeaders { fields: fields.collect(), speaker }
}

/// The place of a list's next member.
fn next(list: &mut String) -> &mut String {
    if !list.is_empty() {
        list.push_str(", ");
    }
    list
}

fn problem(decisions: &[(&Limit, Decision)]) -> String {
    let wait = decisions.iter().filter_map(|(_, decision)| retry_after(decision)).max();
    let detail = match wait {
        Some(1) => "Try again in 1 second.".to_owned(),
        Some(wait) => format!("Try again in {wait} seconds."),
        None => "The request needs more than the limit ever admits.".to_owned(),
    };
    let mut violated = String::new();
    for (limit, decision) in decisions {
        if wait.is_none() || retry_after(decision).is_some() {
            let _ = write!(next(&mut violated), "{}", Quoted(&limit.policy(decision.rule)));
        }
    }
    format!(
        "{{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\
         \"title\":\"Quota Exceeded\",\"status\":{STATUS},\"detail\":\"{detail}\",\
         \"violated-policies\":[{violated}]}}"
    )
}

/// Printable ASCII between quotes. A structured field and JSON escape the same two characters in it.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            if matches!(c, '"' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(c)?;
        }
        f.write_char('"')
    }
}

/// The largest integer of a structured field.
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// The parameters of a rule's policy.
struct Quota<'a>(&'a Rule);

impl fmt::Display for Quota<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: u64 = 1_000_000;
        let Rule { algorithm, count, period, depth, .. } = *self.0;
        let flows = matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket);
        if algorithm == Algorithm::Concurrency {
            return write!(f, ";q={count};qu=\"concurrent-requests\"");
        }
        // The fewest periods that are whole seconds together.
        let times = if flows { SECOND / greatest_common_divisor(period, SECOND) } else { 1 };
        let (quota, window) = match count.checked_mul(times).zip(period.checked_mul(times)) {
            Some((quota, window)) if quota <= MAX_INTEGER => (quota, window.div_ceil(SECOND)),
            _ => (count, period.div_ceil(SECOND)),
        };
        write!(f, ";q={quota};w={window}")?;
        let bursts = matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra);
        if bursts && depth != quota { write!(f, ";sg-burst={depth}") } else { Ok(()) }
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// How long until there is more than now.
fn until_more(rule: &Rule, decision: &Decision) -> Option<Duration> {
    if !decision.allowed {
        return decision.retry_after;
    }
    let missing = decision.limit.saturating_sub(decision.remaining);
    if missing == 0 || decision.reset_after.is_zero() {
        return None;
    }
    match rule.algorithm {
        // All is there at the end, and before it one unit after the other. In an outage a share
        // fills more slowly than the rule says, and this is later than need be.
        Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
            let others = u128::from(missing - 1) * u128::from(rule.period) / u128::from(rule.count);
            let others = Duration::from_micros(u64::try_from(others).unwrap_or(u64::MAX));
            Some(decision.reset_after.saturating_sub(others))
        }
        Algorithm::FixedWindow | Algorithm::SlidingWindow | Algorithm::SlidingLog => {
            Some(decision.reset_after)
        }
        Algorithm::Concurrency => None,
    }
}

/// Never 0: a refusal is never over at once.
fn retry_after(decision: &Decision) -> Option<u64> {
    if decision.allowed { None } else { decision.retry_after.map(|after| whole_seconds(after).max(1)) }
}

fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use sfv::{BareItem, Item, List, ListEntry, Parser};

    use super::*;
    use crate::clock::ManualClock;
    use crate::decision::Source;

    fn limit(name: &str, spec: &str) -> (Limit, ManualClock) {
        let clock = ManualClock::default();
        let limiter = Limiter::builder().clock(&clock).open().unwrap();
        (limiter.limit(name, spec).unwrap(), clock)
    }

    /// The items of a field, as a library that knows nothing of us reads them.
    fn parsed(headers: &HttpHeaders, name: &str) -> Vec<Item> {
        let list: List = Parser::new(headers.get(name).expect(name)).parse().expect("a list");
        let item = |entry| match entry {
            ListEntry::Item(item) => item,
            ListEntry::InnerList(_) => panic!("an inner list"),
        };
        list.into_iter().map(item).collect()
    }

    fn name(item: &Item) -> String {
        item.bare_item.as_string().expect("a string").as_str().to_owned()
    }

    fn number(item: &Item, parameter: &str) -> Option<i64> {
        let value = item.params.get(parameter)?;
        Some(value.as_integer().expect("an integer").into())
    }

    fn policy(spec: &str) -> (i64, Option<i64>, Option<i64>) {
        let (limit, _) = limit("login", spec);
        let headers = limit.http_headers(&limit.peek_blocking("k").unwrap_or_else(|_| plain()));
        let items = parsed(&headers, "RateLimit-Policy");
        assert_eq!(items.iter().map(name).collect::<Vec<_>>(), ["login"]);
        (number(&items[0], "q").unwrap(), number(&items[0], "w"), number(&items[0], "sg-burst"))
    }

    fn plain() -> Decision {
        Decision {
            allowed: true,
            limit: 1,
            remaining: 1,
            retry_after: None,
            reset_after: Duration::ZERO,
            wait: Duration::ZERO,
            source: Source::Memory,
            rule: 0,
        }
    }

    #[test]
    fn a_policy_says_what_the_spec_says() {
        assert_eq!(policy("100/s"), (100, Some(1), None));
        assert_eq!(policy("gcra 100/m burst 200"), (100, Some(60), Some(200)));
        assert_eq!(policy("5/2h burst 1"), (5, Some(7200), Some(1)));
        assert_eq!(policy("sliding-window 1000/d"), (1000, Some(86_400), None));
        assert_eq!(policy("leaky-bucket 10/s queue 3"), (10, Some(1), None));
        // A rate is the same over more periods; a window is not, and is rounded up.
        assert_eq!(policy("1/500ms"), (2, Some(1), Some(1)));
        assert_eq!(policy("leaky-bucket 7/1500ms"), (14, Some(3), None));
        assert_eq!(policy("sliding-log 1/500ms"), (1, Some(1), None));
        assert_eq!(policy("fixed-window 3/1500ms"), (3, Some(2), None));
        assert_eq!(policy("concurrency 5 ttl 30s"), (5, None, None));
    }

    #[test]
    fn quotas_stay_within_the_integers_of_structured_fields() {
        let limiter = Limiter::open("memory://").unwrap();
        for (count, micros) in [(1_000_000_000, 1_001_001), (7, 366 * 86_400_000_000 - 1)] {
            let spec = Limit::gcra(count, Duration::from_micros(micros)).burst(1);
            let limit = limiter.limit("a", spec).unwrap();
            let items = parsed(&limit.http_headers(&plain()), "RateLimit-Policy");
            let (quota, window) = (number(&items[0], "q").unwrap(), number(&items[0], "w").unwrap());
            assert!(quota as f64 / window as f64 <= count as f64 * 1e6 / micros as f64 * 1.000_001);
        }
    }

    #[test]
    fn permits_are_concurrent_requests() {
        let (limit, _) = limit("jobs", "concurrency 2 ttl 30s");
        let (first, held) = limit.hold_blocking("k", Duration::ZERO).unwrap();
        assert_eq!(limit.http_headers(&first).get("ratelimit"), Some("\"jobs\";r=1"));
        let _second = limit.hold_blocking("k", Duration::ZERO).unwrap();
        let (refused, none) = limit.hold_blocking("k", Duration::ZERO).unwrap();
        assert!(held.is_some() && none.is_none());
        let headers = limit.http_headers(&refused);
        let items = parsed(&headers, "RateLimit-Policy");
        let unit = items[0].params.get("qu").and_then(BareItem::as_string).unwrap();
        assert_eq!(unit.as_str(), "concurrent-requests");
        assert_eq!(headers.get("RateLimit"), Some("\"jobs\";r=0;t=30"));
        assert_eq!(headers.get("Retry-After"), Some("30"));
    }

    #[test]
    fn time_is_rounded_up_to_whole_seconds() {
        let (limit, clock) = limit("login", "2/m");
        let fresh = limit.peek_blocking("k").unwrap();
        let names: Vec<_> = limit.http_headers(&fresh).iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["RateLimit-Policy", "RateLimit"]);
        assert_eq!(limit.http_headers(&fresh).get("RateLimit"), Some("\"login\";r=2"));
        let first = limit.try_acquire_blocking("k", 1).unwrap();
        assert_eq!(limit.http_headers(&first).get("RateLimit"), Some("\"login\";r=1;t=30"));
        let second = limit.try_acquire_blocking("k", 1).unwrap();
        assert_eq!(limit.http_headers(&second).get("RateLimit"), Some("\"login\";r=0;t=30"));
        for (passed, after) in [(0, 30), (1, 30), (999_999, 29), (1, 29), (28_000_000, 1)] {
            clock.advance(Duration::from_micros(passed));
            let refused = limit.try_acquire_blocking("k", 1).unwrap();
            let headers = limit.http_headers(&refused).with_legacy();
            assert_eq!(headers.get("Retry-After"), Some(after.to_string().as_str()));
            assert_eq!(headers.get("RateLimit"), Some(format!("\"login\";r=0;t={after}").as_str()));
            assert_eq!(headers.get("X-RateLimit-Limit"), Some("2"));
            assert_eq!(headers.get("X-RateLimit-Remaining"), Some("0"));
            assert_eq!(headers.get("X-RateLimit-Reset"), Some((after + 30).to_string().as_str()));
        }
    }

    #[test]
    fn what_can_never_fit_names_no_time() {
        let (limit, _) = limit("login", "2/m");
        let refused = limit.try_acquire_blocking("k", 3).unwrap();
        assert!(!refused.allowed);
        let headers = limit.http_headers(&refused);
        assert_eq!(headers.get("Retry-After"), None);
        assert_eq!(headers.get("RateLimit"), Some("\"login\";r=2"));
        assert!(limit.http_problem(&refused).contains("more than the limit ever admits"));
    }

    #[test]
    fn a_refusal_in_an_outage_says_when_to_come_back() {
        let (limit, _) = limit("login", "2/m");
        let refused = Decision {
            allowed: false,
            remaining: 0,
            retry_after: Some(Duration::from_millis(1)),
            source: Source::Outage,
            ..plain()
        };
        assert_eq!(limit.http_headers(&refused).get("Retry-After"), Some("1"));
        let at_once = Decision { retry_after: Some(Duration::ZERO), ..refused };
        assert_eq!(limit.http_headers(&at_once).get("Retry-After"), Some("1"));
    }

    #[test]
    fn several_limits_are_told_apart() {
        let (limit, clock) = limit("api", "2/s; fixed-window 3/h");
        let policies = |headers: &HttpHeaders| parsed(headers, "RateLimit-Policy");
        let first = limit.try_acquire_blocking("k", 1).unwrap();
        let headers = limit.http_headers(&first);
        assert_eq!(policies(&headers).iter().map(name).collect::<Vec<_>>(), ["api-1", "api-2"]);
        assert_eq!(headers.get("RateLimit"), Some("\"api-1\";r=1;t=1"));
        limit.try_acquire_blocking("k", 1).unwrap();
        let refused = limit.try_acquire_blocking("k", 1).unwrap();
        assert_eq!((refused.allowed, refused.rule), (false, 0));
        assert!(limit.http_problem(&refused).contains("[\"api-1\"]"));
        clock.advance(Duration::from_secs(1));
        let last = limit.try_acquire_blocking("k", 1).unwrap();
        assert_eq!((last.allowed, last.rule), (true, 1));
        let refused = limit.try_acquire_blocking("k", 1).unwrap();
        assert_eq!((refused.allowed, refused.rule), (false, 1));
        assert_eq!(limit.http_headers(&refused).get("RateLimit"), Some("\"api-2\";r=0;t=3599"));
        assert!(limit.http_problem(&refused).contains("[\"api-2\"]"));
        // The same limit twice over: only the field tells which of them it is.
        let (twins, _) = self::limit("twins", "sliding-window 1/h; fixed-window 1/m");
        twins.try_acquire_blocking("k", 1).unwrap();
        let refused = twins.try_acquire_blocking("k", 1).unwrap();
        assert_eq!(refused.rule, 0);
    }

    #[test]
    fn decisions_on_several_limits_make_one_answer() {
        let clock = ManualClock::default();
        let limiter = Limiter::builder().clock(&clock).open().unwrap();
        let (user, site) =
            (limiter.limit("user", "1/m").unwrap(), limiter.limit("site", "9/s; 90/h").unwrap());
        let take = || {
            [(&user, "u"), (&site, "s")]
                .map(|(limit, key)| (limit, limit.try_acquire_blocking(key, 1).unwrap()))
        };
        let admitted = limiter.http_headers(&take()).with_legacy();
        let policies = parsed(&admitted, "RateLimit-Policy");
        assert_eq!(policies.iter().map(name).collect::<Vec<_>>(), ["user", "site-1", "site-2"]);
        assert_eq!(admitted.get("RateLimit"), Some("\"user\";r=0;t=60, \"site-1\";r=8;t=1"));
        assert_eq!(admitted.get("X-RateLimit-Limit"), Some("1"));
        assert_eq!(admitted.get("Retry-After"), None);
        let decisions = take();
        let refused = limiter.http_headers(&decisions).with_legacy();
        assert_eq!(refused.get("Retry-After"), Some("60"));
        assert_eq!(refused.get("RateLimit"), Some("\"user\";r=0;t=60, \"site-1\";r=7;t=1"));
        assert_eq!(refused.get("X-RateLimit-Remaining"), Some("0"));
        let problem: serde_json::Value = serde_json::from_str(&limiter.http_problem(&decisions)).unwrap();
        assert_eq!(problem["violated-policies"], serde_json::json!(["user"]));
        assert_eq!(limiter.http_headers(&[]).with_legacy().iter().len(), 0);
    }

    #[test]
    fn any_name_is_a_string_that_leads_back_to_it() {
        for given in ["login", "a \"b\" \\c", "größe/日本", "100%", "a;q=1, b", "🚰"] {
            let (limit, _) = limit(given, "1/s; 1/m");
            limit.try_acquire_blocking("k", 1).unwrap();
            let refused = limit.try_acquire_blocking("k", 1).unwrap();
            let headers = limit.http_headers(&refused);
            assert!(headers.iter().all(|(_, value)| value.bytes().all(|byte| (b' '..0x7f).contains(&byte))));
            let names: Vec<_> = parsed(&headers, "RateLimit-Policy").iter().map(name).collect();
            assert_eq!(parsed(&headers, "RateLimit").iter().map(name).collect::<Vec<_>>(), names[1..]);
            let problem: serde_json::Value = serde_json::from_str(&limit.http_problem(&refused)).unwrap();
            assert_eq!(problem["violated-policies"], serde_json::json!(names[1..]));
            assert_eq!(problem["status"], u64::from(STATUS));
            let decoded = percent_decoded(names[0].strip_suffix("-1").unwrap());
            assert_eq!(decoded, given);
        }
    }

    fn percent_decoded(text: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            if *first == b'%' {
                bytes.push(u8::from_str_radix(str::from_utf8(&after[..2]).unwrap(), 16).unwrap());
                rest = &after[2..];
            } else {
                bytes.push(*first);
                rest = after;
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn an_outage_share_is_never_promised_too_early() {
        // A share fills more slowly than the rule; the time said must not be before it does.
        let (limit, _) = limit("login", "60/m");
        let share = Decision {
            limit: 20,
            remaining: 10,
            reset_after: Duration::from_secs(30),
            source: Source::Outage,
            ..plain()
        };
        // 3 s a token: the next comes within 3 s, and all of them within 30.
        let items = parsed(&limit.http_headers(&share), "RateLimit");
        assert!((3..=30).contains(&number(&items[0], "t").unwrap()));
    }
}

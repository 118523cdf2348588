//! The one line of text that says what a limit admits, and its typed form.
//!
//! ```text
//! spec      = limit *( ";" limit )
//! limit     = [ algorithm ] count ( "/" | "per" ) period *( option )
//!           | "concurrency" N "ttl" period
//! algorithm = token-bucket (the default) | gcra | leaky-bucket | fixed-window | sliding-window | sliding-log
//! option    = "burst" N | "queue" N | "align" [UTC offset] | "buckets" N
//! ```

use std::fmt;
use std::str::FromStr;

use crate::clock::Micros;
use crate::error::{Error, ErrorKind, Result, quote};
use crate::spec::{
    Algorithm, DEFAULT_BUCKETS, MAX_BUCKETS, MAX_COUNT, MAX_OFFSET_MINUTES, MAX_PERIOD, MAX_RULES,
    MIN_PERIOD, Rule, Spec,
};

const MAX_TEXT: usize = 1024;

const UNITS: [(&str, Micros); 19] = [
    ("ms", 1_000),
    ("s", 1_000_000),
    ("sec", 1_000_000),
    ("secs", 1_000_000),
    ("second", 1_000_000),
    ("seconds", 1_000_000),
    ("m", 60_000_000),
    ("min", 60_000_000),
    ("mins", 60_000_000),
    ("minute", 60_000_000),
    ("minutes", 60_000_000),
    ("h", 3_600_000_000),
    ("hr", 3_600_000_000),
    ("hrs", 3_600_000_000),
    ("hour", 3_600_000_000),
    ("hours", 3_600_000_000),
    ("d", 86_400_000_000),
    ("day", 86_400_000_000),
    ("days", 86_400_000_000),
];

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, rule) in self.rules.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{rule}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.algorithm == Algorithm::Concurrency {
            return write!(f, "concurrency {} ttl {}", self.count, Period(self.period, true));
        }
        if self.algorithm != Algorithm::TokenBucket {
            write!(f, "{} ", self.algorithm.as_str())?;
        }
        write!(f, "{}/{}", self.count, Period(self.period, false))?;
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra if self.depth != self.count => {
                write!(f, " burst {}", self.depth)
            }
            Algorithm::LeakyBucket if self.depth != self.count => write!(f, " queue {}", self.depth),
            Algorithm::SlidingWindow if self.buckets != DEFAULT_BUCKETS => {
                write!(f, " buckets {}", self.buckets)
            }
            Algorithm::FixedWindow => match self.align {
                None => Ok(()),
                Some(0) => f.write_str(" align"),
                Some(minutes) => {
                    let sign = if minutes < 0 { '-' } else { '+' };
                    let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
                    write!(f, " align {sign}{hours:02}:{minutes:02}")
                }
            },
            _ => Ok(()),
        }
    }
}

/// A period in its largest whole unit, with or without a leading 1.
struct Period(Micros, bool);

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000)];
        let (name, unit) =
            units.into_iter().find(|(_, unit)| self.0.is_multiple_of(*unit)).unwrap_or(("ms", 1_000));
        match self.0 / unit {
            1 if !self.1 => f.write_str(name),
            n => write!(f, "{n}{name}"),
        }
    }
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Spec> {
        Parser { text, at: 0 }.spec()
    }
}

impl TryFrom<&str> for Spec {
    type Error = Error;

    fn try_from(text: &str) -> Result<Spec> {
        text.parse()
    }
}

impl TryFrom<&String> for Spec {
    type Error = Error;

    fn try_from(text: &String) -> Result<Spec> {
        text.parse()
    }
}

/// Reads a spec from left to right; `at` is the byte that comes next.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn spec(mut self) -> Result<Spec> {
        if self.text.len() > MAX_TEXT {
            return Err(Error::new(
                ErrorKind::Spec,
                format!(
                    "spec {} is {} bytes long; at most {MAX_TEXT} are allowed",
                    quote(self.text),
                    self.text.len()
                ),
            ));
        }
        let mut rules = vec![self.rule()?];
        while self.take_char(';') {
            if rules.len() == MAX_RULES {
                return Err(self.expected(self.at, &format!("at most {MAX_RULES} limits in one spec")));
            }
            rules.push(self.rule()?);
        }
        self.skip_space();
        if self.at < self.text.len() {
            return Err(self.expected(self.at, "an option of the algorithm, \";\" or the end"));
        }
        Ok(Spec { rules })
    }

    fn rule(&mut self) -> Result<Rule> {
        self.skip_space();
        let start = self.at;
        let algorithm = match self.word() {
            "" => Algorithm::TokenBucket,
            word => Algorithm::ALL
                .into_iter()
                .find(|algorithm| word.eq_ignore_ascii_case(algorithm.as_str()))
                .ok_or_else(|| {
                    let names = Algorithm::ALL.map(Algorithm::as_str).join(", ");
                    self.expected(start, &format!("a count such as 100/s, or one of {names}"))
                })?,
        };
        let count = self.number("a count such as 100/s", MAX_COUNT)?;
        if algorithm == Algorithm::Concurrency {
            self.keyword("ttl")?;
        } else if !self.take_char('/') && !self.take_word("per") {
            return Err(self.expected(self.at, "\"/\" or \"per\" and a period"));
        }
        let period = self.period()?;
        let mut rule = Rule::new(algorithm, count, period);
        self.options(&mut rule)?;
        rule.check().map_err(|why| self.error(start, &why))?;
        Ok(rule)
    }

    fn options(&mut self, rule: &mut Rule) -> Result<()> {
        let mut seen = Vec::new();
        loop {
            self.skip_space();
            let start = self.at;
            let word = self.word().to_ascii_lowercase();
            if word.is_empty() {
                return Ok(());
            }
            if seen.contains(&word) {
                return Err(self.expected(start, &format!("{word:?} only once")));
            }
            match (word.as_str(), rule.algorithm) {
                ("burst", Algorithm::TokenBucket | Algorithm::Gcra) => {
                    rule.depth = self.number("a burst, 1 or more", MAX_COUNT)?;
                }
                ("queue", Algorithm::LeakyBucket) => {
                    rule.depth = self.number("a queue length, 0 or more", MAX_COUNT)?;
                }
                ("buckets", Algorithm::SlidingWindow) => {
                    rule.buckets = self.number("a number of buckets, 1 or more", MAX_BUCKETS)?;
                }
                ("align", Algorithm::FixedWindow) => rule.align = Some(self.offset()?),
                (_, algorithm) => {
                    let allowed = match algorithm {
                        Algorithm::TokenBucket | Algorithm::Gcra => "\"burst N\"",
                        Algorithm::LeakyBucket => "\"queue N\"",
                        Algorithm::SlidingWindow => "\"buckets N\"",
                        Algorithm::FixedWindow => "\"align\" with or without a UTC offset",
                        Algorithm::SlidingLog | Algorithm::Concurrency => "no option",
                    };
                    let name = algorithm.as_str();
                    return Err(
                        self.expected(start, &format!("{allowed} after a {name} limit, \";\" or the end"))
                    );
                }
            }
            seen.push(word);
        }
    }

    fn period(&mut self) -> Result<Micros> {
        self.skip_space();
        let start = self.at;
        let some = if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.number("a period", MAX_PERIOD / MIN_PERIOD)?
        } else {
            1
        };
        self.skip_space();
        let unit_at = self.at;
        let word = self.word();
        let unit = UNITS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
        let Some((_, unit)) = unit else {
            return Err(self.expected(unit_at, "a period in ms, s, m, h or d, such as s, 10m or 500ms"));
        };
        match some.checked_mul(*unit) {
            Some(period) if (MIN_PERIOD..=MAX_PERIOD).contains(&period) => Ok(period),
            _ => Err(self.expected(start, "a period of 1ms to 366d")),
        }
    }

    /// `+08:00`, `-0330`, `+8`, `Z`, `UTC`, or nothing, which is UTC; in minutes.
    fn offset(&mut self) -> Result<i64> {
        const FORM: &str = "a UTC offset such as +08:00, from -14:00 to +14:00";
        self.skip_space();
        let start = self.at;
        if self.take_word("z") || self.take_word("utc") {
            return Ok(0);
        }
        let sign = match self.peek() {
            Some('+') => 1,
            Some('-') => -1,
            _ => return Ok(0),
        };
        self.at += 1;
        let digits_at = self.at;
        let first = self.digits().to_owned();
        let (hours, minutes) = if self.peek() == Some(':') {
            self.at += 1;
            (first.as_str(), self.digits().to_owned())
        } else if first.len() == 4 {
            (&first[..2], first[2..].to_owned())
        } else {
            (first.as_str(), "00".to_owned())
        };
        let well_formed = matches!(hours.len(), 1 | 2) && minutes.len() == 2;
        let (hours, minutes) = (hours.parse::<i64>(), minutes.parse::<i64>());
        match (hours, minutes) {
            (Ok(hours), Ok(minutes)) if well_formed && minutes < 60 => {
                let total = hours * 60 + minutes;
                if total > MAX_OFFSET_MINUTES { Err(self.expected(start, FORM)) } else { Ok(sign * total) }
            }
            _ => Err(self.expected(digits_at.min(start), FORM)),
        }
    }

    fn number(&mut self, expected: &str, most: u64) -> Result<u64> {
        self.skip_space();
        let start = self.at;
        let digits = self.digits();
        if digits.is_empty() {
            return Err(self.expected(start, expected));
        }
        match digits.parse::<u64>() {
            Ok(number) if number <= most => Ok(number),
            _ => Err(self.expected(start, &format!("{expected}, at most {most}"))),
        }
    }

    fn keyword(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.expected(self.at, &format!("{word:?}"))) }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_space(&mut self) {
        self.take_while(|c| c.is_ascii_whitespace());
    }

    fn digits(&mut self) -> &'a str {
        self.take_while(|c| c.is_ascii_digit())
    }

    fn word(&mut self) -> &'a str {
        let start = self.at;
        if self.peek().is_some_and(|c| c.is_ascii_alphabetic()) {
            self.take_while(|c| c.is_ascii_alphabetic() || c == '-');
        }
        &self.text[start..self.at]
    }

    fn take_word(&mut self, wanted: &str) -> bool {
        self.skip_space();
        let start = self.at;
        let found = self.word().eq_ignore_ascii_case(wanted);
        if !found {
            self.at = start;
        }
        found
    }

    fn take_char(&mut self, wanted: char) -> bool {
        self.skip_space();
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let start = self.at;
        while let Some(c) = self.peek().filter(|c| belongs(*c)) {
            self.at += c.len_utf8();
        }
        &self.text[start..self.at]
    }

    fn expected(&self, at: usize, expected: &str) -> Error {
        self.error(at, &format!("expected {expected}"))
    }

    fn error(&self, at: usize, why: &str) -> Error {
        let character = self.text[..at].chars().count() + 1;
        Error::new(ErrorKind::Spec, format!("spec {} at character {character}: {why}", quote(self.text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        text.parse::<Spec>().unwrap().to_string()
    }

    #[test]
    fn people_write_the_same_limit_in_many_ways() {
        for text in ["100/s", "100 per second", "100 / 1 SEC", "token-bucket 100/1000ms", " 100/s burst 100 "]
        {
            assert_eq!(canonical(text), "100/s", "{text}");
        }
        assert_eq!(canonical("10/minute;1000/Hour burst 5"), "10/m; 1000/h burst 5");
        assert_eq!(canonical("5/2h"), "5/2h");
        assert_eq!(canonical("1/500ms"), "1/500ms");
        assert_eq!(canonical("1000/days"), "1000/d");
        assert_eq!(canonical("fixed-window 7/d align +8"), "fixed-window 7/d align +08:00");
        assert_eq!(canonical("fixed-window 7/d align utc"), "fixed-window 7/d align");
        assert_eq!(canonical("concurrency 5 ttl minute"), "concurrency 5 ttl 1m");
        assert_eq!(canonical("sliding-window 9/m buckets 20"), "sliding-window 9/m buckets 20");
        assert_eq!(canonical("leaky-bucket 9/m queue 0"), "leaky-bucket 9/m queue 0");
    }

    #[test]
    fn what_is_printed_parses_back() {
        for text in [
            "1/366d",
            "1000000000/s",
            "gcra 123457/d",
            "leaky-bucket 3/s queue 7",
            "fixed-window 1000/d align -03:30; sliding-log 5/s",
            "concurrency 3 ttl 90s",
        ] {
            let spec: Spec = text.parse().unwrap();
            assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_at_its_place() {
        for (text, place, hint) in [
            ("", 1, "a count"),
            ("100/", 5, "a period"),
            ("0/s", 1, "count must be 1"),
            ("5/fortnight", 3, "a period"),
            ("-1/s", 1, "a count"),
            ("100/s burst 0", 1, "burst must be 1"),
            ("fixed-window 5/s burst 3", 18, "align"),
            ("5/s burst 3 burst 4", 13, "only once"),
            ("5/s;", 5, "a count"),
            ("5/367d", 3, "366d"),
            ("5/0s", 3, "1ms"),
            ("2000000000/s", 1, "at most 1000000000"),
            ("bucket 5/s", 1, "token-bucket"),
            ("5/s é", 5, "end"),
            ("concurrency 5", 14, "ttl"),
            ("fixed-window 5/d align +15:00", 24, "UTC offset"),
            ("1000003/d", 1, "gcra"),
        ] {
            let error = text.parse::<Spec>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Spec);
            let message = error.message();
            assert!(message.contains(&format!("at character {place}:")), "{text}: {message}");
            assert!(message.contains(hint), "{text}: {message}");
        }
        assert!("9".repeat(1 << 20).parse::<Spec>().unwrap_err().message().len() < 200);
    }
}

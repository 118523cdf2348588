//! An answer as a row of numbers, because an object costs ten times as much to make from here.
//! `lib/record.js` reads it.

use sluicegate::{Answer, Decision, Error, ErrorKind, Source, argument};

use crate::convert::to_millis;
use crate::error::{Result, Thrown, thrown};

/// Numbers in a record: the call's token, a tag, and the five numbers of a decision.
pub(crate) const WIDTH: usize = 7;
const SHAPE_AT: u32 = 8;

/// What a tag carries beside the source (bits 0 to 2), `allowed` (bit 3) and the rule (bits 4 to 7),
/// from bit 8 on.
#[derive(Clone, Copy)]
enum Shape {
    /// A decision.
    Decision = 0,
    /// A decision and a permit, which follows as an [`Extra`].
    Held = 1,
    /// A decision that came without a permit.
    NotHeld = 2,
    /// No value.
    Done = 3,
    /// An error, which follows as an [`Extra`].
    Error = 4,
}

/// What doesn't fit a record.
pub(crate) enum Extra {
    Permit(sluicegate::Permit),
    Error(Thrown),
}

/// Writes the record of a call's answer, and returns what doesn't fit.
pub(crate) fn write(cells: &mut [f64], token: f64, answer: Result<Answer>) -> Option<Extra> {
    let (shape, decision, extra) = match answer {
        Ok(Answer::Decision(decision)) => (Shape::Decision, Some(decision), None),
        Ok(Answer::Held(decision, Some(permit))) => {
            (Shape::Held, Some(decision), Some(Extra::Permit(permit)))
        }
        Ok(Answer::Held(decision, None)) => (Shape::NotHeld, Some(decision), None),
        Ok(Answer::Done) => (Shape::Done, None, None),
        Ok(_) => {
            let error = Error::new(ErrorKind::Internal, "the answer is of a kind that is not known here");
            (Shape::Error, None, Some(Extra::Error(thrown(error))))
        }
        Err(error) => (Shape::Error, None, Some(Extra::Error(error))),
    };
    cells[0] = token;
    cells[1] = f64::from((shape as u32) << SHAPE_AT);
    if let Some(decision) = decision {
        cells[1] += f64::from(tag(&decision));
        cells[2..WIDTH].copy_from_slice(&numbers(&decision));
    }
    extra
}

fn tag(decision: &Decision) -> u32 {
    // A spec has 8 rules at most.
    decision.source as u32 | u32::from(decision.allowed) << 3 | (decision.rule as u32 & 15) << 4
}

/// The decision that `lib/record.js` read from such a tag and five numbers.
pub(crate) fn decision(cells: &[f64]) -> Option<Decision> {
    let [tag, limit, remaining, retry_after, reset_after, wait] = *cells.first_chunk()?;
    let whole = |value: f64| if value.fract() == 0.0 { argument::cost_from_float(value).ok() } else { None };
    let time = |value| argument::time_from_millis("", value).ok();
    let tag = whole(tag)?;
    Some(Decision {
        allowed: tag & 8 != 0,
        limit: whole(limit)?,
        remaining: whole(remaining)?,
        retry_after: if retry_after == -1.0 { None } else { Some(time(retry_after)?) },
        reset_after: time(reset_after)?,
        wait: time(wait)?,
        source: *Source::ALL.get((tag & 7) as usize)?,
        rule: (tag >> 4 & 15) as usize,
    })
}

/// All whole numbers of core's are below 2^53, so a double holds them exactly.
fn numbers(decision: &Decision) -> [f64; WIDTH - 2] {
    [
        decision.limit as f64,
        decision.remaining as f64,
        decision.retry_after.map_or(-1.0, to_millis),
        to_millis(decision.reset_after),
        to_millis(decision.wait),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_source_has_its_place_in_the_list_of_words() {
        for (place, source) in Source::ALL.into_iter().enumerate() {
            assert_eq!(source as usize, place);
            for allowed in [false, true] {
                let decision = Decision {
                    allowed,
                    limit: 5,
                    remaining: 3,
                    retry_after: (!allowed).then_some(Duration::from_micros(1_500)),
                    reset_after: Duration::from_micros(1),
                    wait: Duration::ZERO,
                    source,
                    rule: place,
                };
                let mut cells = [0.0; WIDTH];
                assert!(write(&mut cells, 9.0, Ok(Answer::Decision(decision))).is_none());
                let tag = place as f64 * 17.0 + if allowed { 8.0 } else { 0.0 };
                let retry_after = if allowed { -1.0 } else { 1.5 };
                assert_eq!(cells, [9.0, tag, 5.0, 3.0, retry_after, 0.001, 0.0]);
                assert_eq!(super::decision(&cells[1..]), Some(decision));
            }
        }
    }

    #[test]
    fn what_is_no_decision_is_none() {
        let good = [8.0, 5.0, 3.0, -1.0, 1.0, 0.0];
        assert!(decision(&good).is_some());
        for place in 0..good.len() {
            for bad in [f64::NAN, f64::INFINITY, -2.0, 1e300] {
                let mut cells = good;
                cells[place] = bad;
                assert_eq!(decision(&cells), None, "{cells:?}");
            }
        }
        assert_eq!(decision(&good[1..]), None);
        assert_eq!(decision(&[7.0, 5.0, 3.0, -1.0, 1.0, 0.0]), None);
    }

    #[test]
    fn every_error_kind_has_a_code_and_goes_beside_the_record() {
        for kind in ErrorKind::ALL {
            let mut cells = [0.0; WIDTH];
            let extra = write(&mut cells, 1.0, Err(thrown(Error::new(kind, "why"))));
            assert!(
                matches!(extra, Some(Extra::Error(error)) if error.status.as_ref() == crate::error::code(kind))
            );
            assert_eq!(cells[1], f64::from((Shape::Error as u32) << SHAPE_AT));
            assert_eq!(crate::error::code(kind).to_ascii_lowercase(), kind.as_str());
        }
    }
}

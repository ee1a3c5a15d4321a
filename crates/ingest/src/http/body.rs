//! Documents of a request's body, and what became of each.

use std::sync::atomic::Ordering;
use std::time::Instant;

use hyper::StatusCode;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use walwright_coalesce::{TextRow, WriteError};

use super::{Answer, json_answer};
use crate::destination::{Destination, NoHandle};
use crate::format::Format;
use crate::reader;
use crate::summary::Counts;

/// The documents of a body: an array's elements, a document, or one a line.
///
/// # Errors
/// A sentence where an array is none.
pub(super) fn documents(body: &str, by_line: bool) -> Result<Vec<&str>, String> {
    let lines = || body.lines().filter(|line| !line.trim().is_empty()).collect();
    if by_line {
        return Ok(lines());
    }
    if body.trim_start().starts_with('[') {
        let elements: Vec<&RawValue> =
            serde_json::from_str(body).map_err(|error| format!("the body is no JSON: {error}"))?;
        return Ok(elements.into_iter().map(RawValue::get).collect());
    }
    Ok(match serde_json::from_str::<&RawValue>(body) {
        Ok(document) => vec![document.get()],
        Err(_) => lines(),
    })
}

/// What became of a document.
#[derive(Debug)]
pub(super) enum Outcome {
    Written,
    Rejected(Value),
    /// There was no room.
    Full,
    Failed(String),
    Unknown(String),
}

/// Puts documents among the rows that wait, as far as there is room, and waits for their answers.
pub(super) async fn write(
    destination: &Destination,
    documents: Vec<&str>,
    counts: &Counts,
) -> Vec<Outcome> {
    let since = Instant::now();
    counts.rows.fetch_add(documents.len() as u64, Ordering::Relaxed);
    let mut waiting = Vec::with_capacity(documents.len());
    let mut is_full = false;
    for document in documents {
        waiting.push(match is_full {
            true => Err(Outcome::Full),
            false => enqueue(destination, document).await,
        });
        is_full = matches!(waiting.last(), Some(Err(Outcome::Full)));
    }
    let mut outcomes = Vec::with_capacity(waiting.len());
    for ticket in waiting {
        let outcome = match ticket {
            Ok(ticket) => outcome(ticket.await),
            Err(outcome) => outcome,
        };
        let count = match &outcome {
            Outcome::Written => &counts.written,
            Outcome::Rejected(_) => &counts.rejected,
            Outcome::Unknown(_) => &counts.unknown,
            Outcome::Full | Outcome::Failed(_) => &counts.failed,
        };
        counts.answered(count, since.elapsed());
        outcomes.push(outcome);
    }
    outcomes
}

async fn enqueue(
    destination: &Destination,
    document: &str,
) -> Result<walwright_coalesce::Ticket, Outcome> {
    let rejected = |why: String| Outcome::Rejected(json!({ "message": why }));
    let row = reader::row(&destination.table, None, Format::Ndjson, document.as_bytes());
    let (columns, fields) = row.map_err(rejected)?;
    let handle = destination.handle(&columns).await.map_err(|error| match error {
        NoHandle::Row(why) => rejected(why),
        NoHandle::Server(why) => Outcome::Failed(why),
    })?;
    handle.try_enqueue(TextRow(fields)).map_err(|error| outcome(Err(error)))
}

fn outcome(answer: Result<(), WriteError>) -> Outcome {
    match answer {
        Ok(()) => Outcome::Written,
        Err(WriteError::Refused(refusal)) => Outcome::Rejected(json!({
            "message": refusal.message,
            "sqlstate": refusal.sqlstate,
            "constraint": refusal.constraint,
        })),
        Err(WriteError::Row(why)) => Outcome::Rejected(json!({ "message": why })),
        Err(WriteError::Full { .. }) => Outcome::Full,
        Err(error @ WriteError::Unknown(_)) => Outcome::Unknown(error.to_string()),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// The answer to a request: the worst of what became of its rows, and each of them.
pub(super) fn answer(outcomes: &[Outcome]) -> Answer {
    let status = |outcome: &Outcome| match outcome {
        Outcome::Written => StatusCode::OK,
        Outcome::Rejected(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Outcome::Full => StatusCode::TOO_MANY_REQUESTS,
        Outcome::Failed(_) | Outcome::Unknown(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    // What may be sent again as it is weighs more than what may not.
    let rank = |status: &StatusCode| match status.as_u16() {
        503 => 3,
        429 => 2,
        422 => 1,
        _ => 0,
    };
    let worst = outcomes.iter().map(status).max_by_key(rank).unwrap_or(StatusCode::OK);
    let results = outcomes.iter().enumerate().map(|(at, outcome)| {
        let mut result = match outcome {
            Outcome::Written => json!({ "status": "written" }),
            Outcome::Rejected(why) => {
                let mut why = why.clone();
                why["status"] = "rejected".into();
                why
            }
            Outcome::Full => json!({ "status": "full", "message": "no room; send it again" }),
            Outcome::Failed(why) => json!({ "status": "failed", "message": why }),
            Outcome::Unknown(why) => json!({ "status": "unknown", "message": why }),
        };
        result["row"] = (at + 1).into();
        result
    });
    let written = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Written)).count();
    let body = json!({
        "rows": outcomes.len(),
        "written": written,
        "results": results.collect::<Vec<_>>(),
    });
    json_answer(worst, &body)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_body_is_an_array_a_document_or_lines() {
        assert_eq!(documents(" [{\"a\": 1}, 2]\n", false).unwrap(), ["{\"a\": 1}", "2"]);
        assert_eq!(documents("{\"a\":\n1}\n", false).unwrap(), ["{\"a\":\n1}"]);
        assert_eq!(documents("{}\n\n{\r\n", false).unwrap(), ["{}", "{"]);
        assert_eq!(documents("[1]\n[2]", true).unwrap(), ["[1]", "[2]"]);
        assert!(documents("[1", false).is_err());
    }

    #[test]
    fn what_can_be_sent_again_decides_the_answer() {
        let rejected = || Outcome::Rejected(json!({ "message": "no" }));
        let status = |outcomes: &[Outcome]| answer(outcomes).status().as_u16();
        assert_eq!(status(&[]), 200);
        assert_eq!(status(&[Outcome::Written, rejected()]), 422);
        let full = answer(&[rejected(), Outcome::Full]);
        assert_eq!(
            (full.status().as_u16(), &full.headers()["retry-after"]),
            (429, &"1".parse().unwrap())
        );
        assert_eq!(status(&[Outcome::Unknown(String::new()), Outcome::Full]), 503);
    }

    proptest! {
        #[test]
        fn no_body_brings_it_down(body in "[\\[\\]{}\":a1,\n ]{0,30}", by_line: bool) {
            _ = documents(&body, by_line);
        }
    }
}

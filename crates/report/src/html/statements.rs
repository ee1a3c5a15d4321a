//! Top statements, by time and by WAL.

use walwright_figures::{Statement, Statements, Summary};

use super::page::{StatementList, StatementRow};
use crate::format;

/// Characters of a statement that a table shows; the whole text unfolds.
const SHORT: usize = 170;
/// Characters kept at all: a generated statement can have megabytes.
const LONGEST: usize = 8_000;

/// Both lists; empty ones are left out.
pub(super) fn lists(of: &Statements) -> Vec<StatementList> {
    let list = |title: &str,
                share_of: &str,
                ink,
                rows: &[Statement],
                share: fn(&Statement) -> Option<f64>| {
        let largest = rows.iter().filter_map(share).fold(0.0, f64::max);
        StatementList {
            title: title.to_owned(),
            share_of: share_of.to_owned(),
            ink,
            rows: rows.iter().map(|s| row(s, share(s), largest)).collect(),
        }
    };
    [
        list("By execution time", "Share of time", "i-main", &of.by_time, |s| Some(s.time_share)),
        list("By WAL", "Share of WAL", "i-lwlock", &of.by_wal, |s| s.wal_share),
    ]
    .into_iter()
    .filter(|l| !l.rows.is_empty())
    .collect()
}

/// Why there are no statements.
pub(super) fn missing(summary: &Summary) -> String {
    match summary.not_observable.iter().find(|n| n.figure == "statements") {
        Some(gap) => format!("Not observable: {}.", gap.why),
        None if summary.statements.is_some() => {
            "No statement ended in the measured window.".to_owned()
        }
        None => "Not observable: the run has no measured window.".to_owned(),
    }
}

fn row(of: &Statement, share: Option<f64>, largest: f64) -> StatementRow {
    let known = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let text = match &of.query {
        Some(query) => cut(query.trim(), LONGEST).unwrap_or_else(|| query.trim().to_owned()),
        None => format!("query {} (this role may not see its text)", of.query_id),
    };
    StatementRow {
        short: cut(&text, SHORT),
        text,
        share: known(share.map(format::percent)),
        width: share
            .filter(|_| largest > 0.0)
            .map_or(0.0, |s| (s / largest * 1000.0).round() / 10.0),
        calls: format::about(of.calls),
        per_transaction: format::number(of.calls_per_transaction),
        mean: known(of.mean_time.map(format::latency)),
        time: format::latency(of.time_per_transaction),
        wal: known(of.wal_bytes_per_call.map(format::bytes)),
        rows: known(of.rows_per_call.map(format::number)),
    }
}

/// The beginning of a text longer than `most` characters, ending in an ellipsis.
fn cut(text: &str, most: usize) -> Option<String> {
    let (end, _) = text.char_indices().nth(most)?;
    Some(format!("{}…", text[..end].trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_statements_are_cut_between_characters() {
        assert_eq!(cut("SELECT 1", 20), None);
        assert_eq!(cut("ääääää", 3).as_deref(), Some("äää…"));
    }
}

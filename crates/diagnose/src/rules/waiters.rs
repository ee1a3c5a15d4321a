//! Which statement waits.

use std::collections::BTreeMap;

use walwright_record::{Row, Source};

use crate::{Evidence, Reading, Value};

/// Who waits.
#[derive(Debug, Clone)]
pub(super) struct Waiters {
    /// The statement seen most often; `None` where its text is not known.
    pub(super) statement: Option<String>,
    /// The same in lower case, whole.
    pub(super) plain: Option<String>,
    /// Its share of all that wait so.
    pub(super) share: f64,
}

impl Waiters {
    pub(super) fn evidence(&self) -> Evidence {
        let name = self.statement.as_deref().unwrap_or("one statement of unknown text");
        Evidence::new(
            "pg_stat_activity.query_id",
            format!("share that waits in: {name}"),
            Value::Fraction(self.share),
        )
    }
}

/// The statement most often seen in the chosen rows of wait events; `None` where
/// the server computes no query ids.
pub(super) fn waiters(reading: &Reading, chosen: impl Fn(&Row) -> bool) -> Option<Waiters> {
    let mut by_id: BTreeMap<String, f64> = BTreeMap::new();
    let mut all = 0.0;
    let inside =
        reading.record.samples(Source::Waits).iter().filter(|s| reading.window.contains(s.at));
    for row in inside.flat_map(|s| &s.rows).filter(|row| chosen(row)) {
        let Some(sessions) = row.number("sessions") else { continue };
        all += sessions;
        if let Some(id) = row.0.get("query_id").map(ToString::to_string).filter(|id| !id.is_empty())
        {
            *by_id.entry(id).or_default() += sessions;
        }
    }
    let (id, most) = by_id.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let uses = reading.statements.as_ref().ok();
    let found =
        uses.and_then(|uses| uses.all.iter().find(|s| s.query_id == id && s.text.is_some()));
    let (statement, plain) = (found.map(|s| s.short()), found.map(|s| s.plain().to_owned()));
    Some(Waiters { statement, plain, share: most / all })
}

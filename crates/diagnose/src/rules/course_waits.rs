//! What transactions wait longer for in a stretch of the window than before it.

use walwright_figures::{WaitClass, time_split};
use walwright_record::Window;

use crate::{Evidence, Per, Reading, Value};

/// Part of the time by which a transaction takes longer that a wait has at least to be
/// named.
const PART: f64 = 0.3;

/// A class of waits that grew.
pub(super) struct LongerWait {
    class: WaitClass,
    /// Its most frequent event afterwards.
    event: Option<String>,
    /// Seconds of a transaction before and after.
    before: f64,
    after: f64,
}

impl LongerWait {
    pub(super) fn words(&self, per: Per) -> String {
        let event = self.event.as_ref().filter(|event| *event != "CPU");
        format!(
            "From then on a {} spends {:.2} ms in {}{} instead of {:.2} ms.",
            per.name(),
            self.after * 1e3,
            self.class.label(),
            event.map_or_else(String::new, |event| format!(" ({event})")),
            self.before * 1e3,
        )
    }

    pub(super) fn evidence(&self, per: Per) -> [Evidence; 2] {
        let of = |when: &str, seconds: f64| {
            let what = format!("{} {when}", self.class.label());
            Evidence::new("wait events", what, Value::Seconds(seconds)).per(per)
        };
        [of("before", self.before), of("after", self.after)]
    }
}

/// The class whose time a transaction grew most from the time before a stretch to the
/// stretch, where that is certain and a large part of the whole growth; `None` without samples
/// of both.
pub(super) fn longer_wait(reading: &Reading, stretch: Window) -> Option<LongerWait> {
    let side = |window: Window| time_split(reading.record, window).ok();
    let before = side(Window { start: reading.window.start, end: stretch.start })?;
    let after = side(stretch)?;
    let longer = after.on_server.center - before.on_server.center;
    after
        .parts
        .iter()
        .map(|part| {
            let earlier = before.part(part.class).map(|part| &part.per_transaction);
            let was = earlier.map_or(0.0, |e| e.center);
            let certain = part.per_transaction.low() > earlier.and_then(|e| e.high()).or(Some(0.0));
            (part, was, certain)
        })
        .filter(|(part, was, certain)| {
            *certain && part.per_transaction.center - was >= PART * longer.max(0.0)
        })
        .max_by(|a, b| {
            let growth = |(part, was, _): &(&walwright_figures::TimePart, f64, bool)| {
                part.per_transaction.center - was
            };
            growth(a).total_cmp(&growth(b))
        })
        .map(|(part, was, _)| LongerWait {
            class: part.class,
            event: part.events.first().map(|event| event.event.clone()),
            before: was,
            after: part.per_transaction.center,
        })
}

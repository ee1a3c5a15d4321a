//! Plans that functions and checks of foreign keys make again because a reset threw them away,
//! where the server does not count them.
//!
//! A session keeps the plans of what its functions, triggers and foreign keys run until DISCARD
//! ALL or DISCARD PLANS. Then the next of them makes its plan anew, inside the execution time of
//! the statement that it is for. Only `pg_stat_statements.track = all` with `track_planning = on`
//! tells. Without it the pages do: planning touches few, so such a statement works far longer for
//! each page than those that run none of their own.

use std::collections::BTreeMap;

use walwright_figures::{StatementUse, StatementUses, WaitClass};
use walwright_record::Source;

use super::sessions::forgets;
use super::threshold::FEW;
use crate::Reading;

/// How many times longer for each page a statement takes at least, of which some is planning.
const LONGER: f64 = 2.0;
/// Part of the time beyond what its pages explain that is planning: the least, what is likely,
/// the most. The rest is what the function computes.
const OF_TIME: [f64; 3] = [0.2, 0.7, 1.0];
/// WAL records a call from which a statement may run others: what a SELECT prunes are fewer.
const WRITES: f64 = 2.0;

/// Of a load whose sessions forget their plans.
#[derive(Debug)]
pub(super) struct ForgottenPlans<'r> {
    uses: &'r StatementUses,
    /// Part of the time of a statement in which it waits for nothing, where it was seen.
    working: BTreeMap<String, f64>,
    /// Seconds of work a page of statements that run none of their own.
    page: f64,
    /// Resets that throw plans away.
    resets: f64,
}

impl<'r> ForgottenPlans<'r> {
    /// `None` where no reset throws plans away, where what functions run is counted, or where
    /// nothing tells what a page takes.
    pub(super) fn of(reading: &Reading, uses: &'r StatementUses) -> Option<Self> {
        let resets: f64 = uses.toplevel().filter(forgets).map(|s| s.calls).sum();
        if resets < FEW || uses.all.iter().any(|s| !s.toplevel) {
            return None;
        }
        let working = working(reading);
        let plain = uses.toplevel().filter(|s| s.calls >= FEW && !may_run_others(s));
        let mut each: Vec<(f64, f64)> = plain
            .filter_map(|s| {
                let work = s.seconds() * working.get(&s.query_id).unwrap_or(&1.0);
                Some((work / pages(s).filter(|pages| *pages >= s.calls)?, s.calls))
            })
            .collect();
        each.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = each.iter().map(|(_, calls)| calls).sum::<f64>() / 2.0;
        let mut before = 0.0;
        let (page, _) = each.into_iter().find(|(_, calls)| {
            before += calls;
            before >= half
        })?;
        Some(ForgottenPlans { uses, working, page, resets })
    }

    /// Seconds of a transaction that what a statement runs takes to be planned again: the least,
    /// what is likely, the most.
    pub(super) fn seconds(&self, statement: &StatementUse) -> [f64; 3] {
        let work = statement.seconds() * self.working.get(&statement.query_id).unwrap_or(&1.0);
        let explained = pages(statement).map(|pages| pages * self.page);
        let beyond = match explained {
            Some(explained) if may_run_others(statement) && work >= LONGER * explained => {
                work - explained
            }
            _ => 0.0,
        };
        // A reset makes one call plan again.
        let again = (self.resets / statement.calls.max(1.0)).min(1.0);
        OF_TIME.map(|part| part * again * beyond / self.uses.work.count)
    }

    /// The same of all statements.
    pub(super) fn all(&self) -> [f64; 3] {
        let each = self.uses.toplevel().map(|statement| self.seconds(statement));
        each.fold([0.0; 3], |sum, of| [sum[0] + of[0], sum[1] + of[1], sum[2] + of[2]])
    }
}

/// Whether a statement may run others, in functions, triggers or checks of foreign keys: one that
/// writes more than a row. A SELECT that does has a function do it.
fn may_run_others(statement: &StatementUse) -> bool {
    let locks = [" for update", " for no key update", " for share", " for key share"];
    let text = statement.plain();
    statement.per_call("wal_records").is_some_and(|records| records >= WRITES)
        && !locks.iter().any(|lock| text.contains(lock))
}

/// Part of the time of each statement that was seen in which it waited for nothing.
fn working(reading: &Reading) -> BTreeMap<String, f64> {
    let mut seen: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let ticks = reading.record.samples(Source::Waits).iter();
    let inside = ticks.filter(|tick| reading.window.contains(tick.at));
    for row in inside.flat_map(|tick| &tick.rows) {
        let (Some(class), Some(sessions)) = (WaitClass::of(row), row.number("sessions")) else {
            continue;
        };
        let Some(id) = row.0.get("query_id").map(ToString::to_string) else { continue };
        let (working, all) = seen.entry(id).or_default();
        match class {
            WaitClass::Cpu => {
                *working += sessions;
                *all += sessions;
            }
            WaitClass::Io | WaitClass::Lock | WaitClass::Lwlock | WaitClass::Other => {
                *all += sessions;
            }
            // Not inside a statement's own time.
            WaitClass::Flush
            | WaitClass::FlushQueue
            | WaitClass::Replication
            | WaitClass::Client
            | WaitClass::RunQueue => {}
        }
    }
    let known = seen.into_iter().filter(|(_, (_, all))| *all > 0.0);
    known.map(|(id, (working, all))| (id, working / all)).collect()
}

/// Pages of shared and local buffers that it looked at.
fn pages(statement: &StatementUse) -> Option<f64> {
    let of = |column| statement.sum(column);
    let local = of("local_blks_hit").unwrap_or(0.0) + of("local_blks_read").unwrap_or(0.0);
    Some(of("shared_blks_hit")? + of("shared_blks_read")? + local)
}

//! Events told from counters: checkpoints and autovacuum runs.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use walwright_record::{Row, Timestamp};

/// Tells checkpoints from the rows of the checkpointer.
#[derive(Debug, Default)]
pub(crate) struct CheckpointWatch {
    last: Option<Row>,
    /// The counters when the running checkpoint began, and when that was.
    running: Option<(Row, Timestamp)>,
}

/// Counters of `pg_stat_checkpointer` that count a checkpoint when it begins
/// (up to 17) or when it was due, even if skipped (18).
const BEGUN: [(&str, &str); 4] = [
    ("num_requested", "requested"),
    ("num_timed", "timed"),
    ("restartpoints_req", "requested restart point"),
    ("restartpoints_timed", "timed restart point"),
];

impl CheckpointWatch {
    /// Takes the newest row; returns what happened since the one before, as the
    /// kind and the text of an event.
    ///
    /// A checkpoint has completed when the control file names another one
    /// (`checkpoint_lsn`), or, where that cannot be read, when `num_done` or the
    /// write time moves, which both do at its end.
    pub(crate) fn observe(&mut self, row: &Row, at: Timestamp) -> Vec<(&'static str, String)> {
        let Some(before) = self.last.replace(row.clone()) else { return Vec::new() };
        if before.0.get("stats_reset") != row.0.get("stats_reset") {
            self.running = None;
            return Vec::new();
        }
        let mut events = Vec::new();
        let begun = BEGUN.iter().find(|(column, _)| delta(&before, row, column) > 0.0);
        let completed = match row.number("checkpoint_lsn") {
            Some(lsn) => before.number("checkpoint_lsn").is_some_and(|earlier| earlier != lsn),
            None => ["num_done", "restartpoints_done", "write_time", "sync_time"]
                .iter()
                .any(|column| delta(&before, row, column) > 0.0),
        };
        if let (Some((_, how)), None) = (begun, &self.running) {
            events.push(("checkpoint_start", format!("checkpoint began ({how})")));
            self.running = Some((before.clone(), at));
        }
        if completed {
            let (since, began) = match self.running.take() {
                Some((since, began)) => (since, Some(began)),
                None => (before, None),
            };
            events.push(("checkpoint", completed_text(&since, row, began.map(|b| at.since(b)))));
        }
        events
    }
}

fn completed_text(since: &Row, now: &Row, seen: Option<std::time::Duration>) -> String {
    let mut text =
        format!("checkpoint completed: {} buffers written", delta(since, now, "buffers_written"));
    // The control file is written a moment before the times are added up.
    let (write, sync) = (delta(since, now, "write_time"), delta(since, now, "sync_time"));
    if write > 0.0 || sync > 0.0 {
        text.push_str(&format!(", write {:.3} s, sync {:.3} s", write / 1e3, sync / 1e3));
    } else if let Some(seen) = seen {
        text.push_str(&format!(", seen running for {:.0} s", seen.as_secs_f64()));
    }
    text
}

fn delta(before: &Row, now: &Row, column: &str) -> f64 {
    match (before.number(column), now.number(column)) {
        (Some(before), Some(now)) => now - before,
        _ => 0.0,
    }
}

/// Tells runs of autovacuum from progress rows and, for those too short to be
/// seen there, from the tables' counters.
#[derive(Debug, Default)]
pub(crate) struct AutovacuumWatch {
    running: HashMap<(i64, i64), (String, Timestamp)>,
    /// Tables whose run was seen in progress since the tables were last read.
    seen: HashSet<i64>,
    counts: HashMap<i64, (f64, f64)>,
}

impl AutovacuumWatch {
    /// Takes the newest progress rows; returns what began and what ended.
    pub(crate) fn progress(&mut self, rows: &[Row], at: Timestamp) -> Vec<String> {
        let mut texts = Vec::new();
        let mut present = HashSet::new();
        for row in rows {
            let is_vacuum = row.text("command") == Some("VACUUM");
            if !is_vacuum || row.text("backend_type") != Some("autovacuum worker") {
                continue;
            }
            let (Some(pid), Some(relid)) = (row.number("pid"), row.number("relid")) else {
                continue;
            };
            let key = (pid as i64, relid as i64);
            present.insert(key);
            self.seen.insert(key.1);
            if let Entry::Vacant(new) = self.running.entry(key) {
                let name = match row.text("relation") {
                    Some(name) => name.to_owned(),
                    None => format!("relation {relid} of another database"),
                };
                texts.push(format!("autovacuum of {name} began (process {pid})"));
                new.insert((name, at));
            }
        }
        self.running.retain(|key, (name, began)| {
            let goes_on = present.contains(key);
            if !goes_on {
                texts.push(format!(
                    "autovacuum of {name} ended after about {:.0} s",
                    at.since(*began).as_secs_f64()
                ));
            }
            goes_on
        });
        texts
    }

    /// Takes changed rows of the tables; returns the runs that progress did not show.
    pub(crate) fn tables(&mut self, rows: &[Row]) -> Vec<String> {
        let mut texts = Vec::new();
        for row in rows {
            let (Some(relid), Some(vacuums), Some(analyzes)) = (
                row.number("relid"),
                row.number("autovacuum_count"),
                row.number("autoanalyze_count"),
            ) else {
                continue;
            };
            let relid = relid as i64;
            let Some((vacuums_before, analyzes_before)) =
                self.counts.insert(relid, (vacuums, analyzes))
            else {
                continue;
            };
            let name = format!(
                "{}.{}",
                row.text("schemaname").unwrap_or("?"),
                row.text("relname").unwrap_or("?")
            );
            if vacuums > vacuums_before && !self.seen.contains(&relid) {
                texts.push(format!("autovacuum of {name} ran"));
            }
            if analyzes > analyzes_before {
                texts.push(format!("autoanalyze of {name} ran"));
            }
        }
        self.seen = self.running.keys().map(|(_, relid)| *relid).collect();
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpointer(requested: i64, lsn: i64, buffers: i64) -> Row {
        let mut row = Row::new();
        row.set("num_timed", 0_i64)
            .set("num_requested", requested)
            .set("checkpoint_lsn", lsn)
            .set("buffers_written", buffers)
            .set("write_time", 0.0)
            .set("sync_time", 0.0)
            .set("stats_reset", 1_i64);
        row
    }

    fn kinds(events: &[(&'static str, String)]) -> Vec<&'static str> {
        events.iter().map(|(kind, _)| *kind).collect()
    }

    #[test]
    fn a_checkpoint_begins_and_completes_once() {
        let mut watch = CheckpointWatch::default();
        let at = |second: i64| Timestamp(second * 1_000_000);
        assert!(watch.observe(&checkpointer(0, 10, 0), at(0)).is_empty());
        assert_eq!(kinds(&watch.observe(&checkpointer(1, 10, 5), at(1))), ["checkpoint_start"]);
        assert!(watch.observe(&checkpointer(1, 10, 50), at(2)).is_empty());
        let done = watch.observe(&checkpointer(1, 20, 100), at(3));
        assert_eq!(kinds(&done), ["checkpoint"]);
        assert!(done[0].1.contains("100 buffers"), "{}", done[0].1);
        assert!(watch.observe(&checkpointer(1, 20, 100), at(4)).is_empty());
    }

    #[test]
    fn one_that_fits_between_two_readings_is_told_whole() {
        let mut watch = CheckpointWatch::default();
        watch.observe(&checkpointer(0, 10, 0), Timestamp(0));
        let events = watch.observe(&checkpointer(1, 20, 7), Timestamp(1_000_000));
        assert_eq!(kinds(&events), ["checkpoint_start", "checkpoint"]);
    }

    #[test]
    fn without_the_control_file_the_times_tell_the_end() {
        let mut watch = CheckpointWatch::default();
        let mut row = checkpointer(0, 0, 0);
        row.0.remove("checkpoint_lsn");
        watch.observe(&row, Timestamp(0));
        row.set("num_requested", 1_i64).set("write_time", 250.0).set("sync_time", 3.0);
        let events = watch.observe(&row, Timestamp(1));
        assert_eq!(kinds(&events), ["checkpoint_start", "checkpoint"]);
        assert!(events[1].1.contains("write 0.250 s"), "{}", events[1].1);
    }

    #[test]
    fn a_reset_is_not_a_checkpoint() {
        let mut watch = CheckpointWatch::default();
        watch.observe(&checkpointer(5, 10, 0), Timestamp(0));
        let mut reset = checkpointer(9, 20, 0);
        reset.set("stats_reset", 2_i64);
        assert!(watch.observe(&reset, Timestamp(1)).is_empty());
    }

    fn vacuum(pid: i64) -> Row {
        let mut row = Row::new();
        row.set("command", "VACUUM")
            .set("backend_type", "autovacuum worker")
            .set("pid", pid)
            .set("relid", 42_i64)
            .set("relation", "public.t");
        row
    }

    fn table(vacuums: i64) -> Row {
        let mut row = Row::new();
        row.set("relid", 42_i64)
            .set("schemaname", "public")
            .set("relname", "t")
            .set("autovacuum_count", vacuums)
            .set("autoanalyze_count", 0_i64);
        row
    }

    #[test]
    fn a_vacuum_seen_in_progress_is_not_told_again_by_the_table() {
        let mut watch = AutovacuumWatch::default();
        assert!(watch.tables(&[table(0)]).is_empty());
        assert_eq!(watch.progress(&[vacuum(7)], Timestamp(0)).len(), 1);
        assert!(watch.progress(&[vacuum(7)], Timestamp(1_000_000)).is_empty());
        let ended = watch.progress(&[], Timestamp(2_000_000));
        assert_eq!(ended, ["autovacuum of public.t ended after about 2 s"]);
        assert!(watch.tables(&[table(1)]).is_empty());
        assert_eq!(watch.tables(&[table(2)]), ["autovacuum of public.t ran"]);
    }
}

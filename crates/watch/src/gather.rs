//! From samples to figures: of the stretch under way, and since the beginning.

use std::collections::BTreeMap;
use std::time::Duration;

use walwright_figures::WaitClass;
use walwright_record::{Row, Sample, Scalar, Setting, Source, Timestamp};

use crate::exposition::Snapshot;
use crate::metric::{self, Metric, MetricKind};
use crate::slot::{Slot, StatementCounts, TableCounts, Value};

/// Statements that are exposed by name.
const STATEMENTS: usize = 20;
/// A statement is exposed by name from this share of all WAL or time between two readings.
const SHARE: f64 = 0.01;
/// One that did nothing for so many readings makes room for another.
const IDLE: u32 = 30;
/// Tables, standbys and slots that are exposed by name.
const NAMED: usize = 10;
/// What all others are called.
pub const OTHER: &str = "other";
/// Letters of a statement's text that are kept.
const TEXT: usize = 300;
/// Letters of it in a label.
const LABEL: usize = 80;
/// Bounds of a histogram of times in seconds: 50 µs to 26 s.
const BOUNDS: usize = 20;

/// Counts in buckets, with their bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Upper bounds in seconds, the last without end, and how many lie below each and above the
    /// one before.
    pub buckets: Vec<(f64, u64)>,
    /// Sum in seconds.
    pub sum: f64,
    /// How many.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let bounds = (0..BOUNDS).map(|n| 50e-6 * 2_f64.powi(n as i32)).chain([f64::INFINITY]);
        Histogram { buckets: bounds.map(|bound| (bound, 0)).collect(), sum: 0.0, count: 0 }
    }
}

impl Histogram {
    /// Adds so many that took `seconds` together.
    pub fn add(&mut self, count: u64, seconds: f64) {
        if count == 0 {
            return;
        }
        let mean = seconds / count as f64;
        if let Some((_, bucket)) = self.buckets.iter_mut().find(|(bound, _)| mean <= *bound) {
            *bucket += count;
        }
        self.sum += seconds;
        self.count += count;
    }
}

/// A value with the values of its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// In the order of the metric's labels.
    pub labels: Vec<String>,
    /// The value.
    pub value: f64,
}

/// What a metric's samples are.
#[derive(Debug, Clone, PartialEq)]
pub enum Samples {
    /// Of a counter or gauge; none where nothing is known.
    Values(Vec<Labelled>),
    /// Of a histogram.
    Histogram(Histogram),
}

/// Takes samples in the order of time.
#[derive(Debug, Default)]
pub struct Gatherer {
    slot: Option<Slot>,
    /// Since the beginning, by the names of the ring.
    counters: BTreeMap<String, f64>,
    gauges: BTreeMap<String, f64>,
    flushes: Histogram,
    /// The row of a source without keys when it was read last.
    last: BTreeMap<Source, (Timestamp, Row)>,
    /// Flushes and their seconds in `pg_stat_io`, by row.
    io: BTreeMap<String, (f64, Option<f64>)>,
    io_at: Option<Timestamp>,
    waits_at: Option<Timestamp>,
    statements: BTreeMap<String, StatementCounts>,
    texts: BTreeMap<i64, String>,
    exposed: Vec<Exposed>,
    others: StatementCounts,
    statements_read: bool,
    tables: BTreeMap<i64, TableState>,
    tables_read: bool,
    settings: Settings,
    max_tick: Duration,
}

/// What is needed of the settings.
#[derive(Debug, Default, Clone, Copy)]
struct Settings {
    vacuum_threshold: Option<f64>,
    vacuum_scale_factor: Option<f64>,
    vacuum_max_threshold: Option<f64>,
    max_wal_bytes: Option<f64>,
}

#[derive(Debug)]
struct Exposed {
    id: i64,
    counts: StatementCounts,
    idle: u32,
}

#[derive(Debug, Default)]
struct TableState {
    name: String,
    counted: [f64; 3],
    dead: f64,
    debt: f64,
}

/// By how much a counter that was `before` went; one that is less began anew.
fn grown(before: f64, now: f64) -> f64 {
    if now >= before { now - before } else { now }
}

impl Gatherer {
    /// Nothing seen yet. Ticks of wait events are expected each `tick`.
    pub fn new(tick: Duration) -> Gatherer {
        Gatherer { max_tick: 3 * tick, ..Gatherer::default() }
    }

    /// Takes the server's settings, as they are now.
    pub fn settings(&mut self, settings: &[Setting]) {
        let number = |name: &str| {
            let setting = settings.iter().find(|setting| setting.name == name)?;
            let value: f64 = setting.value.parse().ok()?;
            Some((value, setting.unit.as_deref()))
        };
        let plain = |name: &str| number(name).map(|(value, _)| value).filter(|v| *v >= 0.0);
        let megabytes = |name: &str| {
            number(name)
                .and_then(|(value, unit)| (unit == Some("MB")).then_some(value * 1_048_576.0))
        };
        self.settings = Settings {
            vacuum_threshold: plain("autovacuum_vacuum_threshold"),
            vacuum_scale_factor: plain("autovacuum_vacuum_scale_factor"),
            vacuum_max_threshold: plain("autovacuum_vacuum_max_threshold"),
            max_wal_bytes: megabytes("max_wal_size"),
        };
    }

    /// Ends the stretch under way at `at`, and begins the next; the first call only begins.
    pub fn close(&mut self, at: Timestamp) -> Option<Slot> {
        let next = Slot::new(at, at);
        let mut slot = self.slot.replace(next)?;
        slot.end = at;
        Some(slot)
    }

    /// The stretch under way.
    pub fn under_way(&self) -> Option<&Slot> {
        self.slot.as_ref()
    }

    /// Whether the server answered in the stretch under way, as a figure of it.
    pub fn up(&mut self, up: bool) {
        self.gauge(metric::UP, "", f64::from(u8::from(up)));
    }

    /// A counter of our own went on.
    pub fn count(&mut self, metric: Metric, label: &str, by: f64) {
        self.counted(metric, label, by, 0.0);
    }

    /// Takes a sample.
    pub fn take(&mut self, sample: &Sample) {
        let Sample { at, source, rows } = sample;
        match source {
            Source::Database => self.database(*at, rows),
            Source::Wal => self.wal(*at, rows),
            Source::Io => self.io(*at, rows),
            Source::Checkpointer => self.checkpointer(*at, rows),
            Source::Waits => self.waits(*at, rows),
            Source::Sessions => self.sessions(rows),
            Source::Statements => self.statements(rows),
            Source::Tables => self.tables(rows),
            Source::Replication => self.replication(rows),
            Source::ReplicationSlots => self.slots(rows),
            Source::ProbeCost => self.cost(*at, rows),
            _ => {}
        }
    }

    fn key(metric: Metric, label: &str) -> String {
        if label.is_empty() { metric.name.to_owned() } else { format!("{}|{label}", metric.name) }
    }

    fn counted(&mut self, metric: Metric, label: &str, by: f64, seconds: f64) {
        let key = Gatherer::key(metric, label);
        if let Some(slot) = &mut self.slot {
            slot.add(&key, Value::counted(by, seconds));
        }
        *self.counters.entry(key).or_default() += by;
    }

    fn gauge(&mut self, metric: Metric, label: &str, value: f64) {
        let key = Gatherer::key(metric, label);
        if let Some(slot) = &mut self.slot {
            slot.add(&key, Value::read(value));
        }
        self.gauges.insert(key, value);
    }

    /// A gauge that may not be known any more.
    fn known(&mut self, metric: Metric, label: &str, value: Option<f64>) {
        match value {
            Some(value) => self.gauge(metric, label, value),
            None => {
                self.gauges.remove(&Gatherer::key(metric, label));
            }
        }
    }

    /// Counters of a source with one row: how far those went that are known at both ends.
    fn of_one_row(
        &mut self,
        at: Timestamp,
        source: Source,
        rows: &[Row],
        columns: &[(&str, Metric, &str, f64)],
    ) -> Option<(f64, Row)> {
        let row = rows.first()?;
        let (then, before) = self.last.insert(source, (at, row.clone()))?;
        let seconds = at.since(then).as_secs_f64();
        for (column, metric, label, unit) in columns {
            if let Some((was, is)) = before.number(column).zip(row.number(column)) {
                self.counted(*metric, label, grown(was, is) * unit, seconds);
            }
        }
        Some((seconds, before))
    }

    fn database(&mut self, at: Timestamp, rows: &[Row]) {
        let columns = [
            ("xact_rollback", metric::ROLLBACKS, "", 1.0),
            ("deadlocks", metric::DEADLOCKS, "", 1.0),
            ("temp_bytes", metric::TEMPORARY_BYTES, "", 1.0),
        ];
        // Our own queries are commits too: those since the last reading.
        let own = self.counters.remove(OWN_COMMITS).unwrap_or(0.0);
        let seen = self.of_one_row(at, Source::Database, rows, &columns);
        let Some(row) = rows.first() else { return };
        if let Some((seconds, before)) = seen
            && let Some((was, is)) = before.number("xact_commit").zip(row.number("xact_commit"))
        {
            self.counted(metric::COMMITS, "", (grown(was, is) - own).max(0.0), seconds);
        }
        self.known(metric::XID_AGE, "", row.number("datfrozenxid_age"));
        self.known(metric::MULTIXACT_AGE, "", row.number("datminmxid_age"));
    }

    fn wal(&mut self, at: Timestamp, rows: &[Row]) {
        let columns = [
            ("wal_bytes", metric::WAL_BYTES, "", 1.0),
            ("wal_records", metric::WAL_RECORDS, "", 1.0),
            ("wal_fpi", metric::WAL_FULL_PAGE_IMAGES, "", 1.0),
            ("wal_buffers_full", metric::WAL_BUFFERS_FULL, "", 1.0),
        ];
        let Some((seconds, before)) = self.of_one_row(at, Source::Wal, rows, &columns) else {
            return;
        };
        let Some(row) = rows.first() else { return };
        // From 18 on flushes are in pg_stat_io.
        if let Some((was, is)) = before.number("wal_sync").zip(row.number("wal_sync")) {
            let time = before.number("wal_sync_time").zip(row.number("wal_sync_time"));
            let time = time.map(|(was, is)| grown(was, is) / 1e3);
            self.flushed(grown(was, is), time, seconds);
        }
    }

    fn io(&mut self, at: Timestamp, rows: &[Row]) {
        let before = self.io_at.replace(at);
        let (mut flushes, mut time, mut known) = (0.0, Some(0.0), false);
        for row in rows {
            let of_wal = row.text("object") == Some("wal") && row.text("context") == Some("normal");
            let Some(is) = row.number("fsyncs").filter(|_| of_wal) else { continue };
            let took = row.number("fsync_time");
            let key = row.key(Source::Io);
            let Some((was, before)) = self.io.insert(key, (is, took)) else { continue };
            known = true;
            flushes += grown(was, is);
            let more = before.zip(took).map(|(was, is)| grown(was, is) / 1e3);
            time = time.zip(more).map(|(sum, more)| sum + more);
        }
        if let Some(before) = before.filter(|_| known) {
            self.flushed(flushes, time, at.since(before).as_secs_f64());
        }
    }

    /// Flushes and the seconds they took, where they are timed.
    fn flushed(&mut self, count: f64, took: Option<f64>, seconds: f64) {
        self.counted(metric::WAL_FLUSHES, "", count, seconds);
        let timed = took.filter(|took| *took > 0.0);
        if let Some(took) = timed {
            self.flushes.add(count as u64, took);
            if let Some(slot) = &mut self.slot {
                // Seconds of flushes over flushes: its mean is that of a flush.
                let each = if count > 0.0 { took / count } else { 0.0 };
                let value = Value { sum: took, max: each, count };
                slot.add(metric::WAL_FLUSH_SECONDS.name, value);
            }
        }
    }

    fn checkpointer(&mut self, at: Timestamp, rows: &[Row]) {
        let columns = [
            ("num_timed", metric::CHECKPOINTS, "timed", 1.0),
            ("num_requested", metric::CHECKPOINTS, "requested", 1.0),
            ("write_time", metric::CHECKPOINT_WRITE_SECONDS, "", 1e-3),
            ("sync_time", metric::CHECKPOINT_SYNC_SECONDS, "", 1e-3),
            ("buffers_written", metric::CHECKPOINT_BUFFERS, "", 1.0),
        ];
        self.of_one_row(at, Source::Checkpointer, rows, &columns);
        let redo = rows.first().and_then(|row| row.number("redo_lsn"));
        let now = self.lsn();
        let most = self.settings.max_wal_bytes.filter(|most| *most > 0.0);
        let pressure = now.zip(redo).zip(most).map(|((now, redo), most)| (now - redo) / most);
        self.known(metric::CHECKPOINT_PRESSURE_RATIO, "", pressure.map(|p| p.max(0.0)));
    }

    /// Where the WAL was when it was read last.
    fn lsn(&self) -> Option<f64> {
        self.last.get(&Source::Wal)?.1.number("wal_lsn")
    }

    fn waits(&mut self, at: Timestamp, rows: &[Row]) {
        let Some(before) = self.waits_at.replace(at) else { return };
        // What was between two readings far apart is not known.
        let seconds = at.since(before).min(self.max_tick).as_secs_f64();
        let mut classes: BTreeMap<&str, f64> =
            WaitClass::ALL.map(|class| (class_name(class), 0.0)).into();
        // The kernel's count, which ticks do not tell.
        classes.remove(class_name(WaitClass::RunQueue));
        for row in rows {
            let Some(class) = WaitClass::of(row) else { continue };
            let sessions = row.number("sessions").unwrap_or(0.0);
            *classes.entry(class_name(class)).or_default() += sessions * seconds;
        }
        for (class, spent) in classes {
            self.counted(metric::WAIT_SECONDS, class, spent, seconds);
        }
    }

    fn sessions(&mut self, rows: &[Row]) {
        let Some(row) = rows.first() else { return };
        let states = ["active", "idle", "idle_in_transaction", "idle_in_transaction_aborted"];
        for state in states {
            self.known(metric::SESSIONS, state, row.number(state));
        }
        self.known(metric::LOCK_WAITING_SESSIONS, "", row.number("waiting_for_lock"));
        let longest = row.number("longest_lock_wait_seconds").unwrap_or(0.0);
        self.gauge(metric::LOCK_WAIT_LONGEST_SECONDS, "", longest);
        let oldest = row.number("oldest_transaction_seconds").unwrap_or(0.0);
        self.gauge(metric::OLDEST_TRANSACTION_SECONDS, "", oldest);
    }

    fn statements(&mut self, rows: &[Row]) {
        let mut moved: BTreeMap<i64, StatementCounts> = BTreeMap::new();
        for row in rows {
            let Some(Scalar::Int(id)) = row.0.get("queryid") else { continue };
            if let Some(text) = row.text("query") {
                self.texts.insert(*id, cut(text, TEXT));
            }
            let number = |column: &str| row.number(column).unwrap_or(0.0);
            let now = StatementCounts {
                calls: number("calls"),
                seconds: number("total_exec_time") / 1e3,
                wal_bytes: number("wal_bytes"),
                rows: number("rows"),
            };
            let before = self.statements.insert(row.key(Source::Statements), now);
            // What is new after the first reading began at zero.
            let before = before.or(self.statements_read.then(StatementCounts::default));
            // A nested statement is in the one that ran it too.
            let nested = row.flag("toplevel") == Some(false);
            let Some(before) = before.filter(|_| !nested) else { continue };
            let more = StatementCounts {
                calls: grown(before.calls, now.calls),
                seconds: grown(before.seconds, now.seconds),
                wal_bytes: grown(before.wal_bytes, now.wal_bytes),
                rows: grown(before.rows, now.rows),
            };
            if more.calls > 0.0 {
                moved.entry(*id).or_default().add(more);
            }
        }
        self.statements_read = true;
        if let Some(slot) = &mut self.slot {
            for (id, counts) in &moved {
                slot.statements.entry(*id).or_default().add(*counts);
                if let Some(text) = self.texts.get(id) {
                    slot.texts.insert(*id, text.clone());
                }
            }
        }
        self.expose(&moved);
    }

    /// Adds to the statements that are exposed by name, and to all others. Who is exposed stays
    /// so while it does anything, so that no counter goes back.
    fn expose(&mut self, moved: &BTreeMap<i64, StatementCounts>) {
        let all = moved.values().fold(StatementCounts::default(), |mut sum, counts| {
            sum.add(*counts);
            sum
        });
        for exposed in &mut self.exposed {
            exposed.idle = if moved.contains_key(&exposed.id) { 0 } else { exposed.idle + 1 };
        }
        self.exposed.retain(|exposed| exposed.idle < IDLE);
        let share = |of: &StatementCounts| {
            let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
            share(of.wal_bytes, all.wal_bytes).max(share(of.seconds, all.seconds))
        };
        let is_exposed = |exposed: &[Exposed], id: i64| exposed.iter().any(|of| of.id == id);
        let mut new: Vec<(i64, f64)> = moved
            .iter()
            .filter(|(id, _)| !is_exposed(&self.exposed, **id))
            .map(|(id, counts)| (*id, share(counts)))
            .filter(|(_, share)| *share >= SHARE)
            .collect();
        new.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (id, _) in new.into_iter().take(STATEMENTS.saturating_sub(self.exposed.len())) {
            self.exposed.push(Exposed { id, counts: StatementCounts::default(), idle: 0 });
        }
        for (id, counts) in moved {
            match self.exposed.iter_mut().find(|exposed| exposed.id == *id) {
                Some(exposed) => exposed.counts.add(*counts),
                None => self.others.add(*counts),
            }
        }
    }

    fn tables(&mut self, rows: &[Row]) {
        let settings = self.settings;
        for row in rows {
            let Some(Scalar::Int(id)) = row.0.get("relid") else { continue };
            let number = |column: &str| row.number(column).unwrap_or(0.0);
            let counted = [number("n_tup_ins"), number("n_tup_upd"), number("n_tup_del")];
            let dead = number("n_dead_tup");
            let at = settings.vacuum_threshold.zip(settings.vacuum_scale_factor);
            let at = at.map(|(base, scale)| base + scale * number("reltuples").max(0.0));
            let at = at.map(|at| settings.vacuum_max_threshold.map_or(at, |most| at.min(most)));
            let debt = at.filter(|at| *at > 0.0).map_or(0.0, |at| dead / at);
            let known = self.tables.contains_key(id);
            let state = self.tables.entry(*id).or_default();
            let before = if known { state.counted } else { [0.0; 3] };
            let moved: Vec<f64> =
                before.iter().zip(counted).map(|(was, is)| grown(*was, is)).collect();
            if state.name.is_empty() {
                let part = |column: &str| row.text(column).unwrap_or_default();
                state.name = format!("{}.{}", part("schemaname"), part("relname"));
            }
            (state.counted, state.dead, state.debt) = (counted, dead, debt);
            let (true, Some(slot)) = (known || self.tables_read, &mut self.slot) else { continue };
            slot.table_names.insert(*id, state.name.clone());
            slot.tables.entry(*id).or_default().add(TableCounts {
                inserted: moved[0],
                updated: moved[1],
                deleted: moved[2],
                dead,
                bytes: number("relation_bytes"),
                debt,
            });
        }
        self.tables_read = true;
        let dead = self.tables.values().map(|table| table.dead).sum();
        self.gauge(metric::DEAD_ROWS, "", dead);
        let worst = self.tables.values().map(|table| table.debt).fold(0.0, f64::max);
        if let Some(slot) = &mut self.slot {
            slot.add(metric::VACUUM_DEBT_RATIO.name, Value::read(worst));
        }
    }

    fn replication(&mut self, rows: &[Row]) {
        self.forget(metric::REPLICATION_LAG_SECONDS);
        self.forget(metric::REPLICATION_LAG_BYTES);
        let now = self.lsn();
        for row in rows.iter().take(NAMED) {
            let name = row.text("application_name").filter(|name| !name.is_empty());
            let name = name.or_else(|| row.text("client_addr")).unwrap_or("unnamed").to_owned();
            // A standby that has replayed all has no lag: the column is empty then.
            let lag = row.number("replay_lag").unwrap_or(0.0) / 1e3;
            self.gauge(metric::REPLICATION_LAG_SECONDS, &name, lag);
            let behind = now.zip(row.number("replay_lsn")).map(|(now, at)| (now - at).max(0.0));
            self.known(metric::REPLICATION_LAG_BYTES, &name, behind);
        }
    }

    fn slots(&mut self, rows: &[Row]) {
        self.forget(metric::SLOT_RETAINED_BYTES);
        let now = self.lsn();
        for row in rows.iter().take(NAMED) {
            let Some(name) = row.text("slot_name") else { continue };
            let held = now.zip(row.number("restart_lsn")).map(|(now, at)| (now - at).max(0.0));
            self.known(metric::SLOT_RETAINED_BYTES, name, held);
        }
    }

    /// Forgets what a gauge was, whatever its label.
    fn forget(&mut self, metric: Metric) {
        let prefix = format!("{}|", metric.name);
        self.gauges.retain(|key, _| !key.starts_with(&prefix));
    }

    fn cost(&mut self, at: Timestamp, rows: &[Row]) {
        let columns = [
            ("cpu_seconds", metric::WATCH_CPU_SECONDS, "here", 1.0),
            ("backend_cpu_seconds", metric::WATCH_CPU_SECONDS, "server", 1.0),
            ("skipped", metric::WATCH_READINGS_SKIPPED, "", 1.0),
        ];
        let Some((_, before)) = self.of_one_row(at, Source::ProbeCost, rows, &columns) else {
            return;
        };
        let own = rows.first().and_then(|row| row.number("commits"));
        if let Some((was, is)) = before.number("commits").zip(own) {
            *self.counters.entry(OWN_COMMITS.to_owned()).or_default() += grown(was, is);
        }
    }

    /// What a metric is now; what is not gathered from samples has no values.
    pub fn samples(&self, metric: &Metric) -> Samples {
        if metric.kind == MetricKind::Histogram {
            let known = *metric == metric::WAL_FLUSH_SECONDS && self.flushes.count > 0;
            return Samples::Histogram(if known {
                self.flushes.clone()
            } else {
                Histogram::default()
            });
        }
        let of_statements: Option<fn(&StatementCounts) -> f64> = match *metric {
            metric::STATEMENT_CALLS => Some(|of| of.calls),
            metric::STATEMENT_SECONDS => Some(|of| of.seconds),
            metric::STATEMENT_WAL_BYTES => Some(|of| of.wal_bytes),
            _ => None,
        };
        if let Some(of) = of_statements {
            return Samples::Values(self.statement_values(of));
        }
        if *metric == metric::VACUUM_DEBT_RATIO {
            let mut worst: Vec<&TableState> = self.tables.values().collect();
            worst.sort_by(|a, b| b.debt.total_cmp(&a.debt).then(a.name.cmp(&b.name)));
            let worst = worst.into_iter().take(NAMED);
            let values =
                worst.map(|table| Labelled { labels: vec![table.name.clone()], value: table.debt });
            return Samples::Values(values.collect());
        }
        let all = match metric.kind {
            MetricKind::Counter => &self.counters,
            _ => &self.gauges,
        };
        let values = all.iter().filter_map(|(key, value)| {
            let labels = match key.split_once('|') {
                None => (key == metric.name).then(Vec::new)?,
                Some((name, label)) => (name == metric.name).then(|| vec![label.to_owned()])?,
            };
            Some(Labelled { labels, value: *value })
        });
        Samples::Values(values.collect())
    }

    /// All metrics of the server of which something is known.
    pub fn snapshot(&self) -> Snapshot {
        let known = |samples: &Samples| match samples {
            Samples::Values(values) => !values.is_empty(),
            Samples::Histogram(of) => of.count > 0,
        };
        let all = metric::ALL.iter().map(|metric| (metric.name, self.samples(metric)));
        all.filter(|(_, samples)| known(samples)).collect()
    }

    fn statement_values(&self, of: fn(&StatementCounts) -> f64) -> Vec<Labelled> {
        if !self.statements_read {
            return Vec::new();
        }
        let named = self.exposed.iter().map(|exposed| {
            let text = self.texts.get(&exposed.id).map(String::as_str).unwrap_or_default();
            let labels = vec![exposed.id.to_string(), cut(&one_line(text), LABEL)];
            Labelled { labels, value: of(&exposed.counts) }
        });
        let others =
            Labelled { labels: vec![OTHER.to_owned(), OTHER.to_owned()], value: of(&self.others) };
        named.chain([others]).collect()
    }
}

/// The label of a class of waits.
pub fn class_name(class: WaitClass) -> &'static str {
    match class {
        WaitClass::Cpu => "cpu",
        WaitClass::RunQueue => "run_queue",
        WaitClass::Flush => "flush",
        WaitClass::FlushQueue => "flush_queue",
        WaitClass::Replication => "replication",
        WaitClass::Io => "io",
        WaitClass::Lock => "lock",
        WaitClass::Lwlock => "lwlock",
        WaitClass::Client => "client",
        WaitClass::Other => "other",
    }
}

/// Commits of our own queries since the database was read, which no metric is called.
const OWN_COMMITS: &str = "own commits";

/// A text on one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;

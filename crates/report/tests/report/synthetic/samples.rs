//! Samples of server and host, under the names PostgreSQL and the kernel give.

use std::collections::BTreeMap;

use walwright_record::{LoadInterval, Record, Row, Sample, Scalar, Source};

use super::{CLIENTS, Noise, PREPARE, at};

/// All samples of the run.
pub fn all(
    record: &Record,
    checkpoint: (f64, f64),
    noise: &mut Noise,
) -> BTreeMap<Source, Vec<Sample>> {
    let mut all = Samples::default();
    let mut total = Totals::default();
    for (second, interval) in record.intervals.iter().enumerate() {
        let now = PREPARE as f64 + second as f64;
        let writing = (checkpoint.0..checkpoint.1).contains(&now);
        all.ticks(now, writing, noise);
        total.advance(interval, now, checkpoint, noise);
        all.counters(now + 0.98, &total);
        if second % 5 == 0 {
            all.statements(now + 0.99, &total);
        }
    }
    all.0
}

/// Counters as the server would show them.
#[derive(Default)]
struct Totals {
    commits: f64,
    wal_records: f64,
    wal_fpi: f64,
    wal_bytes: f64,
    flushes: f64,
    flush_ms: f64,
    checkpoint_buffers: f64,
    checkpoints: f64,
    backend_buffers: f64,
    disk_bytes: f64,
    disk_writes: f64,
    disk_ms: f64,
    disk_busy_ms: f64,
    cpu: [f64; 6],
    user: f64,
    system: f64,
    idle: f64,
    iowait: f64,
}

impl Totals {
    fn advance(
        &mut self,
        interval: &LoadInterval,
        now: f64,
        checkpoint: (f64, f64),
        noise: &mut Noise,
    ) {
        let done = interval.scripts[0].transactions as f64;
        let writing = (checkpoint.0..checkpoint.1).contains(&now);
        let images = if writing { 0.85 * (-(now - checkpoint.0) / 14.0).exp() } else { 0.004 };
        self.commits += done;
        self.wal_records += done * 6.2;
        self.wal_fpi += done * images;
        self.wal_bytes += done * (612.0 + images * 3_900.0);
        let flushes = done * (0.31 + 0.01 * noise.uniform());
        self.flushes += flushes;
        self.flush_ms += flushes * (if writing { 0.96 } else { 0.74 } + 0.03 * noise.normal());
        let buffers = if writing { 520.0 + 40.0 * noise.normal() } else { 0.0 };
        self.checkpoint_buffers += buffers;
        if (now - checkpoint.1).abs() < 0.5 {
            self.checkpoints += 1.0;
        }
        self.backend_buffers += 3.0 * noise.uniform();
        let written = buffers * 8192.0 + done * (700.0 + images * 3_900.0);
        self.disk_bytes += written;
        self.disk_writes += flushes + buffers / 4.0;
        self.disk_ms += (flushes + buffers / 4.0) * if writing { 1.1 } else { 0.55 };
        self.disk_busy_ms += if writing { 780.0 } else { 520.0 } + 30.0 * noise.normal();
        for (cpu, per) in self.cpu.iter_mut().zip([3.6e-4, 2.2e-5, 2e-6, 1e-6, 3.8e-5, 0.0]) {
            *cpu += done * per;
        }
        self.cpu[2] += if writing { 0.12 } else { 0.0 };
        self.cpu[5] += 0.31;
        self.user += 1.5;
        self.system += 0.9;
        self.iowait += 0.2;
        self.idle += 1.4;
    }
}

#[derive(Default)]
struct Samples(BTreeMap<Source, Vec<Sample>>);

impl Samples {
    fn push(&mut self, now: f64, source: Source, rows: Vec<Row>) {
        self.0.entry(source).or_default().push(Sample { at: at(now), source, rows });
    }

    /// Ten ticks of wait events in a second.
    fn ticks(&mut self, now: f64, writing: bool, noise: &mut Noise) {
        for tick in 0..10 {
            let mut left = i64::from(CLIENTS);
            let mut rows = Vec::new();
            let mut seen = |kind: &str, event: &str, mean: f64, noise: &mut Noise| {
                let sessions = (mean + 0.8 * noise.normal()).round().max(0.0) as i64;
                let sessions = sessions.min(left);
                left -= sessions;
                if sessions > 0 {
                    rows.push(wait("client backend", kind, event, sessions));
                }
            };
            seen("IO", "WalSync", if writing { 3.4 } else { 2.6 }, noise);
            seen("LWLock", "WALWrite", if writing { 3.9 } else { 3.1 }, noise);
            seen("Lock", "transactionid", 2.2, noise);
            seen("Lock", "tuple", 0.7, noise);
            seen("IO", "DataFileRead", if writing { 0.9 } else { 0.5 }, noise);
            seen("Client", "ClientRead", 2.2, noise);
            seen("", "", 3.4, noise);
            self.push(now + f64::from(tick) / 10.0, Source::Waits, rows);
        }
    }

    fn counters(&mut self, now: f64, total: &Totals) {
        let whole = |v: f64| Scalar::Int(v as i64);
        self.push(
            now,
            Source::Database,
            vec![row(&[
                ("xact_commit", whole(total.commits)),
                ("xact_rollback", Scalar::Int(3)),
                ("deadlocks", Scalar::Int(3)),
            ])],
        );
        self.push(
            now,
            Source::Wal,
            vec![row(&[
                ("wal_records", whole(total.wal_records)),
                ("wal_fpi", whole(total.wal_fpi)),
                ("wal_bytes", whole(total.wal_bytes)),
                ("wal_fpi_bytes", whole(total.wal_fpi * 3_900.0)),
                ("wal_buffers_full", Scalar::Int(0)),
                ("wal_lsn", whole(4e9 + total.wal_bytes)),
            ])],
        );
        let io = |kind: &str, object: &str, context: &str, columns: &[(&str, Scalar)]| {
            let mut row = row(columns);
            row.set("backend_type", kind).set("object", object).set("context", context);
            row
        };
        self.push(
            now,
            Source::Io,
            vec![
                io(
                    "client backend",
                    "wal",
                    "normal",
                    &[
                        ("writes", whole(total.flushes)),
                        ("write_bytes", whole(total.wal_bytes)),
                        ("write_time", Scalar::Float(total.flush_ms * 0.08)),
                        ("fsyncs", whole(total.flushes)),
                        ("fsync_time", Scalar::Float(total.flush_ms)),
                    ],
                ),
                io(
                    "client backend",
                    "relation",
                    "normal",
                    &[
                        ("reads", whole(total.commits * 0.2)),
                        ("read_bytes", whole(total.commits * 0.2 * 8192.0)),
                        ("read_time", Scalar::Float(total.commits * 0.01)),
                        ("writes", whole(total.backend_buffers)),
                        ("write_bytes", whole(total.backend_buffers * 8192.0)),
                        ("write_time", Scalar::Float(total.backend_buffers * 0.01)),
                        ("fsyncs", Scalar::Int(0)),
                        ("fsync_time", Scalar::Float(0.0)),
                    ],
                ),
                io(
                    "checkpointer",
                    "relation",
                    "normal",
                    &[
                        ("writes", whole(total.checkpoint_buffers)),
                        ("write_bytes", whole(total.checkpoint_buffers * 8192.0)),
                        ("write_time", Scalar::Float(total.checkpoint_buffers * 0.012)),
                        ("fsyncs", whole(total.checkpoints * 40.0)),
                        ("fsync_time", Scalar::Float(total.checkpoints * 212.0)),
                    ],
                ),
            ],
        );
        self.push(
            now,
            Source::Checkpointer,
            vec![row(&[
                ("num_timed", whole(total.checkpoints)),
                ("num_requested", Scalar::Int(0)),
                ("num_done", whole(total.checkpoints)),
                ("write_time", Scalar::Float(total.checkpoints * 26_700.0)),
                ("sync_time", Scalar::Float(total.checkpoints * 212.0)),
                ("buffers_written", whole(total.checkpoint_buffers)),
            ])],
        );
        self.push(
            now,
            Source::BackgroundWriter,
            vec![row(&[
                ("buffers_clean", Scalar::Int(0)),
                ("maxwritten_clean", Scalar::Int(0)),
                ("buffers_alloc", whole(total.commits * 0.2)),
            ])],
        );
        self.host(now, total);
    }

    fn host(&mut self, now: f64, total: &Totals) {
        let whole = |v: f64| Scalar::Int(v as i64);
        let reads = total.commits * 0.2;
        let mut disk = row(&[
            ("read_ios", whole(reads)),
            ("read_sectors", whole(reads * 16.0)),
            ("read_ticks", whole(reads * 0.1)),
            ("write_ios", whole(total.disk_writes)),
            ("write_sectors", whole(total.disk_bytes / 512.0)),
            ("write_ticks", whole(total.disk_ms)),
            ("in_flight", Scalar::Int(1)),
            ("io_ticks", whole(total.disk_busy_ms)),
            ("time_in_queue", whole(total.disk_ms)),
            ("flush_ios", whole(total.flushes)),
            ("flush_ticks", whole(total.flush_ms)),
        ]);
        disk.set("device", "nvme0n1");
        self.push(now, Source::Disk, vec![disk]);
        self.push(
            now,
            Source::Cpu,
            vec![row(&[
                ("user", Scalar::Float(total.user)),
                ("system", Scalar::Float(total.system)),
                ("idle", Scalar::Float(total.idle)),
                ("iowait", Scalar::Float(total.iowait)),
                ("steal", Scalar::Float(0.0)),
                ("nice", Scalar::Float(0.0)),
                ("irq", Scalar::Float(0.0)),
                ("softirq", Scalar::Float(0.0)),
            ])],
        );
        let groups = [
            "server: client backends",
            "server: walwriter",
            "server: checkpointer",
            "server: background writer",
            "walwright",
            "other: backup",
        ];
        let (rows, neighbours): (Vec<Row>, Vec<Row>) = groups
            .iter()
            .zip(total.cpu)
            .map(|(group, cpu)| {
                let mut row = row(&[
                    ("user_seconds", Scalar::Float(cpu * 0.7)),
                    ("system_seconds", Scalar::Float(cpu * 0.3)),
                ]);
                row.set("process_group", *group);
                row
            })
            .partition(|row| !row.key(Source::Processes).starts_with("other"));
        self.push(now, Source::Processes, rows);
        self.push(now, Source::Neighbours, neighbours);
    }

    fn statements(&mut self, now: f64, total: &Totals) {
        let texts = [
            ("UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", 0.061, 331.0),
            ("UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2", 0.142, 121.0),
            ("UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2", 0.103, 118.0),
            (
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
                0.021,
                96.0,
            ),
            ("SELECT abalance FROM pgbench_accounts WHERE aid = $1", 0.017, 0.0),
            ("END", 0.4, 0.0),
            ("BEGIN", 0.0007, 0.0),
        ];
        let rows = texts
            .iter()
            .enumerate()
            .map(|(i, (text, mean_ms, wal))| {
                let mut row = row(&[
                    ("userid", Scalar::Int(10)),
                    ("dbid", Scalar::Int(16_384)),
                    ("queryid", Scalar::Int(1_000 + i as i64)),
                    ("toplevel", Scalar::Bool(true)),
                    ("calls", Scalar::Int(total.commits as i64)),
                    ("total_exec_time", Scalar::Float(total.commits * mean_ms)),
                    ("rows", Scalar::Int(total.commits as i64)),
                    ("wal_records", Scalar::Int((total.commits * wal / 90.0) as i64)),
                    ("wal_bytes", Scalar::Int((total.commits * wal) as i64)),
                    ("shared_blks_dirtied", Scalar::Int((total.commits * 0.8) as i64)),
                ]);
                row.set("query", *text);
                row
            })
            .collect();
        self.push(now, Source::Statements, rows);
    }
}

fn row(columns: &[(&str, Scalar)]) -> Row {
    let mut row = Row::new();
    for (column, value) in columns {
        row.set(*column, value.clone());
    }
    row
}

/// A row of a tick; without a wait the session was on CPU.
fn wait(backend: &str, kind: &str, event: &str, sessions: i64) -> Row {
    let text = |t: &str| if t.is_empty() { Scalar::Null } else { Scalar::from(t) };
    let state = if event == "ClientRead" { "idle in transaction" } else { "active" };
    let mut row = Row::new();
    row.set("backend_type", backend)
        .set("state", state)
        .set("wait_event_type", text(kind))
        .set("wait_event", text(event))
        .set("query_id", Scalar::Null)
        .set("sessions", sessions);
    row
}

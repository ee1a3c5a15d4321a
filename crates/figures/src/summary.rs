//! What a run says on one screen.

use std::time::Duration;

use serde::Serialize;
use walwright_record::{ClientFacts, Headline, Record, RunHeader, Schedule, Warning};

use crate::data_disk_use::data_disk_use;
use crate::not_observable::Gaps;
use crate::statements::largest;
use crate::storage_use::storage_use;
use crate::time_split::time_split_with;
use crate::{
    Blind, Checkpoints, CpuUse, DataDiskUse, LoadSummary, NotObservable, RowChanges, ServerLoad,
    StatementUses, Statements, StorageUse, TimeSplit, WalSummary, checkpoints, cpu, load_summary,
    row_changes, server_load, statement_uses, wal,
};

/// What the figure is called that says where the time went.
pub const TIME: &str = "time of a transaction";
/// Statements listed by time and by WAL.
const STATEMENTS: usize = 10;

/// What a run says. In JSON times are seconds and sizes bytes; what is not known
/// is null, and [`Summary::not_observable`] says why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The first page of the record.
    pub run: RunHeader,
    /// `server_version` of the target.
    pub server_version: Option<String>,
    /// Closed or open loop: they answer different questions.
    pub schedule: Option<Schedule>,
    /// `faithful` or `lean`.
    pub mode: Option<String>,
    /// Protocol of the clients.
    pub protocol: Option<String>,
    /// Client connections.
    pub clients: Option<u32>,
    /// Length of the measured window; `None` when the run did not get to it.
    #[serde(with = "crate::seconds::option")]
    pub window: Option<Duration>,
    /// The load as the clients saw it.
    pub load: Option<LoadSummary>,
    /// The load as the server counts it, by whomever it was made.
    pub server_load: Option<ServerLoad>,
    /// What the clients of someone else's load said of it.
    pub client: Option<ClientFacts>,
    /// Where the time of a transaction went.
    pub time: Option<TimeSplit>,
    /// WAL and flushes.
    pub wal: Option<WalSummary>,
    /// Flushes against what the disk was measured to do.
    pub storage: Option<StorageUse>,
    /// The same of the disk under the data.
    pub data_disk: Option<DataDiskUse>,
    /// Checkpoints inside the window.
    pub checkpoints: Option<Checkpoints>,
    /// Row changes and the HOT ratio.
    pub rows: Option<RowChanges>,
    /// CPU of server, driver and machine.
    pub cpu: Option<CpuUse>,
    /// Largest statements.
    pub statements: Option<Statements>,
    /// Figures that are not there, and why.
    pub not_observable: Vec<NotObservable>,
    /// Warnings of the record that go with every figure above.
    pub warnings: Vec<Warning>,
}

impl Summary {
    /// What a list of runs is to say of this one.
    pub fn headline(&self) -> Option<Headline> {
        let load = self.load.as_ref()?;
        let (throughput, latency) = (load.throughput.as_ref()?, load.latency.as_ref()?);
        Some(Headline {
            throughput: throughput.center,
            p50: latency.p50.as_secs_f64(),
            p99: latency.p99.as_secs_f64(),
        })
    }
}

/// The summary of a record, whole or cut short. Needs nothing but the record.
pub fn summary(record: &Record) -> Summary {
    summary_with(record, record.window().map(|window| statement_uses(record, window)).as_ref())
}

/// The same, where the statements of the measured window have been read already: of thousands that
/// takes longer than all else.
pub fn summary_with(record: &Record, uses: Option<&Result<StatementUses, Blind>>) -> Summary {
    let none = || Err(Blind::NoWindow);
    let mut gaps = Gaps::default();
    let load = record.load.as_ref();
    let mut summary = Summary {
        run: record.header.clone(),
        server_version: record.target.as_ref().map(|t| t.version.clone()),
        schedule: load.map(|l| l.schedule),
        mode: load.map(|l| l.mode.clone()),
        protocol: load.map(|l| l.protocol.clone()),
        clients: load.map(|l| l.clients),
        window: None,
        load: None,
        server_load: None,
        client: record.client.clone(),
        time: None,
        wal: None,
        storage: None,
        data_disk: None,
        checkpoints: None,
        rows: None,
        cpu: None,
        statements: None,
        not_observable: Vec::new(),
        warnings: record.warnings.clone(),
    };
    if let Some(window) = gaps.note("all figures", record.window().ok_or(Blind::NoWindow)) {
        summary.window = Some(window.length());
        summary.load = load_summary(record, window);
        summary.server_load = gaps.note("commits a second", server_load(record, window));
        summary.wal = wal::wal_summary(record, window, &mut gaps);
        summary.storage = storage_use(record, summary.wal.as_ref(), summary.clients);
        summary.data_disk = data_disk_use(record, window);
        let cpu = cpu::cpu_use(record, window, &mut gaps);
        let known = uses.and_then(|uses| uses.as_ref().ok());
        summary.time = gaps.note(TIME, time_split_with(record, window, known));
        if let Some(time) = &mut summary.time {
            // What the load generator takes is outside of transactions alone.
            time.tell_driver(&cpu);
            time.tell_application(record, window, &cpu);
            time.tell_gateway(record, window, &cpu);
            time.tell_pooler(&cpu);
            let backends = cpu.group(cpu::CLIENT_BACKENDS);
            time.counted_cpu = backends.and_then(|g| g.per_transaction);
            time.counted_run_delay = backends.and_then(|g| g.run_delay_per_transaction);
            // Behind a gateway it is the barrier's, which no client's samples are laid beside.
            let wal = summary.wal.as_ref().filter(|_| time.gateway.is_none());
            time.counted_flush = wal.and_then(|w| w.flush_time_per_transaction);
        }
        summary.cpu = Some(cpu);
        summary.checkpoints = gaps.note("checkpoints", checkpoints(record, window));
        summary.rows = gaps.note("row changes", row_changes(record, window));
        let of = |uses: &StatementUses| largest(record, window, uses, STATEMENTS);
        let statements = uses.map_or_else(none, |uses| uses.as_ref().map(of).map_err(Blind::clone));
        summary.statements = gaps.note("statements", statements);
        if let Some(cpu) = summary.statements.as_mut().and_then(|s| s.cpu.as_mut()) {
            cpu.counted = summary.time.as_ref().and_then(|time| time.counted_cpu);
        }
    }
    summary.not_observable = gaps.0;
    summary
}

#[cfg(test)]
mod tests {
    use walwright_record::{RunState, Source, WarningCode};

    use super::*;
    use walwright_testing::{Build, named, row, wait};

    #[test]
    fn a_record_with_only_a_header_says_why_there_are_no_figures() {
        let build = Build::new();
        let summary = summary(&build.record);
        assert_eq!(summary.window, None);
        assert_eq!(summary.not_observable[0].why, Blind::NoWindow);
        assert!(serde_json::to_string(&summary).is_ok());
    }

    #[test]
    fn a_load_without_server_statistics_still_has_its_latency() {
        let mut build = Build::new();
        build.load(0, 30, 500).measure(0.0, 30.0);
        let summary = summary(&build.record);
        assert_eq!(summary.load.unwrap().transactions, 15_000);
        assert_eq!((summary.wal, summary.time, summary.statements), (None, None, None));
        for figure in ["WAL a transaction", "time of a transaction", "checkpoints"] {
            assert!(summary.not_observable.iter().any(|n| n.figure == figure), "{figure}");
        }
    }

    #[test]
    fn a_killed_run_is_summed_up_to_its_last_second() {
        let mut build = Build::new();
        build.load(0, 25, 500).measure(5.0, 60.0);
        build.record.phases[0].end = None;
        build.record.header.state = RunState::Interrupted;
        let summary = summary(&build.record);
        assert_eq!(summary.window, Some(Duration::from_secs(20)));
        assert_eq!(summary.load.unwrap().transactions, 10_000);
    }

    #[test]
    fn sampled_times_stand_beside_counted_ones() {
        let mut build = Build::new();
        build.load(0, 30, 500).measure(0.0, 30.0);
        for tick in 0..300_u32 {
            build.sample(f64::from(tick) / 10.0, Source::Waits, [wait("active", "", "", 1.0)]);
        }
        for s in 0..30 {
            let t = f64::from(s);
            let wal =
                row([("wal_bytes", t), ("wal_sync", 500.0 * t), ("wal_sync_time", 150.0 * t)]);
            build.sample(t, Source::Wal, [wal]);
            let backends = named(
                [("process_group", "server: client backends")],
                [
                    ("user_seconds", 0.6 * t),
                    ("system_seconds", 0.2 * t),
                    ("run_delay_seconds", 0.1 * t),
                ],
            );
            build.sample(t, Source::Processes, [backends]);
        }
        let time = summary(&build.record).time.unwrap();
        assert_eq!(time.counted_flush, Some(Duration::from_micros(300)));
        assert_eq!(time.counted_cpu, Some(Duration::from_micros(1_600)));
        assert_eq!(time.counted_run_delay, Some(Duration::from_micros(200)));
    }

    #[test]
    fn warnings_travel_along_and_json_is_in_seconds() {
        let mut build = Build::new();
        build.load(0, 30, 500).measure(0.0, 30.0);
        build.record.warnings.push(Warning::new(WarningCode::Steal, "5 % stolen"));
        for tick in 0..300_u32 {
            build.sample(f64::from(tick) / 10.0, Source::Waits, [wait("active", "", "", 1.0)]);
        }
        for s in 0..30 {
            let t = f64::from(s);
            build.sample(t, Source::Wal, [row([("wal_bytes", 1e6 * t), ("wal_sync", 10.0 * t)])]);
        }
        let json = serde_json::to_value(summary(&build.record)).unwrap();
        assert_eq!(json["warnings"][0]["code"], "steal");
        assert_eq!(json["load"]["throughput"]["center"], 500.0);
        let p50 = json["load"]["latency"]["p50"].as_f64().unwrap();
        assert!((p50 - 0.002).abs() < 1e-5);
        assert_eq!(json["time"]["parts"][0]["class"], "cpu");
        assert_eq!(json["wal"]["bytes_per_transaction"], 2_000.0);
        assert!(json["wal"]["mean_flush"].is_null());
    }
}

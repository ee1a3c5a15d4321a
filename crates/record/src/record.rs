//! A whole record in memory.

use std::collections::BTreeMap;

use crate::{
    ClientFacts, CpuProbe, Event, HostFacts, InstrumentFacts, LatencyHistogram, LoadFacts,
    LoadInterval, Phase, PhaseName, RunHeader, Sample, SchemaFacts, Setting, Source,
    SparseHistogram, StorageMeasurement, StorageProbe, TargetFacts, Timestamp, UnderWay, Warning,
    Window, WorkloadFacts,
};

/// Everything a run captured. What the run did not get to is absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Name, state, times.
    pub header: RunHeader,
    /// The server.
    pub target: Option<TargetFacts>,
    /// Its settings when the load began.
    pub settings: Vec<Setting>,
    /// The schema when the load began.
    pub schema: Option<SchemaFacts>,
    /// The schema when the load had ended, where it had changed or plans were looked at.
    pub schema_end: Option<SchemaFacts>,
    /// The machine.
    pub host: Option<HostFacts>,
    /// The workload.
    pub workload: Option<WorkloadFacts>,
    /// The way it was driven.
    pub load: Option<LoadFacts>,
    /// What the clients of a load that is not ours said of it.
    pub client: Option<ClientFacts>,
    /// The instrument on itself.
    pub instrument: Option<InstrumentFacts>,
    /// Flush latency before the run.
    pub storage: Option<StorageProbe>,
    /// What the disk under the WAL was known to be able to do when the run began: the
    /// lab's newest measurement of that file system.
    pub storage_measured: Option<StorageMeasurement>,
    /// Processor speed before the run.
    pub cpu: Option<CpuProbe>,
    /// Figures of measurements beside the load, in seconds, under the name the
    /// workload gives them: `empty query`, …
    pub side_measures: BTreeMap<String, f64>,
    /// Stages in time order.
    pub phases: Vec<Phase>,
    /// Events in time order.
    pub events: Vec<Event>,
    /// Warnings.
    pub warnings: Vec<Warning>,
    /// The load, second by second; empty for a record of someone else's load that
    /// no log of its clients joined.
    pub intervals: Vec<LoadInterval>,
    /// What was under way when the measured window ended; `None` for a load that is not
    /// ours, and of a run that died in its window.
    pub under_way: Option<UnderWay>,
    /// How long it took to open a connection, where each transaction had one of its own: over
    /// the whole load.
    pub connection_time: Option<SparseHistogram>,
    /// Latency of each SQL command over the measured window, by script and place in it.
    pub statement_latency: Vec<Vec<LatencyHistogram>>,
    /// Samples of each source in time order.
    pub samples: BTreeMap<Source, Vec<Sample>>,
}

impl Record {
    /// A record that holds nothing but its header.
    pub fn new(header: RunHeader) -> Self {
        Record {
            header,
            target: None,
            settings: Vec::new(),
            schema: None,
            schema_end: None,
            host: None,
            workload: None,
            load: None,
            client: None,
            instrument: None,
            storage: None,
            storage_measured: None,
            cpu: None,
            side_measures: BTreeMap::new(),
            phases: Vec::new(),
            events: Vec::new(),
            warnings: Vec::new(),
            intervals: Vec::new(),
            under_way: None,
            connection_time: None,
            statement_latency: Vec::new(),
            samples: BTreeMap::new(),
        }
    }

    /// The samples of a source; empty where there are none.
    pub fn samples(&self, source: Source) -> &[Sample] {
        self.samples.get(&source).map_or(&[], Vec::as_slice)
    }

    /// The stretch of a phase. A phase without an end reaches to the last thing seen.
    pub fn phase(&self, name: PhaseName) -> Option<Window> {
        let phase = self.phases.iter().find(|p| p.name == name)?;
        Some(Window { start: phase.start, end: phase.end.unwrap_or_else(|| self.last_seen()) })
    }

    /// The measured window. Of a run that died, it reaches to the driver's last
    /// report: what happened after that is unknown, not nothing.
    pub fn window(&self) -> Option<Window> {
        let window = self.phase(PhaseName::Measure)?;
        let open = self.phases.iter().any(|p| p.name == PhaseName::Measure && p.end.is_none());
        let reported = self.intervals.last().map(|last| last.start.plus(last.length));
        match reported {
            Some(end) if open => Some(Window { end: end.max(window.start), ..window }),
            _ => Some(window),
        }
    }

    /// The setting called `name`.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|s| s.name == name)
    }

    /// The latest moment anything in the record speaks of.
    pub fn last_seen(&self) -> Timestamp {
        let samples = self.samples.values().filter_map(|s| s.last()).map(|s| s.at);
        let intervals = self.intervals.last().map(|i| i.start.plus(i.length));
        let phases = self.phases.iter().map(|p| p.end.unwrap_or(p.start));
        samples
            .chain(intervals)
            .chain(phases)
            .chain(self.header.ended)
            .max()
            .unwrap_or(self.header.started)
    }
}

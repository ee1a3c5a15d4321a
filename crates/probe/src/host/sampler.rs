//! The thread that reads the host.

use std::collections::HashSet;
use std::iter;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use walwright_record::{Row, Source};

use super::cgroup::Cgroup;
use super::connected::Connections;
use super::disk::{self, device_of};
use super::neighbours::Neighbours;
use super::parts::LoadParts;
use super::processes::{Reader, ServerProcesses, WholeProcess, all_pids};
use super::read::{processors_online, read_into, ticks_per_second};
use super::{HostScope, machine};
use crate::clock::Clock;
use crate::cost::{Cost, ProbeThread, SlowedSource, thread_cpu};
use crate::observation::{Sink, emit, emit_event};
use crate::own_backends::OwnBackends;
use crate::pace::Pace;
use crate::rates::Rates;

/// Shares of the machine that the readings may take.
const MACHINE_BUDGET: f64 = 0.001;
const PROCESSES_BUDGET: f64 = 0.001;
const NEIGHBOURS_BUDGET: f64 = 0.0005;
const CONNECTIONS_BUDGET: f64 = 0.0005;

/// What the host sampler has to say at its end.
#[derive(Debug, Default)]
pub(crate) struct HostReport {
    pub(crate) slowed: Vec<SlowedSource>,
    pub(crate) not_observable: Vec<String>,
}

/// Reads the host until told to stop.
pub(crate) struct HostSampler {
    pub(crate) scope: HostScope,
    pub(crate) clock: Clock,
    pub(crate) sink: Sink,
    pub(crate) cost: Arc<Cost>,
    pub(crate) own_backends: OwnBackends,
    pub(crate) rates: Rates,
}

/// What is kept between readings.
struct State {
    devices: Vec<String>,
    cgroup: Cgroup,
    ticks_per_second: f64,
    text: String,
    more_text: String,
    reader: Reader,
    server: Option<ServerProcesses>,
    /// walwright itself, and the pooler that it started.
    whole: Vec<WholeProcess>,
    neighbours: Neighbours,
    /// Who holds connections to the server, where that is looked for.
    connections: Option<Connections>,
    connected: HashSet<u32>,
}

impl HostSampler {
    /// Runs on the calling thread. A message or a closed channel stops it.
    pub(crate) fn run(self, stop: &Receiver<()>) -> HostReport {
        let start = Instant::now();
        let processors = processors_online().map_or(1.0, f64::from);
        let processors = self.rates.budget_processors(processors);
        let pace = |every, share: f64| Pace::new(every, share * processors, start);
        let mut machine = pace(self.rates.counters, MACHINE_BUDGET);
        let mut processes = pace(self.rates.counters, PROCESSES_BUDGET);
        // Those that have a part in the load are more than neighbours: their time is part
        // of the latency breakdown. Yet every process has to be read to find them.
        let watched = self.scope.parts != LoadParts::default();
        let every = if watched { 2 * self.rates.counters } else { self.rates.tables };
        let mut neighbours = pace(every, NEIGHBOURS_BUDGET);
        let mut connections = pace(every, CONNECTIONS_BUDGET);
        let mut state = self.state();
        let mut stopping = false;
        loop {
            let now = Instant::now();
            if self.scope.local && (stopping || machine.due() <= now) {
                self.timed(&mut machine, |sampler| sampler.machine(&mut state));
            }
            if stopping || processes.due() <= now {
                self.timed(&mut processes, |sampler| sampler.processes(&mut state));
            }
            // Before the processes, whose parts in the load depend on it.
            if state.connections.is_some() && (stopping || connections.due() <= now) {
                self.timed(&mut connections, |sampler| sampler.connections(&mut state));
            }
            if self.scope.local && (stopping || neighbours.due() <= now) {
                self.timed(&mut neighbours, |sampler| sampler.neighbours(&mut state));
            }
            self.cost.measure_thread(ProbeThread::Host);
            if stopping {
                break;
            }
            let due = if self.scope.local {
                let due = machine.due().min(processes.due()).min(neighbours.due());
                if state.connections.is_some() { due.min(connections.due()) } else { due }
            } else {
                processes.due()
            };
            let wait = due.saturating_duration_since(Instant::now());
            stopping = !matches!(stop.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
        }
        let paces = [
            ("machine", &machine),
            ("processes", &processes),
            ("other processes", &neighbours),
            ("who is connected", &connections),
        ];
        HostReport {
            slowed: paces.iter().filter_map(|(what, pace)| SlowedSource::of(what, pace)).collect(),
            not_observable: self.not_observable(&state),
        }
    }

    fn state(&self) -> State {
        let directories = [&self.scope.data_directory, &self.scope.wal_directory];
        let mut devices: Vec<String> = Vec::new();
        for device in directories.into_iter().flatten().filter_map(|dir| device_of(dir)) {
            for device in device.stack() {
                if !devices.contains(&device.name) {
                    devices.push(device.name);
                }
            }
        }
        State {
            devices,
            cgroup: Cgroup::of(self.scope.postmaster_pid.unwrap_or(std::process::id())),
            ticks_per_second: ticks_per_second(),
            text: String::new(),
            more_text: String::new(),
            reader: Reader::new(),
            server: self.scope.postmaster_pid.map(ServerProcesses::new),
            whole: iter::once(WholeProcess::own())
                .chain(self.scope.pooler.map(WholeProcess::pooler))
                .collect(),
            neighbours: Neighbours::new(self.scope.parts.clone()),
            connections: self
                .scope
                .listening
                .clone()
                .filter(|_| self.scope.local && self.scope.parts.recognise)
                .map(Connections::new),
            connected: HashSet::new(),
        }
    }

    fn timed(&self, pace: &mut Pace, read: impl FnOnce(&Self)) {
        let before = thread_cpu();
        read(self);
        let cost = thread_cpu().zip(before).map(|(after, before)| after - before);
        let skipped = pace.skipped;
        pace.taken(Instant::now(), cost);
        self.cost.skipped(pace.skipped - skipped);
    }

    fn store(&self, source: Source, rows: Vec<Row>) {
        if !rows.is_empty() {
            emit(&self.sink, self.clock.now(), source, rows);
        }
    }

    fn machine(&self, state: &mut State) {
        if read_into("/proc/stat", &mut state.text) {
            let row = machine::cpu(&state.text, state.ticks_per_second);
            self.store(Source::Cpu, row.into_iter().collect());
        }
        let mut pressure = Vec::new();
        for resource in ["cpu", "io", "memory"] {
            if read_into(&format!("/proc/pressure/{resource}"), &mut state.text) {
                pressure.extend(machine::pressure(resource, &state.text));
            }
        }
        self.store(Source::Pressure, pressure);
        if read_into("/proc/meminfo", &mut state.text) {
            read_into("/proc/vmstat", &mut state.more_text);
            self.store(Source::Memory, vec![machine::memory(&state.text, &state.more_text)]);
        }
        if !state.devices.is_empty() && read_into("/proc/diskstats", &mut state.text) {
            self.store(Source::Disk, disk::stats(&state.text, &state.devices));
        }
        let mut network = Vec::new();
        if read_into("/proc/net/dev", &mut state.text) {
            network.extend(machine::network(&state.text));
        }
        if read_into("/proc/net/snmp", &mut state.text) {
            network.extend(machine::tcp(&state.text));
        }
        self.store(Source::Network, network);
        self.store(Source::Cgroup, state.cgroup.sample().into_iter().collect());
    }

    fn processes(&self, state: &mut State) {
        let mut rows = Vec::new();
        if let Some(server) = &mut state.server {
            rows.extend(server.sample(&mut state.reader, &self.own_backends.snapshot()));
        }
        for process in &mut state.whole {
            rows.extend(process.sample(&mut state.reader));
        }
        self.store(Source::Processes, rows);
    }

    fn neighbours(&self, state: &mut State) {
        let me = std::process::id();
        let server = &state.server;
        let pooler = self.scope.pooler;
        let is_ours = |pid: u32| {
            pid == me
                || pooler == Some(pid)
                || server.as_ref().is_some_and(|server| server.contains(pid))
        };
        let rows = state.neighbours.sample(&mut state.reader, is_ours, &state.connected);
        self.store(Source::Neighbours, rows);
        for (pid, name) in state.neighbours.recognised() {
            let text = format!(
                "{name} (PID {pid}) holds connections to the server: taken for the application"
            );
            emit_event(&self.sink, self.clock.now(), "process", text);
        }
    }

    fn connections(&self, state: &mut State) {
        let server = &state.server;
        let is_server = |pid: u32| server.as_ref().is_some_and(|server| server.contains(pid));
        let others = all_pids().into_iter().filter(|pid| !is_server(*pid));
        if let Some(connections) = &mut state.connections {
            state.connected = connections.holders(others);
        }
    }

    fn not_observable(&self, state: &State) -> Vec<String> {
        if !self.scope.local {
            return vec![
                "the server's machine: processors, memory, disks and processes of a remote server cannot be seen over SQL".to_owned(),
            ];
        }
        let mut sentences = Vec::new();
        let mut cannot = |when: bool, sentence: &str| {
            if when {
                sentences.push(sentence.to_owned());
            }
        };
        let strangers = state.connections.as_ref().map_or(0, Connections::unattributed);
        cannot(
            strangers > 0,
            "who holds connections to the server: the open files of other users' processes may not be read; --app names the application",
        );
        cannot(state.server.is_none(), "the server's processes: the postmaster is not known");
        cannot(
            state.devices.is_empty(),
            "disks: no block device is known under the data directory and the WAL",
        );
        cannot(
            !std::path::Path::new("/proc/pressure/cpu").exists(),
            "pressure stalls: this kernel has no /proc/pressure",
        );
        cannot(
            state.cgroup.sample().is_none(),
            "control group: none with usage figures is mounted here",
        );
        sentences
    }
}

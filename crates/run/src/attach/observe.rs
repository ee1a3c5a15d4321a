//! What is seen of server and host: facts before sampling, and sampling itself.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use walwright_probe::{
    Clock, Connector, HostScope, Listening, Observation as Seeing, Probe, ProbeSpec, Rates, Sink,
    TablesOfInterest, TargetDescription,
};
use walwright_record::{
    PhaseName, Sample, SchemaFacts, Source, TableKind, TargetKind, Timestamp, Warning, WarningCode,
};
use walwright_server::Client;

use super::RecordError;
use super::plan::Until;
use super::session::Session;
use crate::Progress;
use crate::lifetime::{Interruption, Lifetime};

/// Time to read the schema again at the end: a server this slow has better things to do.
const TO_DESCRIBE: Duration = Duration::from_secs(10);
/// Tables described.
const LARGEST_TABLES: u16 = 20;

/// A server that is described.
pub(super) struct Ready {
    client: Client,
    host: HostScope,
    schema: SchemaFacts,
}

/// Describes server and machine. No flush is measured: writing beside someone's WAL
/// is not done unasked.
pub(super) async fn prepare(session: &Session) -> Result<Ready, RecordError> {
    let notes = &session.notes;
    let params = session.params.clone().with_application_name("walwright record");
    let client = walwright_server::connect(&params).await?;
    notes.phase(PhaseName::Probe);
    let description = TargetDescription {
        kind: TargetKind::Attached,
        address: session.params.address(),
        install: None,
        tables: TablesOfInterest::Largest(LARGEST_TABLES),
    };
    let facts = walwright_probe::target_facts(&client, &description).await?;
    let settings = walwright_probe::settings(&params).await?;
    let mut host = HostScope::of(&facts);
    host.parts = session.plan.parts.clone();
    host.listening = Listening::of(settings.iter().map(|s| (s.name.as_str(), s.value.as_str())));
    notes.recorder.write(move |writer| writer.target(&facts));
    notes.recorder.write(move |writer| writer.settings(&settings));
    let (data, wal) = (host.data_directory.clone(), host.wal_directory.clone());
    let facts = blocking(move || walwright_probe::host_facts(data.as_deref(), wal.as_deref()));
    let facts = facts.await?;
    let mount = facts.wal_disk.as_ref().map(|disk| PathBuf::from(&disk.mount));
    notes.recorder.write(move |writer| writer.host(&facts));
    let mount = mount.filter(|_| host.local);
    if let Some(known) = mount.and_then(|m| crate::storage::known_at(&session.lab, &m)) {
        notes.recorder.write(move |writer| writer.storage_measured(&known));
    }
    // Under load a processor's speed says how busy the machine is, not how fast.
    if host.local && matches!(session.plan.until, Until::CommandEnds(_)) {
        notes.observer.event(Progress::Step("processor speed"));
        let cpu = blocking(walwright_probe::cpu_probe).await?;
        notes.recorder.write(move |writer| writer.cpu(&cpu));
    }
    notes.observer.event(Progress::Step("the schema"));
    let schema = walwright_probe::schema_facts(&client).await;
    let facts = schema.clone();
    notes.recorder.write(move |writer| writer.schema(&facts));
    Ok(Ready { client, host, schema })
}

/// Reads the schema again once the load has ended, with plans of what was run; keeps it
/// where it tells more than before.
async fn describe_end(session: &Session, client: &Client, before: &SchemaFacts) {
    let mut facts = walwright_probe::schema_facts(client).await;
    // Statements are planned in a session of their own, whose names mean what they mean to
    // the application.
    if facts.tables.iter().any(|table| table.kind == TableKind::Partitioned) {
        match walwright_server::connect_unchanged(&session.params).await {
            Ok(workload) => {
                walwright_probe::partition_plans(client, &workload, false, &mut facts).await;
            }
            Err(error) => {
                facts.incomplete.push(format!("plans over partitioned tables: {error}"));
            }
        }
    }
    if facts.tells_more_than(before) {
        session.notes.recorder.write(move |writer| writer.schema_end(&facts));
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RecordError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| RecordError::Internal("describing the machine"))
}

/// Sampling under way.
pub(super) struct Observation {
    probe: Probe,
    client: Client,
    schema: SchemaFacts,
    lifetime: Lifetime,
    /// When the probe lost its connections.
    lost: Arc<Mutex<Vec<Timestamp>>>,
}

/// Connections that the probe samples by.
const PROBE_CONNECTIONS: usize = 2;

impl Ready {
    /// Begins to sample.
    pub async fn begin(self, session: &Session) -> Result<Observation, RecordError> {
        let waits = Duration::from_secs(1) / session.plan.probe.waits_hz.max(1);
        let spec = ProbeSpec {
            connector: Connector::to(&session.params),
            rates: Rates { waits, ..Rates::default() },
            host: self.host,
            clock: Clock::start(),
        };
        let lifetime = Lifetime::begin(&self.client).await;
        let lost = Arc::default();
        let probe = Probe::start(spec, sink(session, &lost)).await?;
        Ok(Observation { probe, client: self.client, schema: self.schema, lifetime, lost })
    }
}

impl Observation {
    /// Takes a last reading and keeps what the probe knows of itself. Tells what happened
    /// to the server meanwhile.
    pub async fn end(self, session: &Session) -> Option<Interruption> {
        let notes = &session.notes;
        // Whoever asked to stop does not wait for it.
        let asked = tokio::select! {
            biased;
            () = session.stop.requested() => None,
            asked = self.lifetime.end(&self.client, &session.params) => asked,
        };
        let lost = asked.is_some() || self.client.is_closed();
        let interrupted = match asked {
            Some(interrupted) => Some(interrupted.by(self.first_lost())),
            None => self.all_lost(),
        };
        if let Some(interrupted) = interrupted {
            interrupted.note(notes);
            notes.warn(
                Warning::new(
                    WarningCode::ServerLost,
                    format!("{}: what happened then was not seen", interrupted.what),
                )
                .hint("the events and the gaps in the timeline tell when"),
            );
        } else if self.client.is_closed() {
            notes.warn(Warning::new(
                WarningCode::Connections,
                "a connection that only waited was broken, by the server or by something between",
            ));
        }
        notes.probe_ended(self.probe.stop().await, true);
        // A server that was lost would not answer.
        if !lost && interrupted.is_none() {
            let described = describe_end(session, &self.client, &self.schema);
            tokio::select! {
                biased;
                () = session.stop.requested() => (),
                _ = tokio::time::timeout(TO_DESCRIBE, described) => (),
            }
        }
        interrupted
    }

    /// When the probe lost its first connection, if it did.
    fn first_lost(&self) -> Option<Timestamp> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).first().copied()
    }

    /// Whether all connections were lost, where a crash would not show otherwise.
    fn all_lost(&self) -> Option<Interruption> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).len();
        let all = self.client.is_closed() && lost >= PROBE_CONNECTIONS;
        let at = self.first_lost().filter(|_| all && !self.lifetime.shows_crashes())?;
        Some(Interruption::all_lost(at))
    }
}

fn sink(session: &Session, lost: &Arc<Mutex<Vec<Timestamp>>>) -> Sink {
    let notes = session.notes.clone();
    let commits = Mutex::new(Commits::default());
    let lost = Arc::clone(lost);
    Arc::new(move |seeing| {
        match &seeing {
            Seeing::Sample(sample) => {
                let mut commits = commits.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(per_second) = commits.rate(sample) {
                    notes.observer.event(Progress::Commits { per_second });
                }
            }
            Seeing::Event(event) if event.kind == walwright_probe::LOST => {
                lost.lock().unwrap_or_else(PoisonError::into_inner).push(event.at);
            }
            Seeing::Event(_) => {}
        }
        notes.seen(seeing);
    })
}

/// The commits of the last sample that counted them.
#[derive(Debug, Default)]
struct Commits(Option<(Timestamp, f64)>);

impl Commits {
    /// Commits a second since the last sample; `None` for other samples, the first
    /// one, and after a reset.
    fn rate(&mut self, sample: &Sample) -> Option<f64> {
        if sample.source != Source::Database {
            return None;
        }
        let now = sample.rows.first()?.number("xact_commit")?;
        let (then, before) = self.0.replace((sample.at, now))?;
        let seconds = sample.at.since(then).as_secs_f64();
        (seconds > 0.0 && now >= before).then(|| (now - before) / seconds)
    }
}

#[cfg(test)]
mod tests {
    use walwright_record::Row;

    use super::*;

    #[test]
    fn commits_a_second_come_from_neighbouring_samples() {
        let sample = |at: i64, commits: i64| {
            let mut row = Row::new();
            row.set("xact_commit", commits);
            Sample { at: Timestamp(at), source: Source::Database, rows: vec![row] }
        };
        let mut commits = Commits::default();
        assert_eq!(commits.rate(&sample(0, 100)), None);
        assert_eq!(commits.rate(&sample(2_000_000, 500)), Some(200.0));
        assert_eq!(commits.rate(&sample(3_000_000, 10)), None);
        assert_eq!(commits.rate(&sample(4_000_000, 20)), Some(10.0));
    }
}

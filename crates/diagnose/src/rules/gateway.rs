//! What walwright's gateway between clients and server would gain.

use serde::Serialize;
use walwright_figures::queueing::{Station, ThroughGateway, holders_committing};
use walwright_stats::Estimate;

use super::holding::commit_share;
use super::locks::NOTIFY;
use super::sessions::{round_trips, scripted_trips};
use crate::{Action, DiagnosisId, DurabilityClass, Finding, Gain, Kind, Reading};

/// Part of the latency that commits wait for at least where the gateway is advised.
const WAITS: f64 = 0.02;
/// Rise of throughput, or fall of the latency, from which it is worth a process more in the way.
const WORTH: f64 = 0.1;
/// What it certainly is then.
const CERTAINLY: f64 = 0.02;
/// Part of the time that a contended row lock is held in which its holder waits for its flush,
/// from which the wait for it is the flush's.
const HOLDING: f64 = 0.3;
/// Part of the processors from which they are said to be full.
const FULL: f64 = 0.9;
/// Part of the latency from which a place where clients spend it is said to be what limits.
const MOST: f64 = 0.5;

/// What the gateway would do to a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GatewayOutlook {
    /// What it is predicted to gain.
    Gain(Box<Gain>),
    /// Why it is not advised, a sentence.
    WhyNot(String),
}

/// Predicts it by the queueing model of the run.
pub(crate) fn outlook(reading: &Reading) -> GatewayOutlook {
    match gain(reading) {
        Ok(gain) => GatewayOutlook::Gain(Box::new(gain)),
        Err(why) => GatewayOutlook::WhyNot(why),
    }
}

/// Advises it in the findings whose cause it takes away, or says there that it does not help.
pub(crate) fn advise(reading: &Reading, findings: &mut [Finding]) {
    let mut outlook = None;
    for finding in findings.iter_mut() {
        let Some(behind) = Behind::of(reading, finding) else { continue };
        let no = match (outlook.get_or_insert_with(|| gain(reading)), behind) {
            (Ok(gain), Behind::Commits) => {
                // A pool is the gateway's other half; elsewhere what needs no process comes first.
                let place = usize::from(finding.id != DiagnosisId::D11).min(finding.actions.len());
                finding.actions.insert(place, action(gain.clone()));
                continue;
            }
            (Ok(_), Behind::FewCommits { share }) => format!(
                "It would free these rows hardly sooner: who holds one waits for its WAL flush \
                 {:.0} % of the time.",
                share * 100.0
            ),
            (Err(why), _) => why.clone(),
        };
        finding.ruled_out.push(format!("walwright gateway: {no}"));
    }
}

fn action(gain: Gain) -> Action {
    let text = "Put walwright's gateway between clients and server: a commit waits for its flush \
                without holding locks or a session, and one flush at a time serves all.";
    Action {
        class: DurabilityClass::S,
        rollback: Some("connect to the server itself again".to_owned()),
        gain: Some(Box::new(gain)),
        ..Action::client(text, "--gateway (walwright run); walwright gateway --server …")
    }
}

/// What is behind a finding that the gateway may relieve.
enum Behind {
    /// Commits that wait.
    Commits,
    /// Row locks whose holders wait for a flush in a part of the time that is too small.
    FewCommits { share: f64 },
}

impl Behind {
    /// `None` where the gateway has nothing to do with it.
    fn of(reading: &Reading, finding: &Finding) -> Option<Behind> {
        match (finding.id, finding.subject.as_deref()) {
            (DiagnosisId::D1 | DiagnosisId::D5 | DiagnosisId::D6 | DiagnosisId::D11, _) => {
                (finding.kind != Kind::Symptom).then_some(Behind::Commits)
            }
            (DiagnosisId::D9, Some("rows")) => match commit_share(reading) {
                share if share < HOLDING => Some(Behind::FewCommits { share }),
                _ => Some(Behind::Commits),
            },
            (DiagnosisId::D9, Some(NOTIFY)) => Some(Behind::Commits),
            _ => None,
        }
    }
}

fn gain(reading: &Reading) -> Result<Gain, String> {
    if is_in_between(reading) {
        return Err("It stands in between already.".to_owned());
    }
    if reading.is_set("synchronous_commit", "off") {
        return Err(
            "It would gain nothing: with synchronous_commit off no commit waits.".to_owned()
        );
    }
    let calibration = reading
        .calibration
        .as_ref()
        .map_err(|why| format!("What it would gain is not known: {why}."))?;
    let now = calibration.solution();
    let part = |of: &[Station]| -> f64 {
        let parts = now.parts.iter().filter(|(station, _)| of.contains(station));
        parts.map(|(_, seconds)| seconds).sum::<f64>() / now.latency
    };
    let through = through(reading);
    let waits = through.waits_for_flushes(&now);
    if waits < WAITS {
        return Err("It would gain nothing: next to nothing waits for a WAL flush.".to_owned());
    }
    if calibration.network.clients < 1.5 {
        return Err(
            "It would gain nothing: a single client waits for each of its flushes with it or \
             without it."
                .to_owned(),
        );
    }
    let [least, expected, most] =
        through.put(&calibration.network, &now).map(|network| calibration.solve(&network));
    let gain = Gain::of(calibration, &expected, &[least, most]);
    let worth = |of: &Estimate| of.center >= WORTH && of.low().is_some_and(|low| low >= CERTAINLY);
    if gain.throughput.as_ref().is_some_and(worth)
        || (calibration.given.is_some() && worth(&gain.latency))
    {
        return Ok(gain);
    }
    let clients = part(&[Station::Client, Station::Outside, Station::Driver]);
    let cycle = now.latency + calibration.network.think;
    let outside = (clients * now.latency + calibration.network.think) / cycle;
    let executing = part(&[Station::Cpu, Station::RunQueue, Station::Io]);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let why = if outside >= MOST {
        format!("clients spend {} of their time outside the server", percent(outside))
    } else if now.processors_busy.is_some_and(|busy| busy >= FULL) {
        "the processors are full, and it needs them too".to_owned()
    } else if executing >= MOST {
        format!("transactions are long: {} of their time is executing", percent(executing))
    } else if waits >= MOST {
        "clients share their flushes already, and each waits for its own; more clients commit more"
            .to_owned()
    } else {
        format!("waiting for flushes is {} of the latency", percent(waits))
    };
    Err(format!("It would gain little: {why}."))
}

fn is_in_between(reading: &Reading) -> bool {
    let ours = reading.record.load.as_ref().is_some_and(|load| load.is_behind_gateway());
    ours || reading.summary.cpu.as_ref().is_some_and(|cpu| cpu.gateway().is_some())
}

/// What the load would send through it, and what its holders of locks do.
fn through(reading: &Reading) -> ThroughGateway {
    ThroughGateway {
        statements: statements(reading),
        holders_committing: holders_committing(reading.record, reading.window),
    }
}

/// Statements of a transaction.
fn statements(reading: &Reading) -> f64 {
    round_trips(reading).or_else(|| scripted_trips(reading)).unwrap_or(1.0)
}

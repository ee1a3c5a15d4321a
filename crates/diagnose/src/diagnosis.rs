//! All findings of a record, ranked, with the latency breakdown they rest on and a verdict.

use std::time::Duration;

use serde::Serialize;
use walwright_figures::{DataDiskUse, LatencyBreakdown, StorageUse, Summary};
use walwright_record::{Record, RunHeader};

use crate::outlook::outlook;
use crate::{DiagnosisId, Finding, Kind, Reading, Step, rules};

/// What an expert says after reading a record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The first page of the record.
    pub run: RunHeader,
    /// Length of the measured window; `None` where the run did not get to it.
    #[serde(with = "walwright_figures::seconds::option")]
    pub window: Option<Duration>,
    /// The whole in one or two sentences. "Nothing to fix here" and "not bound by
    /// the database" are verdicts.
    pub verdict: String,
    /// The findings, by kind and then by what fixing them is predicted to gain.
    pub findings: Vec<Finding>,
    /// The first problems fixed one after another: what each step is predicted to have gained,
    /// and what limits then. Empty where fewer than two have a gain.
    pub outlook: Vec<Step>,
    /// Flushes against what the disk was measured to do; `None` where flushes are not known.
    pub storage: Option<StorageUse>,
    /// What the disk under the data did; `None` where that cannot be seen.
    pub data_disk: Option<DataDiskUse>,
    /// The client's latency line by line; `None` without samples of wait events.
    pub latency_breakdown: Option<LatencyBreakdown>,
    /// What could not be looked for and why, each a sentence. None of it is passed.
    pub not_observable: Vec<String>,
}

impl Diagnosis {
    /// The findings that cost and that something can be done about.
    pub fn problems(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.kind == Kind::Problem)
    }
}

/// Diagnoses a record. Pure: the same record gives the same findings anywhere.
pub fn findings(record: &Record) -> Diagnosis {
    of(record, Reading::new(record))
}

/// The same, where the record's figures are known already.
pub fn findings_with(record: &Record, summary: &Summary) -> Diagnosis {
    of(record, Reading::with(record, summary.clone()))
}

fn of(record: &Record, reading: Option<Reading<'_>>) -> Diagnosis {
    let Some(reading) = reading else {
        return Diagnosis {
            run: record.header.clone(),
            window: None,
            verdict: "The run has no measured window, so there is nothing to diagnose.".to_owned(),
            findings: Vec::new(),
            outlook: Vec::new(),
            storage: None,
            data_disk: None,
            latency_breakdown: None,
            not_observable: Vec::new(),
        };
    };
    diagnose(&reading)
}

/// Diagnoses a record that was read already.
pub fn diagnose(reading: &Reading) -> Diagnosis {
    let mut findings: Vec<Finding> =
        rules::FAMILIES.iter().flat_map(|family| family(reading)).collect();
    rules::relate(&mut findings);
    rules::advise_gateway(reading, &mut findings);
    rank(&mut findings);
    let outlook = outlook(reading, &findings);
    Diagnosis {
        run: reading.record.header.clone(),
        window: reading.summary.window,
        verdict: rules::verdict(reading, &findings, &outlook),
        outlook,
        findings,
        storage: reading.summary.storage.clone(),
        data_disk: reading.summary.data_disk.clone(),
        latency_breakdown: reading.latency_breakdown.clone(),
        not_observable: rules::not_observable(reading),
    }
}

/// Problems first, then symptoms, then information. Among problems those that make
/// all other figures void come first: a generator at its limit, and durability that is
/// switched off. The rest by the part of the latency that fixing them is predicted to take off,
/// which orders throughputs alike: what a cause costs is not what its fix gains, since another
/// limit may stand behind it and less CPU shortens everybody's waits. A finding without a
/// prediction stands by its cost, one that has neither after all that have one; ids decide the
/// rest, so that the order is the same each time.
fn rank(findings: &mut [Finding]) {
    let cost = |f: &Finding| f.impact.as_ref().map_or(-1.0, |i| i.share.center);
    let worth = |f: &Finding| f.gain.as_ref().map_or_else(|| cost(f), |g| g.latency.center);
    let voids = |f: &Finding| {
        f.kind == Kind::Problem && matches!(f.id, DiagnosisId::D37 | DiagnosisId::D54)
    };
    findings.sort_by(|a, b| {
        a.kind
            .cmp(&b.kind)
            .then(voids(b).cmp(&voids(a)))
            .then(worth(b).total_cmp(&worth(a)))
            .then(cost(b).total_cmp(&cost(a)))
            .then(a.id.cmp(&b.id))
            .then(a.subject.cmp(&b.subject))
    });
}

//! A run: its page when it has ended, and what is seen of it while it goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bytes::Bytes;
use walwright_diagnose::Finding;
use walwright_figures::experiment::PredictionMet;
use walwright_record::{Event, RunHeader, RunId, RunState, TargetKind, Timestamp};
use walwright_report::html::Links;
use walwright_report::{Document, RunReport, timeline_begins, under_way, with_proofs};
use walwright_store::{Following, Lab};

use super::{KEPT, Pages, above, locked, refused};
use crate::actions::CONSENTS;
use crate::answer::{LINKS, Packed, Refusal, event};
use crate::forms;
use crate::jobs::Jobs;
use crate::live::{Seen, Watched};

/// Shortest time between two pages of a run that goes on.
const PAGE: Duration = Duration::from_secs(5);
/// A figure of a moment may still change when the next samples come.
const REVISED: f64 = 10.0;

/// The page of a run that has ended, and what can be done about it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) header: RunHeader,
    pub(crate) document: Document,
    pub(crate) series: Option<Packed>,
    /// Whether it ran on a server of a person's own.
    pub(crate) attached: bool,
    pub(crate) provable: Vec<Provable>,
    /// When the clock of its timeline begins, where it has one.
    pub(crate) begins: Option<Timestamp>,
    /// Experiments that have tried its findings.
    proofs: Vec<(String, PredictionMet)>,
}

/// What an experiment can try of a finding.
#[derive(Debug)]
pub(crate) struct Provable {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) subject: Option<String>,
    /// The action by its number, what it changes, and what has to be agreed to.
    pub(crate) actions: Vec<(usize, String, Option<&'static str>)>,
}

impl Pages {
    /// The run of this name, which may be `latest` or the beginning of it.
    pub(crate) fn header(&self, name: &str) -> Result<RunHeader, Refusal> {
        self.store()?.find(name).map_err(|error| refused(&error))
    }

    /// Gives a run another label, or none.
    pub(crate) fn relabel(&self, id: &RunId, label: Option<&str>) -> Result<(), Refusal> {
        self.store()?.relabel(id, label).map_err(|error| refused(&error))
    }

    /// Writes a note at so many seconds of its timeline.
    pub(crate) fn note(&self, of: &Kept, seconds: f64, text: &str) -> Result<(), Refusal> {
        let begins = of.begins.unwrap_or(of.header.started);
        let at = begins.plus(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let note = Event { at, kind: "note".to_owned(), text: text.to_owned() };
        self.store()?.add_event(&of.header.id, &note).map_err(|error| refused(&error))?;
        locked(&self.runs).retain(|kept| kept.header.id != of.header.id);
        Ok(())
    }

    /// Writes a note on the timeline of a run that goes on: at so many seconds, or now.
    pub(crate) fn note_under_way(
        &self,
        run: &RunHeader,
        seconds: Option<f64>,
        text: &str,
    ) -> Result<(), Refusal> {
        let store = self.store()?;
        let now = Timestamp::now();
        let at = match seconds {
            None => now,
            Some(seconds) => {
                let record = store.load(&run.id).map_err(|error| refused(&error))?;
                let begins = timeline_begins(&record).unwrap_or(run.started);
                begins.plus(Duration::try_from_secs_f64(seconds).unwrap_or_default())
            }
        };
        if at > now {
            let said = "it has not come so far yet: leave the moment out for now";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, said));
        }
        let note = Event { at, kind: "note".to_owned(), text: text.to_owned() };
        store.add_event(&run.id, &note).map_err(|error| refused(&error))
    }

    /// The page of a run that has ended, where it is ready.
    pub(crate) fn ready(&self, header: &RunHeader) -> Option<Arc<Kept>> {
        let proofs = self.proofs(header);
        let mut runs = locked(&self.runs);
        let is_it = |kept: &Arc<Kept>| kept.header == *header && kept.proofs == proofs;
        let place = runs.iter().position(is_it)?;
        let kept = runs.remove(place)?;
        runs.push_front(Arc::clone(&kept));
        Some(kept)
    }

    /// Experiments that have tried its findings; none where they cannot be read.
    fn proofs(&self, header: &RunHeader) -> Vec<(String, PredictionMet)> {
        walwright_experiment::proofs(&self.lab, &header.id).unwrap_or_default()
    }

    /// The page of a run that has ended: read and judged, which can take seconds.
    pub(crate) fn ended(&self, header: &RunHeader) -> Result<Arc<Kept>, Refusal> {
        let record = self.store()?.load(&header.id).map_err(|error| refused(&error))?;
        let attached = record.target.as_ref().is_some_and(|of| of.kind == TargetKind::Attached);
        let report = RunReport::new(record);
        let findings = report.diagnosis.findings.iter();
        let provable =
            findings.map(|of| provable(of, attached)).filter(|of| !of.actions.is_empty());
        let provable = provable.collect();
        let header = report.record.header.clone();
        let begins = timeline_begins(&report.record);
        let proofs = self.proofs(&header);
        let document = with_proofs(report.into_document(), &proofs);
        let series = document.series().map(|of| Packed::new("application/json", of.json()));
        let kept = Arc::new(Kept { header, document, series, attached, provable, begins, proofs });
        let mut runs = locked(&self.runs);
        runs.retain(|other| other.header.id != kept.header.id);
        runs.push_front(Arc::clone(&kept));
        runs.truncate(KEPT);
        Ok(kept)
    }
}

/// What can be tried of a finding: at once, or where one thing is agreed to.
fn provable(finding: &Finding, attached: bool) -> Provable {
    let tried = |consent: &[String]| walwright_experiment::provable(finding, consent, attached);
    let agreed: Vec<(&str, Vec<Result<String, String>>)> =
        CONSENTS.iter().map(|(name, _)| (*name, tried(&[(*name).to_owned()]))).collect();
    let of_place = |(place, free): (usize, Result<String, String>)| match free {
        Ok(arm) => Some((place + 1, arm, None)),
        Err(_) => agreed.iter().find_map(|(name, tried)| {
            let arm = tried.get(place)?.as_ref().ok()?;
            Some((place + 1, arm.clone(), Some(*name)))
        }),
    };
    Provable {
        id: finding.id.to_string(),
        title: finding.title.clone(),
        subject: finding.subject.clone(),
        actions: tried(&[]).into_iter().enumerate().filter_map(of_place).collect(),
    }
}

/// A run that goes on.
pub(crate) struct WatchedRun {
    lab: Lab,
    id: RunId,
    following: Option<Following>,
    /// The commands that were started here, for those who may act.
    jobs: Option<Arc<Jobs>>,
    paged: Option<(Instant, Packed)>,
    /// Seconds of its axis that viewers have been told of.
    told: f64,
    drawn: u64,
}

impl WatchedRun {
    pub(crate) fn new(lab: Lab, id: RunId, jobs: Option<Arc<Jobs>>) -> WatchedRun {
        WatchedRun { lab, id, following: None, jobs, paged: None, told: 0.0, drawn: 0 }
    }

    /// What whoever may act can do about it.
    fn deeds(&self, header: &RunHeader) -> String {
        let Some(jobs) = &self.jobs else { return String::new() };
        let job = jobs.list().into_iter().find(|job| {
            let standing = job.standing();
            !standing.ended && job.runs(&self.lab, standing.process).contains(&self.id)
        });
        let stop = forms::stop_run(job.map(|job| job.number));
        format!("{}{stop}", forms::remarks(header))
    }

    fn read(&mut self) -> Result<&Following, Refusal> {
        let fresh = match self.following.take() {
            None => {
                let store = self.lab.existing_store().map_err(|error| refused(&error))?;
                let store = store.ok_or_else(|| Refusal::not_found("the lab is gone"))?;
                store.follow(&self.id).map_err(|error| refused(&error))?
            }
            Some(mut following) => {
                following.read().map_err(|error| refused(&error))?;
                following
            }
        };
        Ok(self.following.insert(fresh))
    }
}

impl Watched for WatchedRun {
    fn look(&mut self) -> Option<Seen> {
        self.drawn += 1;
        let drawn = self.drawn;
        let gone = |refusal: Refusal| Seen {
            page: Err(Arc::new(refusal)),
            series: None,
            told: event("end", "{}"),
            drawn,
            ended: true,
        };
        let record = match self.read() {
            Ok(following) => following.record(),
            Err(refusal) => return Some(gone(refusal)),
        };
        let header = record.header.clone();
        let ended = header.state != RunState::Running;
        let document = under_way(record);
        let mut told = Vec::new();
        let series = document.series();
        if let Some(series) = &series {
            told.extend(event("series", &series.since(self.told - REVISED)));
            self.told = series.end();
        }
        let fresh = self.paged.take().filter(|(at, _)| at.elapsed() < PAGE && !ended);
        let paged = fresh.unwrap_or_else(|| {
            told.extend(event("page", "{}"));
            let (events, series_at) =
                (format!("/runs/{}/events", self.id), format!("/runs/{}/series", self.id));
            let above = above("", &self.deeds(&header));
            let series = series.is_some().then_some(series_at.as_str());
            let links = Links { live: Some(&events), series, above: &above, ..LINKS };
            (Instant::now(), Packed::page(&document, &links))
        });
        let page = self.paged.insert(paged).1.clone();
        if ended {
            told.extend(event("end", "{}"));
        }
        Some(Seen {
            page: Ok(page),
            series: series.map(|of| Packed::new("application/json", of.json())),
            told: Bytes::from(told),
            drawn,
            ended,
        })
    }
}

//! Experiments, tunes, the journal, and runs beside each other.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use walwright_figures::compare::{RunGroup, compare_within};
use walwright_figures::experiment::Ending;
use walwright_record::{RunHeader, RunState, Timestamp};
use walwright_report::html::Links;
use walwright_report::{
    Document, comparison, experiment, experiment_list, experiment_under_way, journal, notice,
    tune_document, tune_list,
};
use walwright_store::Lab;
use walwright_store::journal::Journal;
use walwright_tune::{Phase, TuneState};

use super::{PAGE, Pages, Query, above, refused, text};
use crate::answer::{LINKS, Packed, Refusal, event};
use crate::live::{Seen, Watched};

/// Longest pause between two runs of an experiment that goes on.
const BETWEEN: Duration = Duration::from_secs(120);
/// Runs that are laid over each other.
pub(crate) const COMPARED: std::ops::RangeInclusive<usize> = 2..=4;

impl Pages {
    pub(crate) fn experiments(&self) -> Result<Document, Refusal> {
        let mut all =
            walwright_experiment::list(&self.lab).map_err(|error| Refusal::failed(&error))?;
        all.reverse();
        Ok(experiment_list(&all))
    }

    pub(crate) fn tunes(&self) -> Result<Document, Refusal> {
        let names = walwright_tune::list(&self.lab).map_err(|error| Refusal::failed(&error))?;
        let known =
            names.iter().rev().filter_map(|name| walwright_tune::show(&self.lab, name).ok());
        let known: Vec<TuneState> = known.collect();
        Ok(tune_list(&known))
    }

    pub(crate) fn journal(&self) -> Result<Document, Refusal> {
        let read = Journal::of(&self.lab).read().map_err(|error| Refusal::failed(&error))?;
        Ok(journal::page(&read.entries))
    }

    /// The one of this name there is.
    pub(crate) fn study(&self, study: Study, id: &str) -> Result<String, Refusal> {
        let known = match study {
            Study::Experiment => walwright_experiment::list(&self.lab)
                .map(|all| all.into_iter().map(|one| one.header.id).collect::<Vec<_>>())
                .map_err(|error| Refusal::failed(&error))?,
            Study::Tune => {
                walwright_tune::list(&self.lab).map_err(|error| Refusal::failed(&error))?
            }
        };
        let found = known.into_iter().find(|known| known == id);
        found.ok_or_else(|| Refusal::not_found(format!("there is no {} {id}", study.name())))
    }

    /// What chooses the runs to compare, which stands above them.
    pub(crate) fn picker(&self, asked: &Query) -> Result<String, Refusal> {
        let store = self.store()?;
        let runs = store.runs().map_err(|error| refused(&error))?;
        let chosen = asked.all("run").filter_map(|name| Some(store.find(name).ok()?.id.0));
        Ok(picker(&runs, &chosen.collect::<Vec<_>>()))
    }

    /// Two to four runs beside each other, the first as the baseline.
    pub(crate) fn compare(&self, asked: &Query) -> Result<Document, Refusal> {
        let names: Vec<&str> = asked.all("run").collect();
        if names.len() < *COMPARED.start() {
            let said = "choose two to four runs; the others are held against the first";
            return Ok(notice("Compare", said));
        }
        if names.len() > *COMPARED.end() {
            let said = format!("{} runs are too many: four can be compared", names.len());
            return Err(Refusal::new(StatusCode::BAD_REQUEST, said));
        }
        let store = self.store()?;
        let find = |name: &&str| store.find(name).map_err(|error| refused(&error));
        let found = names.iter().map(find).collect::<Result<Vec<RunHeader>, _>>()?;
        // A label is what a person calls it, where it tells it from the others.
        let called = |run: &RunHeader| {
            let alike = found.iter().filter(|other| other.label == run.label).count();
            run.label.clone().filter(|_| alike == 1).unwrap_or_else(|| run.id.0.clone())
        };
        let group = |run: &RunHeader| -> Result<RunGroup, Refusal> {
            let record = store.load(&run.id).map_err(|error| refused(&error))?;
            Ok(RunGroup { name: called(run), runs: vec![record] })
        };
        let groups = found.iter().map(group).collect::<Result<Vec<_>, _>>()?;
        let compared = compare_within(groups, &[])
            .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
        Ok(comparison(&compared, true))
    }
}

/// What chooses other runs: the latest that have ended, and those that are compared now.
fn picker(runs: &[RunHeader], chosen: &[String]) -> String {
    let told = |run: &RunHeader| {
        let label = run.label.as_deref().map(|label| format!(" {label}")).unwrap_or_default();
        text(&format!("{}{label}, {}", run.id, run.workload))
    };
    let is_chosen = |run: &&RunHeader| chosen.contains(&run.id.0);
    let ended = runs.iter().rev().filter(|run| run.state != RunState::Running);
    let offered: Vec<&RunHeader> = ended.clone().take(PAGE).collect();
    let older = ended.skip(PAGE).filter(is_chosen);
    let offered: Vec<&RunHeader> = offered.into_iter().chain(older).collect();
    let select = |place: usize| {
        let chosen = chosen.get(place);
        let option = |run: &&RunHeader| {
            let selected = if chosen == Some(&run.id.0) { " selected" } else { "" };
            format!("<option value=\"{}\"{selected}>{}</option>", text(&run.id.0), told(run))
        };
        let options: String = offered.iter().map(option).collect();
        let name = match place {
            0 => "Baseline".to_owned(),
            _ => format!("Run {}", place + 1),
        };
        format!(
            "<label>{name} <select name=\"run\"><option value=\"\">none</option>{options}</select></label> "
        )
    };
    let selects: String = (0..*COMPARED.end()).map(select).collect();
    format!(
        "<form class=\"picker\" method=\"get\" action=\"/compare\"><p>{selects}\
         <button type=\"submit\">Compare</button></p></form>"
    )
}

/// What an experiment or a tune is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Study {
    Experiment,
    Tune,
}

impl Study {
    fn name(self) -> &'static str {
        match self {
            Study::Experiment => "experiment",
            Study::Tune => "tune",
        }
    }
}

/// One that may go on: read anew at each look, drawn where it has changed.
pub(crate) struct WatchedStudy {
    pub(crate) lab: Lab,
    pub(crate) study: Study,
    pub(crate) id: String,
    /// Of what was drawn last.
    last: Option<u64>,
    drawn: u64,
}

impl WatchedStudy {
    pub(crate) fn new(lab: Lab, study: Study, id: String) -> WatchedStudy {
        WatchedStudy { lab, study, id, last: None, drawn: 0 }
    }

    /// Whether it goes on now, by its runs: one that stands still can be resumed.
    fn goes_on(&self) -> Result<bool, Refusal> {
        let store = self.lab.existing_store().map_err(|error| refused(&error))?;
        let runs = store.map(|store| store.runs()).transpose().map_err(|error| refused(&error))?;
        let lately = |at: Timestamp| Timestamp::now().seconds_from(at) < BETWEEN.as_secs_f64();
        let is_of = |run: &RunHeader| {
            let goes_on = run.state == RunState::Running || run.ended.is_some_and(lately);
            goes_on && run.series() == Some(self.id.as_str())
        };
        Ok(runs.unwrap_or_default().iter().any(is_of))
    }

    /// What the page of an experiment changes with, as far as it is cheap to say; `None` for a tune.
    fn stands(&self) -> Result<Option<u64>, Refusal> {
        if self.study == Study::Tune {
            return Ok(None);
        }
        let all = walwright_experiment::list(&self.lab).map_err(|error| Refusal::failed(&error))?;
        let Some(one) = all.iter().find(|one| one.header.id == self.id) else { return Ok(None) };
        let mut hasher = DefaultHasher::new();
        (one.done, one.header.ending == Ending::Unfinished, self.goes_on()?).hash(&mut hasher);
        Ok(Some(hasher.finish()))
    }

    /// The document, and whether it may still change.
    fn read(&self) -> Result<(Document, bool), Refusal> {
        match self.study {
            Study::Experiment => {
                let outcome = walwright_experiment::outcome(&self.lab, &self.id)
                    .map_err(|error| Refusal::failed(&error))?;
                if outcome.ending != Ending::Unfinished {
                    return Ok((experiment(&outcome), false));
                }
                let left = walwright_experiment::remaining(&self.lab, &self.id)
                    .map_err(|error| Refusal::failed(&error))?;
                let goes_on = self.goes_on()?;
                Ok((experiment_under_way(&outcome, &left, goes_on), true))
            }
            Study::Tune => {
                let state = walwright_tune::show(&self.lab, &self.id)
                    .map_err(|error| Refusal::failed(&error))?;
                let objective = state.plan.objective().map_err(|error| Refusal::failed(&error))?;
                Ok((tune_document(&state, &objective), state.phase != Phase::Done))
            }
        }
    }
}

impl Watched for WatchedStudy {
    fn look(&mut self) -> Option<Seen> {
        // What remains is told by the moment, which alone is no reason to draw it again.
        let stands = self.stands().ok().flatten();
        if stands.is_some() && self.last == stands {
            return None;
        }
        let (page, goes_on) = match self.read() {
            Err(refusal) => (Err(Arc::new(refusal)), false),
            Ok((document, goes_on)) => {
                let events = format!("/{}s/{}/events", self.study.name(), self.id);
                let above = above("", "");
                let live = goes_on.then_some(events.as_str());
                let links = Links { live, above: &above, ..LINKS };
                (Ok(Packed::page(&document, &links)), goes_on)
            }
        };
        let mut hasher = DefaultHasher::new();
        page.as_ref().ok().hash(&mut hasher);
        let now = stands.unwrap_or_else(|| hasher.finish());
        if self.last.replace(now) == Some(now) && goes_on {
            return None;
        }
        self.drawn += 1;
        let mut told = event("page", "{}").to_vec();
        if !goes_on {
            told.extend(event("end", "{}"));
        }
        let told = Bytes::from(told);
        Some(Seen { page, series: None, told, drawn: self.drawn, ended: !goes_on })
    }
}

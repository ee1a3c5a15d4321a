//! What a stage has to say: to the record, and to whoever shows it.

use std::sync::Arc;

use walwright_figures::Summary;
use walwright_figures::warnings::{instrument, warnings};
use walwright_probe::{Observation, ProbeError, ProbeReport};
use walwright_record::{
    Event, PhaseName, Record, RunId, RunState, Timestamp, Warning, WarningCode, redact,
};
use walwright_store::{Store, StoreError};

use crate::recorder::Recorder;
use crate::{Observer, Progress};

/// Earlier runs whose probes say what is usual on this machine.
const EARLIER_RUNS: u32 = 20;

/// Says things to both.
#[derive(Clone)]
pub(crate) struct Notes {
    pub(crate) recorder: Recorder,
    pub(crate) observer: Arc<Observer>,
}

impl Notes {
    /// A stage begins now.
    pub(crate) fn phase(&self, name: PhaseName) {
        self.phase_at(name, Timestamp::now());
    }

    /// A stage began.
    pub(crate) fn phase_at(&self, name: PhaseName, at: Timestamp) {
        self.recorder.write(move |writer| writer.phase(name, at));
        self.observer.event(Progress::Phase(name));
    }

    /// A warning.
    pub(crate) fn warn(&self, warning: Warning) {
        self.observer.event(Progress::Warning(&warning));
        self.recorder.write(move |writer| writer.warning(&warning));
    }

    /// Something that happened now.
    pub(crate) fn event(&self, kind: &str, text: String) {
        self.happened(Event { at: Timestamp::now(), kind: kind.to_owned(), text });
    }

    /// Something that happened.
    pub(crate) fn happened(&self, event: Event) {
        self.observer.event(Progress::Event(&event));
        self.recorder.write(move |writer| writer.event(&event));
    }

    /// Something that the probe saw.
    pub(crate) fn seen(&self, seeing: Observation) {
        match seeing {
            Observation::Sample(sample) => {
                self.observer.event(Progress::Sample(&sample));
                self.recorder.sample(sample);
            }
            Observation::Event(event) => self.happened(event),
        }
    }

    /// What the probe knows of itself at its end. Its cost is a warning where there was a
    /// load to compare it with.
    pub(crate) fn probe_ended(&self, report: Result<ProbeReport, ProbeError>, loaded: bool) {
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                self.warn(Warning::new(WarningCode::NotObservable, error.to_string()));
                return;
            }
        };
        if let Some(warning) = report.warning().filter(|_| loaded) {
            self.warn(warning);
        }
        for slowed in &report.slowed {
            self.warn(Warning::new(WarningCode::ProbeCost, slowed.sentence()));
        }
        for sentence in report.not_observable {
            self.warn(Warning::new(WarningCode::NotObservable, sentence));
        }
    }

    /// Reads the record back as it will be once [`finish`](Self::finish) has written how it
    /// ended, and keeps its headline and the warnings that only the whole shows.
    ///
    /// # Errors
    /// When the record, or earlier runs, cannot be read.
    pub(crate) async fn whole(
        &self,
        store: &Store,
        id: &RunId,
        ending: &Ending,
    ) -> Result<(Record, Summary), StoreError> {
        self.recorder.barrier().await;
        let mut record = store.load(id)?;
        ending.join(&mut record);
        if record.load.is_some()
            && let Some(instrument) = instrument(&record)
        {
            record.instrument = Some(instrument.clone());
            self.recorder.write(move |writer| writer.instrument(&instrument));
        }
        let mut summary = walwright_figures::summary(&record);
        if let Some(headline) = summary.headline() {
            self.recorder.write(move |writer| writer.headline(&headline));
        }
        let earlier = store.probes(id, EARLIER_RUNS)?;
        for warning in warnings(&record, &summary, &earlier) {
            record.warnings.push(warning.clone());
            self.recorder.write(move |writer| writer.warning(&warning));
        }
        summary.warnings.clone_from(&record.warnings);
        Ok((record, summary))
    }

    /// Writes how the record ended.
    pub(crate) fn finish(&self, ending: Ending) {
        let Ending { at, state, error } = ending;
        self.recorder.write(move |writer| writer.finish(state, at, error.as_deref()));
    }
}

/// How a record ends.
pub(crate) struct Ending {
    pub(crate) at: Timestamp,
    pub(crate) state: RunState,
    /// Why it did not end as planned.
    pub(crate) error: Option<String>,
}

impl Ending {
    fn join(&self, record: &mut Record) {
        let header = &mut record.header;
        header.state = self.state;
        header.ended = Some(self.at);
        header.error = self.error.as_deref().map(|error| redact::text(error).into_owned());
        for phase in record.phases.iter_mut().filter(|phase| phase.end.is_none()) {
            phase.end = Some(self.at);
        }
    }
}

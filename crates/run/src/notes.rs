//! What a stage has to say: to the record, and to whoever shows it.

use std::sync::Arc;

use walwright_probe::{Observation, ProbeError, ProbeReport};
use walwright_record::{Event, PhaseName, Record, Timestamp, Warning, WarningCode};
use walwright_store::{Store, StoreError};

use crate::recorder::Recorder;
use crate::run::headline;
use crate::{Observer, Progress};
use walwright_figures::warnings::warnings;

/// Earlier runs whose probes say what is usual on this machine.
const EARLIER_RUNS: u32 = 20;

/// Says things to both.
#[derive(Clone)]
pub(crate) struct Notes {
    pub(crate) recorder: Recorder,
    pub(crate) observer: Arc<dyn Observer>,
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

    /// Keeps the headline of a whole record, and the warnings that only the whole shows.
    ///
    /// # Errors
    /// When earlier runs cannot be read.
    pub(crate) fn whole(&self, store: &Store, record: &Record) -> Result<(), StoreError> {
        let summary = walwright_figures::summary(record);
        if let Some(headline) = headline(&summary) {
            self.recorder.write(move |writer| writer.headline(&headline));
        }
        let earlier = store.probes(&record.header.id, EARLIER_RUNS)?;
        for warning in warnings(record, &summary, &earlier) {
            self.recorder.write(move |writer| writer.warning(&warning));
        }
        Ok(())
    }
}

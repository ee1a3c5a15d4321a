//! What a stage has to say: to the record, and to whoever shows it.

use std::sync::Arc;

use walwright_record::{Event, PhaseName, Timestamp, Warning};

use crate::recorder::Recorder;
use crate::{Observer, Progress};

/// Says things to both.
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
        self.observer.notice(Progress::Phase(name));
    }

    /// A doubt.
    pub(crate) fn warn(&self, warning: Warning) {
        self.observer.notice(Progress::Warning(&warning));
        self.recorder.write(move |writer| writer.warning(&warning));
    }

    /// Something that happened now.
    pub(crate) fn event(&self, kind: &str, text: String) {
        let event = Event { at: Timestamp::now(), kind: kind.to_owned(), text };
        self.observer.notice(Progress::Event(&event));
        self.recorder.write(move |writer| writer.event(&event));
    }
}

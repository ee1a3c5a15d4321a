//! What the probe hands over.

use std::sync::Arc;

use walwright_record::{Event, Row, Sample, Source, Timestamp};

/// One thing the probe saw.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// A reading of a source.
    Sample(Sample),
    /// Something that happened.
    Event(Event),
}

/// Takes observations as they come. It is called on the probe's own threads and
/// counts as the probe's cost, so it should do no more than pass them on.
pub type Sink = Arc<dyn Fn(Observation) + Send + Sync>;

/// Hands over a reading.
pub(crate) fn emit(sink: &Sink, at: Timestamp, source: Source, rows: Vec<Row>) {
    sink(Observation::Sample(Sample { at, source, rows }));
}

/// Hands over an event.
pub(crate) fn emit_event(sink: &Sink, at: Timestamp, kind: &str, text: String) {
    sink(Observation::Event(Event { at, kind: kind.to_owned(), text }));
}

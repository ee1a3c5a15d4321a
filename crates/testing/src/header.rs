//! The first page of a record, for tests.

use walwright_record::{RunHeader, RunId, RunState, Timestamp};

/// That of a complete run of which nothing else is known.
pub fn header() -> RunHeader {
    RunHeader {
        id: RunId("20261120-000000-abc".to_owned()),
        started: Timestamp(0),
        ended: None,
        state: RunState::Complete,
        walwright_version: String::new(),
        command: String::new(),
        label: None,
        workload: String::new(),
        target: String::new(),
        error: None,
    }
}

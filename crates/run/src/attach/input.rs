//! What is piped to walwright: results of a load that began elsewhere.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use walwright_record::Timestamp;
use walwright_results::{Format, Printed, Results, ResultsError};

use super::RecordError;

/// The path that means standard input.
const PATH: &str = "-";
/// What the record calls it.
const NAME: &str = "standard input";
/// Bytes taken at a time.
const CHUNK: usize = 64 * 1024;

/// Whether a path means standard input.
pub(super) fn is_input(path: &Path) -> bool {
    path == Path::new(PATH)
}

/// Standard input, taken as it comes so that what a tool prints has its moment.
pub(super) struct Input {
    heard: Arc<Mutex<Heard>>,
    ended: Option<oneshot::Receiver<()>>,
}

struct Heard {
    printed: Printed,
    /// All of it, for formats that are files.
    kept: File,
    /// Why it could not be kept.
    failed: Option<io::Error>,
}

impl Input {
    /// Begins to take it; what has come is kept in `directory`.
    pub fn begin(directory: &Path) -> Result<Input, RecordError> {
        let failed = |source| RecordError::Log { path: NAME.into(), source };
        let kept = tempfile::tempfile_in(directory).map_err(failed)?;
        let heard = Heard { printed: Printed::new(1), kept, failed: None };
        let heard = Arc::new(Mutex::new(heard));
        let (at_end, ended) = oneshot::channel();
        let taken = Arc::clone(&heard);
        std::thread::Builder::new()
            .name("standard-input".to_owned())
            .spawn(move || {
                take(&taken);
                // Nobody may wait.
                let _ = at_end.send(());
            })
            .map_err(failed)?;
        Ok(Input { heard, ended: Some(ended) })
    }

    /// Waits for its end.
    pub async fn ended(&mut self) {
        if let Some(ended) = &mut self.ended {
            let _ = ended.await;
            self.ended = None;
        }
    }

    /// What it held so far.
    pub fn results(self, format: Option<Format>) -> Result<Results, RecordError> {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = heard.failed.take() {
            return Err(RecordError::Log { path: NAME.into(), source });
        }
        let printed = std::mem::replace(&mut heard.printed, Printed::new(0)).results(NAME);
        let wanted = |results: &Results| format.is_none_or(|f| f.label() == results.log.format);
        match printed.filter(wanted) {
            Some(results) => Ok(results),
            None => {
                let io = |source| ResultsError::Io { file: NAME.to_owned(), source };
                heard.kept.rewind().map_err(io)?;
                Ok(walwright_results::read(NAME, format, &heard.kept)?)
            }
        }
    }
}

/// Reads it to its end.
fn take(heard: &Mutex<Heard>) {
    let mut bytes = vec![0; CHUNK];
    let mut input = io::stdin().lock();
    loop {
        let read = input.read(&mut bytes);
        let came = Timestamp::now();
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = read.and_then(|read| {
            heard.printed.take(0, &bytes[..read], came);
            heard.kept.write_all(&bytes[..read]).map(|()| read)
        });
        match taken {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                heard.failed = Some(error);
                return;
            }
        }
    }
}

/// Reads it to its end now, for a record that has ended.
pub(super) fn read(format: Option<Format>) -> Result<Results, RecordError> {
    Ok(walwright_results::read(NAME, format, io::stdin().lock())?)
}

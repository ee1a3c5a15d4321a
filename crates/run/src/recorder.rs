//! The one writer of a run's record, on a thread of its own.
//!
//! Driver, probe and orchestration send what they have; nothing that is measured
//! waits for a disk. Samples, of which there are dozens a second, are written several
//! at once: a thread woken for each, and a transaction for each, would be a good part of
//! what the probe costs.

use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use walwright_record::Sample;
use walwright_store::{RunWriter, StoreError};

/// How long a sample may wait to be written, and so how much of the end of a record is
/// lost with its process.
const SAMPLES_WAIT: Duration = Duration::from_millis(500);

type Job = Box<dyn FnOnce(&mut RunWriter) -> Result<(), StoreError> + Send>;

/// Sends work to the writer; clones share it.
#[derive(Clone)]
pub(crate) struct Recorder {
    jobs: mpsc::Sender<Job>,
    samples: Arc<Mutex<Vec<Sample>>>,
    failure: Arc<Mutex<Option<StoreError>>>,
}

/// Ends the writer.
pub(crate) struct RecorderThread {
    thread: JoinHandle<()>,
    failure: Arc<Mutex<Option<StoreError>>>,
}

impl Recorder {
    /// Starts the thread. It ends when the last clone is dropped.
    pub fn start(mut writer: RunWriter) -> (Recorder, RecorderThread) {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let failure = Arc::new(Mutex::new(None));
        let samples = Arc::new(Mutex::new(Vec::new()));
        let (noted, waiting) = (Arc::clone(&failure), Arc::clone(&samples));
        let thread = std::thread::spawn(move || {
            loop {
                let job = inbox.recv_timeout(SAMPLES_WAIT);
                // What was sampled before is written before.
                let samples: Vec<Sample> = std::mem::take(&mut lock(&waiting));
                let mut written =
                    if samples.is_empty() { Ok(()) } else { writer.samples(&samples) };
                let ended = matches!(job, Err(RecvTimeoutError::Disconnected));
                if let Ok(job) = job {
                    written = written.and(job(&mut writer));
                }
                if let Err(error) = written {
                    // A full disk fails every later write too; the first error says most.
                    lock(&noted).get_or_insert(error);
                }
                if ended {
                    break;
                }
            }
        });
        let recorder = Recorder { jobs, samples, failure: Arc::clone(&failure) };
        (recorder, RecorderThread { thread, failure })
    }

    /// Queues a sample; it is written with others soon after.
    pub fn sample(&self, sample: Sample) {
        lock(&self.samples).push(sample);
    }

    /// Queues work for the writer.
    pub fn write(
        &self,
        job: impl FnOnce(&mut RunWriter) -> Result<(), StoreError> + Send + 'static,
    ) {
        // The thread lives as long as a sender, so this cannot fail.
        let _ = self.jobs.send(Box::new(job));
    }

    /// Returns when everything queued so far is written.
    pub async fn barrier(&self) {
        let (done, wait) = tokio::sync::oneshot::channel();
        self.write(move |_| {
            let _ = done.send(());
            Ok(())
        });
        let _ = wait.await;
    }

    /// Whether a write has failed.
    pub fn failed(&self) -> bool {
        lock(&self.failure).is_some()
    }
}

impl RecorderThread {
    /// Waits until everything queued is written. All clones of the recorder must
    /// be dropped before, or this waits for them.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn finish(self) -> Result<(), StoreError> {
        let ended = self.thread.join();
        match lock(&self.failure).take() {
            Some(error) => Err(error),
            None => ended.map_err(|_| StoreError::WriterEnded),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

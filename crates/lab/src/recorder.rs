//! The one writer of a run's record, on a thread of its own.
//!
//! Driver, probe and orchestration send what they have; nothing that is measured
//! waits for a disk.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use walwright_record::{RunWriter, StoreError};

type Job = Box<dyn FnOnce(&mut RunWriter) -> Result<(), StoreError> + Send>;

/// Sends work to the writer; clones share it.
#[derive(Clone)]
pub(crate) struct Recorder {
    jobs: mpsc::Sender<Job>,
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
        let noted = Arc::clone(&failure);
        let thread = std::thread::spawn(move || {
            for job in inbox {
                if let Err(error) = job(&mut writer) {
                    // A full disk fails every later write too; the first error says most.
                    let mut noted = lock(&noted);
                    noted.get_or_insert(error);
                }
            }
        });
        (Recorder { jobs, failure: Arc::clone(&failure) }, RecorderThread { thread, failure })
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
        let _ = self.thread.join();
        match lock(&self.failure).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

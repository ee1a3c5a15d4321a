//! How the gateway as a whole is asked and told: by its console, by its metrics, and by whoever
//! runs it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::client::worker_of;
use crate::gateway::Handle;
use crate::handover::Canceller;
use crate::report::Report;
use crate::stats::Stats;
use crate::worker::Order;
use crate::{Options, Server};

/// Longest that a worker may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(2);
/// Averages are those of so long.
const PERIOD: Duration = Duration::from_secs(60);

/// Whether a database is the console.
pub fn is_console(database: &str) -> bool {
    matches!(database, "pgbouncer" | "walwright")
}

/// Asks a worker how it is.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Whether single clients and sessions are asked for too.
    pub details: bool,
    /// Where the answer goes.
    pub answer: Sender<(usize, Report)>,
}

/// What a worker is to do to its pools or clients; a name is that of a database.
#[derive(Debug, Clone)]
pub enum Action {
    /// Give sessions no clients any more, and close them when they are free.
    Pause(Option<String>),
    /// Go on.
    Resume(Option<String>),
    /// Pause, and close all connections at once.
    Kill(Option<String>),
    /// Close the connection of a client.
    KillClient(u64),
    /// Close sessions when they are free, and open new ones.
    Reconnect(Option<String>),
    /// Let in no new clients.
    Disable(String),
    /// Let in new clients.
    Enable(String),
    /// Go on by other options.
    Reload(Arc<Options>),
    /// Take no new clients and end when the last has gone.
    Close,
}

/// What is paused or disabled.
#[derive(Debug, Clone, Default)]
pub struct Paused {
    /// All databases.
    pub all: bool,
    /// Databases by name.
    pub databases: HashSet<String>,
    /// Databases that let in no new clients.
    pub disabled: HashSet<String>,
}

impl Paused {
    /// Whether clients of a database are made to wait.
    pub fn holds(&self, database: &str) -> bool {
        self.all || self.databases.contains(database)
    }

    /// Whether a database lets in no new clients.
    pub fn disables(&self, database: &str) -> bool {
        self.disabled.contains(database)
    }

    /// Notes what an action pauses or disables.
    pub fn note(&mut self, action: &Action) {
        match action {
            Action::Pause(None) | Action::Kill(None) => self.all = true,
            Action::Pause(Some(name)) | Action::Kill(Some(name)) => {
                self.databases.insert(name.clone());
            }
            Action::Resume(None) => {
                self.all = false;
                self.databases.clear();
            }
            Action::Resume(Some(name)) => {
                self.databases.remove(name);
            }
            Action::Disable(name) => {
                self.disabled.insert(name.clone());
            }
            Action::Enable(name) => {
                self.disabled.remove(name);
            }
            Action::KillClient(_) | Action::Reconnect(_) | Action::Reload(_) | Action::Close => {}
        }
    }
}

/// Reads the options once more.
type Reread = Box<dyn Fn() -> Result<Options, String> + Send + Sync>;

/// What was counted for each database up to a moment.
type Moment = (Instant, HashMap<String, Stats>);

/// How the gateway as a whole is asked and told.
#[derive(Clone)]
pub struct Control(Arc<Inner>);

struct Inner {
    workers: Arc<OnceLock<Vec<Handle>>>,
    options: Mutex<Arc<Options>>,
    reread: OnceLock<Reread>,
    paused: Mutex<Paused>,
    /// What averages are reckoned from: one to two periods ago, and the last.
    moments: Mutex<[Moment; 2]>,
    consoles: AtomicUsize,
    ends: AtomicBool,
    before: OnceLock<Canceller>,
    handed_over: AtomicBool,
    began: SystemTime,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

/// A worker did not say in time how it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("worker {0} does not answer")]
pub struct Silent(pub usize);

impl Control {
    /// For workers that begin.
    pub fn new(workers: Arc<OnceLock<Vec<Handle>>>, options: Arc<Options>) -> Control {
        let moment = || (Instant::now(), HashMap::new());
        Control(Arc::new(Inner {
            workers,
            options: Mutex::new(options),
            reread: OnceLock::new(),
            paused: Mutex::default(),
            moments: Mutex::new([moment(), moment()]),
            consoles: AtomicUsize::new(0),
            ends: AtomicBool::new(false),
            before: OnceLock::new(),
            handed_over: AtomicBool::new(false),
            began: SystemTime::now(),
        }))
    }

    /// The workers that were started, whether or not they have ended.
    pub fn workers(&self) -> &[Handle] {
        self.0.workers.get().map_or(&[], Vec::as_slice)
    }

    /// What every worker says of itself.
    ///
    /// # Errors
    /// When one does not answer in time.
    pub fn reports(&self, details: bool) -> Result<Vec<Report>, Silent> {
        let (answer, answers) = channel();
        let count = self.workers().len();
        for worker in self.workers() {
            worker.tell(Order::Report(Ask { details, answer: answer.clone() }));
        }
        // A worker that has ended drops what it was asked.
        drop(answer);
        let mut found: Vec<Option<Report>> = vec![None; count];
        let until = Instant::now() + PATIENCE;
        loop {
            match answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((number, report)) => found[number] = Some(report),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let silent = found.iter().position(Option::is_none);
                    return Err(Silent(silent.unwrap_or_default()));
                }
            }
            if found.iter().all(Option::is_some) {
                break;
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Has every worker do something. Who asks them afterwards how they are is told the state
    /// after it.
    pub fn act(&self, action: Action) {
        // Kept until all are told, so that all hear of several actions in one order.
        let mut paused = lock(&self.0.paused);
        paused.note(&action);
        for worker in self.workers() {
            worker.tell(Order::Do(action.clone()));
        }
    }

    /// Has every worker let its clients go as soon as they have nothing under way, and end.
    pub fn drain(&self) {
        for worker in self.workers() {
            worker.tell(Order::Drain);
        }
    }

    /// Has every worker end at once.
    pub fn end(&self) {
        for worker in self.workers() {
            worker.tell(Order::End);
        }
    }

    /// Has what a client runs cancelled, by the number that it was told.
    pub fn cancel(&self, process: u32, key: Vec<u8>) {
        let worker = worker_of(process).and_then(|worker| self.workers().get(worker as usize));
        // One that has ended has no clients any more.
        if !worker.is_some_and(|worker| worker.tell(Order::Cancel(process, key.clone()))) {
            self.cancel_before(process, &key);
        }
    }

    /// The same for a client that this gateway does not know: it may be one of the gateway that
    /// was there before.
    pub fn cancel_before(&self, process: u32, key: &[u8]) {
        if let Some(before) = self.0.before.get() {
            before.cancel(process, key);
        }
    }

    /// Another gateway has taken over: clients that are there are served until they leave.
    pub fn hand_over(&self) {
        self.0.handed_over.store(true, Ordering::SeqCst);
        self.act(Action::Close);
    }

    /// Whether another gateway has taken over.
    pub fn is_handed_over(&self) -> bool {
        self.0.handed_over.load(Ordering::SeqCst)
    }

    /// What cancels at the gateway that was there before.
    pub fn follow(&self, before: Canceller) {
        let _ = self.0.before.set(before);
    }

    /// What the gateway that was there before has left is to be covered.
    pub fn cover_others(&self) {
        if let Some(worker) = self.workers().first() {
            worker.tell(Order::CoverOthers);
        }
    }

    /// A worker lacks a session that others may have to spare.
    pub fn make_room(&self, asks: usize, database: &str, user: &str) {
        for (_, worker) in self.workers().iter().enumerate().filter(|(of, _)| *of != asks) {
            worker.tell(Order::MakeRoom(database.to_owned(), user.to_owned()));
        }
    }

    /// What is paused or disabled.
    pub fn paused(&self) -> Paused {
        lock(&self.0.paused).clone()
    }

    /// The options as they are now.
    pub fn options(&self) -> Arc<Options> {
        lock(&self.0.options).clone()
    }

    /// When the gateway began.
    pub fn began(&self) -> SystemTime {
        self.0.began
    }

    /// How options are read once more; the first that is given counts.
    pub fn on_reload(&self, reread: Reread) {
        let _ = self.0.reread.set(reread);
    }

    /// Reads the options once more and has every worker go on by them.
    ///
    /// # Errors
    /// With what is wrong with them; then nothing changes.
    pub fn reload(&self) -> Result<(), String> {
        let reread = self.0.reread.get().ok_or("nothing tells where the options come from")?;
        let mut options = reread()?;
        let mut known = lock(&self.0.options);
        let serves = |server: &Server| known.databases.iter().any(|of| of.server.is_same(server));
        // A name may have had its server by the entry for every other name, or get it so now.
        let is_moved = |name: Option<&str>| match (known.named(name), options.named(name)) {
            (Some(before), Some(now)) => !before.server.is_same(&now.server),
            (None, Some(now)) => !serves(&now.server),
            (_, None) => false,
        };
        let all = known.databases.iter().chain(&options.databases);
        if let Some(name) = all.map(|of| of.name.as_deref()).find(|name| is_moved(*name)) {
            let name = name.unwrap_or("*");
            return Err(format!(
                "database {name} is at another server than before; that takes a restart"
            ));
        }
        // What takes a restart stays as it is.
        options.listen.clone_from(&known.listen);
        (options.workers, options.metrics) = (known.workers, known.metrics);
        *known = Arc::new(options);
        self.act(Action::Reload(known.clone()));
        Ok(())
    }

    /// What averages are reckoned from: when, and what was counted by then for each database.
    pub fn before(&self) -> Moment {
        lock(&self.0.moments)[0].clone()
    }

    /// Keeps what was counted, period by period, until the other end of `ends` is dropped.
    pub fn keep_moments(&self, ends: &Receiver<()>) {
        while ends.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
            if let Ok(reports) = self.reports(false) {
                let mut moments = lock(&self.0.moments);
                moments.swap(0, 1);
                moments[1] = (Instant::now(), by_database(&reports));
            }
        }
    }

    /// A place for one more client of the console, unless there are `most`.
    pub fn enter(&self, most: usize) -> Option<Place> {
        let enters = |count: usize| (count < most).then_some(count + 1);
        let entered = self.0.consoles.fetch_update(Ordering::SeqCst, Ordering::SeqCst, enters);
        entered.is_ok().then(|| Place(self.clone()))
    }

    /// The gateway ends: whoever works beside it is to end too.
    pub fn close(&self) {
        self.0.ends.store(true, Ordering::SeqCst);
        if let Some(before) = self.0.before.get() {
            before.close();
        }
    }

    /// Whether the gateway has ended.
    pub fn is_closed(&self) -> bool {
        self.0.ends.load(Ordering::SeqCst)
    }
}

/// The place of a client of the console, which is free again when it is dropped.
#[derive(Debug)]
pub struct Place(Control);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.consoles.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What was counted for each database.
pub fn by_database(reports: &[Report]) -> HashMap<String, Stats> {
    let mut found: HashMap<String, Stats> = HashMap::new();
    for pool in reports.iter().flat_map(|report| &report.pools) {
        found.entry(pool.database.clone()).or_default().add(&pool.stats);
    }
    found
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use walwright_wire::{ConnectOptions, Host};

    use super::*;
    use crate::options::Database;

    fn options(databases: &[(Option<&str>, u16)]) -> Options {
        let server =
            |port| Server::new(ConnectOptions::new(Host::Tcp("h".to_owned()), port, "u", "d"));
        let database = |(name, port): &(Option<&str>, u16)| Database {
            name: name.map(str::to_owned),
            ..Database::any(server(*port))
        };
        Options {
            databases: databases.iter().map(database).collect(),
            ..Options::new(server(1).addresses.remove(0))
        }
    }

    #[test]
    fn a_reload_moves_no_database_to_another_server() {
        for (databases, is_taken) in [
            (vec![(Some("a"), 1), (Some("b"), 2), (None, 1)], true),
            (vec![(Some("a"), 1), (Some("b"), 2), (Some("c"), 1), (None, 1)], true),
            (vec![(Some("a"), 1), (Some("b"), 2)], true),
            (vec![(Some("a"), 2), (Some("b"), 2), (None, 1)], false),
            (vec![(Some("a"), 1), (Some("b"), 2), (None, 2)], false),
            (vec![(Some("a"), 3), (Some("b"), 2), (None, 1)], false),
            // Before and after, "c" and "b" are what the entry for every other name says.
            (vec![(Some("a"), 1), (Some("b"), 2), (Some("c"), 2), (None, 1)], false),
            (vec![(Some("a"), 1), (None, 1)], false),
        ] {
            let before = options(&[(Some("a"), 1), (Some("b"), 2), (None, 1)]);
            let workers = before.workers;
            let control = Control::new(Arc::default(), Arc::new(before));
            let mut read = options(&databases);
            read.workers += 1;
            read.depth = 77;
            control.on_reload(Box::new(move || Ok(read.clone())));
            assert_eq!(control.reload().is_ok(), is_taken, "{databases:?}");
            let now = control.options();
            assert_eq!(now.depth == 77, is_taken, "{databases:?}");
            assert_eq!(now.workers, workers, "that takes a restart");
        }
    }
}

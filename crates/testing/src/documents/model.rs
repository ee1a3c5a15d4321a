//! What the service must have answered, whoever else was at it and whatever was killed.
//!
//! Each client has documents of its own, of which it knows every state that they can be in: one,
//! or two after a request that nobody answered. All write some documents, of which the
//! [history](super::history) is kept, and a shared count misses nobody's step.
//!
//! A request whose client has left may be done later. Until the service is known to have let go
//! of all that was asked of it ([`Shared::settled`]) its document is only read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::client::{Answer, Client, Leaving};
use super::history::{History, Moment};

/// Documents of a client. Anyone may refer to the first half of them.
const OWN: u64 = 8;
/// Documents that all write. Anyone may refer to the first half of them.
const SHARED: u64 = 8;
/// The first of the keys; the workload's are below.
const FIRST: u64 = 1_000_000;
/// The document in which all count.
const COUNTER: u64 = FIRST - 1;
/// Documents of the workload that stay.
const STAYING: u64 = 5000;
/// Tags of a client, each of one write of one.
const TAGS: u64 = 1 << 32;
/// States of a document beyond which it is looked at first.
const STATES: usize = 4;
/// How requests are counted of which nobody knows what became of them.
const UNKNOWN: [&str; 3] = ["504", "left", "no answer"];
/// How long a client waits that was told to come again.
const PAUSE: Duration = Duration::from_millis(20);

/// An answer that cannot be.
#[derive(Debug)]
pub struct Violation(String);

impl Violation {
    pub(super) fn new(told: String) -> Violation {
        Violation(told)
    }

    pub(super) fn of(self, what: &str) -> Violation {
        Violation(format!("{what}: {}", self.0))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

macro_rules! ensure {
    ($holds:expr, $($told:tt)+) => {
        if !$holds {
            return Err(Violation::new(format!($($told)+)));
        }
    };
}
pub(super) use ensure;

/// What clients share.
#[derive(Default)]
pub struct Shared {
    sent: AtomicU64,
    /// Rises when nothing is under way.
    epoch: AtomicU64,
    counts: Mutex<BTreeMap<(&'static str, String), u64>>,
    history: Mutex<History>,
}

impl Shared {
    /// Requests that were sent, but for those that nobody took.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// What was asked for and how it was answered, counted.
    pub fn counts(&self) -> BTreeMap<(&'static str, String), u64> {
        locked(&self.counts).clone()
    }

    /// Requests of which nobody knew what became of them.
    pub fn unknown(&self) -> u64 {
        let counts = locked(&self.counts);
        let unknown = counts.iter().filter(|((_, told), _)| UNKNOWN.contains(&told.as_str()));
        unknown.map(|(_, count)| count).sum()
    }

    /// Says that nothing is under way any more of what was asked before: the service has ended,
    /// and so have its sessions with the server.
    pub fn settled(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    fn history(&self) -> MutexGuard<'_, History> {
        locked(&self.history)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A document as it may be.
#[derive(Debug, Clone, PartialEq)]
struct State {
    /// `None` where its POST was not answered.
    id: Option<String>,
    version: i32,
    tag: u64,
    references: BTreeSet<u64>,
}

/// What is asked of a document.
#[derive(Debug, Clone)]
enum Write {
    Post { tag: u64, references: BTreeSet<u64> },
    Put { id: String, version: i32, tag: u64, references: BTreeSet<u64> },
    Delete { id: String },
}

impl Write {
    /// What it makes of a state, where it is done.
    fn of(&self, state: Option<&State>) -> Option<Option<State>> {
        let next = |tag: u64, references: &BTreeSet<u64>| {
            let version = state.map_or(1, |state| state.version + 1);
            let id = state.and_then(|state| state.id.clone());
            Some(Some(State { id, version, tag, references: references.clone() }))
        };
        let is = |id: &str| state.is_some_and(|state| state.id.as_deref() == Some(id));
        match self {
            Self::Post { tag, references } => next(*tag, references),
            Self::Put { id, version, tag, references } => {
                let is_it = is(id) && state.is_some_and(|state| state.version == *version);
                if is_it { next(*tag, references) } else { None }
            }
            Self::Delete { id } => is(id).then_some(None),
        }
    }
}

/// A document of a client's own.
#[derive(Debug, Clone)]
struct Own {
    /// Each state that it may be in; `None` is not there.
    states: Vec<Option<State>>,
    /// What may be done later, since its sender has left, and the epoch of that.
    late: Option<(u64, Write)>,
}

impl Own {
    /// The states after a write, where it is done.
    fn after(&self, write: &Write) -> Vec<Option<State>> {
        let done = self.states.iter().filter_map(|state| write.of(state.as_ref()));
        done.filter(|state| !self.states.contains(state)).collect()
    }

    /// Each state that it may be in, also by what may be done later.
    fn possible(&self) -> Vec<Option<State>> {
        let late = self.late.iter().flat_map(|(_, write)| self.after(write));
        self.states.iter().cloned().chain(late).collect()
    }

    /// Notes the only state that fits, if there is one.
    fn is(&mut self, fits: impl Fn(&Option<State>) -> bool) -> Option<&mut State> {
        let found = self.possible().into_iter().find(|state| fits(state))?;
        if !self.states.contains(&found) {
            self.late = None;
        }
        self.states = vec![found];
        self.states.first_mut()?.as_mut()
    }

    fn id(&self) -> Option<String> {
        self.states.iter().flatten().find_map(|state| state.id.clone())
    }
}

/// A client and what it knows.
pub struct Modelled {
    address: SocketAddr,
    client: Client,
    number: u64,
    clients: u64,
    /// How many of its requests it leaves before their answer.
    leaves: f64,
    shared: Arc<Shared>,
    random: SmallRng,
    own: Vec<Own>,
    tags: u64,
    steps: u64,
    /// The versions in which steps were made that nobody answered.
    steps_unknown: Vec<i32>,
}

/// What a request came to.
#[derive(Debug)]
enum Outcome {
    Answered(Answer),
    /// It is not done.
    Refused,
    /// It may be done, and is or not by now.
    Unknown,
    /// It may be done, now or later.
    Left,
}

impl Modelled {
    /// The `number`th of so many clients, of whose requests the share `leaves` is left in the
    /// middle.
    pub fn new(
        number: u64,
        clients: u64,
        leaves: f64,
        seed: u64,
        address: SocketAddr,
        shared: &Arc<Shared>,
    ) -> Modelled {
        Modelled {
            address,
            client: Client::new(address),
            number,
            clients,
            leaves,
            shared: Arc::clone(shared),
            random: SmallRng::seed_from_u64(seed.wrapping_mul(1 << 16) + number),
            own: vec![Own { states: vec![None], late: None }; OWN as usize],
            tags: 0,
            steps: 0,
            steps_unknown: Vec::new(),
        }
    }

    /// Makes the document that all count in.
    ///
    /// # Errors
    /// Where it is not made.
    pub async fn make_counter(address: SocketAddr) -> Result<(), Violation> {
        let post = json!({ "identity": COUNTER, "body": { "key": COUNTER } }).to_string();
        let made = Client::new(address).ask("POST", &path_of(COUNTER), "", &post).await;
        match made {
            Ok(made) if made.status == 201 => Ok(()),
            other => Err(Violation::new(format!("no counter: {other:?}"))),
        }
    }

    fn key(&self, index: u64) -> u64 {
        own_key(self.number, index)
    }

    async fn ask(
        &mut self,
        kind: &'static str,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> Result<Outcome, Violation> {
        if self.client.connect().await.is_err() {
            tokio::time::sleep(PAUSE).await;
            return Ok(Outcome::Refused);
        }
        self.shared.sent.fetch_add(1, Ordering::Relaxed);
        let (told, outcome) = if self.random.random_bool(self.leaves) {
            let leaving = match self.random.random_range(0..4) {
                0 => Leaving::Unsent,
                _ => Leaving::After(Duration::from_micros(self.random.random_range(0..5000))),
            };
            _ = self.client.leave(method, path, headers, body, leaving).await;
            match leaving {
                Leaving::Unsent => ("left unsent".to_owned(), Outcome::Refused),
                Leaving::After(_) => ("left".to_owned(), Outcome::Left),
            }
        } else {
            match self.client.ask(method, path, headers, body).await {
                Ok(answer) => {
                    let outcome = match answer.status {
                        503 => Outcome::Refused,
                        504 => Outcome::Unknown,
                        status => {
                            ensure!(status < 500, "{method} {path}: {answer:?}");
                            Outcome::Answered(answer)
                        }
                    };
                    (status_of(&outcome).to_owned(), outcome)
                }
                Err(_) => ("no answer".to_owned(), Outcome::Left),
            }
        };
        let is_refused = told == "503";
        *locked(&self.shared.counts).entry((kind, told)).or_default() += 1;
        if is_refused {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(outcome)
    }

    /// Does something.
    ///
    /// # Errors
    /// Where the answer is one that cannot be. What the client knows is wrong after that.
    pub async fn step(&mut self) -> Result<(), Violation> {
        let index = self.random.random_range(0..OWN);
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        let own = &mut self.own[index as usize];
        if let Some((_, write)) = own.late.take_if(|(left, _)| *left < epoch) {
            let after = own.after(&write);
            own.states.extend(after);
        }
        if own.late.is_some() || own.states.len() > STATES {
            return self.look(index).await;
        }
        match self.random.random_range(0..100) {
            0..22 => self.post(index).await,
            22..35 => self.put(index).await,
            35..48 => self.look(index).await,
            48..58 => self.get(index).await,
            58..60 => self.list(index).await,
            60..70 => self.delete(index).await,
            70..80 => self.post_shared().await,
            80..84 => self.look_at_shared().await,
            84..88 => self.delete_shared().await,
            _ => self.count().await,
        }
    }

    /// Of all others one in three, some of which are never there; and one's own.
    fn references(&mut self) -> BTreeSet<u64> {
        let count = self.random.random_range(0..6);
        let random = &mut self.random;
        let drawn = (0..count).map(|_| match random.random_range(0..8) {
            0..5 => random.random_range(1..STAYING),
            5 => own_key(random.random_range(0..self.clients), random.random_range(0..OWN / 2)),
            6 => FIRST + random.random_range(0..SHARED / 2),
            _ => own_key(self.number, random.random_range(0..OWN / 2)),
        });
        drawn.collect()
    }

    fn tag(&mut self) -> u64 {
        self.tags += 1;
        self.number * TAGS + self.tags
    }

    /// The document of its own with this key.
    fn mine(&self, key: u64) -> Option<&Own> {
        let index = key.checked_sub(self.key(0))?;
        self.own.get(usize::try_from(index).ok()?)
    }

    /// That these were missing cannot be known of others'; of the workload's and of its own it is.
    fn check_missing(&self, answer: &Answer, references: &BTreeSet<u64>) -> Result<(), Violation> {
        let missing = answer.json()["missing"].clone();
        let Value::Array(missing) = missing else {
            return Err(Violation::new(format!("no reason to refuse it: {answer:?}")));
        };
        let missing: BTreeSet<u64> = missing.iter().filter_map(Value::as_u64).collect();
        ensure!(!missing.is_empty() && missing.is_subset(references), "{answer:?}");
        for key in &missing {
            ensure!(*key >= FIRST, "a document of the workload is missing: {answer:?}");
            let states = self.mine(*key).map(Own::possible);
            let fits = states.as_ref().is_none_or(|states| states.contains(&None));
            ensure!(fits, "{key} is {states:?}: {answer:?}");
        }
        Ok(())
    }

    /// That all of these were there.
    fn check_present(&self, references: &BTreeSet<u64>, itself: u64) -> Result<(), Violation> {
        for key in references.iter().filter(|key| **key != itself) {
            let states = self.mine(*key).map(Own::possible);
            let fits = states.is_none_or(|states| states.iter().any(Option::is_some));
            ensure!(fits, "{key} was referred to and was not there");
        }
        Ok(())
    }

    /// Notes what was asked for and not answered.
    fn unanswered(&mut self, index: u64, write: Write, outcome: &Outcome) {
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        let own = &mut self.own[index as usize];
        match outcome {
            Outcome::Unknown => own.states.extend(own.after(&write)),
            Outcome::Left => own.late = Some((epoch, write)),
            Outcome::Refused | Outcome::Answered(_) => {}
        }
    }

    async fn post(&mut self, index: u64) -> Result<(), Violation> {
        let (key, references, tag) = (self.key(index), self.references(), self.tag());
        let post = document(Some(key), key, &references, tag);
        let outcome = self.ask("POST", "POST", &path_of(key), "", &post).await?;
        let write = Write::Post { tag, references: references.clone() };
        let Outcome::Answered(answer) = outcome else {
            self.unanswered(index, write, &outcome);
            return Ok(());
        };
        if answer.status == 409 {
            return self.check_missing(&answer, &references);
        }
        let (id, version) = (id_of(&answer), answer.version());
        let created = answer.status == 201;
        ensure!(created || answer.status == 200, "{answer:?}");
        let own = &mut self.own[index as usize];
        let fits = |state: &Option<State>| match state {
            None => created && version == 1,
            Some(state) => {
                !created
                    && state.version + 1 == version
                    && state.id.as_ref().is_none_or(|before| *before == id)
            }
        };
        ensure!(own.states.iter().any(fits), "{key} {own:?}: {answer:?}");
        own.states = vec![Some(State { id: Some(id), version, tag, references })];
        self.check_present_of(index)
    }

    fn check_present_of(&self, index: u64) -> Result<(), Violation> {
        let state = self.own[index as usize].states.first();
        match state.and_then(Option::as_ref) {
            Some(state) => self.check_present(&state.references, self.key(index)),
            None => Ok(()),
        }
    }

    async fn put(&mut self, index: u64) -> Result<(), Violation> {
        let key = self.key(index);
        let known = self.own[index as usize].states.iter().flatten();
        let known = known.clone().find_map(|state| Some((state.id.clone()?, state.version)));
        let Some((id, version)) = known else { return self.look(index).await };
        // Now and then one that another has passed.
        let version = (version - i32::from(self.random.random_bool(0.2))).max(1);
        let (references, tag) = (self.references(), self.tag());
        let headers = format!("if-match: \"{version}\"\r\n");
        let put = document(None, key, &references, tag);
        let path = address_of(key, &id);
        let outcome = self.ask("PUT", "PUT", &path, &headers, &put).await?;
        let write = Write::Put { id: id.clone(), version, tag, references: references.clone() };
        let Outcome::Answered(answer) = outcome else {
            self.unanswered(index, write, &outcome);
            return Ok(());
        };
        let own = &mut self.own[index as usize];
        let before = own.states.clone();
        let is = |state: &State| state.id.as_ref() == Some(&id);
        match answer.status {
            204 => {
                let after = own.after(&write);
                ensure!(answer.version() == version + 1, "{before:?} {version}: {answer:?}");
                ensure!(!after.is_empty(), "{before:?} {version}: {answer:?}");
                own.states = after;
                return self.check_present_of(index);
            }
            412 => own.states.retain(|state| {
                state.as_ref().is_some_and(|state| is(state) && state.version != version)
            }),
            404 => own.states.retain(|state| !state.as_ref().is_some_and(is)),
            409 => return self.check_missing(&answer, &references),
            _ => return Err(Violation::new(format!("{answer:?}"))),
        }
        ensure!(!own.states.is_empty(), "{key} {before:?} {version}: {answer:?}");
        Ok(())
    }

    /// Finds a document of its own by its identity.
    async fn look(&mut self, index: u64) -> Result<(), Violation> {
        let key = self.key(index);
        let path = format!("{}?identity={key}", path_of(key));
        match self.ask("GET by identity", "GET", &path, "", "").await? {
            Outcome::Answered(answer) => self.found(index, &answer, None),
            _ => Ok(()),
        }
    }

    /// Gets a document of its own by its address.
    async fn get(&mut self, index: u64) -> Result<(), Violation> {
        let Some(id) = self.own[index as usize].id() else { return self.look(index).await };
        let path = address_of(self.key(index), &id);
        match self.ask("GET by id", "GET", &path, "", "").await? {
            Outcome::Answered(answer) => self.found(index, &answer, Some(&id)),
            _ => Ok(()),
        }
    }

    /// Notes what a document of its own was found to be; where `id` is given, by that.
    fn found(&mut self, index: u64, answer: &Answer, id: Option<&str>) -> Result<(), Violation> {
        let key = self.key(index);
        let own = &mut self.own[index as usize];
        let before = own.clone();
        match answer.status {
            200 => {
                let found = answer.json();
                ensure!(found["version"] == answer.version(), "{answer:?}");
                let noted = note(own, key, &found);
                ensure!(noted, "{key} {before:?}: {answer:?}");
            }
            404 => match id {
                None => {
                    let is_gone = own.possible().contains(&None);
                    own.is(Option::is_none);
                    ensure!(is_gone, "{key} {before:?}: {answer:?}");
                }
                Some(id) => {
                    let other = |state: &Option<State>| {
                        state.as_ref().is_none_or(|state| state.id.as_deref() != Some(id))
                    };
                    ensure!(own.possible().iter().any(other), "{key} {before:?}: {answer:?}");
                    if own.states.iter().any(other) {
                        own.states.retain(other);
                    } else {
                        own.is(other);
                    }
                }
            },
            _ => return Err(Violation::new(format!("{answer:?}"))),
        }
        Ok(())
    }

    /// Lists the newest of a resource: all documents of the model that are there, as they must
    /// be.
    async fn list(&mut self, index: u64) -> Result<(), Violation> {
        let (key, limit) = (self.key(index), self.clients * OWN / 8 + SHARED / 8 + 1);
        let path = format!("{}?limit={limit}", path_of(key));
        let begun = self.shared.history().moment();
        let outcome = self.ask("GET list", "GET", &path, "", "").await?;
        let Outcome::Answered(answer) = outcome else { return Ok(()) };
        ensure!(answer.status == 200, "{answer:?}");
        let list = answer.json();
        let Value::Array(list) = list else {
            return Err(Violation::new(format!("no list: {answer:?}")));
        };
        let mut keys = BTreeSet::new();
        for found in &list {
            let Some(key) = found["body"]["key"].as_u64() else { continue };
            ensure!(keys.insert(key), "{key} is listed twice: {answer:?}");
            if (FIRST..FIRST + SHARED).contains(&key) {
                self.shared.history().saw(begun, found)?;
            }
        }
        let mine = (0..OWN).filter(|index| self.key(*index) % 8 == key % 8);
        for index in mine.collect::<Vec<_>>() {
            let key = self.key(index);
            let own = &mut self.own[index as usize];
            let before = own.clone();
            let found = list.iter().find(|found| found["body"]["key"] == key);
            let fits = match found {
                Some(found) => note(own, key, found),
                None => {
                    let is_gone = own.possible().contains(&None);
                    own.is(Option::is_none);
                    is_gone
                }
            };
            ensure!(fits, "{key} {before:?} is listed as {found:?}");
        }
        Ok(())
    }

    async fn delete(&mut self, index: u64) -> Result<(), Violation> {
        let key = self.key(index);
        let Some(id) = self.own[index as usize].id() else { return self.look(index).await };
        let outcome = self.ask("DELETE", "DELETE", &address_of(key, &id), "", "").await?;
        let write = Write::Delete { id: id.clone() };
        let Outcome::Answered(answer) = outcome else {
            self.unanswered(index, write, &outcome);
            return Ok(());
        };
        let own = &mut self.own[index as usize];
        let before = own.states.clone();
        let is = |state: &Option<State>| {
            state.as_ref().is_some_and(|state| state.id.as_ref() == Some(&id))
        };
        match answer.status {
            204 => {
                ensure!(before.iter().any(is), "{key} {before:?}: {answer:?}");
                own.states = vec![None];
            }
            404 => own.states.retain(|state| !is(state)),
            409 => {
                ensure!(index < OWN / 2, "nobody refers to it: {answer:?}");
                own.states.retain(is);
            }
            _ => return Err(Violation::new(format!("{answer:?}"))),
        }
        ensure!(!own.states.is_empty(), "{key} {before:?}: {answer:?}");
        Ok(())
    }

    fn shared_key(&mut self) -> u64 {
        FIRST + self.random.random_range(0..SHARED)
    }

    async fn post_shared(&mut self) -> Result<(), Violation> {
        let (key, tag) = (self.shared_key(), self.tag());
        let references = shared_references(tag);
        let post = document(Some(key), key, &references, tag);
        let begun = self.shared.history().moment();
        let outcome = self.ask("POST shared", "POST", &path_of(key), "", &post).await?;
        let Outcome::Answered(answer) = outcome else { return Ok(()) };
        if answer.status == 409 {
            return self.check_missing(&answer, &references);
        }
        ensure!([200, 201].contains(&answer.status), "{answer:?}");
        ensure!((answer.status == 201) == (answer.version() == 1), "{answer:?}");
        self.shared.history().wrote(begun, &id_of(&answer), answer.version(), tag)
    }

    /// The address of a document that all write.
    async fn look_at_shared(&mut self) -> Result<(), Violation> {
        self.shared_id().await.map(drop)
    }

    async fn shared_id(&mut self) -> Result<Option<(u64, String)>, Violation> {
        let key = self.shared_key();
        let path = format!("{}?identity={key}", path_of(key));
        let begun = self.shared.history().moment();
        let outcome = self.ask("GET shared", "GET", &path, "", "").await?;
        let Outcome::Answered(answer) = outcome else { return Ok(None) };
        if answer.status == 404 {
            return Ok(None);
        }
        ensure!(answer.status == 200, "{answer:?}");
        ensure!(answer.json()["body"]["key"] == key, "{answer:?}");
        self.shared.history().saw(begun, &answer.json())?;
        Ok(Some((key, id_of(&answer))))
    }

    async fn delete_shared(&mut self) -> Result<(), Violation> {
        let Some((key, id)) = self.shared_id().await? else { return Ok(()) };
        let path = address_of(key, &id);
        let outcome = self.ask("DELETE shared", "DELETE", &path, "", "").await?;
        let Outcome::Answered(answer) = outcome else { return Ok(()) };
        match answer.status {
            204 | 404 => self.shared.history().gone(&id, answer.status == 204),
            409 => {
                ensure!(key < FIRST + SHARED / 2, "nobody refers to it: {answer:?}");
                Ok(())
            }
            _ => Err(Violation::new(format!("{answer:?}"))),
        }
    }

    /// Adds one to its count in the document of all, as whoever reads, changes and writes.
    async fn count(&mut self) -> Result<(), Violation> {
        let path = format!("{}?identity={COUNTER}", path_of(COUNTER));
        let outcome = self.ask("GET counter", "GET", &path, "", "").await?;
        let Outcome::Answered(found) = outcome else { return Ok(()) };
        let mut body = self.check_count(&found)?;
        let name = self.number.to_string();
        body[&name] = json!(self.steps + 1);
        let put = json!({ "body": body }).to_string();
        let (path, version) = (address_of(COUNTER, &id_of(&found)), found.version());
        let headers = format!("if-match: \"{version}\"\r\n");
        match self.ask("PUT counter", "PUT", &path, &headers, &put).await? {
            Outcome::Refused => {}
            Outcome::Unknown | Outcome::Left => self.steps_unknown.push(version),
            Outcome::Answered(answer) => match answer.status {
                204 => self.steps += 1,
                status => ensure!(status == 412, "{answer:?}"),
            },
        }
        Ok(())
    }

    /// Its steps are all there, but for those that nobody answered; the body in which they are.
    fn check_count(&mut self, answer: &Answer) -> Result<Value, Violation> {
        ensure!(answer.status == 200, "{answer:?}");
        let body = answer.json()["body"].clone();
        let found = body[self.number.to_string()].as_u64().unwrap_or(0);
        let unknown = &mut self.steps_unknown;
        let fits = (self.steps..=self.steps + unknown.len() as u64).contains(&found);
        ensure!(fits, "client {}: {found} steps of {}, {unknown:?}", self.number, self.steps);
        self.steps = found;
        // Others can no longer be done: the version that they ask for has passed.
        unknown.retain(|version| *version >= answer.version());
        Ok(body)
    }

    /// At the end, when nobody else is at it and nothing is under way: each document as it must
    /// be, with its references.
    ///
    /// # Errors
    /// Where one is not.
    ///
    /// # Panics
    /// Where the service or the server does not answer.
    pub async fn end(&mut self, session: &tokio_postgres::Client) -> Result<(), Violation> {
        // Its connection may have ended with a service before this.
        self.client = Client::new(self.address);
        for index in 0..OWN {
            let own = &mut self.own[index as usize];
            if let Some((_, write)) = own.late.take() {
                let after = own.after(&write);
                own.states.extend(after);
            }
            let (key, path) = (self.key(index), path_of(self.key(index)));
            let answer = self.client.get(&format!("{path}?identity={key}")).await;
            self.found(index, &answer, None)?;
            let state = self.own[index as usize].states.first().and_then(Option::as_ref);
            let wanted = state.map(|state| state.references.clone()).unwrap_or_default();
            let found = references(session, key).await;
            ensure!(found == wanted, "references of {key} are {found:?}, should be {wanted:?}");
        }
        let path = format!("{}?identity={COUNTER}", path_of(COUNTER));
        let found = self.client.get(&path).await;
        self.check_count(&found).map(drop)
    }
}

impl History {
    /// Notes a document that all write as it was answered.
    fn saw(&mut self, begun: Moment, found: &Value) -> Result<(), Violation> {
        let version = found["version"].as_i64().and_then(|version| version.try_into().ok());
        let (Some(id), Some(version), Some(tag)) =
            (found["id"].as_str(), version, found["body"]["tag"].as_u64())
        else {
            return Err(Violation::new(format!("no document: {found}")));
        };
        self.read(begun, id, version, Some(tag))
    }
}

/// Notes the state in which a document was found. Whether it can be in it.
fn note(own: &mut Own, key: u64, found: &Value) -> bool {
    let Some(id) = found["id"].as_str() else { return false };
    let fits = |state: &Option<State>| {
        state.as_ref().is_some_and(|state| {
            found["version"] == state.version
                && found["body"]["tag"] == state.tag
                && found["body"]["key"] == key
                && state.id.as_deref().is_none_or(|before| before == id)
        })
    };
    match own.is(fits) {
        Some(state) => {
            state.id = Some(id.to_owned());
            true
        }
        None => false,
    }
}

fn own_key(client: u64, index: u64) -> u64 {
    FIRST + SHARED + client * OWN + index
}

/// What a document that all write refers to, by the tag in its body.
fn shared_references(tag: u64) -> BTreeSet<u64> {
    let hash = tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
    let mut references = BTreeSet::from([1 + hash % STAYING, 1 + hash / STAYING % STAYING]);
    if hash.is_multiple_of(3) {
        references.insert(FIRST + hash % (SHARED / 2));
    }
    references
}

/// The keys that the document with a key refers to.
async fn references(session: &tokio_postgres::Client, key: u64) -> BTreeSet<u64> {
    let sql = "SELECT coalesce(array_agg(('x' || right(t.referential_id::text, 12))::bit(48)::bigint), '{}')
          FROM alias a
          JOIN reference r ON r.parent_partition_key = a.document_partition_key AND r.parent_id = a.document_id
          JOIN alias t ON t.partition_key = r.alias_partition_key AND t.id = r.alias_id
         WHERE a.referential_id::text = '00000000-0000-0000-0000-' || lpad(to_hex($1::bigint), 12, '0')";
    let key = key.cast_signed();
    let found: Vec<i64> = session.query_one(sql, &[&key]).await.expect("references").get(0);
    found.into_iter().map(i64::unsigned_abs).collect()
}

/// Of documents that all write, while they do: whether each refers to what its body says.
///
/// # Errors
/// Where the server does not answer.
pub async fn check_shared(
    session: &tokio_postgres::Client,
) -> Result<Result<(), Violation>, tokio_postgres::Error> {
    let sql = "SELECT d.body ->> 'tag', coalesce(array_agg(('x' || right(t.referential_id::text, 12))::bit(48)::bigint)
                                                  FILTER (WHERE t.id IS NOT NULL), '{}')
          FROM document d
          LEFT JOIN reference r ON r.parent_partition_key = d.partition_key AND r.parent_id = d.id
          LEFT JOIN alias t ON t.partition_key = r.alias_partition_key AND t.id = r.alias_id
         WHERE (d.body ->> 'key')::bigint BETWEEN $1 AND $2
         GROUP BY d.partition_key, d.id";
    let (first, last) = (FIRST.cast_signed(), (FIRST + SHARED - 1).cast_signed());
    let rows = session.query(sql, &[&first, &last]).await?;
    Ok(rows.iter().try_for_each(|row| {
        let tag = row.get::<_, Option<&str>>(0).and_then(|tag| tag.parse().ok()).unwrap_or(0);
        let found: Vec<i64> = row.get(1);
        let found: BTreeSet<u64> = found.into_iter().map(i64::unsigned_abs).collect();
        let wanted = shared_references(tag);
        ensure!(found == wanted, "what has tag {tag} refers to {found:?}, should to {wanted:?}");
        Ok(())
    }))
}

fn status_of(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Refused => "503",
        Outcome::Unknown => "504",
        Outcome::Left => "no answer",
        Outcome::Answered(answer) => match answer.status {
            200 => "200",
            201 => "201",
            204 => "204",
            404 => "404",
            409 => "409",
            412 => "412",
            _ => "other",
        },
    }
}

fn id_of(answer: &Answer) -> String {
    answer.json()["id"].as_str().unwrap_or_default().to_owned()
}

fn path_of(key: u64) -> String {
    format!("/data/resource-{}", key % 8)
}

fn address_of(key: u64, id: &str) -> String {
    format!("{}/{id}", path_of(key))
}

fn document(identity: Option<u64>, key: u64, references: &BTreeSet<u64>, tag: u64) -> String {
    let mut document = json!({ "references": references, "body": { "key": key, "tag": tag } });
    if let Some(identity) = identity {
        document["identity"] = json!(identity);
    }
    document.to_string()
}

/// What no server may hold, whatever was killed.
pub const CHECKS: [&str; 4] = [
    "SELECT count(*) FROM document AS d
       FULL JOIN alias AS a ON a.document_partition_key = d.partition_key AND a.document_id = d.id
      WHERE d.id IS NULL OR a.id IS NULL",
    "SELECT count(*) FROM reference AS r
       LEFT JOIN document AS d ON d.partition_key = r.parent_partition_key AND d.id = r.parent_id
       LEFT JOIN alias AS a ON a.partition_key = r.alias_partition_key AND a.id = r.alias_id
      WHERE d.id IS NULL
         OR (a.document_partition_key, a.document_id) IS DISTINCT FROM (r.referenced_partition_key, r.referenced_id)",
    "SELECT count(*) FROM document WHERE partition_key <> partition_of(uuid)",
    "SELECT count(*) FROM (SELECT FROM alias GROUP BY referential_id HAVING count(*) > 1) AS twice",
];

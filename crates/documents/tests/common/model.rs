//! What the service must have answered, whoever else was at it and whatever was killed.
//!
//! Each client has documents of its own, of which it knows every state that they can be in: one,
//! or two after a request that nobody answered. All share some documents: each new version of one
//! is answered to one client only, and a shared count misses nobody's step.

use std::collections::{BTreeSet, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::common::{Answer, Client};

/// Documents of a client.
const OWN: u64 = 8;
/// Documents that all post.
const SHARED: u64 = 4;
/// The first of the keys; the workload's are below.
const FIRST: u64 = 1_000_000;
const COUNTER: u64 = FIRST - 1;

/// What clients share.
#[derive(Default)]
pub struct Shared {
    /// Requests that were sent.
    pub sent: AtomicU64,
    /// Requests of which nobody knows what became of them.
    pub unknown: AtomicU64,
    /// Versions of shared documents, each written once.
    written: Mutex<HashSet<(String, i32)>>,
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

/// A client and what it knows.
pub struct Modelled {
    client: Client,
    number: u64,
    shared: Arc<Shared>,
    random: SmallRng,
    /// Each state that a document of its own may be in; `None` is not there.
    own: Vec<Vec<Option<State>>>,
    tags: u64,
    steps: u64,
    steps_unknown: u64,
}

/// What a request came to.
enum Outcome {
    Answered(Answer),
    /// It is not done.
    Refused,
    /// It may be done.
    Unknown,
}

impl Modelled {
    pub fn new(number: u64, address: SocketAddr, shared: &Arc<Shared>) -> Modelled {
        Modelled {
            client: Client::new(address),
            number,
            shared: Arc::clone(shared),
            random: SmallRng::seed_from_u64(number),
            own: vec![vec![None]; OWN as usize],
            tags: 0,
            steps: 0,
            steps_unknown: 0,
        }
    }

    /// The document that all count in.
    pub async fn make_counter(address: SocketAddr) {
        let post = json!({ "identity": COUNTER, "body": {} }).to_string();
        let made = Client::new(address).post(&path_of(COUNTER), &post).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }

    fn key(&self, index: u64) -> u64 {
        FIRST + SHARED + self.number * OWN + index
    }

    async fn ask(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Outcome {
        self.shared.sent.fetch_add(1, Ordering::Relaxed);
        if self.client.connect().await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            return Outcome::Refused;
        }
        match self.client.ask(method, path, headers, body).await {
            Ok(answer) if answer.status == 503 => Outcome::Refused,
            Ok(answer) if answer.status != 504 => {
                assert!(answer.status < 500, "{method} {path}: {answer:?}");
                Outcome::Answered(answer)
            }
            _ => {
                self.shared.unknown.fetch_add(1, Ordering::Relaxed);
                Outcome::Unknown
            }
        }
    }

    /// Does something, and fails where the answer is one that cannot be.
    pub async fn step(&mut self) {
        let index = self.random.random_range(0..OWN);
        if self.own[index as usize].len() > 4 {
            return self.look(index).await;
        }
        match self.random.random_range(0..100) {
            0..25 => self.post(index).await,
            25..40 => self.put(index).await,
            40..65 => self.look(index).await,
            65..75 => self.delete(index).await,
            75..88 => self.post_shared().await,
            _ => self.count().await,
        }
    }

    /// Of all others one in three, some of which are never there; and one's own.
    fn references(&mut self) -> BTreeSet<u64> {
        let (own, count) = (self.key(0), self.random.random_range(0..6));
        let mut references = BTreeSet::new();
        for _ in 0..count {
            references.insert(match self.random.random_range(0..8) {
                0..5 => self.random.random_range(1..5000),
                // The first half of anyone's may be referred to.
                5 => {
                    FIRST
                        + SHARED
                        + self.random.random_range(0..32) * OWN
                        + self.random.random_range(0..OWN / 2)
                }
                6 => FIRST + self.random.random_range(0..SHARED),
                _ => own + self.random.random_range(0..OWN / 2),
            });
        }
        references
    }

    /// The states of a document of its own, by its key.
    fn states(&self, key: u64) -> Option<&Vec<Option<State>>> {
        let index = key.checked_sub(self.key(0))?;
        self.own.get(usize::try_from(index).ok()?)
    }

    /// That these were missing cannot be known of others'; of the workload's and of its own it is.
    fn check_missing(&self, answer: &Answer, references: &BTreeSet<u64>) {
        let missing = answer.json()["missing"].clone();
        let missing: BTreeSet<u64> = match missing {
            Value::Array(keys) => keys.iter().filter_map(Value::as_u64).collect(),
            _ => panic!("no reason to refuse it: {answer:?}"),
        };
        assert!(!missing.is_empty() && missing.is_subset(references), "{answer:?}");
        for key in &missing {
            assert!(*key >= FIRST, "a document of the workload is missing: {answer:?}");
            let states = self.states(*key);
            assert!(states.is_none_or(|states| states.contains(&None)), "{key}: {answer:?}");
        }
    }

    /// That all of these were there.
    fn check_present(&self, references: &BTreeSet<u64>, itself: u64) {
        for key in references.iter().filter(|key| **key != itself) {
            let states = self.states(*key);
            assert!(
                states.is_none_or(|states| states.iter().any(Option::is_some)),
                "{key} was referred to and was not there"
            );
        }
    }

    async fn post(&mut self, index: u64) {
        let (key, references) = (self.key(index), self.references());
        self.tags += 1;
        let tag = self.tags;
        let post = document(Some(key), &references, tag);
        let before = self.own[index as usize].clone();
        let outcome = self.ask("POST", &path_of(key), "", &post).await;
        let states = &mut self.own[index as usize];
        let next = |state: &Option<State>| {
            let version = state.as_ref().map_or(1, |state| state.version + 1);
            let id = state.as_ref().and_then(|state| state.id.clone());
            Some(State { id, version, tag, references: references.clone() })
        };
        match outcome {
            Outcome::Refused => {}
            Outcome::Unknown => states.extend(before.iter().map(next)),
            Outcome::Answered(answer) if answer.status == 409 => {
                self.check_missing(&answer, &references);
            }
            Outcome::Answered(answer) => {
                let (id, version) = (answer.json()["id"].to_string(), answer.version());
                let created = answer.status == 201;
                assert!(created || answer.status == 200, "{answer:?}");
                let fits = |state: &&Option<State>| match state {
                    None => created && version == 1,
                    Some(state) => {
                        !created
                            && state.version + 1 == version
                            && state.id.as_ref().is_none_or(|before| *before == id)
                    }
                };
                assert!(before.iter().any(|state| fits(&state)), "{before:?}: {answer:?}");
                let id = Some(id);
                *states = vec![Some(State { id, version, tag, references: references.clone() })];
                self.check_present(&references, key);
            }
        }
    }

    async fn put(&mut self, index: u64) {
        let key = self.key(index);
        let before = self.own[index as usize].clone();
        let known =
            before.iter().flatten().find_map(|state| Some((state.id.clone()?, state.version)));
        let Some((id, version)) = known else { return self.look(index).await };
        // Now and then one that another has passed.
        let version = version - i32::from(self.random.random_bool(0.2));
        let references = self.references();
        self.tags += 1;
        let tag = self.tags;
        let headers = format!("if-match: \"{version}\"\r\n");
        let put = document(None, &references, tag);
        let path = format!("{}/{}", path_of(key), id.trim_matches('"'));
        let outcome = self.ask("PUT", &path, &headers, &put).await;
        let is_it =
            |state: &State| state.version == version && state.id.as_ref().is_none_or(|i| *i == id);
        let after = State {
            id: Some(id.clone()),
            version: version + 1,
            tag,
            references: references.clone(),
        };
        let states = &mut self.own[index as usize];
        match outcome {
            Outcome::Refused => {}
            Outcome::Unknown => {
                if before.iter().flatten().any(is_it) {
                    states.push(Some(after));
                }
            }
            Outcome::Answered(answer) => match answer.status {
                204 => {
                    assert!(before.iter().flatten().any(is_it), "{before:?}: {answer:?}");
                    assert_eq!(answer.version(), version + 1);
                    *states = vec![Some(after)];
                    self.check_present(&references, key);
                }
                412 => {
                    states.retain(|state| state.as_ref().is_some_and(|state| !is_it(state)));
                    assert!(!states.is_empty(), "{before:?} {version}: {answer:?}");
                }
                404 => {
                    states
                        .retain(|state| state.as_ref().is_none_or(|s| s.id.as_ref() != Some(&id)));
                    assert!(!states.is_empty(), "{before:?}: {answer:?}");
                }
                409 => {
                    self.check_missing(&answer, &references);
                }
                _ => panic!("{answer:?}"),
            },
        }
    }

    /// Finds a document of its own, as it must be.
    pub async fn look(&mut self, index: u64) {
        let path = format!("{}?identity={}", path_of(self.key(index)), self.key(index));
        let Outcome::Answered(answer) = self.ask("GET", &path, "", "").await else { return };
        let states = &mut self.own[index as usize];
        let before = states.clone();
        if answer.status == 404 {
            assert!(states.contains(&None), "{before:?}: {answer:?}");
            *states = vec![None];
            return;
        }
        let found = answer.json();
        let id = found["id"].to_string();
        let fits = |state: &State| {
            found["version"] == state.version
                && found["body"]["tag"] == state.tag
                && state.id.as_ref().is_none_or(|before| *before == id)
        };
        let state = states.iter().flatten().find(|state| fits(state)).cloned();
        let state = state.unwrap_or_else(|| panic!("{before:?}: {answer:?}"));
        *states = vec![Some(State { id: Some(id), ..state })];
    }

    async fn delete(&mut self, index: u64) {
        let before = self.own[index as usize].clone();
        let id = before.iter().flatten().find_map(|state| state.id.clone());
        let Some(id) = id else { return self.look(index).await };
        let path = format!("{}/{}", path_of(self.key(index)), id.trim_matches('"'));
        let outcome = self.ask("DELETE", &path, "", "").await;
        let states = &mut self.own[index as usize];
        match outcome {
            Outcome::Refused => {}
            Outcome::Unknown => states.push(None),
            Outcome::Answered(answer) => match answer.status {
                204 => {
                    assert!(before.iter().any(Option::is_some), "{before:?}: {answer:?}");
                    *states = vec![None];
                }
                404 => {
                    states
                        .retain(|state| state.as_ref().is_none_or(|s| s.id.as_ref() != Some(&id)));
                    assert!(!states.is_empty(), "{before:?}: {answer:?}");
                }
                409 => {
                    assert!(index < OWN / 2, "nobody refers to it: {answer:?}");
                    states.retain(Option::is_some);
                    assert!(!states.is_empty(), "{before:?}: {answer:?}");
                }
                _ => panic!("{answer:?}"),
            },
        }
    }

    /// Posts, or deletes, what all do: no two are told the same version.
    async fn post_shared(&mut self) {
        let key = FIRST + self.random.random_range(0..SHARED);
        if self.random.random_bool(0.1) {
            let path = format!("{}?identity={key}", path_of(key));
            let Outcome::Answered(answer) = self.ask("GET", &path, "", "").await else { return };
            if answer.status == 200 {
                let id = answer.json()["id"].to_string();
                let path = format!("{}/{}", path_of(key), id.trim_matches('"'));
                if let Outcome::Answered(answer) = self.ask("DELETE", &path, "", "").await {
                    assert!([204, 404, 409].contains(&answer.status), "{answer:?}");
                }
            }
            return;
        }
        let post = document(Some(key), &BTreeSet::from([1 + key % 7, 9]), 0);
        let Outcome::Answered(answer) = self.ask("POST", &path_of(key), "", &post).await else {
            return;
        };
        assert!([200, 201].contains(&answer.status), "{answer:?}");
        assert_eq!(answer.status == 201, answer.version() == 1, "{answer:?}");
        let written = (answer.json()["id"].to_string(), answer.version());
        let mut all = self.shared.written.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(all.insert(written), "two were told the same version: {answer:?}");
    }

    /// Adds one to its count in the document of all, as whoever reads, changes and writes.
    async fn count(&mut self) {
        let path = format!("{}?identity={COUNTER}", path_of(COUNTER));
        let Outcome::Answered(found) = self.ask("GET", &path, "", "").await else { return };
        assert_eq!(found.status, 200, "{found:?}");
        let mut body = found.json()["body"].clone();
        self.check_count(&body);
        let name = self.number.to_string();
        body[&name] = json!(body[&name].as_u64().unwrap_or(0) + 1);
        let put = json!({ "body": body }).to_string();
        let id = found.json()["id"].to_string();
        let path = format!("{}/{}", path_of(COUNTER), id.trim_matches('"'));
        let headers = format!("if-match: \"{}\"\r\n", found.version());
        match self.ask("PUT", &path, &headers, &put).await {
            Outcome::Refused => {}
            Outcome::Unknown => self.steps_unknown += 1,
            Outcome::Answered(answer) => match answer.status {
                204 => self.steps += 1,
                status => assert_eq!(status, 412, "{answer:?}"),
            },
        }
    }

    /// Its steps are all there, but for those that nobody answered.
    fn check_count(&mut self, body: &Value) {
        let found = body[self.number.to_string()].as_u64().unwrap_or(0);
        let most = self.steps + self.steps_unknown;
        assert!((self.steps..=most).contains(&found), "{found} of {}..={most}", self.steps);
        (self.steps, self.steps_unknown) = (found, 0);
    }

    /// At the end: each document of its own as it must be, with its references.
    pub async fn end(&mut self, session: &tokio_postgres::Client) {
        let sql = "SELECT coalesce(array_agg(('x' || right(t.referential_id::text, 12))::bit(48)::bigint), '{}')
              FROM alias a
              JOIN reference r ON r.parent_partition_key = a.document_partition_key AND r.parent_id = a.document_id
              JOIN alias t ON t.partition_key = r.alias_partition_key AND t.id = r.alias_id
             WHERE a.referential_id::text = '00000000-0000-0000-0000-' || lpad(to_hex($1::bigint), 12, '0')";
        for index in 0..OWN {
            while self.own[index as usize].len() > 1
                || self.own[index as usize][0].as_ref().is_some_and(|s| s.id.is_none())
            {
                self.look(index).await;
            }
            self.look(index).await;
            let key = i64::try_from(self.key(index)).expect("small");
            let found: Vec<i64> = session.query_one(sql, &[&key]).await.expect("references").get(0);
            let found: BTreeSet<u64> = found.into_iter().map(i64::unsigned_abs).collect();
            let state = self.own[index as usize][0].as_ref();
            let wanted = state.map(|state| state.references.clone()).unwrap_or_default();
            assert_eq!(found, wanted, "references of {key}");
        }
        let path = format!("{}?identity={COUNTER}", path_of(COUNTER));
        let found = self.client.get(&path).await;
        self.check_count(&found.json()["body"]);
    }
}

fn path_of(key: u64) -> String {
    format!("/data/resource-{}", key % 8)
}

fn document(identity: Option<u64>, references: &BTreeSet<u64>, tag: u64) -> String {
    let mut document = json!({ "references": references, "body": { "tag": tag } });
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

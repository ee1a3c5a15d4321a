//! Prepared statements of clients, and what server sessions call them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::Need;
use crate::settings::Change;
use crate::statement::Effects;

/// How the names begin that the gateway gives to statements on sessions.
pub const OWN_PREFIX: &str = "ww_";

/// A statement as a client prepared it: its text with the types of its parameters.
#[derive(Debug)]
pub struct Prepared {
    /// Its number, unique among the distinct statements of a worker.
    pub id: u64,
    /// Text and parameter types as in the Parse message, after the name.
    pub body: Vec<u8>,
    /// What it needs of a session.
    pub need: Need,
    /// What it does to the settings of its session.
    pub change: Option<Change>,
    /// What else it does.
    pub effects: Effects,
}

impl Prepared {
    /// Its text.
    pub fn text(&self) -> &[u8] {
        self.body.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// What sessions call it.
    pub fn name(&self) -> String {
        format!("{OWN_PREFIX}{}", self.id)
    }
}

/// All distinct statements that some client has prepared.
#[derive(Debug, Default)]
pub struct Registry {
    by_body: HashMap<Vec<u8>, (Arc<Prepared>, u64)>,
    next: u64,
    /// When to look for statements that nobody has any more.
    sweep_at: usize,
}

impl Registry {
    /// The statement with the body of a Parse message after its name. After the objects of the
    /// server were redefined, which `redefined` counts, it is another: sessions may have the one
    /// before, with types that are no more.
    pub fn prepared(&mut self, body: &[u8], redefined: u64) -> Arc<Prepared> {
        if let Some((known, under)) = self.by_body.get(body)
            && *under == redefined
        {
            return known.clone();
        }
        if self.by_body.len() >= self.sweep_at {
            self.by_body.retain(|_, (statement, _)| Arc::strong_count(statement) > 1);
            self.sweep_at = (2 * self.by_body.len()).max(1024);
        }
        self.next += 1;
        let text = body.split(|&byte| byte == 0).next().unwrap_or_default();
        let change = std::str::from_utf8(text).ok().and_then(Change::of);
        let statement = Arc::new(Prepared {
            id: self.next,
            body: body.to_vec(),
            need: Need::of(text),
            effects: Effects::of(text, change.as_ref()),
            change,
        });
        self.by_body.insert(body.to_vec(), (statement.clone(), redefined));
        statement
    }
}

/// What a client was told of a statement that it has prepared under a name, and relies on: the
/// server never runs a statement that has come to give something else.
#[derive(Debug, Default)]
pub struct Told {
    columns: AtomicU64,
    /// The body of ParameterDescription, which ends a Parse message too.
    parameters: OnceLock<Vec<u8>>,
}

impl Told {
    /// Notes which columns it was told of.
    pub fn tell_columns(&self, columns: Columns) {
        self.columns.store(columns.0, Ordering::Relaxed);
    }

    /// Notes which parameters it was told of: the server leaves them as they were at first.
    pub fn tell_parameters(&self, body: &[u8]) {
        self.parameters.get_or_init(|| body.to_vec());
    }

    /// The columns of the rows that it expects, where it expects any.
    pub fn columns(&self) -> Option<Columns> {
        let columns = Columns(self.columns.load(Ordering::Relaxed));
        (columns != Columns::UNKNOWN && columns != Columns::NONE).then_some(columns)
    }

    /// The types of parameters that it sends, as at the end of a Parse message.
    pub fn parameters(&self) -> Option<&[u8]> {
        self.parameters.get().map(Vec::as_slice)
    }
}

/// What tells whether two statements give the same columns: names, types and their modifiers, as
/// the server compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns(u64);

impl Columns {
    /// Nobody has said.
    pub const UNKNOWN: Columns = Columns(0);
    /// The statement gives no rows.
    pub const NONE: Columns = Columns(1);

    /// Those of a RowDescription.
    pub fn of(body: &[u8]) -> Columns {
        let mut hasher = DefaultHasher::new();
        let mut rest = body.get(2..).unwrap_or_default();
        while let Some(end) = rest.iter().position(|&byte| byte == 0)
            && let Some((field, following)) = rest[end + 1..].split_first_chunk::<18>()
        {
            // Neither the table, which may be another of the same form, nor the format.
            (&rest[..=end], &field[6..16]).hash(&mut hasher);
            rest = following;
        }
        Columns(hasher.finish().max(2))
    }
}

/// The statements that a server session has, the longest unused first to go.
#[derive(Debug, Default)]
pub struct OnSession {
    used: HashMap<u64, Has>,
    clock: u64,
}

/// A statement that a session has.
#[derive(Debug)]
struct Has {
    /// When it was used last.
    used: u64,
    /// Under which definitions it was prepared.
    under: Definitions,
    /// Which Parse message of the session prepared it.
    parse: u64,
    columns: Columns,
    /// The types of its parameters, where they are known.
    parameters: Option<Vec<u8>>,
}

/// What statements mean: how often objects of the server were redefined, and how often names
/// came to mean others on the session, as far as keywords tell.
pub type Definitions = (u64, u64);

/// What a session has of a statement that a client prepares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Nothing.
    No,
    /// The statement as it is now.
    Yes,
    /// The statement as it was under other definitions.
    Before,
}

impl OnSession {
    /// Notes that a statement is used, or prepared now; whether the session has it already.
    pub fn touch(&mut self, id: u64, now: Definitions) -> bool {
        self.clock += 1;
        let clock = self.clock;
        let known = self.used.contains_key(&id);
        let new =
            Has { used: 0, under: now, parse: 0, columns: Columns::UNKNOWN, parameters: None };
        self.used.entry(id).or_insert(new).used = clock;
        known
    }

    /// Notes that a Parse message of the session prepares a statement, with the types of its
    /// parameters where they are known.
    pub fn parsed(&mut self, id: u64, parse: u64, now: Definitions, parameters: Option<&[u8]>) {
        if let Some(of) = self.used.get_mut(&id) {
            (of.parse, of.under) = (parse, now);
            of.columns = Columns::UNKNOWN;
            of.parameters = parameters.map(<[u8]>::to_vec);
        }
    }

    /// Which Parse message prepared a statement.
    pub fn parse_of(&self, id: u64) -> u64 {
        self.used.get(&id).map_or(0, |of| of.parse)
    }

    /// The server has described the parameters of a statement as a Parse message prepared it.
    pub fn describe_parameters(&mut self, id: u64, parse: u64, body: &[u8]) {
        if let Some(of) = self.used.get_mut(&id).filter(|of| of.parse == parse)
            && of.parameters.is_none()
        {
            of.parameters = Some(body.to_vec());
        }
    }

    /// The server has described the columns of a statement as a Parse message prepared it, by a
    /// RowDescription or by saying that there are none.
    pub fn describe_columns(&mut self, id: u64, parse: u64, body: Option<&[u8]>) -> Columns {
        let columns = || body.map_or(Columns::NONE, Columns::of);
        match self.used.get_mut(&id).filter(|of| of.parse == parse) {
            // They stay as they were as long as it is there.
            Some(of) if of.columns != Columns::UNKNOWN => of.columns,
            Some(of) => {
                of.columns = columns();
                of.columns
            }
            None => columns(),
        }
    }

    /// The columns of a statement, where the session has it.
    pub fn columns(&self, id: u64) -> Option<Columns> {
        self.used.get(&id).map(|of| of.columns)
    }

    /// Whether a statement that the session has takes what a client was told that it takes.
    pub fn takes(&self, id: u64, told: &Told) -> bool {
        let parameters = self.used.get(&id).and_then(|of| of.parameters.as_deref());
        told.parameters().is_none_or(|told| parameters == Some(told))
    }

    /// Whether a statement that the session has was prepared under these definitions.
    pub fn is_of(&self, id: u64, now: Definitions) -> bool {
        self.used.get(&id).is_some_and(|of| of.under == now)
    }

    /// Notes that a client prepares a statement.
    pub fn prepare(&mut self, id: u64, now: Definitions) -> Known {
        if !self.touch(id, now) {
            return Known::No;
        }
        match self.used.get_mut(&id) {
            Some(of) if of.under != now => {
                of.under = now;
                Known::Before
            }
            _ => Known::Yes,
        }
    }

    /// Forgets a statement: the server does not have it after all. Whether it was known.
    pub fn forget(&mut self, id: u64) -> bool {
        self.used.remove(&id).is_some()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.used.len()
    }

    /// Forgets all: their numbers.
    pub fn drain(&mut self) -> impl Iterator<Item = u64> {
        self.used.drain().map(|(id, _)| id)
    }

    /// Forgets all: the session was reset.
    pub fn clear(&mut self) {
        self.used.clear();
    }

    /// The statements to give up where there are more than `most`.
    pub fn excess(&mut self, most: usize) -> Vec<u64> {
        let count = self.used.len().saturating_sub(most);
        if count == 0 {
            return Vec::new();
        }
        let mut oldest: Vec<(u64, u64)> = self.used.iter().map(|(&id, of)| (of.used, id)).collect();
        oldest.select_nth_unstable(count - 1);
        let given_up: Vec<u64> = oldest[..count].iter().map(|&(_, id)| id).collect();
        given_up.iter().for_each(|id| _ = self.used.remove(id));
        given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_one_statement_until_nobody_has_it() {
        let mut registry = Registry::default();
        let first = registry.prepared(b"SELECT $1\0\0\0", 0);
        assert!(Arc::ptr_eq(&first, &registry.prepared(b"SELECT $1\0\0\0", 0)));
        assert_ne!(first.id, registry.prepared(b"SELECT $1\0\0\x01\0\0\0\x17", 0).id);
        for number in 0..5000 {
            registry.prepared(format!("SELECT {number}\0\0\0").as_bytes(), 0);
        }
        assert!(registry.by_body.len() < 3000);
        assert!(Arc::ptr_eq(&first, &registry.prepared(b"SELECT $1\0\0\0", 0)));
        assert_ne!(first.id, registry.prepared(b"SELECT $1\0\0\0", 1).id);
    }

    #[test]
    fn columns_are_the_same_whatever_table_they_are_of() {
        let of = |name: &str, table: u8, oid: u8, format: u8| {
            let rest = [0, 0, 0, 0, table, 0, 1, 0, 0, 0, oid, 0, 4, 0xff, 0xff, 0xff, 0xff, 0];
            Columns::of(&[&b"\0\x01"[..], name.as_bytes(), &rest, &[format]].concat())
        };
        assert_eq!(of("a", 1, 23, 0), of("a", 2, 23, 1));
        assert_ne!(of("a", 1, 23, 0), of("b", 1, 23, 0));
        assert_ne!(of("a", 1, 23, 0), of("a", 1, 25, 0));
        assert_ne!(of("a", 1, 23, 0), Columns::NONE);
    }

    #[test]
    fn what_was_said_of_a_statement_is_not_of_the_one_that_took_its_place() {
        let mut session = OnSession::default();
        session.touch(1, (0, 0));
        session.parsed(1, 7, (0, 0), None);
        session.parsed(1, 8, (0, 0), Some(b"\0\0"));
        session.describe_columns(1, 7, None);
        assert_eq!(session.columns(1), Some(Columns::UNKNOWN));
        session.describe_columns(1, 8, None);
        assert_eq!(session.columns(1), Some(Columns::NONE));
        let told = Told::default();
        assert!(session.takes(1, &told));
        told.tell_parameters(b"\0\x01\0\0\0\x17");
        assert!(!session.takes(1, &told));
    }

    #[test]
    fn the_longest_unused_statement_goes_first() {
        let mut session = OnSession::default();
        let now = (0, 0);
        assert!(!session.touch(1, now));
        assert!(!session.touch(2, now));
        assert!(session.touch(1, now));
        assert_eq!(session.excess(2), [0; 0]);
        assert!(!session.touch(3, now));
        assert_eq!(session.excess(2), [2]);
        assert!(!session.touch(2, now));
    }

    #[test]
    fn who_prepares_a_statement_gets_it_as_it_is_now() {
        let mut session = OnSession::default();
        assert_eq!(session.prepare(1, (0, 0)), Known::No);
        assert_eq!(session.prepare(1, (0, 0)), Known::Yes);
        assert!(session.touch(1, (1, 0)));
        assert_eq!(session.prepare(1, (1, 0)), Known::Before);
        assert_eq!(session.prepare(1, (1, 0)), Known::Yes);
        assert_eq!(session.prepare(1, (1, 1)), Known::Before);
    }
}

//! Prepared statements of clients, and what server sessions call them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Need;
use crate::settings::Change;
use crate::statement::redefines;

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
    /// Whether it may change what other statements mean.
    pub redefines: bool,
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
        let statement = Arc::new(Prepared {
            id: self.next,
            body: body.to_vec(),
            need: Need::of(text),
            change: std::str::from_utf8(text).ok().and_then(Change::of),
            redefines: redefines(text),
        });
        self.by_body.insert(body.to_vec(), (statement.clone(), redefined));
        statement
    }
}

/// The statements that a server session has, the longest unused first to go.
#[derive(Debug, Default)]
pub struct OnSession {
    /// When each was used last, and under which definitions it was prepared.
    used: HashMap<u64, (u64, Definitions)>,
    clock: u64,
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
        self.used.entry(id).or_insert((clock, now)).0 = clock;
        known
    }

    /// Notes that a client prepares a statement.
    pub fn prepare(&mut self, id: u64, now: Definitions) -> Known {
        if !self.touch(id, now) {
            return Known::No;
        }
        match self.used.get_mut(&id) {
            Some((_, under)) if *under != now => {
                *under = now;
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

    /// Forgets all: the session was reset.
    pub fn clear(&mut self) {
        self.used.clear();
    }

    /// The statement to give up where there are more than `most`.
    pub fn excess(&mut self, most: usize) -> Option<u64> {
        if self.used.len() <= most {
            return None;
        }
        let (&id, _) = self.used.iter().min_by_key(|(_, (used, _))| *used)?;
        self.used.remove(&id);
        Some(id)
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
    fn the_longest_unused_statement_goes_first() {
        let mut session = OnSession::default();
        let now = (0, 0);
        assert!(!session.touch(1, now));
        assert!(!session.touch(2, now));
        assert!(session.touch(1, now));
        assert_eq!(session.excess(2), None);
        assert!(!session.touch(3, now));
        assert_eq!(session.excess(2), Some(2));
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

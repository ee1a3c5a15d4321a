//! Names of users whose verifiers are still to be looked for, and who waits for each.

use std::collections::{HashMap, VecDeque};

use crate::ClientId;

/// Names with the clients that claim them.
pub type Names = Vec<(String, Vec<ClientId>)>;

/// Names that one connection asks for, one after the other.
const MOST_NAMES: usize = 128;

/// What is to be looked for, by server.
#[derive(Debug, Default)]
pub struct Lookups {
    of: HashMap<usize, Queue>,
    /// Servers with names that wait, in turn.
    turns: VecDeque<usize>,
}

#[derive(Debug, Default)]
struct Queue {
    names: VecDeque<String>,
    ids: HashMap<String, Vec<ClientId>>,
}

impl Lookups {
    /// A client waits for the verifier of a user of a server; whoever waits for the same is served
    /// by the same question.
    pub fn push(&mut self, upstream: usize, user: &str, id: ClientId) {
        let queue = self.of.entry(upstream).or_default();
        if queue.names.is_empty() {
            self.turns.push_back(upstream);
        }
        let ids = queue.ids.entry(user.to_owned()).or_default();
        if ids.is_empty() {
            queue.names.push_back(user.to_owned());
        }
        ids.push(id);
    }

    /// What there was no time to ask comes first again.
    pub fn put_back(&mut self, upstream: usize, names: Names) {
        let queue = self.of.entry(upstream).or_default();
        if queue.names.is_empty() && !names.is_empty() {
            self.turns.push_back(upstream);
        }
        for (user, ids) in names.into_iter().rev() {
            let waiting = queue.ids.entry(user.clone()).or_default();
            if waiting.is_empty() {
                queue.names.push_front(user);
            }
            waiting.extend(ids);
        }
    }

    /// The server whose turn it is, with the names that are asked for next.
    pub fn take(&mut self) -> Option<(usize, Names)> {
        let upstream = self.turns.pop_front()?;
        let queue = self.of.get_mut(&upstream)?;
        let count = queue.names.len().min(MOST_NAMES);
        let names = queue.names.drain(..count);
        let names = names.map(|user| {
            let ids = queue.ids.remove(&user).unwrap_or_default();
            (user, ids)
        });
        let names = names.collect();
        if queue.names.is_empty() {
            self.of.remove(&upstream);
        } else {
            self.turns.push_back(upstream);
        }
        Some((upstream, names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: Option<(usize, Names)>) -> (usize, Vec<(String, usize)>) {
        let (upstream, names) = found.expect("names");
        (upstream, names.into_iter().map(|(name, ids)| (name, ids.len())).collect())
    }

    #[test]
    fn a_flood_of_names_takes_few_questions_and_leaves_others_their_turn() {
        let mut lookups = Lookups::default();
        for name in 0..300 {
            lookups.push(0, &name.to_string(), ClientId::NOBODY);
        }
        lookups.push(1, "app", ClientId::NOBODY);
        lookups.push(1, "app", ClientId::NOBODY);
        let (upstream, first) = names(lookups.take());
        assert_eq!((upstream, first.len()), (0, MOST_NAMES));
        assert_eq!(names(lookups.take()), (1, vec![("app".to_owned(), 2)]));
        assert_eq!(names(lookups.take()).1.len(), MOST_NAMES);
        assert_eq!(names(lookups.take()).1.len(), 300 - 2 * MOST_NAMES);
        assert!(lookups.take().is_none());
    }

    #[test]
    fn what_was_not_asked_is_asked_first() {
        let mut lookups = Lookups::default();
        lookups.push(0, "a", ClientId::NOBODY);
        lookups.push(0, "b", ClientId::NOBODY);
        let (_, taken) = lookups.take().expect("names");
        lookups.push(0, "c", ClientId::NOBODY);
        lookups.push(0, "b", ClientId::NOBODY);
        lookups.put_back(0, taken);
        let all = [("a", 1), ("c", 1), ("b", 2)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(names(lookups.take()), (0, all.to_vec()));
        assert!(lookups.take().is_none());
    }
}

//! Which rows of a long view changed since the last look.

use std::collections::{HashMap, HashSet};

/// Remembers one number per key that moves whenever a counter of the row moves.
#[derive(Debug)]
pub(crate) struct Sparse {
    limit: usize,
    started: bool,
    seen: HashMap<i64, i64>,
    /// Keys left out of the first sample. Their counters at the start are not in
    /// the record, so a later row could not be told from one that began at zero.
    ignored: HashSet<i64>,
    /// The last look, until its rows are stored.
    pending: Option<Look>,
}

#[derive(Debug, Default)]
struct Look {
    seen: HashMap<i64, i64>,
    ignored: HashSet<i64>,
}

impl Sparse {
    /// Follows the first `limit` keys of the first look and all that appear later.
    pub(crate) fn new(limit: usize) -> Self {
        Sparse {
            limit,
            started: false,
            seen: HashMap::new(),
            ignored: HashSet::new(),
            pending: None,
        }
    }

    /// Whether the rows of the first look are still to be stored.
    pub(crate) fn is_first(&self) -> bool {
        !self.started
    }

    /// Keys left out for good.
    pub(crate) fn ignored(&self) -> usize {
        self.ignored.len()
    }

    /// Takes a look at all keys, most important first, and returns those whose
    /// rows are to be read: at first all within the limit, then those that
    /// changed or are new. A look whose rows are not then [`stored`](Self::stored),
    /// because reading them failed, is forgotten: they come up again at the next.
    pub(crate) fn changed(&mut self, look: impl Iterator<Item = (i64, i64)>) -> Vec<i64> {
        let mut now: HashMap<i64, i64> = HashMap::with_capacity(self.seen.len());
        let mut ignored = HashSet::new();
        let mut order = Vec::new();
        for (key, number) in look {
            if self.ignored.contains(&key) {
                continue;
            }
            if let Some(sum) = now.get_mut(&key) {
                // Several rows may share a key; they are read together.
                *sum = sum.wrapping_add(number);
            } else if !self.started && now.len() >= self.limit {
                ignored.insert(key);
            } else {
                now.insert(key, number);
                order.push(key);
            }
        }
        order.retain(|key| !self.started || self.seen.get(key) != now.get(key));
        self.pending = Some(Look { seen: now, ignored });
        order
    }

    /// Says that the rows of the last look are in the record.
    pub(crate) fn stored(&mut self) {
        if let Some(look) = self.pending.take() {
            self.seen = look.seen;
            self.ignored.extend(look.ignored);
            self.started = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Sparse {
        fn stored_changes<const N: usize>(&mut self, look: [(i64, i64); N]) -> Vec<i64> {
            let changed = self.changed(look.into_iter());
            self.stored();
            changed
        }
    }

    #[test]
    fn what_could_not_be_read_comes_up_again() {
        let mut sparse = Sparse::new(2);
        assert_eq!(sparse.changed([(1, 5), (2, 5), (3, 1)].into_iter()), [1, 2]);
        assert!(sparse.is_first() && sparse.ignored() == 0);
        assert_eq!(sparse.stored_changes([(3, 9), (1, 5), (2, 5)]), [3, 1]);
        assert!(!sparse.is_first() && sparse.ignored() == 1);
        assert_eq!(sparse.changed([(1, 6), (3, 9)].into_iter()), [1]);
        assert_eq!(sparse.stored_changes([(1, 6), (3, 9)]), [1]);
        assert_eq!(sparse.stored_changes([(1, 6), (3, 9)]), Vec::<i64>::new());
    }

    #[test]
    fn first_all_then_what_moved_or_is_new() {
        let mut sparse = Sparse::new(10);
        assert_eq!(sparse.stored_changes([(1, 5), (2, 5)]), [1, 2]);
        assert_eq!(sparse.stored_changes([(1, 5), (2, 6), (3, 0)]), [2, 3]);
        assert_eq!(sparse.stored_changes([(1, 5), (3, 0)]), Vec::<i64>::new());
        // Evicted and back: its counters begin anew, so it counts as new.
        assert_eq!(sparse.stored_changes([(1, 5), (2, 6), (3, 0)]), [2]);
    }

    #[test]
    fn what_lay_beyond_the_limit_never_comes_up_without_a_beginning() {
        let mut sparse = Sparse::new(2);
        assert_eq!(sparse.stored_changes([(1, 9), (2, 8), (3, 7)]), [1, 2]);
        assert_eq!(sparse.ignored(), 1);
        assert_eq!(sparse.stored_changes([(3, 100), (4, 1), (1, 9), (2, 8)]), [4]);
    }

    proptest! {
        #[test]
        fn adding_up_the_changes_gives_the_last_look(
            looks in proptest::collection::vec(
                proptest::collection::hash_map(0_i64..20, 0_i64..5, 0..20), 1..10),
        ) {
            let mut sparse = Sparse::new(1000);
            let mut known: HashMap<i64, i64> = HashMap::new();
            for look in &looks {
                for key in sparse.changed(look.iter().map(|(k, v)| (*k, *v))) {
                    known.insert(key, look[&key]);
                }
                sparse.stored();
                for (key, number) in look {
                    prop_assert_eq!(known.get(key), Some(number));
                }
            }
        }
    }
}

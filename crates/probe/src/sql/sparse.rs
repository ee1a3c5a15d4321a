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
}

impl Sparse {
    /// Follows the first `limit` keys of the first look and all that appear later.
    pub(crate) fn new(limit: usize) -> Self {
        Sparse { limit, started: false, seen: HashMap::new(), ignored: HashSet::new() }
    }

    /// Whether the first look is still to come.
    pub(crate) fn is_first(&self) -> bool {
        !self.started
    }

    /// Keys left out for good.
    pub(crate) fn ignored(&self) -> usize {
        self.ignored.len()
    }

    /// Takes a look at all keys, most important first, and returns those whose
    /// rows are to be read: at first all within the limit, then those that
    /// changed or are new.
    pub(crate) fn changed(&mut self, look: impl Iterator<Item = (i64, i64)>) -> Vec<i64> {
        let mut now: HashMap<i64, i64> = HashMap::with_capacity(self.seen.len());
        let mut order = Vec::new();
        for (key, number) in look {
            if self.ignored.contains(&key) {
                continue;
            }
            if let Some(sum) = now.get_mut(&key) {
                // Several rows may share a key; they are read together.
                *sum = sum.wrapping_add(number);
            } else if !self.started && now.len() >= self.limit {
                self.ignored.insert(key);
            } else {
                now.insert(key, number);
                order.push(key);
            }
        }
        order.retain(|key| !self.started || self.seen.get(key) != now.get(key));
        self.seen = now;
        self.started = true;
        order
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn first_all_then_what_moved_or_is_new() {
        let mut sparse = Sparse::new(10);
        assert_eq!(sparse.changed([(1, 5), (2, 5)].into_iter()), [1, 2]);
        assert_eq!(sparse.changed([(1, 5), (2, 6), (3, 0)].into_iter()), [2, 3]);
        assert_eq!(sparse.changed([(1, 5), (3, 0)].into_iter()), Vec::<i64>::new());
        // Evicted and back: its counters begin anew, so it counts as new.
        assert_eq!(sparse.changed([(1, 5), (2, 6), (3, 0)].into_iter()), [2]);
    }

    #[test]
    fn what_lay_beyond_the_limit_never_comes_up_without_a_beginning() {
        let mut sparse = Sparse::new(2);
        assert_eq!(sparse.changed([(1, 9), (2, 8), (3, 7)].into_iter()), [1, 2]);
        assert_eq!(sparse.ignored(), 1);
        assert_eq!(sparse.changed([(3, 100), (4, 1), (1, 9), (2, 8)].into_iter()), [4]);
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
                for (key, number) in look {
                    prop_assert_eq!(known.get(key), Some(number));
                }
            }
        }
    }
}

//! How many clients and server sessions there are, where their number is limited.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is counted, by the name of a database at the gateway or of a user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Counted {
    /// Clients of a database.
    DatabaseClients(String),
    /// Clients of a user.
    UserClients(String),
    /// Server sessions of a database.
    DatabaseSessions(String),
    /// Server sessions of a user.
    UserSessions(String),
}

/// Numbers that all workers of a gateway share.
#[derive(Debug, Default)]
pub struct Census {
    clients: AtomicUsize,
    of: Mutex<HashMap<Counted, usize>>,
}

impl Census {
    /// A client has connected: how many there are with it.
    pub fn add_client(&self) -> usize {
        self.clients.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A client has gone.
    pub fn remove_client(&self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts one more of each, unless one of them would be more than its limit.
    pub fn take(&self, all: &[(Counted, Option<usize>)]) -> bool {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = |(what, most): &(Counted, Option<usize>)| {
            most.is_none_or(|most| of.get(what).copied().unwrap_or_default() < most)
        };
        if !all.iter().all(has_room) {
            return false;
        }
        for (what, _) in all {
            *of.entry(what.clone()).or_default() += 1;
        }
        true
    }

    /// Counts one less of each.
    pub fn give_back<'c>(&self, all: impl IntoIterator<Item = &'c Counted>) {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        for what in all {
            if let Some(count) = of.get_mut(what) {
                *count -= 1;
                if *count == 0 {
                    of.remove(what);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_counted_where_one_limit_is_reached() {
        let census = Census::default();
        let user = |most| (Counted::UserClients("u".into()), most);
        let database = |most| (Counted::DatabaseClients("d".into()), most);
        assert!(census.take(&[user(Some(2)), database(None)]));
        assert!(census.take(&[user(Some(2)), database(None)]));
        assert!(!census.take(&[database(None), user(Some(2))]));
        assert!(!census.take(&[database(Some(2))]), "the refused one was not counted");
        census.give_back([&Counted::DatabaseClients("d".into())]);
        assert!(census.take(&[database(Some(2))]));
    }
}

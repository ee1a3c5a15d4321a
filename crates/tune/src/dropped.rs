//! What a tune leaves alone, and why.

use serde::{Deserialize, Serialize};

/// A parameter that is not searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
    /// Whether it may limit all the same: it was kept from the search by what may be
    /// changed here, not because it has no effect.
    #[serde(default)]
    pub may_limit: bool,
}

impl Dropped {
    /// One that has no effect here, or is no part of what is searched.
    pub fn of(name: impl Into<String>, why: impl Into<String>) -> Dropped {
        Dropped { name: name.into(), why: why.into(), may_limit: false }
    }

    /// One that may limit all the same.
    pub fn held_back(name: impl Into<String>, why: impl Into<String>) -> Dropped {
        Dropped { may_limit: true, ..Dropped::of(name, why) }
    }
}

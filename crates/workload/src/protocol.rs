//! The protocol that statements are sent with.

use serde::{Deserialize, Serialize};

/// The protocol that statements are sent with (pgbench's `-M`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Values written into the SQL, one Query a statement.
    Simple,
    /// Parse, Bind, Describe, Execute and Sync for every execution.
    Extended,
    /// Each connection parses a statement once, at its first use.
    #[default]
    Prepared,
}

impl Protocol {
    /// Every one.
    pub const ALL: [Protocol; 3] = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];

    /// Its name: `simple`, `extended` or `prepared`.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Simple => "simple",
            Protocol::Extended => "extended",
            Protocol::Prepared => "prepared",
        }
    }
}

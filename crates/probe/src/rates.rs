//! How often a probe looks.

use std::time::Duration;

/// How often to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Between readings of counters, of the server and of the host.
    pub counters: Duration,
    /// Between readings of tables and indexes, and of other processes.
    pub tables: Duration,
    /// Between ticks of wait events.
    pub waits: Duration,
}

impl Default for Rates {
    /// Counters each second, tables each five, wait events ten times a second.
    fn default() -> Self {
        Rates {
            counters: Duration::from_secs(1),
            tables: Duration::from_secs(5),
            waits: Duration::from_millis(100),
        }
    }
}

//! What happened to the connections of one thread.

/// What happened to a connection while the load ran.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectionTotals {
    pub(crate) connections_lost: u64,
    pub(crate) connect_failures: u64,
    pub(crate) never_begun: u64,
    pub(crate) unfinished: u64,
    /// Clients that an error ended.
    pub(crate) clients_stopped: u32,
}

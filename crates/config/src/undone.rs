//! What undoing a set of changes came to.

/// What undoing came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Undone {
    /// Names whose old value is there again.
    pub restored: Vec<String>,
    /// What to know: values someone else has changed since, and the like.
    pub notes: Vec<String>,
    /// Names of what someone else has changed since, and of statements of which nobody
    /// knows: they are left as they are.
    pub left: Vec<String>,
    /// What is not as before in `postgresql.auto.conf` though its settings are: the order
    /// of its lines, or what a hand had written beside them.
    pub file: Option<String>,
    /// Names whose old value waits for a restart.
    pub waiting: Vec<String>,
    /// Whether the server was restarted for that.
    pub restarted: bool,
}

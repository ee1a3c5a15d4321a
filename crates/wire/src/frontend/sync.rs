//! Messages without a body.

/// Sync ('S'): ends an implicit transaction and asks for ReadyForQuery.
pub const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];

/// Flush ('H'): asks for what is ready, without ending anything.
pub const FLUSH: [u8; 5] = [b'H', 0, 0, 0, 4];

/// Terminate ('X'): goodbye.
pub const TERMINATE: [u8; 5] = [b'X', 0, 0, 0, 4];

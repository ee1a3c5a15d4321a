//! The first fields of `global/pg_control`: is this data directory at rest?

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What `pg_control` says. The fields read here have not moved since
/// PostgreSQL 8.3 (`ControlFileData` in `catalog/pg_control.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Control {
    /// Given by initdb, and kept by every copy.
    pub(crate) system_identifier: u64,
    /// Whether the server was shut down in order (`DB_SHUTDOWNED`), so that a
    /// start needs no recovery.
    pub(crate) shut_down: bool,
}

/// `DBState` of a server that was shut down in order.
const DB_SHUTDOWNED: u32 = 1;

impl Control {
    /// Reads it from a data directory on this machine (native byte order).
    pub(crate) fn read(data_dir: &Path) -> io::Result<Self> {
        let mut bytes = [0; 20];
        File::open(data_dir.join("global/pg_control"))?.read_exact(&mut bytes)?;
        Ok(Self::parse(&bytes))
    }

    fn parse(bytes: &[u8; 20]) -> Self {
        let (identifier, rest) = bytes.split_first_chunk::<8>().expect("20 bytes hold 8");
        // pg_control_version and catalog_version_no lie between.
        let (_, state) = rest.split_last_chunk::<4>().expect("12 bytes hold 4");
        Self {
            system_identifier: u64::from_ne_bytes(*identifier),
            shut_down: u32::from_ne_bytes(*state) == DB_SHUTDOWNED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_where_the_header_puts_them() {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&7_400_000_000_000_000_001_u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&1800_u32.to_ne_bytes());
        bytes[16..].copy_from_slice(&1_u32.to_ne_bytes());
        let control = Control::parse(&bytes);
        assert_eq!(control.system_identifier, 7_400_000_000_000_000_001);
        assert!(control.shut_down);
        bytes[16..].copy_from_slice(&6_u32.to_ne_bytes());
        assert!(!Control::parse(&bytes).shut_down, "in production");
    }
}

//! The names of the diagnoses.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! diagnoses {
    ($($id:ident $title:literal,)*) => {
        /// A diagnosis by its number, `D1` to `D59`.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub enum DiagnosisId {
            $(#[doc = $title] $id,)*
        }

        impl DiagnosisId {
            /// Every diagnosis, by number.
            pub const ALL: [DiagnosisId; 59] = [$(DiagnosisId::$id,)*];

            /// What it is called, in a few words.
            pub fn title(self) -> &'static str {
                match self {
                    $(DiagnosisId::$id => $title,)*
                }
            }
        }
    };
}

diagnoses! {
    D1 "one flush for each statement",
    D2 "group commit merges little",
    D3 "commit_delay costs more than it merges",
    D4 "the number of flushes costs, not the device",
    D5 "sessions queue for the WAL flush",
    D6 "commit latency is the storage's own flush latency",
    D7 "rows are inserted one by one",
    D8 "sessions idle inside a transaction",
    D9 "waiting for locks",
    D10 "sessions are reset at every checkout",
    D11 "more sessions than the server can use",
    D12 "prepared statements lost behind a pooler",
    D13 "locks refused instead of awaited",
    D14 "errors among the requests",
    D15 "foreign key without an index",
    D16 "partitions not pruned",
    D17 "children deleted and inserted again",
    D18 "writes that change nothing",
    D19 "foreign-key checks lock the parent",
    D20 "WAL written by transactions that roll back",
    D21 "temporary tables made per call",
    D22 "dead rows in a staging table",
    D23 "random keys",
    D24 "updates that are not HOT",
    D25 "whole old rows in the WAL",
    D26 "wal_level higher than anything needs",
    D27 "wide rows and slow compression",
    D28 "indexes nobody reads",
    D29 "spills to temporary files",
    D30 "observers among the top statements",
    D31 "who writes the WAL",
    D32 "full-page images",
    D33 "WAL buffers too small",
    D34 "checkpoints forced by WAL volume",
    D35 "a cliff inside the run",
    D36 "sessions write dirty buffers themselves",
    D37 "durability lowered",
    D38 "vacuum is behind",
    D39 "autovacuum takes CPU or memory",
    D40 "age of the oldest transaction id",
    D41 "vacuum limited by its buffer ring",
    D42 "contention on the buffer table",
    D43 "JIT on short statements",
    D44 "many connections before PostgreSQL 14",
    D45 "memory pressure",
    D46 "memory over-committed by settings",
    D47 "the kernel may kill the server",
    D48 "large shared memory without huge pages",
    D49 "the run is all warm-up",
    D50 "read-ahead of the block device",
    D51 "encryption in the write path",
    D52 "write-back by the kernel",
    D53 "the application is the bottleneck",
    D54 "the load generator is the limit",
    D55 "another process takes the machine",
    D56 "time in the kernel",
    D57 "worker settings against processors",
    D58 "observation costs",
    D59 "the processors are saturated",
}

impl fmt::Display for DiagnosisId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("D{}", *self as u8 + 1))
    }
}

/// A name that is no diagnosis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no diagnosis {0:?}; they are called D1 to D59")]
pub struct UnknownDiagnosis(String);

impl FromStr for DiagnosisId {
    type Err = UnknownDiagnosis;

    /// `D7`, `d7` or `7`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim().trim_start_matches(['D', 'd']);
        number
            .parse::<usize>()
            .ok()
            .and_then(|n| DiagnosisId::ALL.get(n.checked_sub(1)?).copied())
            .ok_or_else(|| UnknownDiagnosis(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for (place, id) in DiagnosisId::ALL.into_iter().enumerate() {
            assert_eq!(id.to_string(), format!("D{}", place + 1));
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(serde_json::to_value(id).unwrap(), id.to_string());
        }
        assert_eq!("7".parse(), Ok(DiagnosisId::D7));
        assert_eq!("d31".parse(), Ok(DiagnosisId::D31));
        for bad in ["D0", "D60", "", "wal", "D-1"] {
            assert!(bad.parse::<DiagnosisId>().is_err(), "{bad}");
        }
    }
}

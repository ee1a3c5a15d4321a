//! Flushes that take at least a chosen time: what slow storage does, on fast storage.

use std::process::Command;
use std::time::Duration;

use super::preload::Library;

/// Preloaded into the server (`shim/flush_latency.c`).
pub(super) const LIBRARY: Library = Library {
    name: "flush_latency.so",
    content: include_bytes!(concat!(env!("OUT_DIR"), "/flush_latency.so")),
};

/// Has the server that `command` starts, with the library, take at least `least` for every
/// fsync and fdatasync.
pub(super) fn lengthen(command: &mut Command, least: Duration) {
    command.env("WALWRIGHT_FLUSH_NS", least.as_nanos().to_string());
}

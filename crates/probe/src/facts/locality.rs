//! Whether the server runs on this machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::host::processes::{Reader, Stat, is_postgres_backend};
use crate::host::read::{read_trimmed, ticks_per_second};

/// How far two views of the postmaster's start may lie apart: PostgreSQL takes
/// the time a moment after the process began, and the kernel counts from a boot
/// time that moves when the clock is set.
const START_TOLERANCE: Duration = Duration::from_secs(10);

/// The postmaster of the backend `backend_pid`, if that is a process of this
/// machine: a PostgreSQL backend whose parent began when the server says its
/// postmaster did (`pg_postmaster_start_time()`, seconds since 1970). The start
/// time tells it from a process of the same number here while the server is elsewhere.
pub(crate) fn local_postmaster(backend_pid: u32, postmaster_started: f64) -> Option<u32> {
    if !is_postgres_backend(backend_pid) {
        return None;
    }
    let mut reader = Reader::new();
    let postmaster = reader.stat(backend_pid)?.parent;
    let began = started_at(&reader.stat(postmaster)?)?;
    let apart = (began - postmaster_started).abs();
    (apart <= START_TOLERANCE.as_secs_f64()).then_some(postmaster)
}

/// Seconds since 1970 at which a process began.
fn started_at(stat: &Stat) -> Option<f64> {
    let uptime: f64 = read_trimmed("/proc/uptime")?.split(' ').next()?.parse().ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
    Some(now - uptime + stat.started as f64 / ticks_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_began_in_the_past_and_is_no_backend() {
        let stat = Reader::new().stat(std::process::id()).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let began = started_at(&stat).unwrap();
        assert!(began <= now + 1.0 && now - began < 3600.0, "{began} {now}");
        assert_eq!(local_postmaster(std::process::id(), began), None);
    }
}

//! What threads of processes take: what runs on one thread is at its limit with one
//! processor, however many the machine has, and each may wait for a processor.

use std::collections::HashMap;
use std::time::Instant;

use super::processes::schedstat_nanos;
use super::read::read_trimmed;

/// Threads of one process that are read, at most.
const MOST: usize = 256;

/// Processor time of threads between two readings.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// Nanoseconds on a processor and waiting for one, by PID and TID.
    last: HashMap<(u32, u32), (u64, u64)>,
    now: HashMap<(u32, u32), (u64, u64)>,
    read: Option<Instant>,
    elapsed: f64,
}

/// What the threads of a process took since the last reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ThreadUse {
    /// Share of a processor that the busiest took.
    pub(crate) busiest: f64,
    /// Seconds that all of them were ready to run and waited for a processor.
    pub(crate) run_delay: f64,
}

impl Threads {
    /// Begins a reading.
    pub(crate) fn begin(&mut self) {
        let now = Instant::now();
        self.elapsed = self.read.map_or(0.0, |read| now.duration_since(read).as_secs_f64());
        self.read = Some(now);
        self.last = std::mem::take(&mut self.now);
    }

    /// What those of a process took since the last reading; `None` where none was there then,
    /// or the kernel does not count.
    pub(crate) fn read(&mut self, pid: u32) -> Option<ThreadUse> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let mut most: Option<u64> = None;
        let mut waited_by_all = 0;
        for task in tasks.flatten().take(MOST) {
            let tid = task.file_name().to_str().and_then(|name| name.parse().ok());
            let text = read_trimmed(task.path().join("schedstat"));
            let (Some(tid), Some((used, waited))) = (tid, text.and_then(|t| schedstat_nanos(&t)))
            else {
                continue;
            };
            self.now.insert((pid, tid), (used, waited));
            if let Some((used_before, waited_before)) = self.last.get(&(pid, tid)) {
                most = most.max(Some(used.saturating_sub(*used_before)));
                waited_by_all += waited.saturating_sub(*waited_before);
            }
        }
        most.filter(|_| self.elapsed > 0.0).map(|nanos| ThreadUse {
            busiest: nanos as f64 / 1e9 / self.elapsed,
            run_delay: waited_by_all as f64 / 1e9,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_spins_is_the_busiest() {
        let me = std::process::id();
        let mut threads = Threads::default();
        threads.begin();
        assert_eq!(threads.read(me), None, "nothing to compare with yet");
        let mut sum = 1_u64;
        let began = Instant::now();
        while began.elapsed().as_millis() < 50 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        threads.begin();
        let ThreadUse { busiest, run_delay } = threads.read(me).unwrap();
        // Others may take the processor from it, but nobody gives it a second one.
        assert!(busiest > 0.0 && busiest < 1.1, "{busiest}");
        assert!(run_delay >= 0.0);
    }
}

//! The loop of every measurement: workers that do one operation after the other for
//! a time, each operation timed.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use walwright_record::LatencyHistogram;

/// Part of the time that is left out at the beginning: the first operations still write
/// metadata of the file, and a device wakes up.
const WARM_UP: f64 = 0.1;

/// How long, and until when at most.
pub(super) struct Watch<'a> {
    /// Time given to one measurement.
    pub(super) each: Duration,
    /// Whether to end now.
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
}

/// One operation: its bytes and its time. What is not part of the operation, such as
/// making a new file for the next ones, is not in the time.
pub(super) type Operation = io::Result<(u64, Duration)>;

/// What workers did.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) latency: LatencyHistogram,
    pub(super) bytes: u64,
    /// Time of all operations, of all workers.
    busy: Duration,
    /// Of the time since the first operation that counts, what the workers spent ready
    /// to run without a processor; `None` where the kernel does not tell.
    waited: Option<Duration>,
    workers: u32,
}

impl Measured {
    /// Operations a second of all workers together.
    pub(super) fn per_second(&self) -> f64 {
        self.latency.count() as f64 / self.elapsed()
    }

    /// Bytes a second of all workers together.
    pub(super) fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed()
    }

    /// Share of their time that the workers spent waiting for a processor, 0 to 1.
    pub(super) fn waiting_for_processor(&self) -> Option<f64> {
        let share = self.waited?.as_secs_f64() / self.busy.as_secs_f64().max(1e-9);
        Some(share.min(1.0))
    }

    /// Seconds that the workers took side by side.
    fn elapsed(&self) -> f64 {
        (self.busy.as_secs_f64() / f64::from(self.workers)).max(1e-9)
    }
}

/// Lets workers work side by side. Each counts at least one operation, however slow.
pub(super) fn measure<W>(watch: &Watch, workers: Vec<W>) -> io::Result<Measured>
where
    W: FnMut() -> Operation + Send,
{
    let number = workers.len() as u32;
    let begin = Barrier::new(workers.len());
    let failed = AtomicBool::new(false);
    let (begin, failed) = (&begin, &failed);
    let results: Vec<io::Result<Measured>> = std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|mut worker| {
                scope.spawn(move || {
                    begin.wait();
                    let done = work(watch, failed, &mut worker);
                    if done.is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                    done
                })
            })
            .collect();
        let lost = || Err(io::Error::other("a thread of the measurement ended unexpectedly"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
    });
    let mut all = Measured { workers: number, waited: Some(Duration::ZERO), ..empty() };
    for result in results {
        let one = result?;
        all.latency.merge(&one.latency);
        all.bytes += one.bytes;
        all.busy += one.busy;
        all.waited = all.waited.zip(one.waited).map(|(a, b)| a + b);
    }
    Ok(all)
}

fn empty() -> Measured {
    Measured {
        latency: LatencyHistogram::new(),
        bytes: 0,
        busy: Duration::ZERO,
        waited: None,
        workers: 1,
    }
}

fn work(
    watch: &Watch,
    failed: &AtomicBool,
    worker: &mut impl FnMut() -> Operation,
) -> io::Result<Measured> {
    let mut done = empty();
    let started = Instant::now();
    let warm = watch.each.mul_f64(WARM_UP);
    let mut waited_before = None;
    loop {
        let counts = started.elapsed() >= warm;
        if counts && done.latency.is_empty() {
            waited_before = run_delay();
        }
        let (bytes, took) = worker()?;
        if counts {
            done.latency.record(took);
            done.bytes += bytes;
            done.busy += took;
        }
        let over = started.elapsed() >= watch.each && !done.latency.is_empty();
        if over || failed.load(Ordering::Relaxed) || (watch.stop)() {
            let waited = run_delay().zip(waited_before);
            done.waited = waited.map(|(after, before)| after.saturating_sub(before));
            return Ok(done);
        }
    }
}

/// Time that this thread has been ready to run without a processor, the second figure
/// of `/proc/PID/schedstat` (Documentation/scheduler/sched-stats.rst).
fn run_delay() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Times one operation of `bytes`.
pub(super) fn timed(bytes: usize, operation: impl FnOnce() -> io::Result<()>) -> Operation {
    let before = Instant::now();
    operation()?;
    Ok((bytes as u64, before.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(each: Duration) -> Watch<'static> {
        Watch { each, stop: &|| false }
    }

    #[test]
    fn rates_add_up_over_workers_and_leave_out_what_is_not_the_operation() {
        let worker = || {
            || {
                // A millisecond that is not part of the operation.
                std::thread::sleep(Duration::from_millis(1));
                Ok((100, Duration::from_millis(2)))
            }
        };
        let done = measure(&watch(Duration::from_millis(40)), vec![worker(), worker()]).unwrap();
        assert!((done.per_second() - 1_000.0).abs() < 1.0, "{}", done.per_second());
        assert!((done.bytes_per_second() - 100_000.0).abs() < 100.0);
        assert!(done.waiting_for_processor().is_none_or(|share| (0.0..=1.0).contains(&share)));
    }

    #[test]
    fn who_has_no_processor_waits_for_one() {
        let Some(before) = run_delay() else { return };
        let spin = |ms| {
            let started = Instant::now();
            while started.elapsed() < Duration::from_millis(ms) {
                std::hint::black_box(0);
            }
        };
        let threads = 4 * std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| spin(100));
            }
            spin(100);
        });
        assert!(run_delay().unwrap() > before);
    }

    #[test]
    fn one_that_fails_ends_all_and_one_that_is_slow_counts_once() {
        let fails = || Err(io::Error::other("full"));
        let works = || Ok((1, Duration::from_micros(1)));
        let workers: Vec<Box<dyn FnMut() -> Operation + Send>> =
            vec![Box::new(fails), Box::new(works)];
        assert_eq!(
            measure(&watch(Duration::from_secs(3600)), workers).unwrap_err().to_string(),
            "full"
        );
        let done = measure(&watch(Duration::ZERO), vec![works]).unwrap();
        assert_eq!(done.latency.count(), 1);
    }
}

//! What commands on simulated surfaces share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use walwright_stats::{Confidence, Moments, t_quantile};

/// Does the jobs on all processors; results come in the order in which they were done.
///
/// # Errors
/// The first of a job.
pub fn on_all_processors<J: Sync, D: Send>(
    jobs: &[J],
    one: impl Fn(&J) -> anyhow::Result<D> + Sync,
) -> anyhow::Result<Vec<D>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = one(job);
                    done.lock().unwrap_or_else(|e| e.into_inner()).push(result);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(|e| e.into_inner()).into_iter().collect()
}

/// Mean with the half width of its 95 % interval.
pub fn mean_and_half(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let moments: Moments = values.collect();
    let count = moments.count() as f64;
    let half = moments
        .standard_deviation()
        .zip(t_quantile(Confidence::P95, count - 1.0))
        .map_or(f64::INFINITY, |(deviation, t)| t * deviation / count.sqrt());
    (moments.mean().unwrap_or(f64::NAN), half)
}

//! What bends the curve: the resource that a transaction takes longest more of, from the
//! smallest load to the bend.
//!
//! Throughput is clients over latency, so it bends by what makes the latency grow. A
//! resource with room takes the same time at any load. One that is running out makes
//! sessions queue for it: its time grows with every client. Its share need not: where all
//! of the latency is one resource, that resource bends the curve and its share stays. Where the machine or the load generator is full, the clients' own
//! side queues for the same processors, so what they wait is counted to those.

use serde::Serialize;
use walwright_stats::{Confidence, Estimate, Method};

use super::{ScalingLoad, ScalingResource};

/// Processors are full from here on; the rest is scheduling.
const FULL: f64 = 0.9;
/// Share of its ceiling from which the load generator may shape the result.
const NEAR_CEILING: f64 = 0.7;

/// What bends the curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bend {
    /// Clients of the smallest load, which the other is compared with.
    pub from: u32,
    /// Clients at the bend: of the first load at or past the peak, or the largest load.
    pub to: u32,
    /// What takes longer, the most first; of them the first bends the curve.
    pub growths: Vec<Growth>,
    /// Share of the machine's processors that were busy at the bend.
    pub busy: Option<f64>,
    /// Whether the machine's processors were full there, so that what the clients wait
    /// is counted to them.
    pub full: bool,
    /// Share of its ceiling that the load generator ran at there.
    pub generator: Option<f64>,
}

/// How a resource's part of the latency changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Growth {
    /// Which.
    pub resource: ScalingResource,
    /// Share at the smallest load.
    pub before: f64,
    /// Share at the bend.
    pub after: f64,
    /// Seconds of a transaction that it takes longer.
    pub seconds: Estimate,
    /// Part of the time by which the whole latency grows.
    pub part_of_increase: Option<f64>,
}

/// What grows between the smallest load and the bend; `None` with one load, without
/// samples of wait events, or where nothing takes longer beyond its interval.
pub(super) fn bend(loads: &[ScalingLoad], peak: Option<&Estimate>) -> Option<Bend> {
    let first = loads.first().filter(|load| !load.times.is_empty())?;
    let at_peak =
        peak.and_then(|peak| loads.iter().find(|load| f64::from(load.clients) >= peak.center));
    let last = at_peak.or(loads.last()).filter(|load| !load.times.is_empty())?;
    if last.clients == first.clients {
        return None;
    }
    let full = last.busy.is_some_and(|busy| busy >= FULL);
    let limited = last.generator.is_some_and(|near| near > NEAR_CEILING);
    // A generator at its ceiling is the nearer explanation of clients that wait.
    let clients = match (limited, full) {
        (true, _) => ScalingResource::Generator,
        (false, true) => ScalingResource::Processors,
        (false, false) => ScalingResource::Clients,
    };
    let owner = |resource| if resource == ScalingResource::Clients { clients } else { resource };
    let longer = first.latency.zip(last.latency).map(|(a, b)| b - a).filter(|more| *more > 0.0);
    let mut growths: Vec<Growth> = ScalingResource::ALL
        .into_iter()
        .chain([ScalingResource::Generator])
        .filter_map(|resource| {
            let parts = || ScalingResource::ALL.into_iter().filter(|p| owner(*p) == resource);
            let of = |load: &ScalingLoad| Sum::of(parts().filter_map(|part| load.time(part)));
            let (before, after) = (of(first), of(last));
            // The two loads are different runs, hence independent.
            let half_width = before.half_width.hypot(after.half_width);
            let seconds = Estimate::symmetric(
                after.seconds - before.seconds,
                half_width,
                Confidence::P95,
                Method::BlockBootstrap,
            );
            (seconds.center > 0.0).then(|| Growth {
                resource,
                before: before.share,
                after: after.share,
                part_of_increase: longer.map(|longer| seconds.center / longer),
                seconds,
            })
        })
        .collect();
    growths.sort_by(|a, b| b.seconds.center.total_cmp(&a.seconds.center));
    growths.first().filter(|most| most.seconds.excludes(0.0))?;
    Some(Bend {
        from: first.clients,
        to: last.clients,
        growths,
        busy: last.busy,
        full,
        generator: last.generator,
    })
}

/// The times of one owner at one load.
#[derive(Default)]
struct Sum {
    seconds: f64,
    share: f64,
    half_width: f64,
}

impl Sum {
    fn of<'a>(times: impl Iterator<Item = &'a super::ResourceTime>) -> Sum {
        times.fold(Sum::default(), |sum, time| Sum {
            seconds: sum.seconds + time.seconds.center,
            share: sum.share + time.share.center,
            half_width: sum.half_width + time.seconds.interval.map_or(0.0, |i| i.half_width()),
        })
    }
}

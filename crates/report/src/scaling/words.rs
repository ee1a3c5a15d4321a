//! How a sweep is written, for every rendering.

use walwright_figures::scaling::{Scaling, ScalingLoad, ScalingResource};
use walwright_stats::Estimate;

use crate::format;

/// Resources that nowhere take this share of the latency have no column.
const SMALL: f64 = 0.01;

/// What a page of a sweep is headed.
pub(super) fn title(of: &Scaling) -> String {
    format!("{} on {}: throughput over clients", of.workload, of.target)
}

/// What was done.
pub(super) fn deck(of: &Scaling) -> String {
    let counts: Vec<String> = of.loads.iter().map(|load| load.clients.to_string()).collect();
    format!(
        "{} of {} at {} clients, in random order.",
        format::counted(of.points.len() as u64, "run"),
        format::length(of.window),
        counts.join(", ")
    )
}

/// The resources worth a column.
pub(super) fn resources(of: &Scaling) -> Vec<ScalingResource> {
    let seen = |resource: &ScalingResource| {
        let shares = of.loads.iter().filter_map(|load| load.time(*resource));
        shares.map(|time| time.share.center).any(|share| share >= SMALL)
    };
    ScalingResource::ALL.into_iter().filter(seen).collect()
}

/// A resource's share of the latency at a load; empty where nothing was sampled.
pub(super) fn share(load: &ScalingLoad, resource: ScalingResource) -> String {
    if load.times.is_empty() {
        return String::new();
    }
    format::percent(load.time(resource).map_or(0.0, |time| time.share.center))
}

/// A name that fits a column.
pub(super) fn short(resource: ScalingResource) -> &'static str {
    match resource {
        ScalingResource::Processors => "CPU",
        ScalingResource::WalFlush => "flush",
        ScalingResource::DataIo => "I/O",
        ScalingResource::Replication => "standby",
        ScalingResource::Clients => "clients",
        other => other.label(),
    }
}

/// A fitted figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) interval: String,
    pub(super) about: &'static str,
}

/// The law's parameters and what follows from them.
pub(super) fn parameters(of: &Scaling) -> Vec<Parameter> {
    let Some(fit) = &of.fit else { return Vec::new() };
    let small = |value: f64| if value == 0.0 { "0".to_owned() } else { format!("{value:.2e}") };
    let share = |value: f64| format!("{value:.3}");
    let parameter = |name, estimate: &Estimate, write: &dyn Fn(f64) -> String, about| Parameter {
        name,
        value: write(estimate.center),
        interval: estimate
            .interval
            .map_or_else(String::new, |i| format!("{} to {}", write(i.low), write(i.high))),
        about,
    };
    let clients = |value: f64| format::number(value);
    let mut found = vec![
        parameter("λ", &fit.single, &format::rate, "throughput of one client"),
        parameter("σ", &fit.contention, &share, "contention: share of the work that is serial"),
        parameter("κ", &fit.coherency, &small, "coherence: cost of each pair of clients"),
    ];
    let most = of.loads.last().map_or(0.0, |load| f64::from(load.clients));
    if let Some(knee) = fit.knee_clients.as_ref().filter(|knee| knee.center <= most) {
        found.push(parameter("knee", knee, &clients, "clients beyond which more mostly wait"));
    }
    if let Some(peak) = &of.peak {
        found.push(parameter("peak", peak, &clients, "clients at the highest throughput"));
        if let Some(ceiling) = &fit.ceiling {
            found.push(parameter("ceiling", ceiling, &format::rate, "throughput there"));
        }
    }
    found
}

//! A baseline in words.

use walwright_record::Schedule;

use super::{Bench, Configuration, Length};

/// The workload, load and server of the baseline.
pub fn baseline(bench: &Bench, configuration: &Configuration) -> Vec<String> {
    let plan = bench.plan();
    let mut words = Vec::new();
    let scripts = || [&plan.workload.files[..], &plan.workload.builtin[..]].concat().join(", ");
    let name = plan.workload.name.clone().unwrap_or_else(scripts);
    let scale = plan.workload.scale.map_or_else(String::new, |scale| format!(", scale {scale}"));
    words.push(format!("workload {name}{scale}"));
    let load = &plan.load;
    let mut driven = Vec::new();
    if let Some(application) = &plan.application {
        words.push(format!("application {}", application.command.join(" ")));
    }
    driven.extend(load.clients.map(|clients| format!("{clients} clients")));
    let whole = plan.base.with(configuration);
    let by_others = !whole.load.command.is_empty();
    driven.extend((!by_others).then(|| match load.schedule {
        Schedule::Closed { .. } => "closed loop".to_owned(),
        Schedule::Open { rate, .. } => format!("open loop, {rate} transactions a second"),
    }));
    driven.extend((!by_others).then(|| format!("{} measured", Length(load.duration))));
    driven.extend(match load.warm_up {
        Some(warm_up) => Some(format!("{} warm-up", Length(warm_up))),
        None => (!by_others).then(|| "warm-up found on the series".to_owned()),
    });
    words.extend((!driven.is_empty()).then(|| driven.join(", ")));
    let own = whole.words();
    match &plan.server {
        Some(server) => words.push(format!("on {server}, as it is")),
        None if whole.postgres.is_none() => words.push("PostgreSQL 18".to_owned()),
        None => {}
    }
    words.extend(own);
    words
}

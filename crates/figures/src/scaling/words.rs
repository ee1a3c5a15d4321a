//! What a sweep comes to, in sentences.

use walwright_stats::Estimate;

use super::bend::{Bend, Growth};
use super::{Scaling, ScalingResource};

/// Growth of a second resource that is worth a sentence.
const ALSO: f64 = 0.05;

pub(super) fn verdict(of: &Scaling) -> Vec<String> {
    let mut sentences = vec![peak(of)];
    sentences.extend(open_end(of));
    sentences.extend(knee(of));
    sentences.extend(bend(of));
    sentences.extend(measured(of));
    sentences
}

fn peak(of: &Scaling) -> String {
    let most = of.loads.last().map_or(0, |load| load.clients);
    if let Some(why) = &of.not_fitted {
        return format!("No curve was fitted: {why}.");
    }
    let Some(peak) = &of.peak else {
        let fitted = of.fit.as_ref().and_then(|fit| fit.peak_clients.as_ref());
        let least = of.loads.first().map_or(0.0, |load| f64::from(load.clients));
        if let Some(fitted) = fitted.filter(|p| p.center > least && p.center <= f64::from(most)) {
            return format!(
                "The peak cannot be told from these runs: the fitted one lies at {:.0} clients{}.",
                fitted.center,
                ends(fitted, 0)
            );
        }
        let rises = of.fit.as_ref().and_then(|fit| {
            let before = f64::from(of.loads.iter().rev().nth(1)?.clients);
            Some(fit.law.throughput(f64::from(most)) / fit.law.throughput(before) - 1.0)
        });
        return match rises {
            // The best fit peaks at the smallest load, or falls from there.
            Some(rises) if rises < 0.0 => {
                "The peak was not found: throughput falls from the smallest load on; sweep over \
                 fewer clients."
                    .to_owned()
            }
            Some(rises) => format!(
                "The peak was not found: the curve is still rising at {most} clients, by {:.1} % \
                 over the load before{}.",
                rises * 100.0,
                limit(of)
            ),
            None => format!("The peak was not found: still rising at {most} clients."),
        };
    };
    let ceiling = of.fit.as_ref().and_then(|fit| fit.ceiling.as_ref());
    let ceiling = ceiling.map_or_else(String::new, |ceiling| {
        format!(" at {:.0} {}s a second{}", ceiling.center, of.unit.name(), ends(ceiling, 0))
    });
    format!(
        "Throughput peaks at {:.0} clients{}{ceiling}.",
        peak.center,
        ends(peak, if peak.center < 10.0 { 1 } else { 0 })
    )
}

/// What a curve without a peak approaches, beyond what was measured.
fn limit(of: &Scaling) -> String {
    let fit = of.fit.as_ref().filter(|fit| fit.law.coherency == 0.0);
    fit.and_then(|fit| fit.ceiling.as_ref()).map_or_else(String::new, |ceiling| {
        format!(", and approaches {:.0} a second{}", ceiling.center, ends(ceiling, 0))
    })
}

/// A peak that was found, but not narrowed to the measured range.
fn open_end(of: &Scaling) -> Option<String> {
    let most = of.loads.last()?.clients;
    let high = of.peak.as_ref()?.high()?;
    (high > f64::from(most) || super::is_open(of.peak.as_ref()?)).then(|| {
        format!("Its interval reaches beyond {most} clients: a sweep over more would narrow it.")
    })
}

fn knee(of: &Scaling) -> Option<String> {
    let knee = of.fit.as_ref()?.knee_clients.as_ref()?;
    let most = f64::from(of.loads.last()?.clients);
    (knee.center <= most).then(|| {
        format!(
            "The knee lies at {:.1} clients{}: beyond it more clients mostly wait.",
            knee.center,
            ends(knee, 1)
        )
    })
}

fn bend(of: &Scaling) -> Vec<String> {
    let Some(bend) = &of.bend else {
        let sampled = of.loads.iter().any(|load| !load.times.is_empty());
        return vec![if sampled {
            "What bends the curve is open: nothing takes longer beyond its interval.".to_owned()
        } else {
            "What bends the curve is not observable: wait events were not sampled.".to_owned()
        }];
    };
    let mut sentences = Vec::new();
    if let Some(most) = bend.growths.first() {
        let found = of.peak.is_some();
        sentences.push(first(bend, most, found));
    }
    let second = bend.growths.get(1).and_then(|second| Some((second, second.part_of_increase?)));
    if let Some((second, part)) = second.filter(|(_, part)| *part > ALSO) {
        sentences.push(format!(
            "After it: {}, with {} of that time.",
            second.resource.label(),
            percent(part),
        ));
    }
    sentences
}

fn first(bend: &Bend, most: &Growth, found: bool) -> String {
    let what = most.resource.label();
    let begin = match found {
        true => format!("What bends the curve: {what}."),
        false => format!("What grows most so far: {what}."),
    };
    let interval = most.seconds.interval.map_or_else(String::new, |i| {
        format!(" (95 % interval {} to {})", seconds(i.low), seconds(i.high))
    });
    let part = most.part_of_increase.map_or_else(String::new, |part| {
        format!(", {} of all that it takes longer", percent(part))
    });
    let why = match most.resource {
        ScalingResource::Processors if bend.full => format!(
            " The processors are {} busy there, so the clients' own waiting is counted to them.",
            percent(bend.busy.unwrap_or(1.0))
        ),
        ScalingResource::Generator => format!(
            " The load generator runs at {} of what it can do: the curve describes it, not the \
             server.",
            percent(bend.generator.unwrap_or(1.0))
        ),
        ScalingResource::Clients => {
            " Neither the processors nor the load generator are full: it is the network or the \
             clients' own work."
                .to_owned()
        }
        _ => String::new(),
    };
    format!(
        "{begin} That part of a transaction takes {} longer with {} than with {}{interval}{part}; its share of the latency goes from {} to {}.{why}",
        seconds(most.seconds.center),
        clients(bend.to),
        clients(bend.from),
        percent(most.before),
        percent(most.after),
    )
}

/// Where the highest throughput was measured, whatever the curve says.
fn measured(of: &Scaling) -> Option<String> {
    let best =
        of.loads.iter().max_by(|a, b| a.throughput.center.total_cmp(&b.throughput.center))?;
    Some(format!(
        "The highest throughput measured is {:.0} a second, with {}.",
        best.throughput.center,
        clients(best.clients)
    ))
}

fn clients(count: u32) -> String {
    if count == 1 { "1 client".to_owned() } else { format!("{count} clients") }
}

fn ends(of: &Estimate, decimals: usize) -> String {
    if super::is_open(of) {
        return of.interval.map_or_else(String::new, |i| {
            format!(" (95 % interval from {:.decimals$} on, without an end)", i.low)
        });
    }
    of.interval.map_or_else(String::new, |i| {
        format!(" (95 % interval {:.decimals$} to {:.decimals$})", i.low, i.high)
    })
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A time in the unit that suits it.
fn seconds(of: f64) -> String {
    match of.abs() {
        0.0..1e-3 => format!("{:.0} µs", of * 1e6),
        1e-3..1.0 => format!("{:.1} ms", of * 1e3),
        _ => format!("{of:.2} s"),
    }
}

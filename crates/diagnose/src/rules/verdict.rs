//! The whole in one or two sentences.

use walwright_figures::sight::HiddenSessions;
use walwright_figures::{TimeSplit, WaitClass};

use super::bounds::FULL;
use super::burner::burners;
use crate::{DiagnosisId, Finding, Kind, Reading, Step};

/// What a person should know who reads nothing else. `findings` are ranked; `outlook` is of the
/// first of them.
pub(crate) fn verdict(reading: &Reading, findings: &[Finding], outlook: &[Step]) -> String {
    if reading.summary.load.as_ref().is_some_and(|load| load.transactions == 0) {
        return "No transaction ended well in the measured window: the load hung or failed \
                throughout, and no figure of this run is one of a load that runs."
            .to_owned();
    }
    let problems = || findings.iter().filter(|f| f.kind == Kind::Problem);
    let of = |id: DiagnosisId| problems().find(|f| f.id == id);
    if let Some(generator) = of(DiagnosisId::D54) {
        return format!("{} Nothing else here can be trusted as a measure of it.", generator.cause);
    }
    if let Some(application) = of(DiagnosisId::D53) {
        return application.cause.clone();
    }
    match problems().next() {
        Some(first) => {
            let worth = worth(first);
            let others = problems().count() - 1;
            let more = match others {
                0 => String::new(),
                1 => " One more problem was found.".to_owned(),
                n => format!(" {n} more problems were found."),
            };
            let together = together(outlook);
            let unseen = unseen(reading);
            format!("{}{}{worth}{more}{together}{unseen}", crowd(reading, first), first.cause)
        }
        // Without waits most causes could not be looked for: that is no clean bill.
        None if reading.summary.time.is_none() => {
            let why = reading.blind_to_time().map(|why| format!(": {why}")).unwrap_or_default();
            format!("No problem found, but most checks were skipped{why}.")
        }
        None => match HiddenSessions::of(reading.record, reading.window) {
            Some(hidden) if reading.record.load.is_none() => {
                format!("No problem shows in what could be seen, but {}.", hidden.blind())
            }
            _ => match reading.summary.time.as_ref() {
                Some(time) if let Some(unseen) = time.unseen() => {
                    format!("No problem shows: {unseen}.")
                }
                Some(time) if let Some(queue) = mostly_queue(time) => format!(
                    "Transactions came due faster than they were done: {:.0} % of the latency is \
                     waiting to begin.",
                    100.0 * queue
                ),
                _ => format!("Nothing to fix here. {}", bound(reading)),
            },
        },
    }
}

/// That most sessions of someone else's load could not be seen, which the rest was told without.
fn unseen(reading: &Reading) -> String {
    match HiddenSessions::of(reading.record, reading.window) {
        Some(hidden) if reading.record.load.is_none() && hidden.are_many() => {
            format!(" Most sessions could not be seen: {}.", hidden.blind())
        }
        _ => String::new(),
    }
}

/// What all problems of the outlook are predicted to give together.
fn together(outlook: &[Step]) -> String {
    let rise = outlook.last().and_then(|step| step.throughput.as_ref());
    match rise.filter(|rise| rise.center >= 0.02) {
        Some(rise) => format!(
            " With the first {} fixed throughput rises by about {:.0} %.",
            if outlook.len() == 2 { "two" } else { "three" },
            100.0 * rise.center
        ),
        None => String::new(),
    }
}

/// Share of the latency that is the queue of an open loop, where it is most of it.
fn mostly_queue(time: &TimeSplit) -> Option<f64> {
    let latency = time.latency?.as_secs_f64();
    let share = time.queue?.as_secs_f64() / latency;
    (latency > 0.0 && share > 0.5).then_some(share)
}

/// That more of the latency waits for a processor than the first problem costs.
fn crowd(reading: &Reading, first: &Finding) -> String {
    let waiting = reading.summary.time.as_ref().and_then(|time| time.part(WaitClass::RunQueue));
    let cost = first.impact.as_ref().map_or(0.0, |impact| impact.share.center);
    match waiting.map(|part| part.share.center).filter(|share| *share > cost) {
        Some(share) if first.id != DiagnosisId::D55 => {
            format!("{:.0} % of the latency is waiting for a processor. ", 100.0 * share)
        }
        _ => String::new(),
    }
}

/// What the first problem costs and what fixing it can gain.
fn worth(finding: &Finding) -> String {
    let Some(impact) = &finding.impact else { return String::new() };
    let cost = format!(" It takes {:.0} % of the latency", 100.0 * impact.share.center);
    let throughput = finding.gain.as_ref().and_then(|g| g.throughput.as_ref());
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    match throughput.map(|rise| (rise.center, rise.interval)) {
        Some((rise, Some(ends))) if ends.high >= 0.02 => {
            let (low, high) = (100.0 * ends.low.max(0.0), percent(ends.high));
            let about = percent(rise);
            format!("{cost}; without it throughput rises by about {about} ({low:.0} to {high}).")
        }
        Some(_) => format!("{cost}; without it throughput hardly rises, another limit is reached."),
        None => format!("{cost}."),
    }
}

/// What bounds a load without problems.
fn bound(reading: &Reading) -> String {
    let busy = reading.summary.cpu.as_ref().and_then(|c| c.busy);
    if let Some(busy) = busy.filter(|busy| *busy >= FULL) {
        let burner = burners(reading).first().map(|burner| format!(" {}", burner.sentence()));
        return format!(
            "The load is bound by the processors, {:.0} % busy.{}",
            busy * 100.0,
            burner.unwrap_or_default()
        );
    }
    let Some(time) = &reading.summary.time else { return String::new() };
    let largest = time.parts.iter().max_by(|a, b| a.share.center.total_cmp(&b.share.center));
    let rest = time.residual_share.unwrap_or(0.0);
    let withheld = time.gateway.map_or(0.0, |of| of.withheld.as_secs_f64() / time.whole());
    match largest {
        Some(part) if part.class == WaitClass::Client => {
            "The largest part of the latency is waiting for the client's next statement.".to_owned()
        }
        Some(part) if part.share.center > rest.max(withheld) => format!(
            "The largest part of the latency is {} ({:.0} %).",
            part.class.label(),
            100.0 * part.share.center
        ),
        _ if time.is_withheld || withheld > rest => {
            "The largest part of the latency is what the gateway withheld answers until they were \
             durable."
                .to_owned()
        }
        _ => {
            "The largest part of the latency is outside the server: network and client.".to_owned()
        }
    }
}

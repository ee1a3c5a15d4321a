//! `walwright watch`.

mod report;
mod view;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};
use walwright_report::format;
use walwright_server::{ConnectParams, Secret, Stop};
use walwright_store::Lab;
use walwright_watch::{
    AlertTo, Keep, Listener, Rates, Ring, Slot, Told, WatchError, WatchPlan, ring_directory,
};

use crate::args::{WatchArgs, WatchCommand};
use crate::commands::runtime::{Parting, until_done};
use crate::output::{Output, print, say};

/// Length of the stretches that are kept.
const SLOT: Duration = Duration::from_secs(10);

/// Watches a server, or tells what was watched.
pub fn execute(lab: &Lab, args: WatchArgs, output: &Output) -> anyhow::Result<ExitCode> {
    match args.command {
        None => watch(lab, args, output),
        Some(WatchCommand::Report(args)) => report::write(lab, &args, output),
        Some(WatchCommand::Rules) => {
            print(&walwright_watch::rules_yaml())?;
            Ok(ExitCode::SUCCESS)
        }
        Some(WatchCommand::Dashboard) => {
            output.print_json(&walwright_watch::dashboard())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn watch(lab: &Lab, args: WatchArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let params = ConnectParams::resolve(args.dsn.as_ref().map(Secret::expose))?;
    let webhook = match (args.webhook, &args.webhook_ca) {
        (Some(webhook), Some(file)) => Some(webhook.trusting(file).map_err(anyhow::Error::msg)?),
        (None, Some(_)) => bail!("--webhook-ca says whom --webhook may trust: give that too"),
        (webhook, None) => webhook,
    };
    let keep = Keep { at_all: args.keep, ..Keep::default() };
    let plan = WatchPlan {
        ring: ring_directory(lab.directory(), &params.address()),
        params,
        keep,
        rates: Rates::watching(),
        slot: SLOT,
        diagnose: args.diagnose_every,
        metrics: args.metrics,
        alerts: AlertTo { webhook, command: args.on_finding },
        command: "walwright watch".to_owned(),
    };
    let is_view = !args.plain && !output.json && view::is_possible();
    let watched = until_done(Parting::LOOKING, async |stop| {
        end_after(args.time, &stop);
        let ring = Ring::at(plan.ring.clone());
        let view = is_view.then(|| view::start(ring, stop.clone(), output.colour_err));
        let (listener, _guard) = match view.and_then(Result::ok) {
            Some((listener, guard)) => (listener, Some(guard)),
            None => (lines(stop.clone(), output), None),
        };
        walwright_watch::watch(plan, stop, listener).await
    })?;
    match watched {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Ok(output.ended(matches!(error, WatchError::Stopped), error)),
    }
}

/// Asks for the end when the time is over.
fn end_after(time: Option<Duration>, stop: &Stop) {
    if let Some(time) = time {
        let stop = stop.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            stop.request();
        });
    }
}

/// Says what is told, a line each. Whoever does not read any more ends it.
fn lines(stop: Stop, output: &Output) -> Listener {
    let as_json = output.json;
    Arc::new(move |told| {
        let line = if as_json { Some(json_line(&told).to_string()) } else { line(&told) };
        if let Told::Begun { server, metrics } = &told {
            say(&format!("watching {server}"));
            if let Some(address) = metrics {
                say(&format!("metrics: http://{address}/metrics"));
            }
        }
        if let Some(line) = line
            && print(&format!("{line}\n")).is_err()
        {
            stop.request();
        }
    })
}

fn json_line(told: &Told) -> Value {
    match told {
        Told::Begun { server, metrics } => {
            json!({ "begun": { "server": server, "metrics": metrics } })
        }
        Told::Slot(slot) => json!({ "slot": slot }),
        Told::Event(event) => json!({ "event": event }),
        Told::Findings(seen) => json!({ "findings": seen }),
    }
}

fn line(told: &Told) -> Option<String> {
    match told {
        Told::Begun { .. } => None,
        Told::Slot(slot) => Some(format!("{}  {}", format::moment(slot.end), figures(slot))),
        Told::Event(event) => {
            Some(format!("{}  {}: {}", format::moment(event.at), event.kind.words(), event.text))
        }
        Told::Findings(seen) => {
            Some(format!("{}  diagnosis: {}", format::moment(seen.window.end), seen.verdict))
        }
    }
}

/// The figures that matter most, on one line.
pub fn figures(slot: &Slot) -> String {
    let mean = |name: &str| slot.figure(name).and_then(walwright_watch::Value::mean);
    let unknown = || format::NOT_OBSERVABLE.to_owned();
    if mean("up").is_some_and(|up| up < 0.5) {
        return "the server does not answer".to_owned();
    }
    if mean("commits").or(mean("wal_bytes")).is_none() {
        return "no rates: the counters were read less than twice".to_owned();
    }
    let commits = mean("commits").map_or_else(unknown, |rate| format::rate_of(rate, "commits"));
    let wal = mean("wal_bytes").map_or_else(unknown, format::byte_rate);
    let flush = mean("wal_flush_seconds").map(|mean| format!("   flush {}", format::seconds(mean)));
    let active = mean("sessions|active").map(|n| format!("   {} active", format::number(n)));
    format!("{commits}   WAL {wal}{}{}", flush.unwrap_or_default(), active.unwrap_or_default())
}

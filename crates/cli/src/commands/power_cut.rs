//! `walwright run --power-cut-after`: what a power cut would lose.

use std::process::ExitCode;
use std::time::Duration;

use clap::CommandFactory;
use clap::error::ErrorKind;
use serde_json::json;
use walwright_report::format;
use walwright_run::{CrashAudit, PowerCutPlan, cut_power};
use walwright_server::PowerCut;

use crate::args::{Cli, PowerCutLoses, RunArgs};
use crate::commands::run::style;
use crate::commands::runtime::{Parting, until_done};
use crate::output::{Output, exit};
use crate::show;

/// Clients that commit where no number is given.
const CLIENTS: u32 = 8;

/// Cuts the power of a fresh cluster under load and tells what is lost.
pub fn execute(args: RunArgs, after: Duration, output: &Output) -> anyhow::Result<ExitCode> {
    if args.clients.len() > 1 {
        let why = "a power cut comes to one load: give one number of --clients";
        crate::output::refuse(&Cli::command().error(ErrorKind::ArgumentConflict, why));
    }
    let style = style(&args);
    let cut = match args.power_cut_loses {
        PowerCutLoses::All => PowerCut::All,
        PowerCutLoses::Random => PowerCut::Random { seed: args.seed.unwrap_or(0) },
    };
    let plan = PowerCutPlan {
        major: args.pg,
        pg_bin: args.pg_bin,
        settings: args.set,
        flush_latency: args.flush_latency,
        clients: args.clients.first().copied().unwrap_or(CLIENTS),
        after,
        cut,
    };
    let clients = plan.clients;
    let audited = until_done(Parting::WORKING, async |stop| {
        let (observer, _terminal) = show::observer(style, &stop, output);
        cut_power(plan, &stop, observer.as_ref()).await
    })?;
    let audit = match audited {
        Ok(audit) => audit,
        Err(error) => return Ok(output.ended(error.is_interruption(), error)),
    };
    let load = load(clients);
    let body = json!({ "load": load, "power_cut": audit });
    output.result(&body, || told(&audit, &load))?;
    Ok(match audit.lost {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(exit::CHECK_FAILED),
    })
}

/// What committed, and so was audited.
fn load(clients: u32) -> String {
    format!(
        "{}, each committing number after number: an insert into a ledger and an update",
        format::counted(clients.into(), "client")
    )
}

fn told(audit: &CrashAudit, load: &str) -> String {
    let of = format::counted(audit.acknowledged, "acknowledged commit");
    let verdict = match audit.lost {
        0 => format!("none of {of} is lost"),
        lost => format!("{} of {of} are LOST", format::count(lost)),
    };
    let mut lines = vec![
        format!("Power cut after {:.0} s of load: {verdict}.", audit.seconds),
        String::new(),
        format!("audited   {load}"),
    ];
    if let Some(taken) = &audit.unflushed {
        lines.push(format!(
            "taken     {} of {} not flushed (4 kB), {} of {} of files made, renamed or removed",
            format::count(taken.pages_lost),
            format::counted(taken.pages, "page"),
            format::count(taken.names_lost),
            format::counted(taken.names, "change"),
        ));
    }
    if let Some(seconds) = audit.recovery_seconds {
        let replayed = match audit.replayed_bytes {
            Some(bytes) => {
                format!("; {} of WAL since the last checkpoint", format::bytes(bytes as f64))
            }
            None => String::new(),
        };
        lines.push(format!("recovery  {seconds:.2} s until connections were accepted{replayed}"));
    }
    if let Some(reason) = &audit.unrecovered {
        lines.push(format!("          it did not recover: {reason}"));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_comes_first() {
        let mut audit = CrashAudit {
            acknowledged: 61_234,
            lost: 0,
            checkpoints: 2,
            recovery_seconds: Some(0.42),
            unrecovered: None,
            replayed_bytes: None,
            unflushed: None,
            seconds: 30.1,
        };
        let kept = told(&audit, &load(1));
        assert!(
            kept.starts_with("Power cut after 30 s of load: none of 61,234 acknowledged"),
            "{kept}"
        );
        (audit.lost, audit.recovery_seconds) = (61_234, None);
        audit.unrecovered = Some("its log ends".to_owned());
        let lost = told(&audit, &load(8));
        assert!(lost.contains("61,234 of 61,234 acknowledged commits are LOST"), "{lost}");
        assert!(lost.contains("it did not recover: its log ends"), "{lost}");
    }
}

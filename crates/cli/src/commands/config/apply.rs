//! `walwright config apply`.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::json;
use walwright_config::{
    ApplyPlan, Consent, Hold, Made, NotApplied, PlannedChange, Restart, make_changes,
};
use walwright_server::ConnectParams;
use walwright_store::Lab;
use walwright_store::ledger::{Change, Ledger};

use super::{machine, profile, server};
use crate::args::ApplyArgs;
use crate::commands::runtime::{Parting, runtime, until_done};
use crate::output::{Output, print, usage, wrapped};

/// What cannot come back.
const BY_HAND: &str = "postgresql.auto.conf had been edited by hand: ALTER SYSTEM has written it anew, without comments. A rollback brings back its settings, their values and their order.";

/// Plans, asks for consent, applies.
pub fn execute(lab: &Lab, args: &ApplyArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let wanted = profile(&args.profile)?;
    let runtime = runtime()?;
    // What is there is read once nobody else can change it.
    let mut hold = match args.dsn.as_ref().filter(|_| args.yes) {
        Some(dsn) => {
            let params = ConnectParams::resolve(Some(dsn.expose()))?;
            Some(runtime.block_on(Hold::take(&params))?)
        }
        None => None,
    };
    let view = match &args.dsn {
        Some(dsn) => Some(runtime.block_on(server(dsn.expose(), None))?.1),
        None => None,
    };
    let machine = machine(&args.root, view.as_ref(), Some(&wanted)).filter(|_| !args.no_kernel);
    let plan = ApplyPlan::of(&wanted, view.as_ref(), machine.as_ref());
    if !output.json {
        print(&text(&plan))?;
    }
    if let [first, rest @ ..] = plan.refused.as_slice() {
        let more = if rest.is_empty() { "" } else { " (and others)" };
        bail!(
            "{} = {} is refused{more}: {} Nothing was changed",
            first.title,
            first.value,
            first.why
        );
    }
    if plan.changes.is_empty() {
        if output.json {
            output.print_json(&json!({ "plan": plan, "made": null }))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let consent = Consent { yes: args.yes, names: args.consent.clone() };
    consented(&plan, &consent, output)?;

    let ledger = Ledger::of(lab);
    let intent =
        plan.intent(&format!("apply {}", args.profile.display()), view.as_ref(), &args.root);
    let by_hand =
        intent.by_hand && intent.changes.iter().any(|c| matches!(c, Change::Setting { .. }));
    let mut restart = match &args.restart_command {
        Some(command) => Restart::Command(command.clone()),
        None => Restart::Never,
    };
    let made = until_done(Parting::CHANGING, async |stop| {
        make_changes(&ledger, hold.as_mut(), intent, &mut restart, &stop).await
    })??;
    let Made { id, waiting } = &made;
    if output.json {
        output.print_json(
            &json!({ "plan": plan, "made": { "id": id, "waiting_for_restart": waiting } }),
        )?;
    } else {
        let mut said =
            format!("\n{} changes made and read back, as change set {id}.\n", plan.changes.len());
        if !waiting.is_empty() {
            said.push_str(&wrapped(
                &format!("Set; takes effect after a server restart: {}.", waiting.join(", ")),
                "",
            ));
        }
        if by_hand {
            said.push_str(&wrapped(BY_HAND, ""));
        }
        let _ = writeln!(said, "To undo them: walwright config rollback {id}{}", dsn_hint(args));
        print(&said)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn dsn_hint(args: &ApplyArgs) -> &'static str {
    if args.dsn.is_some() { " --dsn …" } else { "" }
}

/// Fails where someone has to agree first.
fn consented(plan: &ApplyPlan, consent: &Consent, output: &Output) -> anyhow::Result<()> {
    let (by_name, plain) = plan.missing(consent);
    if by_name.is_empty() && !plain {
        return Ok(());
    }
    if output.json {
        output.print_json(&json!({ "plan": plan, "made": null }))?;
    }
    if let Some(first) = by_name.first() {
        let names: Vec<&str> = by_name.iter().map(|change| change.change.name()).collect();
        return Err(usage(format!(
            "nothing was changed: {} = {} needs consent by name. {} Agree with --consent {}{}",
            first.title,
            first.to,
            first.can_lose.as_deref().unwrap_or_default(),
            names.join(","),
            if plain { " --yes" } else { "" }
        )));
    }
    Err(usage("nothing was changed: add --yes to do it"))
}

fn text(plan: &ApplyPlan) -> String {
    let mut out = String::new();
    if plan.changes.is_empty() {
        out.push_str("Nothing to change.\n");
    } else {
        let _ = writeln!(out, "Changes ({})", plan.changes.len());
        plan.changes.iter().for_each(|change| out.push_str(&shown(change)));
    }
    if !plan.same.is_empty() {
        let mut names = plan.same.clone();
        names.dedup();
        let _ = writeln!(out, "\nAs wanted already ({})", names.len());
        out.push_str(&wrapped(&names.join(", "), "  "));
    }
    for (title, list) in [
        ("Refused", &plan.refused),
        ("Not applied here", &plan.skipped),
        ("By hand", &plan.by_hand),
    ] {
        if !list.is_empty() {
            let _ = writeln!(out, "\n{title} ({})", list.len());
            list.iter().for_each(|left| out.push_str(&left_out(left)));
        }
    }
    out
}

fn shown(change: &PlannedChange) -> String {
    let of = change.device.as_ref().map_or_else(String::new, |device| format!(" on {device}"));
    let mut out = format!(
        "  {}{of}: {} -> {}  [{}, class {}]\n",
        change.title, change.from, change.to, change.apply, change.class
    );
    if let Some(loss) = &change.can_lose {
        out.push_str(&wrapped(&format!("Can lose: {loss}"), "      "));
    }
    out
}

fn left_out(left: &NotApplied) -> String {
    let block = wrapped(&left.why, "      ");
    format!("  {} = {}\n{block}", left.title, left.value)
}
